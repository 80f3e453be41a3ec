//! What one reconcile of a KubeadmConfig does, and what it waits on.

use std::time::Duration;

use windlass_api::conditions::{CERTIFICATES_AVAILABLE, DATA_SECRET_AVAILABLE, reason};
use windlass_engine::condition::Finding;

use crate::certificates::Purpose;
use crate::cloud_config::{CloudConfigError, FileError};
use crate::discovery::DiscoveryError;
use crate::kubeadm::{JoinRole, UnsupportedVersion};

/// Whose bootstrap data it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// A Machine of a control plane.
    ControlPlane,
    /// Any other Machine, or a pool.
    Worker,
}

/// What is known when a KubeadmConfig is reconciled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Observed {
    /// Whose data it is.
    pub role: Role,
    /// Whether the infrastructure of the Cluster is there.
    pub infrastructure_provisioned: bool,
    /// Whether the control plane of the Cluster is there.
    pub control_plane_initialized: bool,
    /// Whether the data were made.
    pub data_secret_created: bool,
    /// The Secret that the owner of the KubeadmConfig boots from.
    pub secret_of_owner: Option<String>,
}

/// What is to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Nothing yet.
    Wait(Waiting),
    /// The status forgot a Secret that the owner boots from, as it does when objects are moved to another management cluster. New
    /// data would be for nothing.
    Remember {
        /// The Secret.
        secret: String,
    },
    /// The data were made; the token in them is looked after.
    LookAfterToken,
    /// Data with which the machine initializes the cluster, if it has the init lock.
    Initialize,
    /// Data with which the machine joins.
    Join(JoinRole),
}

/// Decides.
pub fn decide(observed: &Observed) -> Decision {
    match observed {
        Observed { infrastructure_provisioned: false, .. } => Decision::Wait(Waiting::ClusterInfrastructure),
        Observed { data_secret_created: true, .. } => Decision::LookAfterToken,
        Observed { secret_of_owner: Some(secret), .. } => Decision::Remember { secret: secret.clone() },
        Observed { control_plane_initialized: true, role: Role::ControlPlane, .. } => {
            Decision::Join(JoinRole::ControlPlane)
        }
        Observed { control_plane_initialized: true, role: Role::Worker, .. } => {
            Decision::Join(JoinRole::Worker)
        }
        Observed { role: Role::ControlPlane, .. } => Decision::Initialize,
        Observed { role: Role::Worker, .. } => Decision::Wait(Waiting::ControlPlaneInitialized),
    }
}

/// What is waited on before data can be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Waiting {
    /// The infrastructure of the Cluster.
    ClusterInfrastructure,
    /// The first machine of the control plane.
    ControlPlaneInitialized,
    /// Another machine initializes the cluster.
    InitLock {
        /// That machine, if it is known.
        holder: Option<String>,
    },
    /// It is not known where the control plane is reached.
    ControlPlaneEndpoint,
    /// Certificates of the cluster are not there.
    Certificates {
        /// Name of the Cluster.
        cluster: String,
        /// Which.
        missing: Vec<Purpose>,
    },
    /// The workload cluster, in which tokens are made, does not answer.
    WorkloadCluster {
        /// What happened.
        why: String,
    },
}

impl std::fmt::Display for Waiting {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::ClusterInfrastructure => {
                f.write_str("Waiting for Cluster status.infrastructureReady to be true")
            }
            Self::ControlPlaneInitialized => {
                f.write_str("Waiting for Cluster control plane to be initialized")
            }
            Self::InitLock { holder: Some(holder) } => {
                write!(f, "Waiting for Machine {holder} to initialize the control plane")
            }
            Self::InitLock { holder: None } => {
                f.write_str("Waiting for another Machine to initialize the control plane")
            }
            Self::ControlPlaneEndpoint => {
                f.write_str("Waiting for Cluster spec.controlPlaneEndpoint to be set")
            }
            Self::Certificates { cluster, missing } => {
                let names: Vec<String> = missing.iter().map(|purpose| purpose.secret_name(cluster)).collect();
                write!(f, "Waiting for certificates: Secrets {}", names.join(", "))
            }
            Self::WorkloadCluster { why } => write!(f, "Waiting for the workload cluster to answer: {why}"),
        }
    }
}

impl Waiting {
    /// When it is tried again, if there is no event that says so.
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::ClusterInfrastructure | Self::ControlPlaneInitialized | Self::ControlPlaneEndpoint => None,
            Self::InitLock { .. } | Self::Certificates { .. } => Some(Duration::from_secs(30)),
            Self::WorkloadCluster { .. } => Some(Duration::from_secs(10)),
        }
    }

    /// The condition that says so.
    pub fn finding(&self) -> Finding {
        Finding::no(DATA_SECRET_AVAILABLE, reason::NOT_AVAILABLE).because(self)
    }
}

/// Why data cannot be made from a KubeadmConfig as it is.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Trouble {
    /// The format is not rendered here.
    #[error("format {0} is not supported: only cloud-config is")]
    Format(String),
    /// The version of the machine cannot be read.
    #[error("version {version:?} of the machine cannot be used: {why}")]
    Version {
        /// The version.
        version: String,
        /// What is wrong.
        why: String,
    },
    /// kubeadm of this version is too old.
    #[error(transparent)]
    Kubeadm(#[from] UnsupportedVersion),
    /// A worker with the configuration of a control plane machine.
    #[error("spec.joinConfiguration.controlPlane is set, but the Machine is not part of a control plane")]
    ControlPlaneOfWorker,
    /// A file.
    #[error("Failed to prepare spec.files: {0}")]
    Files(#[from] FileError),
    /// A user, or another part of the spec.
    #[error(transparent)]
    CloudConfig(#[from] CloudConfigError),
    /// The kubeconfig with which the control plane is found.
    #[error("Failed to create kubeconfig for spec.joinConfiguration.discovery.file: {0}")]
    Kubeconfig(DiscoveryError),
    /// The authority of the cluster.
    #[error("{0}")]
    Authority(DiscoveryError),
    /// A token that no API server takes.
    #[error("spec.joinConfiguration.discovery.bootstrapToken.token: {0}")]
    Token(#[from] crate::token::NoToken),
    /// More than a Secret can hold.
    #[error("the bootstrap data have {bytes} bytes, and a Secret holds {most}")]
    TooLarge {
        /// How many.
        bytes: usize,
        /// How many there may be.
        most: usize,
    },
}

impl Trouble {
    /// The conditions that say so. Certificates that cannot be used are no fault of the KubeadmConfig.
    pub fn findings(&self) -> Vec<Finding> {
        let message = match self {
            Self::CloudConfig(CloudConfigError::Users(why)) => {
                format!("Failed to read password from secrets for spec.users: {why}")
            }
            other => other.to_string(),
        };
        let mut findings = vec![Finding::no(DATA_SECRET_AVAILABLE, reason::NOT_AVAILABLE).because(&message)];
        if matches!(self, Self::Authority(_)) {
            findings.push(Finding::unknown(CERTIFICATES_AVAILABLE, reason::INTERNAL_ERROR).because(message));
        }
        findings
    }

    /// When it is tried again, if there is no event that says so: Secrets that a spec names are not watched.
    pub fn retry_after(&self) -> Option<Duration> {
        let reads_secrets = matches!(
            self,
            Self::Files(_) | Self::CloudConfig(CloudConfigError::Users(_)) | Self::Authority(_)
        );
        reads_secrets.then_some(Duration::from_secs(30))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_are_made_once_and_when_they_can_be_used() {
        let ready = Observed {
            role: Role::ControlPlane,
            infrastructure_provisioned: true,
            control_plane_initialized: true,
            data_secret_created: false,
            secret_of_owner: None,
        };
        let secret = || Some("boots-from".to_owned());
        for (observed, expected) in [
            (
                Observed { infrastructure_provisioned: false, ..ready.clone() },
                Decision::Wait(Waiting::ClusterInfrastructure),
            ),
            (Observed { control_plane_initialized: false, ..ready.clone() }, Decision::Initialize),
            (
                Observed { control_plane_initialized: false, role: Role::Worker, ..ready.clone() },
                Decision::Wait(Waiting::ControlPlaneInitialized),
            ),
            (ready.clone(), Decision::Join(JoinRole::ControlPlane)),
            (Observed { role: Role::Worker, ..ready.clone() }, Decision::Join(JoinRole::Worker)),
            (Observed { data_secret_created: true, ..ready.clone() }, Decision::LookAfterToken),
            (
                Observed { secret_of_owner: secret(), ..ready.clone() },
                Decision::Remember { secret: "boots-from".to_owned() },
            ),
            (
                Observed { secret_of_owner: secret(), control_plane_initialized: false, ..ready.clone() },
                Decision::Remember { secret: "boots-from".to_owned() },
            ),
            (
                Observed { secret_of_owner: secret(), data_secret_created: true, ..ready },
                Decision::LookAfterToken,
            ),
        ] {
            assert_eq!(decide(&observed), expected, "{observed:?}");
        }
    }

    #[test]
    fn conditions_have_the_reasons_and_words_of_cluster_api() {
        let missing = vec![Purpose::ClusterAuthority, Purpose::ApiServerEtcdClient];
        for (waiting, message) in [
            (Waiting::ClusterInfrastructure, "Waiting for Cluster status.infrastructureReady to be true"),
            (Waiting::ControlPlaneInitialized, "Waiting for Cluster control plane to be initialized"),
            (
                Waiting::InitLock { holder: Some("m1".to_owned()) },
                "Waiting for Machine m1 to initialize the control plane",
            ),
            (
                Waiting::Certificates { cluster: "c1".to_owned(), missing },
                "Waiting for certificates: Secrets c1-ca, c1-apiserver-etcd-client",
            ),
        ] {
            let finding = waiting.finding();
            assert_eq!(
                (finding.type_.as_str(), finding.reason.as_str()),
                ("DataSecretAvailable", "NotAvailable")
            );
            assert_eq!(finding.message, message);
        }
        let file = FileError::NoSecret { path: "/a".to_owned(), secret: "s".to_owned() };
        let findings = Trouble::from(file).findings();
        assert_eq!(findings.len(), 1);
        assert_eq!(
            findings[0].message,
            "Failed to prepare spec.files: Secret s does not exist (content of /a)"
        );
        let authority = Trouble::Authority(DiscoveryError::Authority("no".to_owned())).findings();
        let types: Vec<(&str, &str)> =
            authority.iter().map(|found| (found.type_.as_str(), found.reason.as_str())).collect();
        assert_eq!(
            types,
            [("DataSecretAvailable", "NotAvailable"), ("CertificatesAvailable", "InternalError")]
        );
    }
}
