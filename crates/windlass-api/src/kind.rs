//! How kinds are declared: what their structs have in common, and what makes a struct a resource.
//!
//! Decoding is tolerant: a field that is absent is empty, as in Go. What must be there is said in the schema, and checked
//! by the API server. What is empty is not written, so that applying an object claims only what it says.

use serde::{Deserialize, Deserializer};

use crate::api_version;

/// Whether a field has nothing to say. `Some(0)` and `Some(false)` do have something to say.
pub(crate) fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// Declares a struct that is part of a resource.
macro_rules! resource_struct {
    (
        $(#[$meta:meta])*
        pub struct $Name:ident { $( $(#[$field_meta:meta])* pub $field:ident: $Type:ty, )* }
    ) => {
        #[derive(Clone, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
        #[serde(default, rename_all = "camelCase")]
        $(#[$meta])*
        pub struct $Name {
            $(
                $(#[$field_meta])*
                #[serde(skip_serializing_if = "crate::kind::is_default")]
                pub $field: $Type,
            )*
        }
    };
}

/// Declares a choice of words. The schema allows these only; a word from elsewhere is kept, so that it can be quoted.
macro_rules! choice {
    (
        $(#[$meta:meta])*
        pub enum $Name:ident { $( $(#[$variant_meta:meta])* $Variant:ident = $text:literal, )+ }
    ) => {
        crate::hooks::wire::open_enum! {
            @declare $(#[$meta])* pub enum $Name { $( $(#[$variant_meta])* $Variant = $text, )+ }
        }
        crate::hooks::wire::inline_schema! { $Name { "type": "string", "enum": [$($text),+] } }
    };
}

/// Declares a kind: its struct, and what a client must know of it. Its objects belong to a namespace, or with `Cluster` after
/// the plural to the whole cluster. A spec that may be absent is marked `#[optional]`.
macro_rules! kind {
    (
        $(#[doc = $doc:literal])+
        pub struct $Kind:ident in $group:expr, $plural:literal $(, $scope:ident)? {
            $(#[$optional:ident])? spec: $Spec:ty $(, status: $Status:ty)? $(,)?
        }
    ) => {
        $(#[doc = $doc])+
        #[derive(Clone, Debug, Default, PartialEq)]
        pub struct $Kind {
            /// Metadata.
            pub metadata: kube_core::ObjectMeta,
            /// The desired state.
            pub spec: $Spec,
            $(
                /// The observed state.
                pub status: $Status,
            )?
        }

        impl $Kind {
            /// The kind, as manifests name it.
            pub const KIND: &'static str = stringify!($Kind);
            /// Group and version, as manifests name them.
            pub const API_VERSION: &'static str = $group.api_version;

            /// An object that no API server has seen yet. Its namespace is for the caller to set.
            pub fn new(name: impl Into<String>, spec: $Spec) -> Self {
                let metadata = kube_core::ObjectMeta { name: Some(name.into()), ..Default::default() };
                Self { metadata, spec, $( status: <$Status>::default(), )? }
            }
        }

        impl kube_core::Resource for $Kind {
            type DynamicType = ();
            type Scope = crate::kind::scope!($($scope)?);

            fn kind((): &()) -> std::borrow::Cow<'_, str> {
                Self::KIND.into()
            }

            fn group((): &()) -> std::borrow::Cow<'_, str> {
                $group.group.into()
            }

            fn version((): &()) -> std::borrow::Cow<'_, str> {
                $group.version.into()
            }

            fn api_version((): &()) -> std::borrow::Cow<'_, str> {
                Self::API_VERSION.into()
            }

            fn plural((): &()) -> std::borrow::Cow<'_, str> {
                $plural.into()
            }

            fn meta(&self) -> &kube_core::ObjectMeta {
                &self.metadata
            }

            fn meta_mut(&mut self) -> &mut kube_core::ObjectMeta {
                &mut self.metadata
            }
        }

        impl serde::Serialize for $Kind {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                use serde::ser::SerializeMap;

                let mut map = serializer.serialize_map(None)?;
                map.serialize_entry("apiVersion", Self::API_VERSION)?;
                map.serialize_entry("kind", Self::KIND)?;
                map.serialize_entry("metadata", &self.metadata)?;
                map.serialize_entry("spec", &self.spec)?;
                $(
                    let status: &$Status = &self.status;
                    if !crate::kind::is_default(status) {
                        map.serialize_entry("status", status)?;
                    }
                )?
                map.end()
            }
        }

        impl<'de> serde::Deserialize<'de> for $Kind {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                #[derive(Default, serde::Deserialize)]
                #[serde(default, rename_all = "camelCase")]
                struct Wire {
                    api_version: Option<String>,
                    kind: Option<String>,
                    metadata: kube_core::ObjectMeta,
                    #[serde(deserialize_with = "crate::kind::null_is_default")]
                    spec: $Spec,
                    $(
                        #[serde(deserialize_with = "crate::kind::null_is_default")]
                        status: $Status,
                    )?
                }

                let wire = Wire::deserialize(deserializer)?;
                crate::kind::check_type::<D::Error>(
                    (&$group, Self::KIND),
                    wire.api_version.as_deref(),
                    wire.kind.as_deref(),
                )?;
                Ok(Self {
                    metadata: wire.metadata,
                    spec: wire.spec,
                    $( status: { let status: $Status = wire.status; status }, )?
                })
            }
        }

        impl schemars::JsonSchema for $Kind {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                Self::KIND.into()
            }

            fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
                schemars::json_schema!({
                    "type": "object",
                    "description": concat!($($doc),+).trim(),
                    "required": crate::kind::required!($($optional)?),
                    "properties": {
                        "apiVersion": {"type": "string"},
                        "kind": {"type": "string"},
                        "metadata": {"type": "object"},
                        "spec": generator.subschema_for::<$Spec>(),
                        $( "status": generator.subschema_for::<$Status>(), )?
                    },
                })
            }
        }
    };
}

/// The fields that every object of a kind must have: `#[optional]` before the spec lets it be absent.
macro_rules! required {
    () => {
        ["spec"]
    };
    (optional) => {
        serde_json::Value::Array(Vec::new())
    };
}

/// The scope of a kind.
macro_rules! scope {
    () => {
        kube_core::NamespaceResourceScope
    };
    (Cluster) => {
        kube_core::ClusterResourceScope
    };
}

pub(crate) use {choice, kind, required, resource_struct, scope};

/// A scope that kinds of this crate have.
pub(crate) trait Scope {
    /// What CRDs call it.
    const NAME: &'static str;
}

impl Scope for kube_core::NamespaceResourceScope {
    const NAME: &'static str = "Namespaced";
}

impl Scope for kube_core::ClusterResourceScope {
    const NAME: &'static str = "Cluster";
}

pub(crate) use crate::hooks::wire::null_is_default;

/// A group in the version that is used of it.
pub(crate) struct GroupVersion {
    pub(crate) group: &'static str,
    pub(crate) version: &'static str,
    pub(crate) api_version: &'static str,
}

/// Refuses an object of another kind: all fields of a kind may be absent, so it would decode as an empty one. Objects in a
/// list may lack their type; another version of the same group is let through, the API server converts.
pub(crate) fn check_type<E: serde::de::Error>(
    (group, kind): (&GroupVersion, &str),
    given_version: Option<&str>,
    given_kind: Option<&str>,
) -> Result<(), E> {
    let same_kind = given_kind.is_none_or(|given| given == kind);
    let same_group = given_version.is_none_or(|given| api_version::group(given) == group.group);
    if same_kind && same_group {
        return Ok(());
    }
    Err(E::custom(format_args!(
        "expected a {kind} of {}, not a {} of {}",
        group.group,
        given_kind.unwrap_or(kind),
        given_version.unwrap_or(group.api_version),
    )))
}

/// Any JSON object: what it says is another party's business, and is kept as it came.
#[derive(Clone, Debug, Default, PartialEq, serde::Serialize)]
#[serde(transparent)]
pub struct AnyObject(pub serde_json::Map<String, serde_json::Value>);

impl<'de> Deserialize<'de> for AnyObject {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        serde_json::Map::deserialize(deserializer).map(Self)
    }
}

crate::hooks::wire::inline_schema! { AnyObject { "type": "object", "x-kubernetes-preserve-unknown-fields": true } }
