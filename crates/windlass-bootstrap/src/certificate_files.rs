//! The certificates of a cluster, as files of its control plane machines.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Secret;
use serde_json::Value;
use windlass_api::bootstrap::ClusterConfiguration;

use crate::certificates::{self, CERTIFICATE, PRIVATE_KEY, Pair, Purpose};
use crate::cloud_config::WriteFile;

/// Where kubeadm looks for certificates, if it is not told.
const DEFAULT_DIRECTORY: &str = "/etc/kubernetes/pki";
/// Certificates are for root and its group, keys for root.
const CERTIFICATE_MODE: &str = "0640";
const KEY_MODE: &str = "0600";

/// What a Secret with a certificate has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// The certificate or public key, as PEM.
    pub certificate: String,
    /// The private key, as PEM. The authority of an external etcd has none here.
    pub key: Option<String>,
}

impl Found {
    /// Reads a Secret; nothing if it has no certificate.
    pub fn of_secret(secret: &Secret) -> Option<Self> {
        let certificate = certificates::text(secret, CERTIFICATE)?;
        Some(Self { certificate, key: certificates::text(secret, PRIVATE_KEY) })
    }
}

impl From<Pair> for Found {
    fn from(pair: Pair) -> Self {
        Self { certificate: pair.certificate, key: Some(pair.key) }
    }
}

/// The certificates that were found, by what they are for.
pub type ClusterCertificates = BTreeMap<Purpose, Found>;

/// Where the two files of a purpose go.
struct Paths {
    certificate: String,
    key: Option<String>,
}

/// What control plane machines of a cluster must have. With an external etcd, its authority and the certificate of its client
/// come from the operator of that etcd.
pub fn needed(configuration: Option<&ClusterConfiguration>) -> Vec<Purpose> {
    let client = external_etcd(configuration).map(|_| Purpose::ApiServerEtcdClient);
    Purpose::ALL.into_iter().chain(client).collect()
}

/// What is needed and was not found: the certificate, or a key that is needed.
pub fn missing(configuration: Option<&ClusterConfiguration>, found: &ClusterCertificates) -> Vec<Purpose> {
    let is_complete = |purpose: &Purpose| {
        let needs_key = paths(configuration, *purpose).key.is_some();
        found.get(purpose).is_some_and(|found| !needs_key || found.key.is_some())
    };
    needed(configuration).into_iter().filter(|purpose| !is_complete(purpose)).collect()
}

/// The files of a control plane machine, in the order of their purposes.
pub fn certificate_files(
    configuration: Option<&ClusterConfiguration>,
    found: &ClusterCertificates,
) -> Vec<WriteFile> {
    let mut files = Vec::new();
    for purpose in needed(configuration) {
        let Some(found) = found.get(&purpose) else { continue };
        let paths = paths(configuration, purpose);
        files.push(WriteFile::of_root(&paths.certificate, CERTIFICATE_MODE, found.certificate.clone()));
        if let (Some(path), Some(key)) = (paths.key, &found.key) {
            files.push(WriteFile::of_root(&path, KEY_MODE, key.clone()));
        }
    }
    files
}

fn paths(configuration: Option<&ClusterConfiguration>, purpose: Purpose) -> Paths {
    let directory = configuration.and_then(|configuration| text(&configuration.other, "certificatesDir"));
    let directory = directory.unwrap_or(DEFAULT_DIRECTORY);
    let pair = |certificate: &str, key: &str| Paths {
        certificate: format!("{directory}/{certificate}"),
        key: Some(format!("{directory}/{key}")),
    };
    let external = external_etcd(configuration);
    match (purpose, external) {
        (Purpose::ClusterAuthority, _) => pair("ca.crt", "ca.key"),
        (Purpose::FrontProxyAuthority, _) => pair("front-proxy-ca.crt", "front-proxy-ca.key"),
        (Purpose::ServiceAccounts, _) => pair("sa.pub", "sa.key"),
        (Purpose::EtcdAuthority, Some(etcd)) => Paths { certificate: path(etcd, "caFile"), key: None },
        (Purpose::EtcdAuthority, None) => pair("etcd/ca.crt", "etcd/ca.key"),
        (Purpose::ApiServerEtcdClient, Some(etcd)) => {
            Paths { certificate: path(etcd, "certFile"), key: Some(path(etcd, "keyFile")) }
        }
        (Purpose::ApiServerEtcdClient, None) => {
            pair("apiserver-etcd-client.crt", "apiserver-etcd-client.key")
        }
    }
}

fn external_etcd(configuration: Option<&ClusterConfiguration>) -> Option<&BTreeMap<String, Value>> {
    Some(&configuration?.etcd.as_ref()?.external.as_ref()?.other)
}

fn path(etcd: &BTreeMap<String, Value>, field: &str) -> String {
    text(etcd, field).unwrap_or_default().to_owned()
}

fn text<'a>(fields: &'a BTreeMap<String, Value>, field: &str) -> Option<&'a str> {
    fields.get(field)?.as_str().filter(|text| !text.is_empty())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn all() -> ClusterCertificates {
        let found =
            |name: &str| Found { certificate: format!("{name} crt"), key: Some(format!("{name} key")) };
        BTreeMap::from([
            (Purpose::ClusterAuthority, found("ca")),
            (Purpose::EtcdAuthority, found("etcd")),
            (Purpose::FrontProxyAuthority, found("proxy")),
            (Purpose::ServiceAccounts, found("sa")),
            (Purpose::ApiServerEtcdClient, found("client")),
        ])
    }

    fn listed(configuration: Option<&ClusterConfiguration>) -> Vec<String> {
        let files = certificate_files(configuration, &all());
        let line = |file: &WriteFile| {
            let permissions = file.permissions.clone().unwrap_or_default();
            format!("{} {permissions} {}", file.path, file.content)
        };
        files.iter().map(line).collect()
    }

    #[test]
    fn certificates_go_where_kubeadm_looks_for_them() {
        assert_eq!(
            listed(None),
            [
                "/etc/kubernetes/pki/ca.crt 0640 ca crt",
                "/etc/kubernetes/pki/ca.key 0600 ca key",
                "/etc/kubernetes/pki/etcd/ca.crt 0640 etcd crt",
                "/etc/kubernetes/pki/etcd/ca.key 0600 etcd key",
                "/etc/kubernetes/pki/front-proxy-ca.crt 0640 proxy crt",
                "/etc/kubernetes/pki/front-proxy-ca.key 0600 proxy key",
                "/etc/kubernetes/pki/sa.pub 0640 sa crt",
                "/etc/kubernetes/pki/sa.key 0600 sa key",
            ]
        );
    }

    #[test]
    fn an_external_etcd_has_its_own_files_and_keeps_its_key() {
        let configuration: ClusterConfiguration = serde_json::from_value(json!({
            "certificatesDir": "/pki",
            "etcd": {"external": {"endpoints": ["https://e:2379"], "caFile": "/e/ca", "certFile": "/e/crt", "keyFile": "/e/key"}},
        }))
        .unwrap();
        assert_eq!(
            listed(Some(&configuration)),
            [
                "/pki/ca.crt 0640 ca crt",
                "/pki/ca.key 0600 ca key",
                "/e/ca 0640 etcd crt",
                "/pki/front-proxy-ca.crt 0640 proxy crt",
                "/pki/front-proxy-ca.key 0600 proxy key",
                "/pki/sa.pub 0640 sa crt",
                "/pki/sa.key 0600 sa key",
                "/e/crt 0640 client crt",
                "/e/key 0600 client key",
            ]
        );
        let mut found = all();
        found.insert(Purpose::EtcdAuthority, Found { certificate: "crt".to_owned(), key: None });
        assert!(missing(Some(&configuration), &found).is_empty());
        assert_eq!(missing(None, &found), [Purpose::EtcdAuthority], "our own etcd signs with its key");
        found.remove(&Purpose::ApiServerEtcdClient);
        assert_eq!(missing(Some(&configuration), &found), [Purpose::ApiServerEtcdClient]);
        assert_eq!(missing(None, &BTreeMap::new()), Purpose::ALL);
    }
}
