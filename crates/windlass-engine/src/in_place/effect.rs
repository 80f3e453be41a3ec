//! What an update in place does to a machine besides the change: whether the machine is out of service meanwhile, and what
//! has to be done before.
//!
//! It is written on the Machine with the mark that starts the update, and goes with the mark. On an old MachineSet the same
//! annotations say it of the machines that it hands over.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use windlass_api::hooks::requirement;
use windlass_api::names::{
    IN_PLACE_AFFECTS_AVAILABILITY_ANNOTATION, IN_PLACE_DRAIN_ANNOTATION, IN_PLACE_VOLUME_DETACH_ANNOTATION,
};

/// What has to be done before a machine is updated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Requirement {
    /// Its Node is cordoned and drained.
    Drain,
    /// No volume is attached to its Node any more. Its Node is drained before: a volume in use is not detached.
    VolumeDetach,
}

/// What an update does to a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Effect {
    /// Whether the machine is out of service while it is updated.
    pub affects_availability: bool,
    /// What has to be done before.
    pub requirements: BTreeSet<Requirement>,
}

impl Default for Effect {
    /// Of an update that nothing is said about: the machine is out of service, and may be as it is.
    fn default() -> Self {
        Self { affects_availability: true, requirements: BTreeSet::new() }
    }
}

impl Requirement {
    /// All that there are.
    pub const ALL: [Self; 2] = [Self::Drain, Self::VolumeDetach];

    /// As answers have it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Drain => requirement::DRAIN,
            Self::VolumeDetach => requirement::VOLUME_DETACH,
        }
    }

    pub(super) fn of(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|requirement| requirement.as_str() == name)
    }

    /// The annotation of a Machine that it is written down in.
    pub fn annotation(self) -> &'static str {
        match self {
            Self::Drain => IN_PLACE_DRAIN_ANNOTATION,
            Self::VolumeDetach => IN_PLACE_VOLUME_DETACH_ANNOTATION,
        }
    }
}

impl Effect {
    /// All annotations that an effect is written down in.
    pub const ANNOTATIONS: [&'static str; 3] = [
        IN_PLACE_AFFECTS_AVAILABILITY_ANNOTATION,
        IN_PLACE_DRAIN_ANNOTATION,
        IN_PLACE_VOLUME_DETACH_ANNOTATION,
    ];

    /// What several updates of one machine do together.
    pub(super) fn and(&self, other: &Self) -> Self {
        Self {
            affects_availability: self.affects_availability || other.affects_availability,
            requirements: self.requirements.union(&other.requirements).copied().collect(),
        }
    }

    /// Whether the machine is out of service: a drained Node serves nothing.
    pub fn takes_out_of_service(&self) -> bool {
        self.affects_availability || !self.requirements.is_empty()
    }

    /// The annotations that it is written down in; none where nothing is special.
    pub fn annotations(&self) -> BTreeMap<&'static str, &'static str> {
        let harmless =
            (!self.takes_out_of_service()).then_some((IN_PLACE_AFFECTS_AVAILABILITY_ANNOTATION, "false"));
        let requirements = self.requirements.iter().map(|requirement| (requirement.annotation(), ""));
        harmless.into_iter().chain(requirements).collect()
    }

    /// Reads it from the annotations of a Machine or a MachineSet.
    pub fn written_in(annotations: Option<&BTreeMap<String, String>>) -> Self {
        let value = |key: &str| annotations.and_then(|annotations| annotations.get(key)).map(String::as_str);
        Self {
            affects_availability: value(IN_PLACE_AFFECTS_AVAILABILITY_ANNOTATION) != Some("false"),
            requirements: Requirement::ALL
                .into_iter()
                .filter(|requirement| value(requirement.annotation()).is_some())
                .collect(),
        }
    }
}

impl fmt::Display for Requirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Display for Effect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let before: Vec<&str> = self.requirements.iter().map(|requirement| requirement.as_str()).collect();
        match (self.takes_out_of_service(), before.is_empty()) {
            (false, _) => f.write_str("does not affect availability"),
            (true, true) => f.write_str("affects availability"),
            (true, false) => write!(f, "affects availability, asks for {} before", before.join(" and ")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn effect(affects_availability: bool, requirements: &[Requirement]) -> Effect {
        Effect { affects_availability, requirements: requirements.iter().copied().collect() }
    }

    #[test]
    fn what_is_written_down_is_read_again() {
        let both = [Requirement::Drain, Requirement::VolumeDetach];
        for (effect, annotations) in [
            (effect(true, &[]), 0),
            (effect(false, &[]), 1),
            (effect(true, &both[..1]), 1),
            (effect(true, &both), 2),
        ] {
            let written: BTreeMap<String, String> = effect
                .annotations()
                .into_iter()
                .map(|(key, value)| (key.to_owned(), value.to_owned()))
                .collect();
            assert_eq!(written.len(), annotations, "{written:?}");
            assert!(written.keys().all(|key| Effect::ANNOTATIONS.contains(&key.as_str())));
            assert_eq!(Effect::written_in(Some(&written)), effect);
        }
        assert_eq!(Effect::written_in(None), Effect::default());
    }

    #[test]
    fn a_machine_is_in_service_only_if_all_say_so_and_none_wants_a_drain() {
        let (harmless, usual) = (effect(false, &[]), Effect::default());
        let drain = effect(false, &[Requirement::Drain]);
        assert!(!harmless.and(&harmless).takes_out_of_service());
        assert!(harmless.and(&usual).takes_out_of_service());
        assert!(harmless.and(&drain).takes_out_of_service());
        assert_eq!(drain.to_string(), "affects availability, asks for Drain before");
        assert_eq!(harmless.to_string(), "does not affect availability");
    }
}
