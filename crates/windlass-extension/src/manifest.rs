//! The manifest that registers an extension.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use windlass_api::names::RUNTIME_API_VERSION;

/// An ExtensionConfig for a server at a URL, as YAML to be applied with kubectl.
///
/// Selects all namespaces. Without certificates to trust, callers trust those of their operating system.
pub fn extension_config(name: &str, url: &str, ca_pem: Option<&str>) -> String {
    let ca_bundle = ca_pem.map(|pem| format!("\n    caBundle: {}", STANDARD.encode(pem))).unwrap_or_default();
    format!(
        "apiVersion: {RUNTIME_API_VERSION}
kind: ExtensionConfig
metadata:
  name: {name}
spec:
  clientConfig:
    url: {url}{ca_bundle}
  namespaceSelector: {{}}
"
    )
}

#[cfg(test)]
mod tests {
    use windlass_api::runtime::ExtensionConfig;

    use super::*;

    #[test]
    fn the_manifest_is_an_extension_config() {
        let manifest = extension_config("gate", "https://127.0.0.1:9443/base", Some("PEM"));
        let config: ExtensionConfig = serde_saphyr::from_str(&manifest).unwrap();
        assert_eq!(config.name(), "gate");
        assert_eq!(config.spec.client_config.url.as_deref(), Some("https://127.0.0.1:9443/base"));
        assert_eq!(config.spec.client_config.ca_bundle.as_pem(), b"PEM");
        assert_eq!(config.spec.namespace_selector, Some(Default::default()));

        let trusting: ExtensionConfig =
            serde_saphyr::from_str(&extension_config("gate", "https://gate.example", None)).unwrap();
        assert!(trusting.spec.client_config.ca_bundle.is_empty());
    }
}
