//! `windlass upgrade`: an upgrade of a running plane is begun, held, approved, given another target and cancelled by hand.

use std::path::Path;
use std::time::Duration;

use serde_json::Value;

use crate::process::{Up, example, windlass};

const PATIENCE: Duration = Duration::from_secs(120);
const MERGE: &str = "kubectl -n default patch cluster quickstart --type merge";

struct Hands<'a> {
    up: &'a Up,
    directory: &'a Path,
}

impl Hands<'_> {
    /// Exit code, standard output, standard error of a verb.
    fn upgrade(&self, arguments: &[&str]) -> (Option<i32>, String, String) {
        self.windlass(&[&["upgrade"], arguments].concat())
    }

    /// The same of any command that reads the live Cluster.
    fn windlass(&self, arguments: &[&str]) -> (Option<i32>, String, String) {
        let kubeconfig = self.up.kubeconfig.to_str().unwrap();
        let all = [arguments, &["--kubeconfig", kubeconfig]].concat();
        let output = windlass(self.directory, &all).output().unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        (output.status.code(), text(output.stdout), text(output.stderr))
    }

    /// What a verb prints; it must succeed.
    fn done(&self, arguments: &[&str]) -> String {
        let (code, out, err) = self.upgrade(arguments);
        assert_eq!(code, Some(0), "upgrade {arguments:?}: {out}{err}");
        out
    }

    /// Asks what a verb would do: it prints the kubectl command that does the same, and the same as JSON.
    fn dry_run(&self, arguments: &[&str], kubectl: &str) {
        let asked = [arguments, &["--dry-run"]].concat();
        let shown = self.done(&asked);
        assert!(shown.contains(kubectl), "{arguments:?}: {shown}");
        let document: Value =
            serde_json::from_str(&self.done(&[&asked[..], &["-o", "json"]].concat())).unwrap();
        assert_eq!(document["changed"], false, "{arguments:?}: {document:#}");
        assert!(
            document["kubectl"].as_str().is_some_and(|command| command.contains(kubectl)),
            "{document:#}"
        );
    }

    fn version(&self) -> String {
        self.up.says(&["get", "cluster", "quickstart", "-o", "jsonpath={.spec.topology.version}"])
    }

    /// Waits until the condition TopologyReconciled has a reason.
    fn until_reason(&self, reason: &str) {
        let path = "jsonpath={.status.conditions[?(@.type==\"TopologyReconciled\")].reason}";
        self.up.until(PATIENCE, &["get", "cluster", "quickstart", "-o", path], |said| said == reason);
    }
}

#[test]
fn an_upgrade_is_steered_by_hand() {
    let directory = tempfile::tempdir().unwrap();
    let up = Up::start(directory.path(), &[]);
    up.says_after(&["apply", "-f", "-"], &example("quickstart.yaml"));
    let hands = Hands { up: &up, directory: directory.path() };
    up.says(&["wait", "--for=condition=Available", "--timeout=120s", "cluster/quickstart"]);
    hands.until_reason("ReconcileSucceeded");
    let at = hands.version();

    // The plan from where the live Cluster is, by the list of its class and by what an extension answers.
    let plan = |arguments: &[&str]| {
        let (code, out, err) = hands.windlass(&[&["plan", "cluster", "quickstart"], arguments].concat());
        assert_eq!(code, Some(0), "plan cluster {arguments:?}: {out}{err}");
        out
    };
    let listed = plan(&["--to", "v1.32.0"]);
    assert!(listed.contains(&format!("Upgrade {at} -> v1.32.0")), "{listed}");
    assert!(
        listed.contains("(list of versions)") && listed.contains("MachineDeployment/quickstart-md-0-"),
        "{listed}"
    );
    let steps = "v1.30.9,v1.31.9,v1.32.0";
    let given =
        plan(&["--to", "v1.32.0", "--control-plane-upgrades", steps, "--workers-upgrades", "v1.32.0"]);
    assert!(given.contains("(given plan)") && given.contains("v1.31.9"), "{given}");
    assert_eq!(hands.version(), at);

    // What would be done is shown, and nothing is changed.
    let shown = hands.done(&["cluster", "quickstart", "--to", "v1.32.0", "--dry-run"]);
    assert!(shown.contains("worst skew"), "{shown}");
    hands.dry_run(&["cluster", "quickstart", "--to", "v1.32.0"], MERGE);
    hands.dry_run(&["hold", "quickstart", "--at", "v1.31.2"], MERGE);
    hands.dry_run(&["pin", "quickstart", "md-0"], "kubectl -n default patch cluster quickstart --type json");
    assert_eq!(hands.version(), at);
    let (code, _, err) = hands.upgrade(&["cluster", "quickstart", "--to", "v1.32.0"]);
    assert_eq!(code, Some(2), "{err}");
    assert!(err.contains("--yes"), "{err}");
    let (code, _, err) = hands.upgrade(&["cluster", "quickstart", "--to", "v1.40.0", "--yes"]);
    assert_eq!(code, Some(3), "{err}");
    assert!(err.contains("is not in spec.kubernetesVersions"), "{err}");

    // Held before it begins: what it waits on names the annotation, and the verbs speak JSON.
    let held: Value =
        serde_json::from_str(&hands.done(&["hold", "quickstart", "--reason", "not yet", "-o", "json"]))
            .unwrap();
    assert_eq!(held["changed"], true);
    assert_eq!(held["patch"]["metadata"]["annotations"]["upgrade.windlass.dev/hold"], "not yet");
    hands.done(&["cluster", "quickstart", "--to", "v1.32.0", "--yes"]);
    hands.until_reason("UpgradeHeld");
    let (code, _, err) = hands.upgrade(&["approve", "quickstart"]);
    assert_eq!(code, Some(2), "{err}");
    assert!(err.contains("no step needs an approval now"), "{err}");

    // Approved step by step.
    hands.dry_run(&["resume", "quickstart"], MERGE);
    up.says(&["annotate", "cluster", "quickstart", "upgrade.windlass.dev/require-approval=control-plane"]);
    hands.done(&["resume", "quickstart"]);
    hands.until_reason("UpgradeApprovalNeeded");
    hands.dry_run(&["approve", "quickstart"], MERGE);
    hands.dry_run(&["retarget", "quickstart", "--to", "v1.33.0"], MERGE);
    let approved = hands.done(&["approve", "quickstart"]);
    assert!(approved.contains("control-plane/"), "{approved}");

    // Another target while it runs, and then the end where the control plane is.
    let further = hands.done(&["retarget", "quickstart", "--to", "v1.33.0", "--yes"]);
    assert!(further.contains("v1.33.0"), "{further}");
    assert_eq!(hands.version(), "v1.33.0");
    hands.until_reason("UpgradeApprovalNeeded");
    hands.dry_run(&["cancel", "quickstart"], MERGE);
    hands.done(&["cancel", "quickstart", "--yes", "--wait"]);
    hands.until_reason("ReconcileSucceeded");
    let end = hands.version();
    let versions = up.says(&["get", "machines", "-o", "jsonpath={.items[*].spec.version}"]);
    assert!(versions.split(' ').all(|version| version == end), "{end}: {versions}");
    let (code, _, err) = hands.upgrade(&["cancel", "quickstart", "--yes"]);
    assert_eq!((code, err.contains("is not upgrading")), (Some(2), true), "{err}");

    // A worker group is pinned to the version that it has, and let go again.
    let pin = [
        "get",
        "cluster",
        "quickstart",
        "-o",
        "jsonpath={.spec.topology.workers.machineDeployments[0].version}",
    ];
    assert_eq!(up.says(&pin), "");
    hands.done(&["pin", "quickstart", "md-0"]);
    assert_eq!(up.says(&pin), end);
    let (code, _, err) = hands.upgrade(&["pin", "quickstart", "md-0"]);
    assert_eq!((code, err.contains("already")), (Some(2), true), "{err}");
    let (code, _, err) = hands.upgrade(&["pin", "quickstart", "no-such"]);
    assert_eq!((code, err.contains("there are: MachineDeployment/md-0")), (Some(2), true), "{err}");
    let (code, _, err) = hands.upgrade(&["pin", "quickstart", "md-0", "--to", "v1.33.0"]);
    assert_eq!((code, err.contains("or older is accepted")), (Some(3), true), "{err}");
    hands
        .dry_run(&["unpin", "quickstart", "md-0"], "kubectl -n default patch cluster quickstart --type json");
    let unpinned = hands.done(&["unpin", "quickstart", "MachineDeployment/md-0", "-o", "json"]);
    assert_eq!(serde_json::from_str::<Value>(&unpinned).unwrap()["changed"], true);
    assert_eq!(up.says(&pin), "");

    // There is no step to go back from.
    let (code, _, err) = hands.upgrade(&["abort", "quickstart", "--unborn", "--yes"]);
    assert_eq!((code, err.contains("is not on its way")), (Some(3), true), "{err}");
}
