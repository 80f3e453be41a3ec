//! How a machine that joins finds the control plane and knows that it is the right one.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};
use windlass_api::AnyObject;
use windlass_api::bootstrap::JoinConfiguration;
use x509_parser::pem::Pem;

use crate::cloud_config::WriteFile;
use crate::token::Token;
use crate::yaml::Yaml;

/// Version of the protocol between a kubeconfig's program and its user, if it is not said.
const EXEC_API_VERSION: &str = "client.authentication.k8s.io/v1";

/// Why it cannot be said how the control plane is found.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DiscoveryError {
    /// The authority of the cluster is not a list of certificates.
    #[error("the certificate of the cluster's authority cannot be read: {0}")]
    Authority(String),
    /// A kubeconfig has one way to identify the user, and this one has none or two.
    #[error("exactly one of user.exec and user.authProvider must be set")]
    User,
}

/// Whether a machine finds the control plane by a kubeconfig: then it needs no token.
pub fn uses_file(join: Option<&JoinConfiguration>) -> bool {
    field(join, "file").is_some()
}

/// The token that is there already, as a user or an earlier reconcile wrote it.
pub fn token(join: Option<&JoinConfiguration>) -> Option<&str> {
    field(join, "bootstrapToken")?.get("token")?.as_str().filter(|token| !token.is_empty())
}

fn field<'a>(join: Option<&'a JoinConfiguration>, name: &str) -> Option<&'a Map<String, Value>> {
    join?.discovery.as_ref()?.0.get(name)?.as_object()
}

/// A JoinConfiguration in which nothing is missing to find the control plane at an endpoint. What is there stays, except for a
/// token that is given anew.
///
/// # Errors
///
/// If the certificates of the authority cannot be read.
pub fn complete(
    join: Option<&JoinConfiguration>,
    endpoint: &str,
    authority: &str,
    new_token: Option<&Token>,
) -> Result<JoinConfiguration, DiscoveryError> {
    let mut join = join.cloned().unwrap_or_default();
    let discovery = &mut join.discovery.get_or_insert_with(AnyObject::default).0;
    if let Some(Value::Object(file)) = discovery.get_mut("file") {
        if let Some(Value::Object(kubeconfig)) = file.get_mut("kubeConfig") {
            let cluster = kubeconfig.entry("cluster").or_insert_with(|| json!({}));
            fill(cluster, "server", || format!("https://{endpoint}").into());
            fill(cluster, "certificateAuthorityData", || STANDARD.encode(authority).into());
        }
        return Ok(join);
    }
    let hashes = ca_cert_hashes(authority)?;
    let by_token = discovery.entry("bootstrapToken").or_insert_with(|| json!({}));
    fill(by_token, "apiServerEndpoint", || endpoint.into());
    if by_token["unsafeSkipCAVerification"] != true {
        fill(by_token, "caCertHashes", || hashes.into());
    }
    if let Some(token) = new_token {
        by_token["token"] = token.reveal().into();
    }
    Ok(join)
}

/// Sets a field that says nothing.
fn fill(object: &mut Value, field: &str, value: impl FnOnce() -> Value) {
    let says_nothing = match &object[field] {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        _ => false,
    };
    if says_nothing {
        object[field] = value();
    }
}

/// What kubeadm compares the authority of a cluster with: a hash of the public key of each of its certificates.
///
/// # Errors
///
/// If there is no certificate, or one that cannot be read.
pub fn ca_cert_hashes(pem: &str) -> Result<Vec<String>, DiscoveryError> {
    let failed = |why: &dyn std::fmt::Display| DiscoveryError::Authority(why.to_string());
    let mut hashes = Vec::new();
    for block in Pem::iter_from_buffer(pem.as_bytes()) {
        let block = block.map_err(|error| failed(&error))?;
        if block.label != "CERTIFICATE" {
            continue;
        }
        let certificate = block.parse_x509().map_err(|error| failed(&error))?;
        let digest = Sha256::digest(certificate.tbs_certificate.subject_pki.raw);
        let hex: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
        hashes.push(format!("sha256:{hex}"));
    }
    if hashes.is_empty() {
        return Err(failed(&"it has no certificate"));
    }
    Ok(hashes)
}

/// The kubeconfig by which a machine finds the control plane, if the configuration has one. kubeadm is told its path only.
///
/// # Errors
///
/// If it has not exactly one way to identify the user.
pub fn kubeconfig_file(join: &JoinConfiguration) -> Result<Option<WriteFile>, DiscoveryError> {
    let Some(file) = field(Some(join), "file") else { return Ok(None) };
    let (Some(path), Some(given)) =
        (file.get("kubeConfigPath").and_then(Value::as_str), file.get("kubeConfig"))
    else {
        return Ok(None);
    };
    let cluster = renamed(
        &given["cluster"],
        &[
            ("server", "server"),
            ("certificateAuthorityData", "certificate-authority-data"),
            ("tlsServerName", "tls-server-name"),
            ("insecureSkipTLSVerify", "insecure-skip-tls-verify"),
            ("proxyURL", "proxy-url"),
        ],
    );
    let user = match (given["user"].get("exec"), given["user"].get("authProvider")) {
        (Some(exec), None) => {
            let fields =
                ["apiVersion", "command", "args", "env", "provideClusterInfo"].map(|field| (field, field));
            let mut exec = renamed(exec, &fields);
            fill(&mut exec, "apiVersion", || EXEC_API_VERSION.into());
            exec["interactiveMode"] = "Never".into();
            json!({"exec": exec})
        }
        (None, Some(provider)) => {
            json!({"auth-provider": renamed(provider, &[("name", "name"), ("config", "config")])})
        }
        _ => return Err(DiscoveryError::User),
    };
    let kubeconfig = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "default", "preferences": {},
        "clusters": [{"name": "default", "cluster": cluster}],
        "contexts": [{"name": "default", "context": {"cluster": "default", "user": "default"}}],
        "users": [{"name": "default", "user": user}],
    });
    Ok(Some(WriteFile::of_root(path, "0640", Yaml::from(kubeconfig).to_string())))
}

/// The fields of an object under the names that a kubeconfig has for them.
fn renamed(object: &Value, names: &[(&str, &str)]) -> Value {
    let fields = names.iter().filter_map(|(from, to)| Some(((*to).to_owned(), object.get(*from)?.clone())));
    Value::Object(fields.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Made by `openssl` for this test. The hash is what `openssl x509 -pubkey | openssl rsa -pubin -outform der | sha256sum` says,
    /// as kubeadm's documentation has it.
    const AUTHORITY: &str = include_str!("../tests/data/authority.pem");
    const HASH: &str = include_str!("../tests/data/authority.sha256");

    fn join(value: Value) -> JoinConfiguration {
        serde_json::from_value(value).unwrap()
    }

    fn completed(value: Value, token: Option<&Token>) -> Value {
        let join = complete(Some(&join(value)), "10.0.0.1:6443", AUTHORITY, token).unwrap();
        Value::Object(join.discovery.unwrap().0)
    }

    #[test]
    fn the_hash_of_an_authority_is_that_of_its_public_key() {
        assert_eq!(ca_cert_hashes(AUTHORITY).unwrap(), [HASH.trim()]);
        let two = format!("{AUTHORITY}{AUTHORITY}");
        assert_eq!(ca_cert_hashes(&two).unwrap(), [HASH.trim(), HASH.trim()], "one for each of a bundle");
        for text in ["", "nothing", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"] {
            let error = ca_cert_hashes(text).unwrap_err().to_string();
            assert!(
                error.starts_with("the certificate of the cluster's authority cannot be read: "),
                "{error}"
            );
        }
    }

    #[test]
    fn what_is_not_said_is_filled_in() {
        let token = Token::parse("abcdef.0123456789abcdef").unwrap();
        let all = json!({"token": "abcdef.0123456789abcdef", "apiServerEndpoint": "10.0.0.1:6443", "caCertHashes": [HASH.trim()]});
        assert_eq!(completed(json!({}), Some(&token)), json!({"bootstrapToken": all}));
        let given = json!({"token": "aaaaaa.0123456789abcdef", "apiServerEndpoint": "vip:443", "caCertHashes": ["sha256:ab"]});
        assert_eq!(
            completed(json!({"discovery": {"bootstrapToken": given}}), None),
            json!({"bootstrapToken": given})
        );
        let unsafe_ = json!({"unsafeSkipCAVerification": true});
        let filled = completed(json!({"discovery": {"bootstrapToken": unsafe_}}), Some(&token));
        assert_eq!(filled["bootstrapToken"].get("caCertHashes"), None, "the user trusts any authority");
    }

    #[test]
    fn a_kubeconfig_needs_no_token_and_becomes_a_file() {
        let stored = join(json!({"discovery": {"file": {"kubeConfigPath": "/d.conf", "kubeConfig": {
            "user": {"exec": {"command": "get-token", "args": ["-x"], "env": [{"name": "A", "value": "1"}]}}}}}}));
        assert!(uses_file(Some(&stored)) && !uses_file(None));
        let complete = complete(Some(&stored), "10.0.0.1:6443", AUTHORITY, None).unwrap();
        let file = kubeconfig_file(&complete).unwrap().unwrap();
        assert_eq!((file.path.as_str(), file.permissions.as_deref()), ("/d.conf", Some("0640")));
        let written: Value = serde_saphyr::from_str(&file.content).unwrap();
        assert_eq!(written["clusters"][0]["cluster"]["server"], "https://10.0.0.1:6443");
        assert_eq!(
            written["clusters"][0]["cluster"]["certificate-authority-data"],
            STANDARD.encode(AUTHORITY)
        );
        assert_eq!(
            written["users"][0]["user"]["exec"],
            json!({"apiVersion": "client.authentication.k8s.io/v1", "command": "get-token", "args": ["-x"],
                "env": [{"name": "A", "value": "1"}], "interactiveMode": "Never"})
        );
        let both =
            join(json!({"discovery": {"file": {"kubeConfigPath": "/d.conf", "kubeConfig": {"user": {}}}}}));
        assert_eq!(kubeconfig_file(&both), Err(DiscoveryError::User));
        let on_the_machine = join(json!({"discovery": {"file": {"kubeConfigPath": "/d.conf"}}}));
        assert_eq!(kubeconfig_file(&on_the_machine), Ok(None));
    }
}
