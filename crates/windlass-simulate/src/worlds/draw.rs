//! Draws tales.

use std::fmt;

use serde_json::{Value, json};
use windlass_api::names::{
    DEFER_UPGRADE_ANNOTATION, HOLD_ANNOTATION, HOLD_UPGRADE_SEQUENCE_ANNOTATION, PIN_ANNOTATION,
    ROLLOUT_FALLBACK_ANNOTATION, ROLLOUT_STRATEGY_ANNOTATION,
};
use windlass_random::{Generator, mix};
use windlass_runtime::Trouble;

use super::mutate::mutation;
use crate::script::{Action, Script};

/// The Cluster of a tale.
pub(super) const CLUSTER: &str = "w";
/// The external updater of a tale.
pub(super) const EXTERNAL_UPDATER: &str = "site";
/// What the user of a tale has written besides the Cluster: words of stories, kinds and names.
pub(super) const WRITTEN: [(&str, &str, &str); 5] = [
    ("clusterclass", "ClusterClass", "quick"),
    ("kubeadmcontrolplanetemplate", "KubeadmControlPlaneTemplate", "quick"),
    ("kubeadmconfigtemplate", "KubeadmConfigTemplate", "quick-worker"),
    ("devmachinetemplate", "DevMachineTemplate", "quick-worker"),
    ("devmachinetemplate", "DevMachineTemplate", "quick-control-plane"),
];

/// What a line is there for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Without it there is no tale.
    Setting,
    /// What the user or an extension does.
    Act,
    /// What goes wrong: an end without it is the same.
    Fault,
    /// Everything is repaired, so that the tale can end.
    Mending,
}

/// A statement of a tale, with its block, and the time before it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// The words.
    pub text: String,
    /// What it is there for.
    pub role: Role,
}

/// A story that comes from a seed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tale {
    /// The seed, also that of the world.
    pub seed: u64,
    /// The story.
    pub lines: Vec<Line>,
    /// What may happen in it that rules have to know of.
    pub freedoms: Freedoms,
}

/// What rules have to know of a tale.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Freedoms {
    /// Whether machines are replaced for their version alone, so that those that are made can be counted.
    pub counts_machines: bool,
    /// Whether any field is changed, limits of rollouts and strategies among them.
    pub any_field: bool,
    /// Whether the user leaves the machines of the control plane alone.
    pub keeps_quorum: bool,
}

impl Tale {
    /// The tale of a seed.
    pub fn draw(seed: u64) -> Self {
        let mut draw = Draw {
            random: Generator::with_seed(mix(seed, &["tale"], 0)),
            setting: Generator::with_seed(mix(seed, &["setting"], 0)),
            tale: Self {
                seed,
                lines: Vec::new(),
                freedoms: Freedoms { counts_machines: true, any_field: false, keeps_quorum: true },
            },
            minors: Vec::new(),
            start: 0,
            control_plane: 1,
            can_lose_a_member: false,
            groups: Vec::new(),
            has_updater: false,
            created: String::new(),
            was_recreated: false,
        };
        draw.setting();
        let (acts, faults) = (draw.random.usize(1..=5), draw.random.usize(0..=4));
        // An upgrade is what it is all about: it comes first, and anything after it.
        draw.upgrade();
        let mut kinds: Vec<bool> =
            std::iter::repeat_n(true, acts).chain(std::iter::repeat_n(false, faults)).collect();
        draw.random.shuffle(&mut kinds);
        for is_act in kinds {
            if is_act { draw.act() } else { draw.fault() }
        }
        draw.mending();
        draw.tale
    }

    /// The same without anything that goes wrong.
    #[must_use]
    pub fn without_faults(&self) -> Self {
        let lines = self.lines.iter().filter(|line| line.role != Role::Fault).cloned().collect();
        Self { lines, ..self.clone() }
    }

    /// The line of the story at which the first of these begins; beyond its end, if there is none.
    pub(super) fn first_line(&self, role: Role) -> usize {
        let before = self.lines.iter().take_while(|line| line.role != role);
        // The story begins with its title.
        2 + before.map(|line| line.text.lines().count()).sum::<usize>()
    }

    /// Whether anything goes wrong in it.
    pub fn has_faults(&self) -> bool {
        self.lines.iter().any(|line| line.role == Role::Fault)
    }
}

impl fmt::Display for Tale {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "# World {}", self.seed)?;
        self.lines.iter().try_for_each(|line| writeln!(f, "{}", line.text))
    }
}

struct Group {
    name: String,
    is_pool: bool,
    is_external: bool,
}

struct Draw {
    random: Generator,
    /// For what is rare in a setting: topologies stay as they were when something rare is added to them.
    setting: Generator,
    tale: Tale,
    /// The versions of the class, one per minor.
    minors: Vec<String>,
    /// Which of them the Cluster begins with.
    start: usize,
    control_plane: u32,
    /// Whether it has had three machines from the beginning, and none of them was deleted: a control plane whose only machine is
    /// deleted is lost, and its etcd with it.
    can_lose_a_member: bool,
    groups: Vec<Group>,
    has_updater: bool,
    /// The statement that creates the Cluster.
    created: String,
    was_recreated: bool,
}

const HOOKS: [&str; 6] = [
    "BeforeClusterUpgrade",
    "BeforeControlPlaneUpgrade",
    "AfterControlPlaneUpgrade",
    "BeforeWorkersUpgrade",
    "AfterWorkersUpgrade",
    "AfterClusterUpgrade",
];

impl Draw {
    fn say(&mut self, role: Role, text: String) {
        self.tale.lines.push(Line { text, role });
    }

    /// True so many times of a hundred.
    fn chance(&mut self, percent: u8) -> bool {
        self.random.u8(0..100) < percent
    }

    fn pick<'a, T: ?Sized>(&mut self, from: &[&'a T]) -> &'a T {
        from[self.random.usize(0..from.len())]
    }

    fn version(&mut self) -> String {
        let index = self.random.usize(0..self.minors.len());
        self.minors[index].clone()
    }

    /// A group that is no pool, if there is one.
    fn deployment(&mut self) -> Option<String> {
        let names: Vec<&str> =
            self.groups.iter().filter(|group| !group.is_pool).map(|group| group.name.as_str()).collect();
        match names.is_empty() {
            true => None,
            false => Some(names[self.random.usize(0..names.len())].to_owned()),
        }
    }

    fn group(&mut self) -> Option<String> {
        match self.groups.is_empty() {
            true => None,
            false => Some(self.groups[self.random.usize(0..self.groups.len())].name.clone()),
        }
    }

    fn setting(&mut self) {
        let first = self.random.u32(24..=31);
        for minor in first..first + 6 {
            let patch = self.random.u32(0..=3);
            self.minors.push(format!("v1.{minor}.{patch}"));
            if self.setting.u8(0..100) < 15 {
                self.minors.push(format!("v1.{minor}.{}", patch + 1 + self.setting.u32(0..=9)));
            }
        }
        self.start = self.random.usize(0..3);
        // Most are small: what goes wrong in a small world is seen sooner, and more of them are seen.
        self.control_plane = if self.chance(10) { 3 } else { 1 };
        self.can_lose_a_member = self.control_plane == 3;
        let mut text = format!(
            "create cluster {CLUSTER} {}\n  control plane {}\n  versions {}\n  machines take {}s",
            self.minors[self.start],
            self.control_plane,
            self.minors.join(" "),
            self.random.u32(1..=40),
        );
        if self.chance(20) {
            text.push_str("\n  plan by extension");
        }
        let groups = [0, 1, 1, 1, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 3, 3, 4, 6];
        let groups = groups[self.random.usize(0..groups.len())];
        let groups = if groups == 6 && self.setting.bool() { 5 } else { groups };
        for number in 0..groups {
            let replicas = [0, 1, 1, 1, 1, 2];
            let (is_pool, replicas) = (self.chance(20), replicas[self.random.usize(0..replicas.len())]);
            let name = format!("{}{number}", if is_pool { "pool" } else { "md" });
            let word = if is_pool { "pool" } else { "workers" };
            text.push_str(&format!("\n  {word} {name} {replicas}"));
            if self.chance(8) {
                let marker = self.pick(&[DEFER_UPGRADE_ANNOTATION, HOLD_UPGRADE_SEQUENCE_ANNOTATION]);
                text.push_str(&format!("\n  annotation {marker}=yes"));
            }
            let is_external = !is_pool && self.setting.u8(0..100) < 12;
            if is_external {
                text.push_str(&format!("\n  annotation {ROLLOUT_STRATEGY_ANNOTATION}=External"));
                if self.setting.u8(0..100) < 30 {
                    text.push_str(&format!("\n  annotation {ROLLOUT_FALLBACK_ANNOTATION}=rolling"));
                }
            }
            self.groups.push(Group { name, is_pool, is_external });
        }
        self.created.clone_from(&text);
        self.say(Role::Setting, text);
        self.say(Role::Setting, format!("until {CLUSTER} is at {} within 6h", self.minors[self.start]));
        if self.chance(30) {
            self.has_updater = true;
            self.tale.freedoms.counts_machines = false;
            let covers = self.pick(&["everything", "machine.version", "nothing"]);
            self.say(Role::Setting, format!("updater patcher covers {covers}"));
            let seconds = self.random.u32(1..=60);
            self.say(Role::Setting, format!("updater patcher takes {seconds}s"));
        }
        if self.has_external() {
            let reply = self.external_reply();
            self.say(Role::Setting, reply);
        }
    }

    fn has_external(&self) -> bool {
        self.groups.iter().any(|group| group.is_external)
    }

    /// What the external updater answers from now on.
    fn external_reply(&mut self) -> String {
        let reply = self.pick(&[
            "accepts",
            "accepts",
            "accepts",
            "refuses \"not today\"",
            "fails \"out of order\"",
            "is silent",
        ]);
        format!("external updater {EXTERNAL_UPDATER} {reply}")
    }

    fn upgrade(&mut self) {
        let furthest = self.minors.len() - 1;
        let further = [1, 1, 1, 2, 2, 3];
        let further = further[self.random.usize(0..further.len())];
        let to = (self.start + further).min(furthest);
        let to = self.minors[to].clone();
        self.say(Role::Act, format!("try upgrade {CLUSTER} to {to}"));
        self.wait();
    }

    /// Lets time pass before the next thing happens: often while something is under way.
    fn wait(&mut self) {
        let seconds = match self.random.u8(0..4) {
            0 => self.random.u32(0..=3),
            1 => self.random.u32(1..=30),
            2 => self.random.u32(10..=120),
            _ => self.random.u32(60..=600),
        };
        self.say(Role::Act, format!("advance {seconds}s"));
    }

    /// Something that the user or an extension does.
    fn act(&mut self) {
        let act = match self.random.u8(0..20) {
            4 if self.chance(60) => None,
            0..=2 => {
                let to = self.version();
                Some(format!("try upgrade {CLUSTER} to {to}"))
            }
            3 => self.group().map(|group| {
                self.tale.freedoms.counts_machines = false;
                format!("try scale {CLUSTER}/{group} to {}", self.random.u32(0..=3))
            }),
            4 => {
                self.tale.freedoms.counts_machines = false;
                self.control_plane = if self.control_plane == 1 { 3 } else { 1 };
                self.can_lose_a_member = false;
                Some(format!("try scale {CLUSTER}/control-plane to {}", self.control_plane))
            }
            5 => self.deployment().map(|group| {
                self.tale.freedoms.counts_machines = false;
                let which = self.pick(&["newest", "oldest"]);
                format!("try delete {which} of {CLUSTER}/{group}")
            }),
            6 => self.group().map(|group| {
                let marker = self.pick(&[DEFER_UPGRADE_ANNOTATION, HOLD_UPGRADE_SEQUENCE_ANNOTATION]);
                format!("try annotate {CLUSTER}/{group} {marker}=yes")
            }),
            7 => Some(format!("try annotate {CLUSTER} {HOLD_ANNOTATION}=yes")),
            8 => {
                let version = self.version();
                self.group().map(|group| format!("try annotate {CLUSTER}/{group} {PIN_ANNOTATION}={version}"))
            }
            9 => {
                let (hook, seconds) = (self.pick(&HOOKS), self.random.u32(1..=300));
                Some(format!("hook {hook} blocks {seconds}s"))
            }
            10 => {
                let hook = self.pick(&HOOKS);
                Some(format!("hook {hook} answers failure \"not now\""))
            }
            11 => Some(format!(
                "try edit cluster/{CLUSTER}\n  spec: {{topology: {{controlPlane: {{metadata: {{labels: \
                 {{mood: m{}}}}}}}}}}}",
                self.random.u32(0..9)
            )),
            12 => Some(self.class_edit()),
            13 if self.has_external() => Some(self.external_reply()),
            14 | 15 if self.has_external() => {
                let how_many = self.pick(&["1 machine", "all machines"]);
                Some(format!("try external updater {EXTERNAL_UPDATER} updates {how_many}"))
            }
            13..=16 if !self.was_recreated => self.any_field(),
            17 if self.control_plane == 3 && self.chance(50) && self.can_lose_a_member => {
                self.can_lose_a_member = false;
                (self.tale.freedoms.counts_machines, self.tale.freedoms.keeps_quorum) = (false, false);
                let which = self.pick(&["newest", "oldest"]);
                Some(format!("try delete {which} of {CLUSTER}/control-plane"))
            }
            18 if !self.was_recreated && !self.tale.freedoms.any_field && self.chance(40) => {
                Some(self.recreation())
            }
            13..=18 => {
                let hook = self.pick(&HOOKS);
                Some(format!("hook {hook} blocks"))
            }
            _ => self.deployment().map(|group| {
                self.tale.freedoms.counts_machines = false;
                format!("try machine newest of {CLUSTER}/{group} is not ready")
            }),
        };
        if let Some(text) = act {
            self.say(Role::Act, text);
        }
        self.wait();
    }

    /// A new template for the machines of a class: all worker groups roll out.
    fn class_edit(&mut self) -> String {
        self.tale.freedoms.counts_machines = false;
        let taint = self.random.u32(0..99);
        format!(
            "try edit kubeadmconfigtemplate/quick-worker\n  spec: {{template: {{spec: {{preKubeadmCommands: [\"echo \
             {taint}\"]}}}}}}"
        )
    }

    /// Another value in any field of what the user has written, within its schema.
    fn any_field(&mut self) -> Option<String> {
        let objects = match Script::parse(&self.created).ok()?.statements.first()?.action.clone() {
            Action::Create(manifests) => manifests.objects(),
            _ => return None,
        };
        let (word, kind, name) = match self.chance(40) {
            true => ("cluster", "Cluster", CLUSTER),
            false => WRITTEN[self.random.usize(0..WRITTEN.len())],
        };
        let written = |object: &&Value| object["kind"] == kind && object["metadata"]["name"] == name;
        let present = objects.iter().find(written)?;
        let patch = mutation(kind, &present["spec"], &mut self.random)?;
        (self.tale.freedoms.counts_machines, self.tale.freedoms.any_field) = (false, true);
        Some(format!("try edit {word}/{name}\n  {}", json!({"spec": patch})))
    }

    /// The Cluster is deleted, and another one created under its name. What would keep it from going is taken back first.
    fn recreation(&mut self) -> String {
        self.was_recreated = true;
        self.tale.freedoms.counts_machines = false;
        format!(
            "trouble ends\nextension is up\ndelete cluster/{CLUSTER}\nuntil cluster/{CLUSTER} is gone within \
             6h\n{}\nuntil {CLUSTER}/control-plane is at {} within 6h",
            self.created, self.minors[self.start]
        )
    }

    /// Something that goes wrong.
    fn fault(&mut self) {
        let text = match self.random.u8(0..10) {
            0 => "crash".to_owned(),
            1..=2 => {
                let when = self.pick(&["before", "after"]);
                format!("try crash {when} write {} within 5m", self.random.u32(1..=40))
            }
            3 => "extension is down".to_owned(),
            4 => {
                let seconds = self.random.u32(1..=240);
                let way = self.pick(&["jumps", "is set back"]);
                format!("clock {way} {seconds}s")
            }
            _ => {
                let trouble = Trouble::ALL[self.random.usize(0..Trouble::ALL.len())];
                // A disk that is full lets nothing pass; conflicts come in storms.
                let full = trouble == Trouble::FailedWrites && self.chance(50);
                let percent = match trouble {
                    _ if full => 100,
                    Trouble::Conflicts if self.chance(30) => 95,
                    // Each takes the server away for some seconds.
                    Trouble::TornWrites => self.random.u32(2..=15),
                    _ => self.random.u32(5..=60),
                };
                format!("trouble {trouble} {percent}% for {}s", self.random.u32(5..=300))
            }
        };
        self.say(Role::Fault, text);
        self.wait();
    }

    /// Takes back everything that would keep the Cluster from where the user wants it.
    fn mending(&mut self) {
        let mut lines = vec!["trouble ends".to_owned(), "extension is up".to_owned()];
        lines.extend(HOOKS.map(|hook| format!("hook {hook} answers success")));
        lines.push(format!("try annotate {CLUSTER} {HOLD_ANNOTATION}-"));
        for group in &self.groups {
            let markers = [DEFER_UPGRADE_ANNOTATION, HOLD_UPGRADE_SEQUENCE_ANNOTATION, PIN_ANNOTATION];
            let markers = markers.map(|marker| format!("{marker}-")).join(" ");
            lines.push(format!("try annotate {CLUSTER}/{} {markers}", group.name));
        }
        if self.has_updater {
            lines.push("updater patcher recovers".to_owned());
        }
        if self.has_external() {
            lines.push(format!("external updater {EXTERNAL_UPDATER} accepts"));
        }
        for line in lines {
            self.say(Role::Mending, line);
        }
    }
}
