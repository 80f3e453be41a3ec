//! What was done, as the events of a Cluster tell it: nothing else remembers the steps of an upgrade that are over.

use jiff::Timestamp;

/// A part of a Cluster was given another version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VersionChange {
    /// Kind of the part.
    pub kind: String,
    /// Name of the part.
    pub name: String,
    /// The version before.
    pub from: String,
    /// The version that it was given.
    pub to: String,
    /// When.
    pub at: Timestamp,
}

impl VersionChange {
    /// Reads the message of an event of a Cluster, if it tells of a change of version: `Updated KIND NAME with version
    /// change from A to B`. Kind and name may also be separated by a slash, and in quotes.
    pub fn read(message: &str, at: Timestamp) -> Option<Self> {
        let (object, versions) = message.split_once(" with version change from ")?;
        let object = object.strip_prefix("Updated ")?.trim_matches('"');
        let (kind, name) = object.split_once([' ', '/'])?;
        let (from, to) = versions.split_once(" to ")?;
        let text = |text: &str| text.trim().to_owned();
        Some(Self { kind: text(kind), name: text(name), from: text(from), to: text(to), at })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_of_events_tell_who_went_from_where_to_where() {
        let at = Timestamp::UNIX_EPOCH;
        let change = VersionChange {
            kind: "MachineDeployment".to_owned(),
            name: "c1-a".to_owned(),
            from: "v1.29.0".to_owned(),
            to: "v1.32.0".to_owned(),
            at,
        };
        for message in [
            "Updated MachineDeployment c1-a with version change from v1.29.0 to v1.32.0",
            "Updated \"MachineDeployment/c1-a\" with version change from v1.29.0 to v1.32.0",
        ] {
            assert_eq!(VersionChange::read(message, at), Some(change.clone()), "{message}");
        }
        for message in ["", "Updated MachineDeployment c1-a", "Created KubeadmControlPlane c1-x"] {
            assert_eq!(VersionChange::read(message, at), None, "{message}");
        }
    }
}
