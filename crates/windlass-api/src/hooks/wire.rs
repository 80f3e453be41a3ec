//! What all wire types share: tolerant decoding, and the macros that declare requests and responses.

use serde::{Deserialize, Deserializer};

/// Decodes `null` as the default value, as Go does. Extensions written in Go send `"items":null`.
pub(crate) fn null_is_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Default + Deserialize<'de>,
{
    Ok(Option::<T>::deserialize(deserializer)?.unwrap_or_default())
}

/// Declares a string enum that keeps values it does not know, so that a validation can quote them. Its schema allows any
/// string; see `choice!` for one that allows these only.
macro_rules! open_enum {
    (
        $(#[$meta:meta])*
        pub enum $Name:ident { $( $(#[$variant_meta:meta])* $Variant:ident = $text:literal, )+ }
    ) => {
        crate::hooks::wire::open_enum! {
            @declare $(#[$meta])* pub enum $Name { $( $(#[$variant_meta])* $Variant = $text, )+ }
        }
        crate::hooks::wire::inline_schema! { $Name { "type": "string" } }
    };
    (
        @declare $(#[$meta:meta])*
        pub enum $Name:ident { $( $(#[$variant_meta:meta])* $Variant:ident = $text:literal, )+ }
    ) => {
        $(#[$meta])*
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $Name {
            $( $(#[$variant_meta])* $Variant, )+
            /// A value outside the contract, the empty string (nothing was sent) included.
            Unknown(String),
        }

        impl $Name {
            /// The value as it is written on the wire.
            pub fn as_str(&self) -> &str {
                match self {
                    $( Self::$Variant => $text, )+
                    Self::Unknown(text) => text,
                }
            }
        }

        impl Default for $Name {
            fn default() -> Self {
                Self::Unknown(String::new())
            }
        }

        impl From<&str> for $Name {
            fn from(text: &str) -> Self {
                match text {
                    $( $text => Self::$Variant, )+
                    other => Self::Unknown(other.to_owned()),
                }
            }
        }

        impl std::fmt::Display for $Name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.as_str())
            }
        }

        impl serde::Serialize for $Name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.as_str())
            }
        }

        impl<'de> serde::Deserialize<'de> for $Name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                Ok(Self::from(String::deserialize(deserializer)?.as_str()))
            }
        }
    };
}

/// Says what a type looks like on the wire, wherever it is used.
macro_rules! inline_schema {
    ($Name:ident { $($schema:tt)* }) => {
        impl schemars::JsonSchema for $Name {
            fn inline_schema() -> bool {
                true
            }

            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($Name).into()
            }

            fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
                schemars::json_schema!({ $($schema)* })
            }
        }
    };
}

/// Declares a struct whose fields may all be absent or `null` on input. Whether a field is emitted when it
/// is empty is said beside the field. A flattened field decodes itself from the fields of the whole.
macro_rules! wire_struct {
    (
        $(#[$meta:meta])*
        $vis:vis struct $Name:ident { $( $(#[$field_meta:meta])* $field_vis:vis $field:ident: $Type:ty, )* }
        $( flattened { $(#[$flat_meta:meta])* $flat_vis:vis $flat:ident: $Flat:ty } )?
    ) => {
        #[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
        #[serde(rename_all = "camelCase")]
        $(#[$meta])*
        $vis struct $Name {
            $(
                $(#[$field_meta])*
                #[serde(default, deserialize_with = "crate::hooks::wire::null_is_default")]
                $field_vis $field: $Type,
            )*
            $(
                $(#[$flat_meta])*
                #[serde(flatten)]
                $flat_vis $flat: $Flat,
            )?
        }
    };
}

/// Declares the request type of a hook: type meta, settings, then the given fields, in that order.
/// `Default` fills in `kind` and `apiVersion`.
macro_rules! hook_request {
    (
        $(#[$meta:meta])*
        pub struct $Name:ident for $Hook:ident {
            $( $(#[$field_meta:meta])* pub $field:ident: $Type:ty, )*
        }
        $( flattened { $(#[$flat_meta:meta])* pub $flat:ident: $Flat:ty } )?
    ) => {
        crate::hooks::wire::wire_struct! {
            $(#[$meta])*
            pub struct $Name {
                #[doc = concat!("`", stringify!($Name), "`. Not checked on input.")]
                #[serde(skip_serializing_if = "String::is_empty")]
                pub kind: String,
                /// Group and version of the hook. Not checked on input.
                #[serde(skip_serializing_if = "String::is_empty")]
                pub api_version: String,
                /// Settings of the ExtensionConfig, overlaid by those of the caller.
                #[serde(skip_serializing_if = "crate::hooks::Settings::is_empty")]
                pub settings: crate::hooks::Settings,
                $( $(#[$field_meta])* pub $field: $Type, )*
            }
            $( flattened { $(#[$flat_meta])* pub $flat: $Flat } )?
        }

        impl Default for $Name {
            fn default() -> Self {
                Self {
                    kind: crate::hooks::Hook::$Hook.request_kind(),
                    api_version: crate::names::HOOKS_API_VERSION.to_owned(),
                    settings: Default::default(),
                    $( $field: Default::default(), )*
                    $( $flat: <$Flat>::default(), )?
                }
            }
        }

        impl crate::hooks::HookRequest for $Name {
            type HookType = $Hook;

            fn settings(&self) -> Option<&crate::hooks::Settings> {
                Some(&self.settings)
            }

            fn settings_mut(&mut self) -> Option<&mut crate::hooks::Settings> {
                Some(&mut self.settings)
            }
        }
    };
}

/// Declares the response type of a hook: type meta, status, message, for a retry response also
/// `retryAfterSeconds`, then the given fields. `Default` is the empty response, which no client accepts.
macro_rules! hook_response {
    (
        $(#[$meta:meta])*
        pub struct $Name:ident for $Hook:ident { $( $(#[$field_meta:meta])* pub $field:ident: $Type:ty, )* }
    ) => {
        crate::hooks::wire::hook_response! {
            @declare [$(#[$meta])*] $Name $Hook [] [$( $(#[$field_meta])* pub $field: $Type, )*]
        }
        crate::hooks::wire::hook_response! { @implement $Name $Hook [] [$( $field )*] }
    };
    (
        $(#[$meta:meta])*
        pub struct $Name:ident for $Hook:ident, may block
        $( { $( $(#[$field_meta:meta])* pub $field:ident: $Type:ty, )* } )?
    ) => {
        crate::hooks::wire::hook_response! {
            @declare [$(#[$meta])*] $Name $Hook [
                /// 0 lets the caller go on; more makes it wait and call again after about that long.
                ///
                /// Always emitted, because Go clients read its absence as 0 but the schema requires it.
                pub retry_after_seconds: i32,
            ] [$( $( $(#[$field_meta])* pub $field: $Type, )* )?]
        }
        crate::hooks::wire::hook_response! {
            @implement $Name $Hook [retry_after_seconds] [$( $( $field )* )?]
        }

        impl crate::hooks::RetryResponse for $Name {}
    };
    (
        @declare [$(#[$meta:meta])*] $Name:ident $Hook:ident
        [$( $(#[$retry_meta:meta])* pub $retry:ident: $Retry:ty, )?]
        [$( $(#[$field_meta:meta])* pub $field:ident: $Type:ty, )*]
    ) => {
        crate::hooks::wire::wire_struct! {
            $(#[$meta])*
            #[derive(Default)]
            pub struct $Name {
                #[doc = concat!("`", stringify!($Name), "`, or empty. Not checked on input.")]
                #[serde(skip_serializing_if = "String::is_empty")]
                pub kind: String,
                /// Group and version of the hook, or empty. Not checked on input.
                #[serde(skip_serializing_if = "String::is_empty")]
                pub api_version: String,
                /// Whether the extension could do what it was asked.
                pub status: crate::hooks::ResponseStatus,
                /// Why the call failed, or what a blocking extension waits for. Ends up in conditions, so
                /// it must be the same for the same situation.
                #[serde(skip_serializing_if = "String::is_empty")]
                pub message: String,
                $( $(#[$retry_meta])* pub $retry: $Retry, )?
                $( $(#[$field_meta])* pub $field: $Type, )*
            }
        }
    };
    (@implement $Name:ident $Hook:ident [$( $retry:ident )?] [$( $field:ident )*]) => {
        impl crate::hooks::HookResponse for $Name {
            type HookType = $Hook;

            fn new(status: crate::hooks::ResponseStatus, message: String) -> Self {
                Self {
                    kind: crate::hooks::Hook::$Hook.response_kind(),
                    api_version: crate::names::HOOKS_API_VERSION.to_owned(),
                    status,
                    message,
                    $( $retry: 0, )?
                    $( $field: Default::default(), )*
                }
            }

            fn status(&self) -> &crate::hooks::ResponseStatus {
                &self.status
            }

            fn message(&self) -> &str {
                &self.message
            }

            fn set_message(&mut self, message: String) {
                self.message = message;
            }

            fn retry_after_seconds(&self) -> Option<i32> {
                crate::hooks::wire::retry_of!(self $($retry)?)
            }

            fn set_retry_after_seconds(&mut self, _seconds: i32) {
                $( self.$retry = _seconds; )?
            }
        }
    };
}

/// The retry time of a response that has one.
macro_rules! retry_of {
    ($this:ident) => {
        None
    };
    ($this:ident $retry:ident) => {
        Some($this.$retry)
    };
}

/// Declares the marker types of hooks, each with the request and the response that belong to it.
macro_rules! hook_types {
    ($( $(#[$meta:meta])* $Hook:ident($Request:ty) -> $Response:ty; )+) => {
        $(
            $(#[$meta])*
            #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
            pub struct $Hook;

            impl crate::hooks::HookType for $Hook {
                const HOOK: crate::hooks::Hook = crate::hooks::Hook::$Hook;
                type Request = $Request;
                type Response = $Response;
            }
        )+
    };
}

pub(crate) use {hook_request, hook_response, hook_types, inline_schema, open_enum, retry_of, wire_struct};
