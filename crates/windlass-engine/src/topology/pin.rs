//! Versions that worker groups are kept at, as the entries of a topology have them.

use windlass_api::cluster::{MachineDeploymentTopology, MachinePoolTopology, TemplateMeta, Topology};
use windlass_api::names::{DEFER_UPGRADE_ANNOTATION, HOLD_UPGRADE_SEQUENCE_ANNOTATION, PIN_ANNOTATION};
use windlass_version::{ParseError, Version};

use super::observed::WorkerKind;

/// What an entry of a topology says about upgrades.
#[derive(Clone, Copy, Debug)]
pub struct Entry<'a> {
    /// MachineDeployment or MachinePool.
    pub kind: WorkerKind,
    /// Its place in its list, counted from 0.
    pub index: usize,
    /// `name` of the entry, by which messages refer to it.
    pub name: &'a str,
    /// Its labels and annotations.
    pub metadata: &'a TemplateMeta,
    version: &'a str,
}

/// The pins of a topology as they are written, for messages: `MachineDeployment md-0 v1.31.0`.
pub fn written(topology: &Topology) -> Vec<String> {
    let pinned = |entry: &Entry<'_>| {
        let pins = entry.written_pins();
        pins.first().map(|pin| format!("{} {} {}", entry.kind, entry.name, pin.version))
    };
    Entry::all(topology).iter().filter_map(pinned).collect()
}

/// Takes the pins of a topology away.
pub fn clear(topology: &mut Topology) {
    let workers = &mut topology.workers;
    for entry in &mut workers.machine_deployments {
        entry.version.clear();
        entry.metadata.annotations.remove(PIN_ANNOTATION);
    }
    for entry in &mut workers.machine_pools {
        entry.version.clear();
        entry.metadata.annotations.remove(PIN_ANNOTATION);
    }
}

/// A pin as it is written: the field, or the annotation where the CRD does not have the field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WrittenPin<'a> {
    /// The version.
    pub version: &'a str,
    /// The field or annotation, below the entry.
    pub field: String,
}

impl<'a> Entry<'a> {
    /// The entries of a topology, MachineDeployments first.
    pub fn all(topology: &'a Topology) -> Vec<Self> {
        let deployments = topology.workers.machine_deployments.iter().enumerate();
        let pools = topology.workers.machine_pools.iter().enumerate();
        deployments.map(Self::of_deployment).chain(pools.map(Self::of_pool)).collect()
    }

    fn of_deployment((index, entry): (usize, &'a MachineDeploymentTopology)) -> Self {
        let kind = WorkerKind::MachineDeployment;
        Self { kind, index, name: &entry.name, metadata: &entry.metadata, version: &entry.version }
    }

    fn of_pool((index, entry): (usize, &'a MachinePoolTopology)) -> Self {
        let kind = WorkerKind::MachinePool;
        Self { kind, index, name: &entry.name, metadata: &entry.metadata, version: &entry.version }
    }

    /// Whether the entry asks to be left out of the upgrade for now.
    pub fn defers(&self) -> bool {
        self.metadata.annotations.contains_key(DEFER_UPGRADE_ANNOTATION)
    }

    /// Whether the entry asks that neither it nor any later entry upgrades for now.
    pub fn holds(&self) -> bool {
        self.metadata.annotations.contains_key(HOLD_UPGRADE_SEQUENCE_ANNOTATION)
    }

    /// The field of the entry, for messages.
    pub fn field(&self) -> String {
        format!("spec.topology.workers.{}s[{}]", self.kind.field(), self.index)
    }

    /// The pins that are written, the one that counts first.
    pub fn written_pins(&self) -> Vec<WrittenPin<'a>> {
        let field = (!self.version.is_empty())
            .then(|| WrittenPin { version: self.version, field: "version".to_owned() });
        let annotation = self.metadata.annotations.get(PIN_ANNOTATION);
        let annotation = annotation
            .map(|version| WrittenPin { version, field: format!("metadata.annotations[{PIN_ANNOTATION}]") });
        field.into_iter().chain(annotation).collect()
    }

    /// The version that the group is kept at.
    ///
    /// # Errors
    ///
    /// When what is written is no version.
    pub fn pin(&self) -> Result<Option<Version>, ParseError> {
        self.written_pins().first().map(|pin| Version::parse(pin.version)).transpose()
    }
}
