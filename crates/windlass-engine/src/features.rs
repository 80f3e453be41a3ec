//! Features that can be turned off, by the names that Cluster API gives its feature gates.

use std::fmt;
use std::str::FromStr;

/// The feature gate of versions that worker groups are kept at. Cluster API has it off at first; here it is on.
pub const WORKER_VERSION_PINNING: &str = "ClusterTopologyWorkerVersionPinning";

/// Which features are on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Features {
    /// Whether worker groups can be kept at a version. Off, what is written about it has no effect, and cannot be set or
    /// changed.
    pub worker_version_pinning: bool,
}

impl Default for Features {
    fn default() -> Self {
        Self { worker_version_pinning: true }
    }
}

/// A list of feature gates that cannot be understood.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FeaturesError {
    /// An item is not a name and a value.
    #[error("{0:?} is not accepted, NAME=true or NAME=false is")]
    NotAGate(String),
    /// There is no such feature.
    #[error("there is no feature gate {0:?}, {WORKER_VERSION_PINNING} is one")]
    Unknown(String),
}

impl FromStr for Features {
    type Err = FeaturesError;

    /// Reads `NAME=true,OTHER=false`. What is not named is as it is by default.
    fn from_str(list: &str) -> Result<Self, FeaturesError> {
        let mut features = Self::default();
        for item in list.split(',').map(str::trim).filter(|item| !item.is_empty()) {
            let gate = item.split_once('=').and_then(|(name, value)| Some((name, value.parse().ok()?)));
            match gate {
                Some((WORKER_VERSION_PINNING, is_on)) => features.worker_version_pinning = is_on,
                Some((name, _)) => return Err(FeaturesError::Unknown(name.to_owned())),
                None => return Err(FeaturesError::NotAGate(item.to_owned())),
            }
        }
        Ok(features)
    }
}

impl fmt::Display for Features {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{WORKER_VERSION_PINNING}={}", self.worker_version_pinning)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gates_are_read_as_they_are_written() {
        assert_eq!("".parse(), Ok(Features::default()));
        for is_on in [true, false] {
            let features = Features { worker_version_pinning: is_on };
            assert_eq!(features.to_string().parse(), Ok(features));
        }
        for (list, message) in [
            (
                "ClusterTopologyWorkerVersionPinning",
                "\"ClusterTopologyWorkerVersionPinning\" is not accepted, NAME=true",
            ),
            ("ClusterTopologyWorkerVersionPinning=on", "NAME=true or NAME=false is"),
            ("ClusterTopology=true", "there is no feature gate \"ClusterTopology\""),
        ] {
            let error = list.parse::<Features>().unwrap_err().to_string();
            assert!(error.contains(message), "{error}");
        }
    }
}
