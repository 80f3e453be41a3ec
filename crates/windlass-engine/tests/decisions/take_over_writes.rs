//! What stands against a take-over in what would be written.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use windlass_engine::readiness::{Level, WouldWrite, write_findings};
use windlass_engine::topology::TAKE_OVER_REFUSED;

fn write(verb: &'static str, path: &str, is_new: bool) -> WouldWrite {
    WouldWrite {
        verb,
        path: format!("/apis/cluster.x-k8s.io/v1beta2/namespaces/a/{path}"),
        is_new,
        body: json!({"metadata": {"name": "from-the-body"}}),
        becomes: Value::Null,
    }
}

fn lines(writes: &[WouldWrite], machines: &[Value], rotated: &BTreeMap<String, Value>) -> Vec<String> {
    let found = write_findings(writes, machines, rotated).into_iter();
    found.map(|finding| format!("{} {}: {}", finding.level, finding.about, finding.what)).collect()
}

#[test]
fn only_what_replaces_machines_stands_in_the_way() {
    let writes = [
        write("apply", "machinesets/settled", false),
        write("apply", "machinesets/surprise", true),
        write("create", "machines", true),
        write("delete", "machines/old", false),
        write("apply", "kubeadmconfigtemplates/rotated", true),
        write("create", "secrets", true),
        write("patch", "clusters/c", false),
    ];
    let found: Vec<String> =
        write_findings(&writes, &[], &BTreeMap::new()).into_iter().map(|finding| finding.about).collect();
    let expected =
        ["machinesets surprise", "machines from-the-body", "machines old", "kubeadmconfigtemplates rotated"];
    assert_eq!(found, expected);
}

#[test]
fn a_take_over_that_is_refused_is_said_with_its_remedy() {
    let refused = WouldWrite {
        body: json!({"status": {"conditions": [{"type": "TopologyReconciled", "reason": TAKE_OVER_REFUSED,
            "message": "taking over X would remove f: nothing is written. Add it"}]}}),
        ..write("apply", "clusters/refused/status", false)
    };
    let found = write_findings(&[refused], &[], &BTreeMap::new());
    assert_eq!(found[0].about, "Cluster refused");
    assert_eq!(found[0].remedy, "Add it");
    assert_eq!(found[0].level, Level::Blocks);
}

#[test]
fn a_template_that_would_be_rotated_is_compared_with_the_one_before() {
    let template = |name: &str, format: &str| json!({"metadata": {"name": name}, "spec": {"template": {"spec": {"format": format}}}});
    let new = WouldWrite {
        becomes: template("md-new", "cloud-config"),
        ..write("apply", "kubeadmconfigtemplates/md-new", true)
    };
    let rotated = BTreeMap::from([(new.path.clone(), template("md-old", "ignition"))]);
    assert_eq!(
        lines(&[new], &[], &rotated),
        [
            "blocks kubeadmconfigtemplates md-new: Windlass would apply it instead of md-old, which differs in \
          spec.template.spec.format: machines would be replaced by taking over"
        ]
    );
}

#[test]
fn a_machine_that_would_count_as_outdated_is_named_with_its_fields() {
    let conditions = |status: &str| json!({"conditions": [{"type": "UpToDate", "status": status, "message": "* KubeadmConfig is not\nup-to-date: files"}]});
    let says = |name: &str, status: &str| WouldWrite {
        body: json!({"status": conditions(status)}),
        ..write("apply", &format!("machines/{name}/status"), false)
    };
    let machine = |name: &str, status: &str| json!({"metadata": {"name": name, "namespace": "a"}, "status": conditions(status)});
    let machines = [machine("a", "True"), machine("b", "False"), machine("c", "True")];
    let writes = [says("a", "False"), says("b", "False"), says("c", "True"), says("other", "False")];
    assert_eq!(
        lines(&writes, &machines, &BTreeMap::new()),
        [
            "blocks Machine a/a: would count as outdated and be replaced: * KubeadmConfig is not up-to-date: files"
        ]
    );
}
