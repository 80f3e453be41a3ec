//! Which version of kubeadm's API a release of Kubernetes takes.

use std::fmt;

use windlass_version::{Minor, Version};

/// A version of `kubeadm.k8s.io` that is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ApiVersion {
    /// Taken by kubeadm 1.22 to 1.36.
    V1Beta3,
    /// Taken by kubeadm from 1.31 on.
    V1Beta4,
}

/// A version of Kubernetes whose kubeadm takes none of the versions that are written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("kubeadm of Kubernetes {0} is not supported: the oldest is v1.22")]
pub struct UnsupportedVersion(pub Version);

/// The first minor whose kubeadm takes v1beta3.
const V1BETA3: Minor = Minor { major: 1, minor: 22 };
/// The first minor whose kubeadm takes v1beta4 without being asked to try it.
const V1BETA4: Minor = Minor { major: 1, minor: 31 };

impl ApiVersion {
    /// The newest version that kubeadm of a release takes. A pre-release counts as its release.
    ///
    /// # Errors
    ///
    /// If the release is older than v1.22.
    pub fn of(version: &Version) -> Result<Self, UnsupportedVersion> {
        match version.minor() {
            minor if minor >= V1BETA4 => Ok(Self::V1Beta4),
            minor if minor >= V1BETA3 => Ok(Self::V1Beta3),
            _ => Err(UnsupportedVersion(version.clone())),
        }
    }
}

impl fmt::Display for ApiVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::V1Beta3 => "kubeadm.k8s.io/v1beta3",
            Self::V1Beta4 => "kubeadm.k8s.io/v1beta4",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_of_the_api_follows_from_the_minor() {
        for (version, expected) in [
            ("v1.21.14", Err("kubeadm of Kubernetes v1.21.14 is not supported: the oldest is v1.22")),
            ("v1.22.0", Ok("kubeadm.k8s.io/v1beta3")),
            ("v1.30.14", Ok("kubeadm.k8s.io/v1beta3")),
            ("v1.31.0-alpha.1", Ok("kubeadm.k8s.io/v1beta4")),
            ("v1.31.0", Ok("kubeadm.k8s.io/v1beta4")),
            ("v1.36.2+vendor.1", Ok("kubeadm.k8s.io/v1beta4")),
        ] {
            let found = ApiVersion::of(&version.parse().unwrap());
            let found = found.map(|version| version.to_string()).map_err(|error| error.to_string());
            assert_eq!(found, expected.map(str::to_owned).map_err(str::to_owned), "{version}");
        }
    }
}
