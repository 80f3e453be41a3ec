//! The verbs: how each is written, and what it does. Errors, `--verbs` and the page about stories all say it from here.

/// A way to write a statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Usage {
    /// The first word.
    pub verb: &'static str,
    /// The whole line; upper case stands for something.
    pub form: &'static str,
    /// What it does.
    pub does: &'static str,
}

const fn usage(verb: &'static str, form: &'static str, does: &'static str) -> Usage {
    Usage { verb, form, does }
}

/// All ways to write statements, in the order in which a story needs them.
pub const VERBS: &[Usage] = &[
    usage(
        "create",
        "create cluster NAME VERSION",
        "creates a Cluster of a ClusterClass named quick. Settings in the block below it, one per line: \
         `control plane N`, `workers NAME N`, `pool NAME N`, `versions V...` (of the class), `plan by extension`, \
         `machines take DURATION`, `annotation KEY=VALUE` (of the workers above it, or of the Cluster)",
    ),
    usage("apply", "apply FILE", "applies the manifests of a file beside the story"),
    usage("apply", "apply", "applies the manifests of the block below it"),
    usage("edit", "edit OBJECT", "merges the YAML of the block below it into an object"),
    usage("upgrade", "upgrade CLUSTER to VERSION", "sets spec.topology.version"),
    usage(
        "annotate",
        "annotate OBJECT|PART KEY=VALUE...",
        "sets annotations; KEY- removes one. Of a part, those of its topology entry",
    ),
    usage("scale", "scale OBJECT|PART to N", "wants another number of machines"),
    usage("delete", "delete OBJECT", "deletes an object"),
    usage("delete", "delete newest|oldest of PART", "deletes a machine"),
    usage("advance", "advance DURATION", "lets time pass, and tells what happens"),
    usage(
        "until",
        "until GOAL [within DURATION]",
        "lets time pass until something is true; 24h at most, unless it says another time",
    ),
    usage("crash", "crash", "kills the controllers and starts them again on the same store"),
    usage(
        "crash",
        "crash before|after write N [within DURATION]",
        "lets time pass until the N-th write from now on, 24h at most, then kills them before or right after it",
    ),
    usage(
        "trouble",
        "trouble KIND [N%] [for DURATION]",
        "lets requests or events of the controllers go wrong, N of a hundred (20, if it does not say): `late events`, \
         `lost events`, `repeated events`, `stale lists`, `conflicts`, `failed writes`, `lost answers`, `failed reads`, \
         `slow reads`",
    ),
    usage("trouble", "trouble ends", "nothing of that goes wrong any more"),
    usage("clock", "clock jumps DURATION", "sets the time of day forward"),
    usage("clock", "clock is set back DURATION", "sets the time of day back"),
    usage("hook", "hook HOOK answers success", "lets everything pass that the hook is asked"),
    usage("hook", "hook HOOK answers failure \"MESSAGE\"", "fails until it answers something else"),
    usage(
        "hook",
        "hook HOOK blocks [DURATION] [\"MESSAGE\"]",
        "asks to wait once for so long; without a time, until it answers something else",
    ),
    usage(
        "extension",
        "extension is down|up",
        "the extension that answers hooks does not answer, or does again",
    ),
    usage(
        "updater",
        "updater NAME covers everything|nothing|FIELD...",
        "an extension that updates machines in place, if it covers the whole change. A FIELD is machine.NAME, \
         infrastructure.NAME or bootstrap.NAME, a name in spec",
    ),
    usage("updater", "updater NAME takes DURATION", "an update in place takes so long"),
    usage("updater", "updater NAME fails \"MESSAGE\"", "updates fail, until it recovers"),
    usage("updater", "updater NAME recovers", "updates fail no more"),
    usage(
        "external",
        "external updater NAME accepts",
        "an extension that takes over whole updates (strategy External)",
    ),
    usage("external", "external updater NAME refuses \"REASON\"", "does not take them over"),
    usage("external", "external updater NAME fails \"MESSAGE\"", "fails when it is asked"),
    usage("external", "external updater NAME is silent", "does not answer"),
    usage(
        "external",
        "external updater NAME updates N machines|all machines",
        "brings machines that it took over to what is desired",
    ),
    usage(
        "machine",
        "machine WHICH fails to provision [\"WHY\"]",
        "it never gets as far as to run. WHICH is a name, `newest of PART` or `oldest of PART`",
    ),
    usage("machine", "machine WHICH is not ready [\"WHY\"]", "its Node is not ready"),
    usage("machine", "machine WHICH does not drain", "a pod on its Node does not end"),
    usage("machine", "machine WHICH takes DURATION", "its Node takes so long to start"),
    usage("machine", "machine WHICH recovers", "nothing is wrong with it any more"),
    usage(
        "machines",
        "machines of CLUSTER fail to provision [\"WHY\"]",
        "machines that are created from now on never get as far as to run",
    ),
    usage("machines", "machines of CLUSTER have no image of VERSION", "none of this version can be created"),
    usage("machines", "machines of CLUSTER recover", "nothing is wrong with them any more"),
    usage("describe", "describe CLUSTER", "shows a cluster as `windlass describe cluster` does"),
    usage("machines", "machines [of PART]", "shows machines"),
    usage("hooks", "hooks", "shows the hooks that were called since it was said last"),
    usage(
        "plan",
        "plan CLUSTER to VERSION",
        "shows the plan of an upgrade as `windlass plan` does, and where holds, approvals and pins stop it",
    ),
    usage(
        "try",
        "try STATEMENT",
        "goes on if the statement is refused, or if its goal is not reached, and tells why",
    ),
];

/// What `until` can wait for.
pub const GOALS: &[(&str, &str)] = &[
    (
        "PART is at VERSION",
        "all its machines have the version and are available; of a Cluster, nothing else is open",
    ),
    ("N machines of PART at VERSION", "at least so many machines were given the version"),
    ("machines = VERSION", "all machines of all clusters have the version"),
    (
        "OBJECT CONDITION [is STATUS] [says \"WORDS\"]",
        "a condition of an object is True, has another status, or has these words in its reason or message",
    ),
    ("OBJECT is gone", "an object does not exist any more"),
    ("hook HOOK is called [N times]", "a hook is called, from now on"),
    ("nothing is left to do", "no controller has anything to do, now or later"),
];

/// The verbs, each once.
pub(super) fn names() -> Vec<&'static str> {
    let mut names: Vec<&str> = VERBS.iter().map(|usage| usage.verb).collect();
    names.dedup();
    names.sort_unstable();
    names.dedup();
    names
}

/// How a verb is written.
pub(super) fn forms(verb: &str) -> Vec<&'static str> {
    VERBS.iter().filter(|usage| usage.verb == verb).map(|usage| usage.form).collect()
}
