//! Names of handlers: short, as an extension knows them, and registered, as Cluster API knows them.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::dns_label::{LabelError, check_rfc1123_label};

/// The name of a handler within its extension: an RFC 1123 label. Unique across all hooks of the extension.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HandlerName(String);

impl HandlerName {
    /// Checks and takes a name.
    ///
    /// # Errors
    ///
    /// When the name is no RFC 1123 label. Upstream servers accept such a name and then fail discovery.
    pub fn new(name: impl Into<String>) -> Result<Self, HandlerNameError> {
        let name = name.into();
        match check_rfc1123_label(&name) {
            Ok(()) => Ok(Self(name)),
            Err(reason) => Err(HandlerNameError::Handler { name, reason }),
        }
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// The name under which a handler is registered: `<handler>.<ExtensionConfig>`.
///
/// Both parts are labels, so there is exactly one dot. Ordered as its text is, which is the order in which
/// several handlers of one hook are called.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RegisteredName {
    text: String,
    dot: usize,
}

impl RegisteredName {
    /// The name of a handler of an extension.
    ///
    /// # Errors
    ///
    /// When the name of the ExtensionConfig is no RFC 1123 label.
    pub fn new(handler: &HandlerName, extension_config: &str) -> Result<Self, HandlerNameError> {
        check_rfc1123_label(extension_config).map_err(|reason| HandlerNameError::ExtensionConfig {
            name: extension_config.to_owned(),
            reason,
        })?;
        Ok(Self { text: format!("{handler}.{extension_config}"), dot: handler.0.len() })
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The part that the extension knows, and that its path ends with.
    pub fn handler(&self) -> HandlerName {
        HandlerName(self.text[..self.dot].to_owned())
    }

    /// Name of the ExtensionConfig.
    pub fn extension_config(&self) -> &str {
        &self.text[self.dot + 1..]
    }
}

/// Why a text is no name of a handler.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HandlerNameError {
    /// The part that the extension chose.
    #[error("invalid handler name {name:?}: {reason}")]
    Handler {
        /// What was given.
        name: String,
        /// What is wrong with it.
        reason: LabelError,
    },
    /// The part that is the name of the ExtensionConfig.
    #[error("invalid ExtensionConfig name {name:?}: {reason}")]
    ExtensionConfig {
        /// What was given.
        name: String,
        /// What is wrong with it.
        reason: LabelError,
    },
    /// Not exactly two parts.
    #[error("registered handler name {name:?} must be <handler>.<ExtensionConfig>")]
    Parts {
        /// What was given.
        name: String,
    },
}

impl FromStr for RegisteredName {
    type Err = HandlerNameError;

    fn from_str(text: &str) -> Result<Self, HandlerNameError> {
        match text.split_once('.') {
            Some((handler, extension_config)) if !extension_config.contains('.') => {
                Self::new(&HandlerName::new(handler)?, extension_config)
            }
            _ => Err(HandlerNameError::Parts { name: text.to_owned() }),
        }
    }
}

impl PartialOrd for RegisteredName {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for RegisteredName {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.text.cmp(&other.text)
    }
}

impl FromStr for HandlerName {
    type Err = HandlerNameError;

    fn from_str(name: &str) -> Result<Self, HandlerNameError> {
        Self::new(name)
    }
}

macro_rules! text_on_the_wire {
    ($Name:ident) => {
        impl fmt::Display for $Name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(self.as_str())
            }
        }

        impl Serialize for $Name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.as_str())
            }
        }

        impl<'de> Deserialize<'de> for $Name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
            }
        }
    };
}

text_on_the_wire!(HandlerName);
text_on_the_wire!(RegisteredName);

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_registered_name_splits_into_handler_and_extension_config() {
        let name: RegisteredName = "gate-upgrade.ext1".parse().unwrap();
        assert_eq!(name.handler().as_str(), "gate-upgrade");
        assert_eq!(name.extension_config(), "ext1");
        assert_eq!(name.to_string(), "gate-upgrade.ext1");
    }

    #[test]
    fn a_registered_name_has_exactly_two_parts() {
        for (text, message) in [
            ("gate", "registered handler name \"gate\" must be <handler>.<ExtensionConfig>"),
            ("a.b.c", "registered handler name \"a.b.c\" must be <handler>.<ExtensionConfig>"),
            ("", "registered handler name \"\" must be <handler>.<ExtensionConfig>"),
            (".ext", "invalid handler name \"\": must not be empty"),
            ("gate.", "invalid ExtensionConfig name \"\": must not be empty"),
            (
                "Gate.ext",
                "invalid handler name \"Gate\": must consist of lower-case letters, digits and '-', not 'G'",
            ),
            (
                "gate.-e",
                "invalid ExtensionConfig name \"-e\": must start with a lower-case letter or a digit",
            ),
        ] {
            assert_eq!(text.parse::<RegisteredName>().unwrap_err().to_string(), message);
        }
    }

    #[test]
    fn registered_names_are_ordered_as_their_text() {
        // As a pair, ("a", ..) would come before ("a-b", ..); as text "a-b.x" comes before "a.x".
        let mut names: Vec<RegisteredName> =
            ["b.a", "a.x", "a-b.x", "a.b"].into_iter().map(|text| text.parse().unwrap()).collect();
        names.sort();
        assert_eq!(
            names.iter().map(RegisteredName::as_str).collect::<Vec<_>>(),
            ["a-b.x", "a.b", "a.x", "b.a"]
        );
    }

    proptest! {
        #[test]
        fn joining_and_splitting_are_inverse(
            handler in "[a-z0-9]([a-z0-9-]{0,20}[a-z0-9])?",
            config in "[a-z0-9]([a-z0-9-]{0,20}[a-z0-9])?",
        ) {
            let name = RegisteredName::new(&HandlerName::new(handler.clone()).unwrap(), &config).unwrap();
            let parsed: RegisteredName = name.as_str().parse().unwrap();
            prop_assert_eq!(&parsed, &name);
            prop_assert_eq!(parsed.handler(), HandlerName(handler));
            prop_assert_eq!(parsed.extension_config(), config);
        }
    }
}
