//! ExtensionConfig, which has been v1alpha1.

use crate::rule::{Form, Pairing, Rule, at, each};
use crate::tables::status::CONDITIONS;

pub(crate) const EXTENSION_CONFIG: &[Rule] =
    &[each("status.handlers", Pairing::Key("name"), &[at("timeoutSeconds", Form::NonZero)]), CONDITIONS];
