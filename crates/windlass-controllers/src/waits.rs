//! What an object waits on, kept in its annotation.

use kube::ResourceExt;
use serde_json::json;
use windlass_api::names::WAITING_ON_ANNOTATION;
use windlass_runtime::{Context, Kind, ObjectKey, WriteError};

use crate::references::ignore_gone;

/// Writes what [`Wait::change`](windlass_engine::waiting::Wait::change) says has to be written: a wait, or that there is none.
pub(crate) async fn write<K: Kind + kube::Resource<DynamicType = ()>>(
    context: &Context,
    object: &K,
    wait: Option<String>,
) -> Result<(), WriteError> {
    let patch = json!({"metadata": {"uid": object.uid(), "annotations": {WAITING_ON_ANNOTATION: wait}}});
    ignore_gone(context.writer::<K>().patch_unconditionally(&ObjectKey::of(object), patch).await)
}
