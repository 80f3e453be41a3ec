//! What happens to versions, write by write, and the rules of an upgrade that must hold after each.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use kube::ResourceExt;
use windlass_api::cluster::{Machine, MachineDeployment, MachinePool};
use windlass_api::control_plane::KubeadmControlPlane;
use windlass_api::names::{
    CLUSTER_NAME_LABEL, CONTROL_PLANE_LABEL, REMEDIATE_MACHINE_ANNOTATION, TOPOLOGY_DEPLOYMENT_NAME_LABEL,
    TOPOLOGY_POOL_NAME_LABEL,
};
use windlass_version::{Version, check_control_plane_step, kubelet_skew};

use crate::extension::{HookRecord, SimulatedExtension};
use crate::recorder::{Observer, Written};

/// Follows the clusters of a world. Cheap to clone; all clones are one.
///
/// It knows the objects only: nothing of the planner and of the controllers, which it checks. After every write,
/// of every cluster:
///
/// - no kubelet is ahead of an API server, or further behind than the skew policy allows, and neither is the version
///   that a worker group is given;
/// - the control plane is never given a version that skips a minor, and its machines are never two minors apart;
/// - no more machines are created for a version than there are to be of them and are to be remediated: none is replaced twice.
#[derive(Clone)]
pub struct Chronicle {
    courses: Arc<Mutex<BTreeMap<String, Course>>>,
    counts_machines: bool,
}

impl Default for Chronicle {
    fn default() -> Self {
        Self::new()
    }
}

/// What happened to the version of a control plane or a worker group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Fact {
    /// The control plane has no name.
    pub(crate) part: Option<String>,
    /// The version before, when another was given; nothing, when it was reached.
    pub(crate) from: Option<String>,
    /// The version that was given or reached.
    pub(crate) to: String,
}

impl fmt::Display for Fact {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { part, from, to } = self;
        match from {
            Some(from) => write!(f, "{} {from} -> {to}", text(part)),
            None => write!(f, "{} at {to}", text(part)),
        }
    }
}

/// What is known of one cluster.
#[derive(Default)]
struct Course {
    /// The control plane under no name, worker groups under the names of their topology entries.
    parts: BTreeMap<Option<String>, Part>,
    machines: BTreeMap<String, Seen>,
    facts: Vec<(u64, Fact)>,
    most_moving: usize,
}

/// A control plane or a worker group.
#[derive(Default)]
struct Part {
    version: String,
    replicas: usize,
    /// How many machines were created since it was given its version.
    created: usize,
    /// How many of its machines were to be remediated since then.
    ill: usize,
    /// Whether it was given a version that not all of its machines have.
    moving: bool,
    /// The versions that it reports itself, with how many run each.
    reported: Vec<(String, usize)>,
    is_pool: bool,
}

struct Seen {
    group: Option<String>,
    version: String,
    kubelet: Option<String>,
    is_ill: bool,
}

impl Chronicle {
    /// Knows nothing yet: let it [observe](crate::World::observe) a world from its beginning.
    pub fn new() -> Self {
        Self { courses: Arc::default(), counts_machines: true }
    }

    /// The same, for clusters whose machines are replaced for other reasons than their version, too: those are not counted.
    pub(crate) fn of_any_change() -> Self {
        Self { counts_machines: false, ..Self::new() }
    }

    /// What happened to all clusters since the last time: the cluster, and the fact. What is known of them stays.
    pub(crate) fn take_facts(&self) -> Vec<(String, Fact)> {
        let mut all: Vec<(u64, String, Fact)> = Vec::new();
        for (cluster, course) in self.lock().iter_mut() {
            let facts = std::mem::take(&mut course.facts).into_iter();
            all.extend(facts.map(|(revision, fact)| (revision, cluster.clone(), fact)));
        }
        all.sort_by_key(|(revision, _, _)| *revision);
        all.into_iter().map(|(_, cluster, fact)| (cluster, fact)).collect()
    }

    /// Forgets what happened to a cluster, but not how it is.
    pub fn begin(&self, cluster: &str) {
        if let Some(course) = self.lock().get_mut(cluster) {
            course.facts.clear();
            course.most_moving = 0;
        }
    }

    /// What happened to the versions of a cluster: `a v1.30.0 -> v1.31.0` when it was decided, `a at v1.31.0` when all
    /// machines were there; `cp` is the control plane.
    pub fn facts(&self, cluster: &str) -> Vec<String> {
        let all = self.lock();
        all.get(cluster)
            .map(|course| course.facts.iter().map(|(_, fact)| fact.to_string()).collect())
            .unwrap_or_default()
    }

    /// The same, with the hooks in between that an extension let pass, which must follow the same world. A hook that
    /// was called again is told once.
    pub fn story(&self, cluster: &str, extension: &SimulatedExtension) -> Vec<String> {
        self.story_since(0, cluster, extension, HookRecord::is_passed)
    }

    /// The same after a revision, with the calls of hooks that `is_told`.
    pub(crate) fn story_since(
        &self,
        since: u64,
        cluster: &str,
        extension: &SimulatedExtension,
        is_told: impl Fn(&HookRecord) -> bool,
    ) -> Vec<String> {
        let mut story: Vec<(u64, bool, String)> = self
            .lock()
            .get(cluster)
            .map(|course| course.facts.iter().map(|(at, fact)| (*at, false, fact.to_string())).collect())
            .unwrap_or_default();
        let calls = extension.calls();
        let passed = calls.iter().filter(|call| call.cluster == cluster && is_told(call));
        // A call that was made at a revision came after the write of that revision.
        story.extend(passed.map(|call| (call.revision, true, call.to_string())));
        story.retain(|(revision, _, _)| *revision >= since);
        story.sort_by_key(|(revision, is_call, _)| (*revision, *is_call));
        let mut told: Vec<String> = Vec::new();
        for (_, is_call, entry) in story {
            if !is_call || !told.contains(&entry) {
                told.push(entry);
            }
        }
        told
    }

    /// How many worker groups were on their way at the same time, at most.
    pub fn most_moving(&self, cluster: &str) -> usize {
        self.lock().get(cluster).map_or(0, |course| course.most_moving)
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Course>> {
        self.courses.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Observer for Chronicle {
    fn observe(&mut self, written: &Written<'_>) -> Result<(), String> {
        if let Some(found) = written.object::<KubeadmControlPlane>() {
            let reported = found.status.versions.iter().map(|entry| (entry.version.clone(), entry.replicas));
            let given = Given {
                name: None,
                version: &found.spec.version,
                replicas: found.spec.replicas,
                reported: reported.map(|(version, replicas)| (version, count(replicas))).collect(),
                is_pool: false,
            };
            self.with(&found, |course| course.part(given, written))
        } else if let Some(found) = written.object::<MachineDeployment>() {
            let Some(name) = found.labels().get(TOPOLOGY_DEPLOYMENT_NAME_LABEL).cloned() else {
                return Ok(());
            };
            let given = Given {
                name: Some(name),
                version: &found.spec.template.spec.version,
                replicas: found.spec.replicas,
                reported: Vec::new(),
                is_pool: false,
            };
            self.with(&found, |course| course.part(given, written))
        } else if let Some(found) = written.object::<MachinePool>() {
            let Some(name) = found.labels().get(TOPOLOGY_POOL_NAME_LABEL).cloned() else { return Ok(()) };
            let reported = found.status.versions.iter().map(|entry| (entry.version.clone(), entry.replicas));
            let given = Given {
                name: Some(name),
                version: &found.spec.template.spec.version,
                replicas: found.spec.replicas,
                reported: reported.map(|(version, replicas)| (version, count(replicas))).collect(),
                is_pool: true,
            };
            self.with(&found, |course| course.part(given, written))
        } else if let Some(found) = written.object::<Machine>() {
            let counts = self.counts_machines;
            self.with(&found, |course| course.machine(&found, written, counts))
        } else {
            Ok(())
        }
    }
}

/// What an object says about a part.
struct Given<'a> {
    name: Option<String>,
    version: &'a str,
    replicas: Option<i32>,
    reported: Vec<(String, usize)>,
    is_pool: bool,
}

impl Chronicle {
    fn with<K: kube::Resource>(
        &self,
        object: &K,
        take: impl FnOnce(&mut Course) -> Result<(), String>,
    ) -> Result<(), String> {
        let Some(cluster) = object.labels().get(CLUSTER_NAME_LABEL) else { return Ok(()) };
        let mut all = self.lock();
        let course = all.entry(cluster.clone()).or_default();
        take(course).and_then(|()| course.check()).map_err(|rule| format!("{cluster}: {rule}"))
    }
}

impl Course {
    fn part(&mut self, given: Given<'_>, written: &Written<'_>) -> Result<(), String> {
        let Given { name, version, replicas, reported, is_pool } = given;
        if written.is_deletion() {
            self.parts.remove(&name);
            return Ok(());
        }
        let part = self.parts.entry(name.clone()).or_default();
        part.replicas = count(replicas);
        part.reported = reported;
        part.is_pool = is_pool;
        if part.version != version {
            let before = std::mem::replace(&mut part.version, version.to_owned());
            (part.created, part.ill, part.moving) = (0, 0, true);
            if !before.is_empty() {
                let fact = Fact { part: name.clone(), from: Some(before.clone()), to: version.to_owned() };
                self.facts.push((written.revision(), fact));
                if name.is_none() {
                    self.check_step(&before, version)?;
                }
            }
        }
        self.settle(&name, written.revision());
        let moving = self.parts.iter().filter(|(name, part)| name.is_some() && part.moving).count();
        self.most_moving = self.most_moving.max(moving);
        Ok(())
    }

    fn machine(&mut self, machine: &Machine, written: &Written<'_>, counts: bool) -> Result<(), String> {
        let labels = machine.labels();
        let group = match labels.contains_key(CONTROL_PLANE_LABEL) {
            true => None,
            false => labels.get(TOPOLOGY_DEPLOYMENT_NAME_LABEL).cloned(),
        };
        if written.is_deletion() {
            self.machines.remove(&machine.name_any());
        } else {
            let kubelet = machine.status.node_info.as_ref().map(|info| info.kubelet_version.clone());
            let is_ill = machine.annotations().contains_key(REMEDIATE_MACHINE_ANNOTATION);
            let seen = Seen { group: group.clone(), version: machine.spec.version.clone(), kubelet, is_ill };
            let before = self.machines.insert(machine.name_any(), seen);
            if let Some(part) = self.parts.get_mut(&group) {
                part.created += usize::from(before.is_none());
                part.ill += usize::from(is_ill && before.is_none_or(|before| !before.is_ill));
                if counts && part.created > part.replicas + part.ill {
                    return Err(format!(
                        "{} machines were created for {} machines of {} at {}",
                        part.created,
                        part.replicas,
                        text(&group),
                        part.version
                    ));
                }
            }
        }
        self.settle(&group, written.revision());
        Ok(())
    }

    /// Notes that all machines of a part have its version, if they do for the first time.
    fn settle(&mut self, name: &Option<String>, revision: u64) {
        let Some(part) = self.parts.get_mut(name).filter(|part| part.moving) else { return };
        let version = &part.version;
        let is_there = if name.is_none() || part.is_pool {
            let running: usize = part.reported.iter().map(|(_, replicas)| replicas).sum();
            part.reported.iter().all(|(reported, _)| reported == version) && running == part.replicas
        } else {
            let mut machines = self.machines.values().filter(|seen| seen.group == *name);
            machines.clone().count() == part.replicas
                && machines.all(|seen| seen.version == *version && seen.kubelet.as_ref() == Some(version))
        };
        if is_there {
            let fact = Fact { part: name.clone(), from: None, to: version.clone() };
            part.moving = false;
            self.facts.push((revision, fact));
        }
    }

    /// A step of the control plane goes from what its machines run: a version that none of them came up with is left in any
    /// direction.
    fn check_step(&self, before: &str, to: &str) -> Result<(), String> {
        let machines = self.machines.values().filter(|seen| seen.group.is_none());
        let running: Vec<&str> = machines.filter_map(|seen| seen.kubelet.as_deref()).collect();
        let is_there = |version: &str| running.contains(&version);
        let from = if is_there(before) { before } else { running.first().copied().unwrap_or(before) };
        if from == to {
            return Ok(());
        }
        check_control_plane_step(&parse(from)?, &parse(to)?).map_err(|violation| violation.to_string())
    }

    fn check(&self) -> Result<(), String> {
        let mut api_servers = Vec::new();
        for (name, seen) in self.machines.iter().filter(|(_, seen)| seen.group.is_none()) {
            if let Some(kubelet) = &seen.kubelet {
                api_servers.push((name.as_str(), parse(kubelet)?));
            }
        }
        for (one, a) in &api_servers {
            for (other, b) in &api_servers {
                if a.minor().minor.abs_diff(b.minor().minor) > 1 {
                    return Err(format!("API servers are two minors apart: {one} has {a}, {other} has {b}"));
                }
            }
        }
        let mut kubelets = Vec::new();
        for (name, seen) in self.machines.iter().filter(|(_, seen)| seen.group.is_some()) {
            if let Some(kubelet) = &seen.kubelet {
                kubelets.push((name.clone(), parse(kubelet)?));
            }
        }
        for (name, part) in self.parts.iter().filter(|(_, part)| part.is_pool) {
            for (version, _) in &part.reported {
                kubelets.push((format!("pool {}", text(name)), parse(version)?));
            }
        }
        for (name, kubelet) in &kubelets {
            for (server, api_server) in &api_servers {
                kubelet_skew(api_server, kubelet).map_err(|rule| format!("{name} under {server}: {rule}"))?;
            }
        }
        let Some(control_plane) = self.parts.get(&None) else { return Ok(()) };
        let control_plane = parse(&control_plane.version)?;
        for (name, part) in self.parts.iter().filter(|(name, _)| name.is_some()) {
            let given = parse(&part.version)?;
            kubelet_skew(&control_plane, &given).map_err(|rule| format!("{}: {rule}", text(name)))?;
        }
        Ok(())
    }
}

fn text(name: &Option<String>) -> &str {
    name.as_deref().unwrap_or("cp")
}

fn count(replicas: Option<i32>) -> usize {
    replicas.and_then(|replicas| usize::try_from(replicas).ok()).unwrap_or_default()
}

fn parse(version: &str) -> Result<Version, String> {
    Version::parse(version).map_err(|error| error.to_string())
}
