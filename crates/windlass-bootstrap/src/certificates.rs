//! Certificates of a cluster, and the kubeconfig of its administrator, as the Secrets that Cluster API's users know.
//!
//! Keys are of elliptic curves: kubeadm takes them from the Secrets as it takes any other, and they are made in
//! microseconds.

use std::collections::BTreeMap;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan};
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};

use kube::config::Kubeconfig;
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer,
    KeyPair, KeyUsagePurpose,
};
use windlass_api::names::CLUSTER_NAME_LABEL;
use windlass_runtime::ObjectKey;
use x509_parser::pem::parse_x509_pem;

use crate::private_key;

/// Type of the Secrets; Cluster API's tools move them with their cluster by it.
pub const SECRET_TYPE: &str = "cluster.x-k8s.io/secret";
/// Key of a certificate, or of a public key, in a Secret.
pub const CERTIFICATE: &str = "tls.crt";
/// Key of a private key in a Secret.
pub const PRIVATE_KEY: &str = "tls.key";
/// Key of a kubeconfig in a Secret.
pub const KUBECONFIG: &str = "value";

/// How long authorities are valid. Nothing here rotates them.
const AUTHORITY_YEARS: i16 = 10;
/// How long the certificate of the administrator is valid; renewed at half of it.
const CLIENT_DAYS: i64 = 365;

/// Why a certificate or a kubeconfig cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum CertificateError {
    /// The library refused.
    #[error("cannot make a certificate: {0}")]
    Make(#[from] rcgen::Error),
    /// Only the operator of the external etcd can make it.
    #[error("the certificate of a client of an external etcd comes from the operator of that etcd")]
    FromOperator,
    /// The authority in a Secret cannot be used.
    #[error("Secret {secret} has no usable {key}")]
    Authority {
        /// The Secret.
        secret: String,
        /// The key that is missing or cannot be read.
        key: &'static str,
    },
}

/// What a pair of keys is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Purpose {
    /// Signs for the API server and its clients.
    ClusterAuthority,
    /// Signs for etcd.
    EtcdAuthority,
    /// Signs for the aggregation layer.
    FrontProxyAuthority,
    /// Signs tokens of service accounts.
    ServiceAccounts,
    /// Identifies API servers to an external etcd. The operator of that etcd gives it.
    ApiServerEtcdClient,
}

impl Purpose {
    /// Those that every cluster has.
    pub const ALL: [Self; 4] =
        [Self::ClusterAuthority, Self::EtcdAuthority, Self::FrontProxyAuthority, Self::ServiceAccounts];

    /// Name of the Secret.
    pub fn secret_name(self, cluster: &str) -> String {
        let suffix = match self {
            Self::ClusterAuthority => "ca",
            Self::EtcdAuthority => "etcd",
            Self::FrontProxyAuthority => "proxy",
            Self::ServiceAccounts => "sa",
            Self::ApiServerEtcdClient => "apiserver-etcd-client",
        };
        format!("{cluster}-{suffix}")
    }

    const fn common_name(self) -> &'static str {
        match self {
            Self::ClusterAuthority => "kubernetes",
            Self::EtcdAuthority => "etcd-ca",
            Self::FrontProxyAuthority => "front-proxy-ca",
            Self::ServiceAccounts => "sa",
            Self::ApiServerEtcdClient => "apiserver-etcd-client",
        }
    }

    /// Makes a new pair: certificate or public key, and private key, as PEM.
    ///
    /// # Errors
    ///
    /// If there is no randomness, or if the pair is for the operator of an external etcd to make.
    pub fn generate(self, now: Timestamp) -> Result<Pair, CertificateError> {
        if self == Self::ApiServerEtcdClient {
            return Err(CertificateError::FromOperator);
        }
        let key = KeyPair::generate()?;
        let certificate = if self == Self::ServiceAccounts {
            key.public_key_pem()
        } else {
            authority(self.common_name(), now)?.self_signed(&key)?.pem()
        };
        Ok(Pair { certificate, key: key.serialize_pem() })
    }
}

/// A certificate, or a public key, with its private key, as PEM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pair {
    /// The certificate or public key.
    pub certificate: String,
    /// The private key.
    pub key: String,
}

impl Pair {
    /// Reads the pair in a Secret.
    ///
    /// # Errors
    ///
    /// If one of the two is not there.
    pub fn of_secret(secret: &Secret) -> Result<Self, CertificateError> {
        let part = |key: &'static str| {
            text(secret, key)
                .ok_or_else(|| CertificateError::Authority { secret: ObjectKey::of(secret).name, key })
        };
        Ok(Self { certificate: part(CERTIFICATE)?, key: part(PRIVATE_KEY)? })
    }

    /// What the Secret of the pair has.
    pub fn data(self) -> BTreeMap<String, String> {
        BTreeMap::from([(CERTIFICATE.to_owned(), self.certificate), (PRIVATE_KEY.to_owned(), self.key)])
    }
}

/// A Secret of a cluster.
pub fn secret(
    namespace: &str,
    name: &str,
    cluster: &str,
    owner: OwnerReference,
    data: BTreeMap<String, String>,
) -> Secret {
    Secret {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            namespace: Some(namespace.to_owned()),
            labels: Some(BTreeMap::from([(CLUSTER_NAME_LABEL.to_owned(), cluster.to_owned())])),
            owner_references: Some(vec![owner]),
            ..ObjectMeta::default()
        },
        type_: Some(SECRET_TYPE.to_owned()),
        data: Some(data.into_iter().map(|(key, value)| (key, ByteString(value.into_bytes()))).collect()),
        ..Secret::default()
    }
}

/// Name of the Secret with the kubeconfig of a cluster.
pub fn kubeconfig_secret_name(cluster: &str) -> String {
    format!("{cluster}-kubeconfig")
}

/// A kubeconfig for the administrator of a cluster, with a new certificate that its authority signs.
///
/// # Errors
///
/// If the authority cannot be used.
pub fn kubeconfig(
    cluster: &str,
    server: &str,
    authority: &Pair,
    now: Timestamp,
) -> Result<String, CertificateError> {
    let mut name = DistinguishedName::new();
    name.push(DnType::OrganizationName, "system:masters");
    name.push(DnType::CommonName, "kubernetes-admin");
    let Pair { certificate, key } =
        client(authority, &Purpose::ClusterAuthority.secret_name(cluster), name, now)?;
    let user = format!("{cluster}-admin");
    Ok(format!(
        "apiVersion: v1\nkind: Config\npreferences: {{}}\n\
         clusters:\n- name: {cluster}\n  cluster:\n    server: {server}\n    certificate-authority-data: {ca}\n\
         contexts:\n- name: {user}@{cluster}\n  context:\n    cluster: {cluster}\n    user: {user}\n\
         current-context: {user}@{cluster}\n\
         users:\n- name: {user}\n  user:\n    client-certificate-data: {certificate}\n    client-key-data: {key}\n",
        ca = STANDARD.encode(&authority.certificate),
        certificate = STANDARD.encode(&certificate),
        key = STANDARD.encode(&key),
    ))
}

/// What identifies us to an etcd: a new certificate that its authority, in this Secret, signs. It is never stored.
///
/// # Errors
///
/// If the authority cannot be used.
pub fn etcd_client(authority: &Pair, secret: &str, now: Timestamp) -> Result<Pair, CertificateError> {
    let mut name = DistinguishedName::new();
    name.push(DnType::CommonName, "cluster-api.x-k8s.io");
    client(authority, secret, name, now)
}

/// A certificate for a client, signed by the authority in a Secret.
fn client(
    authority: &Pair,
    secret: &str,
    name: DistinguishedName,
    now: Timestamp,
) -> Result<Pair, CertificateError> {
    let unusable = |key| move |_| CertificateError::Authority { secret: secret.to_owned(), key };
    let authority_key = private_key::read(&authority.key).map_err(unusable(PRIVATE_KEY))?;
    let issuer =
        Issuer::from_ca_cert_pem(&authority.certificate, authority_key).map_err(unusable(CERTIFICATE))?;
    let key = KeyPair::generate()?;
    let mut params = CertificateParams::default();
    params.distinguished_name = name;
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature, KeyUsagePurpose::KeyEncipherment];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    valid_until(&mut params, now, |today| today.saturating_add(CLIENT_DAYS.days()));
    Ok(Pair { certificate: params.signed_by(&key, &issuer)?.pem(), key: key.serialize_pem() })
}

/// Whether the certificate in a kubeconfig has less than half of its time left. False if there is none: then a user
/// identifies in another way, and nothing of it is ours.
pub fn kubeconfig_needs_renewal(secret: &Secret, now: Timestamp) -> bool {
    client_certificate_expiry(secret)
        .is_some_and(|expiry| expiry.duration_since(now).as_hours() < CLIENT_DAYS * 24 / 2)
}

fn client_certificate_expiry(secret: &Secret) -> Option<Timestamp> {
    let kubeconfig = Kubeconfig::from_yaml(&text(secret, KUBECONFIG)?).ok()?;
    let user = kubeconfig.auth_infos.into_iter().find_map(|user| user.auth_info)?;
    let pem = STANDARD.decode(user.client_certificate_data?).ok()?;
    let (_, pem) = parse_x509_pem(&pem).ok()?;
    let certificate = pem.parse_x509().ok()?;
    Timestamp::from_second(certificate.validity().not_after.timestamp()).ok()
}

pub(crate) fn text(secret: &Secret, key: &str) -> Option<String> {
    let value = secret.data.as_ref()?.get(key)?;
    String::from_utf8(value.0.clone()).ok().filter(|value| !value.is_empty())
}

fn authority(common_name: &str, now: Timestamp) -> Result<CertificateParams, CertificateError> {
    let mut params = CertificateParams::new(Vec::new())?;
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, common_name);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages =
        vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature, KeyUsagePurpose::CrlSign];
    valid_until(&mut params, now, |today| today.saturating_add(AUTHORITY_YEARS.years()));
    Ok(params)
}

/// Sets how long a certificate is valid: from yesterday on, because clocks of other machines may be behind.
fn valid_until(params: &mut CertificateParams, now: Timestamp, end: impl FnOnce(Date) -> Date) {
    // Months and days are positive, so the conversions lose nothing.
    let at = |date: Date| {
        rcgen::date_time_ymd(date.year().into(), date.month().unsigned_abs(), date.day().unsigned_abs())
    };
    let today = now.to_zoned(TimeZone::UTC).date();
    params.not_before = at(today.saturating_sub(1.day()));
    params.not_after = at(end(today));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn now() -> Timestamp {
        "2026-02-28T12:00:00Z".parse().unwrap()
    }

    fn owner() -> OwnerReference {
        OwnerReference { name: "cp".to_owned(), ..OwnerReference::default() }
    }

    #[test]
    fn secrets_have_the_names_and_keys_that_kubeadm_and_users_know() {
        let names = Purpose::ALL.map(|purpose| purpose.secret_name("c1"));
        assert_eq!(names, ["c1-ca", "c1-etcd", "c1-proxy", "c1-sa"]);
        assert_eq!(kubeconfig_secret_name("c1"), "c1-kubeconfig");
        let pair = Purpose::ServiceAccounts.generate(now()).unwrap();
        assert!(pair.certificate.starts_with("-----BEGIN PUBLIC KEY-----"), "{}", pair.certificate);
        let secret = secret("ns", "c1-sa", "c1", owner(), pair.clone().data());
        assert_eq!(Pair::of_secret(&secret).unwrap(), pair);
        assert_eq!(secret.type_.as_deref(), Some(SECRET_TYPE));
    }

    #[test]
    fn an_authority_is_valid_for_ten_years_from_yesterday_on() {
        let pair = Purpose::EtcdAuthority.generate(now()).unwrap();
        let (_, pem) = parse_x509_pem(pair.certificate.as_bytes()).unwrap();
        let certificate = pem.parse_x509().unwrap();
        assert!(certificate.is_ca());
        assert_eq!(certificate.subject().to_string(), "CN=etcd-ca");
        let time = |seconds| Timestamp::from_second(seconds).unwrap().to_string();
        assert_eq!(time(certificate.validity().not_before.timestamp()), "2026-02-27T00:00:00Z");
        assert_eq!(time(certificate.validity().not_after.timestamp()), "2036-02-28T00:00:00Z");
    }

    #[test]
    fn a_kubeconfig_is_signed_by_the_authority_and_renewed_at_half_of_its_time() {
        let authority = Purpose::ClusterAuthority.generate(now()).unwrap();
        let text = kubeconfig("c1", "https://10.0.0.1:6443", &authority, now()).unwrap();
        let parsed = Kubeconfig::from_yaml(&text).unwrap();
        assert_eq!(
            parsed.clusters[0].cluster.as_ref().unwrap().server.as_deref(),
            Some("https://10.0.0.1:6443")
        );
        let data = BTreeMap::from([(KUBECONFIG.to_owned(), text)]);
        let secret = secret("ns", "c1-kubeconfig", "c1", owner(), data);
        let after = |days: i64| now().checked_add(jiff::SignedDuration::from_hours(days * 24)).unwrap();
        assert!(!kubeconfig_needs_renewal(&secret, after(100)));
        assert!(kubeconfig_needs_renewal(&secret, after(190)));

        let client = parsed.auth_infos[0].auth_info.clone().unwrap().client_certificate_data.unwrap();
        let (_, client) = parse_x509_pem(&STANDARD.decode(client).unwrap()).unwrap();
        let client = client.parse_x509().unwrap();
        assert_eq!(client.subject().to_string(), "O=system:masters, CN=kubernetes-admin");
        assert_eq!(client.issuer().to_string(), "CN=kubernetes");
    }

    #[test]
    fn an_authority_that_cannot_be_used_is_named() {
        let broken = Pair { certificate: "nothing".to_owned(), key: "nothing".to_owned() };
        let error = kubeconfig("c1", "https://a:1", &broken, now()).unwrap_err().to_string();
        assert_eq!(error, "Secret c1-ca has no usable tls.key");
        let error = Pair::of_secret(&secret("ns", "c1-ca", "c1", owner(), BTreeMap::new())).unwrap_err();
        assert_eq!(error.to_string(), "Secret c1-ca has no usable tls.crt");
        let other = secret("ns", "c1-kubeconfig", "c1", owner(), BTreeMap::new());
        assert!(!kubeconfig_needs_renewal(&other, now()), "what we did not make is not renewed");
    }
}
