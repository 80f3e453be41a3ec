//! Draws tales.

use std::fmt;

use windlass_api::names::{
    DEFER_UPGRADE_ANNOTATION, HOLD_ANNOTATION, HOLD_UPGRADE_SEQUENCE_ANNOTATION, PIN_ANNOTATION,
};
use windlass_random::{Generator, mix};
use windlass_runtime::Trouble;

/// The Cluster of a tale.
pub(super) const CLUSTER: &str = "w";

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
    /// Whether machines are replaced for their version alone, so that those that are made can be counted.
    pub counts_machines: bool,
}

impl Tale {
    /// The tale of a seed.
    pub fn draw(seed: u64) -> Self {
        let mut draw = Draw {
            random: Generator::with_seed(mix(seed, &["tale"], 0)),
            tale: Self { seed, lines: Vec::new(), counts_machines: true },
            minors: Vec::new(),
            start: 0,
            control_plane: 1,
            groups: Vec::new(),
            has_updater: false,
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
}

struct Draw {
    random: Generator,
    tale: Tale,
    /// The versions of the class, one per minor.
    minors: Vec<String>,
    /// Which of them the Cluster begins with.
    start: usize,
    control_plane: u32,
    groups: Vec<Group>,
    has_updater: bool,
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
        }
        self.start = self.random.usize(0..3);
        // Most are small: what goes wrong in a small world is seen sooner, and more of them are seen.
        self.control_plane = if self.chance(10) { 3 } else { 1 };
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
            self.groups.push(Group { name, is_pool });
        }
        self.say(Role::Setting, text);
        self.say(Role::Setting, format!("until {CLUSTER} is at {} within 6h", self.minors[self.start]));
        if self.chance(30) {
            self.has_updater = true;
            self.tale.counts_machines = false;
            let covers = self.pick(&["everything", "machine.version", "nothing"]);
            self.say(Role::Setting, format!("updater patcher covers {covers}"));
            let seconds = self.random.u32(1..=60);
            self.say(Role::Setting, format!("updater patcher takes {seconds}s"));
        }
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
        let act = match self.random.u8(0..14) {
            4 if self.chance(60) => None,
            0..=2 => {
                let to = self.version();
                Some(format!("try upgrade {CLUSTER} to {to}"))
            }
            3 => self.group().map(|group| {
                self.tale.counts_machines = false;
                format!("try scale {CLUSTER}/{group} to {}", self.random.u32(0..=3))
            }),
            4 => {
                self.tale.counts_machines = false;
                self.control_plane = if self.control_plane == 1 { 3 } else { 1 };
                Some(format!("try scale {CLUSTER}/control-plane to {}", self.control_plane))
            }
            5 => self.deployment().map(|group| {
                self.tale.counts_machines = false;
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
            _ => self.deployment().map(|group| {
                self.tale.counts_machines = false;
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
        self.tale.counts_machines = false;
        let taint = self.random.u32(0..99);
        format!(
            "try edit kubeadmconfigtemplate/quick-worker\n  spec: {{template: {{spec: {{preKubeadmCommands: [\"echo \
             {taint}\"]}}}}}}"
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
                // A disk that is full lets nothing pass.
                let full = trouble == Trouble::FailedWrites && self.chance(50);
                let percent = if full { 100 } else { self.random.u32(5..=60) };
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
        for line in lines {
            self.say(Role::Mending, line);
        }
    }
}
