//! `windlass upgrade`: an upgrade of a running plane is begun, held, approved, given another target and cancelled by hand.

use std::path::Path;
use std::time::Duration;

use serde_json::Value;

use crate::process::{Up, example, windlass};

const PATIENCE: Duration = Duration::from_secs(120);

struct Hands<'a> {
    up: &'a Up,
    directory: &'a Path,
}

impl Hands<'_> {
    /// Exit code, standard output, standard error of a verb.
    fn upgrade(&self, arguments: &[&str]) -> (Option<i32>, String, String) {
        let kubeconfig = self.up.kubeconfig.to_str().unwrap();
        let all = [&["upgrade"], arguments, &["--kubeconfig", kubeconfig]].concat();
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

    // What would be done is shown, and nothing is changed.
    let shown = hands.done(&["cluster", "quickstart", "--to", "v1.32.0", "--dry-run"]);
    assert!(shown.contains("worst skew"), "{shown}");
    assert!(shown.contains("kubectl -n default patch cluster quickstart --type merge"), "{shown}");
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
    up.says(&["annotate", "cluster", "quickstart", "upgrade.windlass.dev/require-approval=control-plane"]);
    hands.done(&["resume", "quickstart"]);
    hands.until_reason("UpgradeApprovalNeeded");
    let approved = hands.done(&["approve", "quickstart"]);
    assert!(approved.contains("control-plane/"), "{approved}");

    // Another target while it runs, and then the end where the control plane is.
    let further = hands.done(&["retarget", "quickstart", "--to", "v1.33.0", "--yes"]);
    assert!(further.contains("v1.33.0"), "{further}");
    assert_eq!(hands.version(), "v1.33.0");
    hands.until_reason("UpgradeApprovalNeeded");
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
    let shown = hands.done(&["pin", "quickstart", "md-0", "--dry-run"]);
    assert!(shown.contains("kubectl -n default patch cluster quickstart --type json"), "{shown}");
    assert_eq!(up.says(&pin), "");
    hands.done(&["pin", "quickstart", "md-0"]);
    assert_eq!(up.says(&pin), end);
    let (code, _, err) = hands.upgrade(&["pin", "quickstart", "md-0"]);
    assert_eq!((code, err.contains("already")), (Some(2), true), "{err}");
    let (code, _, err) = hands.upgrade(&["pin", "quickstart", "no-such"]);
    assert_eq!((code, err.contains("there are: MachineDeployment/md-0")), (Some(2), true), "{err}");
    let (code, _, err) = hands.upgrade(&["pin", "quickstart", "md-0", "--to", "v1.33.0"]);
    assert_eq!((code, err.contains("or older is accepted")), (Some(3), true), "{err}");
    let unpinned = hands.done(&["unpin", "quickstart", "MachineDeployment/md-0", "-o", "json"]);
    assert_eq!(serde_json::from_str::<Value>(&unpinned).unwrap()["changed"], true);
    assert_eq!(up.says(&pin), "");

    // There is no step to go back from.
    let (code, _, err) = hands.upgrade(&["abort", "quickstart", "--unborn", "--yes"]);
    assert_eq!((code, err.contains("is not on its way")), (Some(3), true), "{err}");
}
