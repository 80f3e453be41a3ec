//! Which controllers run.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

/// A controller that can be run or left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Controller {
    /// Clusters of a class, and the classes.
    Topology,
    /// ExtensionConfigs, and with them which handlers there are.
    ExtensionConfig,
    /// Clusters.
    Cluster,
    /// KubeadmControlPlanes.
    KubeadmControlPlane,
    /// KubeadmConfigs.
    KubeadmConfig,
    /// MachineDeployments.
    MachineDeployment,
    /// MachineSets.
    MachineSet,
    /// Machines.
    Machine,
    /// MachinePools.
    MachinePool,
    /// MachineHealthChecks.
    MachineHealthCheck,
    /// ClusterResourceSets.
    ClusterResourceSet,
}

impl Controller {
    /// All of them.
    pub const ALL: [Self; 11] = [
        Self::Topology,
        Self::ExtensionConfig,
        Self::Cluster,
        Self::KubeadmControlPlane,
        Self::KubeadmConfig,
        Self::MachineDeployment,
        Self::MachineSet,
        Self::Machine,
        Self::MachinePool,
        Self::MachineHealthCheck,
        Self::ClusterResourceSet,
    ];

    /// What users call it, which is also its name in logs and metrics.
    pub fn name(self) -> &'static str {
        match self {
            Self::Topology => "topology",
            Self::ExtensionConfig => "extensionconfig",
            Self::Cluster => "cluster",
            Self::KubeadmControlPlane => "kubeadmcontrolplane",
            Self::KubeadmConfig => "kubeadmconfig",
            Self::MachineDeployment => "machinedeployment",
            Self::MachineSet => "machineset",
            Self::Machine => "machine",
            Self::MachinePool => "machinepool",
            Self::MachineHealthCheck => "machinehealthcheck",
            Self::ClusterResourceSet => "clusterresourceset",
        }
    }
}

impl fmt::Display for Controller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Controller {
    type Err = SelectionError;

    fn from_str(text: &str) -> Result<Self, SelectionError> {
        let found = Self::ALL.into_iter().find(|controller| controller.name().eq_ignore_ascii_case(text));
        found.ok_or_else(|| SelectionError::Unknown { name: text.to_owned() })
    }
}

/// Which controllers run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selection(BTreeSet<Controller>);

/// Why a selection makes no sense.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SelectionError {
    /// There is no such controller.
    #[error("there is no controller {name:?}; there are {}", all_names())]
    Unknown {
        /// What was given.
        name: String,
    },
    /// Names of those that run and of those that do not, in one list without `*`.
    #[error("{name:?} leaves a controller out, but the list names those that run: begin it with *")]
    Mixed {
        /// The name that leaves one out.
        name: String,
    },
    /// Handlers would never be discovered.
    #[error("topology needs extensionconfig in the same process, which tells it what handlers there are")]
    TopologyAlone,
    /// Nothing is left.
    #[error("no controller is left to run")]
    Empty,
}

fn all_names() -> String {
    Controller::ALL.map(Controller::name).join(", ")
}

impl Selection {
    /// All controllers.
    pub fn all() -> Self {
        Self(Controller::ALL.into())
    }

    /// These controllers.
    pub fn of(controllers: impl IntoIterator<Item = Controller>) -> Self {
        Self(controllers.into_iter().collect())
    }

    /// From names: those that run; or `*` and, with a minus before them, those that do not.
    ///
    /// # Errors
    ///
    /// When a name is not known, or what is selected cannot run.
    pub fn from_names<T: AsRef<str>>(names: impl IntoIterator<Item = T>) -> Result<Self, SelectionError> {
        let names: Vec<String> = names.into_iter().map(|name| name.as_ref().trim().to_owned()).collect();
        let from_all = names.iter().any(|name| name == "*");
        let mut selected: BTreeSet<Controller> =
            if from_all { Controller::ALL.into() } else { BTreeSet::new() };
        for name in names.iter().filter(|name| *name != "*" && !name.is_empty()) {
            match name.strip_prefix('-') {
                Some(_) if !from_all => return Err(SelectionError::Mixed { name: name.clone() }),
                Some(left_out) => drop(selected.remove(&left_out.parse()?)),
                None => drop(selected.insert(name.parse()?)),
            }
        }
        let has = |controller| selected.contains(&controller);
        match () {
            () if selected.is_empty() => Err(SelectionError::Empty),
            () if has(Controller::Topology) && !has(Controller::ExtensionConfig) => {
                Err(SelectionError::TopologyAlone)
            }
            () => Ok(Self(selected)),
        }
    }

    /// What users call those that run.
    pub fn names(&self) -> Vec<&'static str> {
        self.0.iter().map(|controller| controller.name()).collect()
    }

    /// Whether a controller runs.
    pub fn has(&self, controller: Controller) -> bool {
        self.0.contains(&controller)
    }

    /// Those that run.
    pub fn iter(&self) -> impl Iterator<Item = Controller> + '_ {
        self.0.iter().copied()
    }
}

impl Default for Selection {
    fn default() -> Self {
        Self::all()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn selected(text: &str) -> Result<Vec<&'static str>, String> {
        match Selection::from_names(text.split(',')) {
            Ok(selection) => Ok(selection.iter().map(Controller::name).collect()),
            Err(error) => Err(error.to_string()),
        }
    }

    #[test]
    fn a_list_names_those_that_run_or_leaves_some_out() {
        assert_eq!(selected("machine, MachineSet"), Ok(vec!["machineset", "machine"]));
        assert_eq!(selected("*"), Ok(Controller::ALL.map(Controller::name).to_vec()));
        let without = selected("*,-topology,-machinepool").unwrap();
        assert_eq!(without.len(), Controller::ALL.len() - 2);
        assert!(!without.contains(&"topology") && !without.contains(&"machinepool"), "{without:?}");
        assert_eq!(selected("*,-extensionconfig,-topology").unwrap().len(), Controller::ALL.len() - 2);
    }

    #[test]
    fn what_cannot_run_is_refused() {
        for (text, says) in [
            ("machines", "there is no controller \"machines\"; there are topology, "),
            ("machine,-topology", "begin it with *"),
            ("topology", "topology needs extensionconfig"),
            ("*,-extensionconfig", "topology needs extensionconfig"),
            ("", "no controller is left"),
        ] {
            let error = selected(text).unwrap_err();
            assert!(error.contains(says), "{text}: {error}");
        }
    }
}
