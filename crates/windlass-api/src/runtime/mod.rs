//! `runtime.cluster.x-k8s.io/v1beta2`: how extensions are registered.

mod extension_config;
mod url;
mod validation;

pub use self::extension_config::{
    CaBundle, ClientConfig, DEFAULT_SERVICE_PORT, DISCOVERED_CONDITION, DISCOVERED_REASON, ExtensionConfig,
    ExtensionConfigSpec, ExtensionConfigStatus, HandlerStatus, InjectCaError, NOT_DISCOVERED_REASON,
    PAUSED_CONDITION, SecretReference, ServiceReference,
};
pub use self::url::UrlProblem;
pub use self::validation::{Problem, Violation, validate};
