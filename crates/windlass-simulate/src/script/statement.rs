//! The statements of a story, as the parser leaves them to the interpreter.

use std::time::Duration;

use serde_json::Value;
use windlass_api::hooks::Hook;
use windlass_runtime::Trouble;

use crate::topology::TopologyManifests;

/// One line of a story, with its block.
#[derive(Debug, Clone, PartialEq)]
pub struct Statement {
    /// Its first line; the first line of a file is 1.
    pub line: usize,
    /// The lines as they are written, without comments.
    pub source: String,
    /// The comments above it, as they are written.
    pub comments: Vec<String>,
    /// Whether the story goes on if the statement is refused or its goal not reached (`try`).
    pub is_tried: bool,
    /// What it does.
    pub action: Action,
}

/// What a statement does.
#[derive(Debug, Clone, PartialEq)]
pub enum Action {
    /// Creates a cluster of a ClusterClass, with everything that it needs.
    Create(Box<TopologyManifests>),
    /// Applies manifests.
    Apply(Manifests),
    /// Merges a patch into an object.
    Edit {
        /// The object.
        object: ObjectName,
        /// The patch.
        patch: Value,
    },
    /// Gives a Cluster another version.
    Upgrade {
        /// Name of the Cluster.
        cluster: String,
        /// The version.
        to: String,
    },
    /// Sets annotations, or removes those without a value.
    Annotate {
        /// The object.
        object: Target,
        /// Names and values.
        annotations: Vec<(String, Option<String>)>,
    },
    /// Wants another number of machines.
    Scale {
        /// What is scaled.
        object: Target,
        /// How many.
        replicas: u32,
    },
    /// Deletes an object.
    Delete(ObjectName),
    /// Deletes a machine.
    DeleteMachine(MachineChoice),
    /// Lets time pass.
    Advance(Duration),
    /// Lets time pass until something is true.
    Until {
        /// What is waited for.
        goal: Goal,
        /// For how long at most.
        within: Duration,
    },
    /// Kills the controllers and starts them again.
    Crash(CrashPoint),
    /// Lets something go wrong now and then; nothing any more, if it does not say what.
    Trouble(Option<TroubleOrder>),
    /// Sets the time of day forward, or back.
    Clock {
        /// How far.
        by: Duration,
        /// Whether it is set back.
        is_back: bool,
    },
    /// Decides what the simulated extension answers a lifecycle hook.
    Hook {
        /// The hook.
        hook: Hook,
        /// What it answers.
        answer: HookAnswer,
    },
    /// The simulated extension does not answer at all, or does again.
    Extension {
        /// Whether it answers.
        is_up: bool,
    },
    /// An extension that updates machines in place.
    Updater {
        /// The name of its ExtensionConfig.
        name: String,
        /// What it is told.
        order: UpdaterOrder,
    },
    /// An extension that takes over whole updates (ExternalUpdate).
    ExternalUpdater {
        /// The name of its ExtensionConfig.
        name: String,
        /// What it is told.
        order: ExternalUpdaterOrder,
    },
    /// Decides what becomes of one machine.
    Machine {
        /// Which.
        which: MachineChoice,
        /// What becomes of it.
        fate: Fate,
    },
    /// Decides what becomes of all machines of a cluster that are not up yet.
    Machines {
        /// Name of the Cluster.
        cluster: String,
        /// What becomes of them.
        fate: Fate,
    },
    /// Shows a cluster as `windlass describe cluster` does.
    Describe(String),
    /// Shows machines.
    ListMachines(Option<Part>),
    /// Shows the hooks that were called since the last time.
    ListHooks,
    /// Shows the plan of an upgrade as `windlass plan` does.
    Plan {
        /// Name of the Cluster.
        cluster: String,
        /// The version.
        to: String,
    },
}

/// Manifests in the story or beside it.
#[derive(Debug, Clone, PartialEq)]
pub enum Manifests {
    /// Those of the block.
    Inline(Vec<Value>),
    /// A file; a path is relative to that of the story.
    File(String),
}

/// An object of the API.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObjectName {
    /// The kind, as the story's words were resolved.
    pub kind: &'static ObjectKind,
    /// `metadata.name`.
    pub name: String,
}

/// A kind that stories have a word for.
#[derive(Debug, PartialEq, Eq)]
pub struct ObjectKind {
    /// The word, and a shorter one.
    pub words: &'static [&'static str],
    /// Group and version.
    pub api_version: &'static str,
    /// The kind.
    pub kind: &'static str,
    /// Whether it is in a namespace.
    pub is_namespaced: bool,
}

/// What `annotate` and `scale` change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// An object.
    Object(ObjectName),
    /// A part of the topology of a Cluster.
    Part(Part),
}

/// A cluster, or a part of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    /// Name of the Cluster.
    pub cluster: String,
    /// A part of its topology, or all of it.
    pub group: Option<Group>,
}

/// A part of the topology of a Cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Group {
    /// The control plane.
    ControlPlane,
    /// A MachineDeployment or MachinePool of the topology.
    Workers(String),
}

/// What `until` waits for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Goal {
    /// All machines of a part have a version and are available; of a whole cluster, nothing else is open either.
    IsAt {
        /// The part.
        part: Part,
        /// The version.
        version: String,
    },
    /// At least so many machines have a version.
    Machines {
        /// The least number.
        count: usize,
        /// Of which part.
        part: Part,
        /// The version.
        version: String,
    },
    /// All machines of all clusters have a version.
    AllMachines {
        /// The version.
        version: String,
    },
    /// A condition of an object has a status.
    Condition {
        /// The object.
        object: ObjectName,
        /// The type of the condition.
        condition: String,
        /// The status; any, if it is only about what the condition says.
        status: Option<String>,
        /// What is in its reason or message.
        says: Option<String>,
    },
    /// An object does not exist any more.
    Gone(ObjectName),
    /// A hook is called.
    HookCalled {
        /// The hook.
        hook: Hook,
        /// How often from now on.
        times: usize,
    },
    /// Nothing is left to do, for anything.
    Idle,
}

/// When the controllers are killed. A write is waited for, for so long at most.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CrashPoint {
    /// Between two writes.
    Now,
    /// Instead of a write: the first from now on is number 1.
    Before(u64, Duration),
    /// Right after a write, before the writer learns of it.
    After(u64, Duration),
}

/// What goes wrong, how often and for how long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TroubleOrder {
    /// What.
    pub trouble: Trouble,
    /// How many of a hundred.
    pub percent: u8,
    /// For how long; without a time, until it is told to end.
    pub time: Option<Duration>,
}

/// What a lifecycle hook answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HookAnswer {
    /// Go on.
    Success,
    /// Wait: once for so long, or without a time until further notice.
    Blocks {
        /// How long.
        time: Option<Duration>,
        /// What it says.
        message: String,
    },
    /// It failed.
    Failure {
        /// What it says.
        message: String,
    },
}

/// What an in-place updater is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UpdaterOrder {
    /// It covers everything.
    CoversEverything,
    /// It covers these fields, each of an object and by its name in `spec`.
    Covers(Vec<(UpdatedObject, String)>),
    /// An update takes so long.
    Takes(Duration),
    /// Updates fail with this message.
    Fails(String),
    /// Updates fail no more.
    Recovers,
}

/// The objects of a machine that an updater may cover fields of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UpdatedObject {
    /// The Machine.
    Machine,
    /// The infrastructure machine.
    Infrastructure,
    /// The bootstrap config.
    Bootstrap,
}

/// What an external updater is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ExternalUpdaterOrder {
    /// It takes over.
    Accepts,
    /// It does not.
    Refuses(String),
    /// It fails.
    Fails(String),
    /// It does not answer.
    IsSilent,
    /// It brings so many machines that it took over to what is desired; all of them without a number.
    Updates(Option<usize>),
}

/// One machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MachineChoice {
    /// By its name.
    Name(String),
    /// The one that was created last.
    Newest(Part),
    /// The one that was created first.
    Oldest(Part),
}

/// What becomes of a machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fate {
    /// It is never provisioned.
    FailsToProvision(String),
    /// Its Node is not ready.
    IsNotReady(String),
    /// A pod on its Node does not end.
    DoesNotDrain,
    /// There is no image of this version.
    HasNoImage(String),
    /// Its Node takes so long to start.
    Takes(Duration),
    /// Nothing is wrong with it any more.
    Recovers,
}
