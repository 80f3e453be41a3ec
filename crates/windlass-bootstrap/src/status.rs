//! What a KubeadmConfig says of itself, in the conditions and reasons of Cluster API.

use jiff::Timestamp;
use windlass_api::bootstrap::{KubeadmConfigInitializationStatus, KubeadmConfigStatus};
use windlass_api::conditions::{CERTIFICATES_AVAILABLE, DATA_SECRET_AVAILABLE, READY, reason};
use windlass_engine::condition::{self, Finding, Part, Reasons};
use windlass_engine::pause::not_paused;

use crate::decision::{Trouble, Waiting};

/// How far a KubeadmConfig has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Progress {
    /// Something is waited on.
    Waits(Waiting),
    /// The KubeadmConfig cannot be used as it is.
    Troubled(Trouble),
    /// The data are there.
    Made {
        /// The Secret that they are in.
        secret: String,
    },
}

/// The status after a reconcile. What was made is never forgotten.
pub fn status(
    before: &KubeadmConfigStatus,
    generation: Option<i64>,
    progress: &Progress,
    now: Timestamp,
) -> KubeadmConfigStatus {
    let mut status = KubeadmConfigStatus { observed_generation: generation, ..before.clone() };
    let mut findings = match progress {
        Progress::Waits(waiting) => vec![waiting.finding()],
        Progress::Troubled(trouble) => trouble.findings(),
        Progress::Made { secret } => {
            status.data_secret_name.clone_from(secret);
            status.initialization = KubeadmConfigInitializationStatus { data_secret_created: Some(true) };
            [DATA_SECRET_AVAILABLE, CERTIFICATES_AVAILABLE]
                .map(|type_| Finding::yes(type_, reason::AVAILABLE))
                .to_vec()
        }
    };
    findings.push(not_paused());
    for finding in findings {
        condition::set(&mut status.conditions, finding, generation, now);
    }
    let parts = [Part::required(DATA_SECRET_AVAILABLE), Part::optional(CERTIFICATES_AVAILABLE)];
    let reasons = Reasons { good: reason::READY, issue: reason::NOT_READY, unknown: reason::READY_UNKNOWN };
    let ready = condition::summary(READY, &status.conditions, &parts, reasons);
    condition::set(&mut status.conditions, ready, generation, now);
    status
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::discovery::DiscoveryError;

    fn after(before: &KubeadmConfigStatus, progress: Progress) -> KubeadmConfigStatus {
        status(before, Some(2), &progress, Timestamp::from_second(1_767_225_600).unwrap())
    }

    fn lines(status: &KubeadmConfigStatus) -> Vec<String> {
        let line = |found: &k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition| {
            format!("{} {} {} {}", found.type_, found.status, found.reason, found.message)
                .trim_end()
                .to_owned()
        };
        let mut lines: Vec<String> = status.conditions.iter().map(line).collect();
        lines.sort();
        lines
    }

    #[test]
    fn what_is_waited_on_is_said_until_the_data_are_there() {
        let waiting =
            after(&KubeadmConfigStatus::default(), Progress::Waits(Waiting::ControlPlaneInitialized));
        assert_eq!(
            lines(&waiting),
            [
                "DataSecretAvailable False NotAvailable Waiting for Cluster control plane to be initialized",
                "Paused False NotPaused",
                "Ready False NotReady * DataSecretAvailable: Waiting for Cluster control plane to be initialized",
            ]
        );
        assert_eq!(
            (waiting.initialization.data_secret_created, waiting.observed_generation),
            (None, Some(2))
        );
        let made = after(&waiting, Progress::Made { secret: "m1".to_owned() });
        assert_eq!(
            lines(&made),
            [
                "CertificatesAvailable True Available",
                "DataSecretAvailable True Available",
                "Paused False NotPaused",
                "Ready True Ready",
            ]
        );
        assert_eq!(
            (made.initialization.data_secret_created, made.data_secret_name.as_str()),
            (Some(true), "m1")
        );
        assert_eq!(
            after(&made, Progress::Made { secret: "m1".to_owned() }),
            made,
            "nothing changes any more"
        );
    }

    #[test]
    fn an_authority_that_cannot_be_read_is_unknown_and_not_ready() {
        let trouble = Trouble::Authority(DiscoveryError::Authority("no".to_owned()));
        let status = after(&KubeadmConfigStatus::default(), Progress::Troubled(trouble));
        assert_eq!(
            lines(&status)[0],
            "CertificatesAvailable Unknown InternalError the certificate of the cluster's authority cannot be read: no"
        );
        assert!(lines(&status)[3].starts_with("Ready False NotReady"), "{:?}", lines(&status));
    }
}
