use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde_json::json;
use windlass_api::cluster::ContractVersionedObjectReference;
use windlass_api::hooks::Hook;
use windlass_version::Version;

use super::*;
use crate::control_plane::{Operation, PreflightFailure};
use crate::topology::{GroupId, NoPath, WorkerKind};

const REFERENCE: &str = include_str!("../../../../docs/reference.md");

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn v(version: &str) -> Version {
    Version::parse(version).unwrap()
}

fn hook(hook: Hook, to: &str, message: &str) -> WaitingOn {
    WaitingOn::Hook(Box::new(HeldByHook {
        hook,
        from: None,
        to: Some(v(to)),
        handlers: vec!["gate.e".to_owned()],
        message: message.to_owned(),
        retry: Retry { left: Duration::from_secs(12), interval: Duration::from_secs(30) },
        asked_seconds: 30,
    }))
}

fn workers(names: &[&str], version: &str) -> WaitingOn {
    let group = |name: &&str| GroupId { kind: WorkerKind::MachineDeployment, name: (*name).to_owned() };
    WaitingOn::WorkersVersion {
        version: v(version),
        groups: names.iter().map(group).collect(),
        says: String::new(),
    }
}

fn reference(kind: &str) -> ContractVersionedObjectReference {
    ContractVersionedObjectReference {
        kind: kind.to_owned(),
        name: "m1".to_owned(),
        ..ContractVersionedObjectReference::default()
    }
}

fn preflight(failures: Vec<PreflightFailure>) -> WaitingOn {
    WaitingOn::Preflight { operation: Operation::ScaleUp, failures }
}

fn text(text: &str) -> String {
    text.to_owned()
}

#[test]
fn a_wait_that_is_longer_than_anything_waits_says_both_times() {
    let WaitingOn::Hook(mut held) = hook(Hook::BeforeWorkersUpgrade, "v1.32.0", "never") else { panic!() };
    held.asked_seconds = 2_147_483_647;
    held.retry.interval = Duration::from_secs(3600);
    assert_eq!(
        held.to_string(),
        "BeforeWorkersUpgrade (gate.e): never; asked for 2147483647s, asked again after 1h"
    );
}

#[test]
fn every_wait_has_a_reason_and_words() {
    use WaitingOn::*;
    use windlass_api::hooks;
    let control_plane = || text("KubeadmControlPlane/c1");
    let names = |count: usize| (1..=count).map(|index| format!("m{index}")).collect::<Vec<_>>();
    let group = || vec![GroupId { kind: WorkerKind::MachineDeployment, name: text("a") }];
    #[rustfmt::skip]
    let cases: Vec<(WaitingOn, &str, &str)> = vec![
        (hook(hooks::Hook::BeforeWorkersUpgrade, "v1.32.0", "not before noon"), "WaitingForHook",
            "waiting for BeforeWorkersUpgrade (gate.e): not before noon; asked again after 30s"),
        (hook(hooks::Hook::BeforeWorkersUpgrade, "v1.32.0", ""), "WaitingForHook",
            "waiting for BeforeWorkersUpgrade (gate.e); asked again after 30s"),
        (HookFailed { hook: hooks::Hook::BeforeClusterUpgrade, error: text("down"), retry: None }, "HookFailed",
            "BeforeClusterUpgrade failed: down"),
        (UpgradeHolds { keys: vec![text("a"), text("b")] }, "UpgradeHeld",
            "waiting for BeforeClusterUpgrade: removal of annotation a, b"),
        (Path(NoPath::SourceUnavailable(text("down"))), "NoUpgradePath", "no upgrade plan: down"),
        (ControlPlaneProvisioning { control_plane: control_plane() }, "WaitingForControlPlaneProvisioning",
            "waiting for KubeadmControlPlane c1 to be provisioned"),
        (ControlPlaneUpgrade { control_plane: control_plane(), to: v("v1.32.0"), running: vec![v("v1.31.0")], says: String::new() },
            "WaitingForControlPlaneUpgrade", "waiting for KubeadmControlPlane c1 to reach v1.32.0, it runs v1.31.0"),
        (ControlPlaneVersion { next: v("v1.32.0") }, "WaitingForControlPlaneVersion",
            "waiting for the control plane to reach v1.32.0"),
        (ControlPlaneAtTarget { target: v("v1.32.0") }, "WaitingForStableControlPlane",
            "waiting for the control plane to be stable at v1.32.0"),
        (workers(&["a", "b"], "v1.32.0"), "WaitingForWorkersUpgrade",
            "waiting for MachineDeployment a, MachineDeployment b to reach v1.32.0"),
        (WorkersRollout { groups: group() }, "WaitingForWorkersRollout",
            "waiting for machines of MachineDeployment a to be upgraded"),
        (Turn { concurrency: 1, upgrading: group() }, "WaitingForTurn",
            "waiting for MachineDeployment a to finish, 1 may upgrade at a time"),
        (MachineDeployments { groups: group() }, "WaitingForMachineDeployments",
            "waiting for MachineDeployment a to finish, MachinePools come after MachineDeployments"),
        (Deferred, "UpgradeDeferred", "waiting for removal of annotation topology.cluster.x-k8s.io/defer-upgrade"),
        (SequenceHeld { by: text("a") }, "UpgradeSequenceHeld",
            "waiting for removal of annotation topology.cluster.x-k8s.io/hold-upgrade-sequence of a"),
        (ClusterInfrastructure, "WaitingForClusterInfrastructure", "waiting for the infrastructure of the Cluster"),
        (Certificates, "WaitingForCertificates", "waiting for the cluster certificates"),
        (Endpoint, "WaitingForControlPlaneEndpoint", "waiting for the control plane endpoint of the Cluster"),
        (preflight(vec![PreflightFailure::NoNode { machine: text("m1") }]), "WaitingForPreflightChecks",
            "adding a Machine waits: Machine m1 has no Node yet"),
        (MachineDeletion { machine: text("m1"), since: at(0), hooks: vec![text("backup")] },
            "WaitingForMachineDeletion", "waiting for the deletion of Machine m1, held by backup"),
        (UnsafeRemoval { machine: text("m1"), why: crate::control_plane::UnsafeRemoval::MembersUnknown }, "UnsafeMachineRemoval",
            "Machine m1 must stay for now: the members of etcd are not known"),
        (InPlaceUpdate { machine: text("m1") }, "WaitingForInPlaceUpdate",
            "waiting for the in-place update of Machine m1"),
        (InPlaceAnswer { machine: text("m1"), why: text("down") }, "WaitingForInPlaceAnswer",
            "waiting for an answer whether Machine m1 can be updated in place: down"),
        (ExternalUpdate { handler: text("a.x") }, "WaitingForExternalUpdate",
            "waiting for a.x, which updates the Machines"),
        (ExternalAnswer, "WaitingForExternalUpdateAnswer",
            "waiting for an answer whether an external updater accepts the update"),
        (WorkersDeletion { names: names(7) }, "WaitingForWorkersDeletion",
            "waiting for the deletion of workers: m1, m2, m3, m4, m5 and 2 more"),
        (MachinesDeletion { names: names(2) }, "WaitingForMachineDeletion",
            "waiting for the deletion of Machines: m1, m2"),
        (BootstrapData, "WaitingForBootstrapData", "waiting for spec.bootstrap.dataSecretName to be set"),
        (Missing(reference("DevMachine")), "WaitingForObject", "waiting for DevMachine m1 to be created"),
        (Unreadable { reference: reference("DevMachine"), why: text("down") }, "ObjectUnreadable",
            "DevMachine m1 could not be read: down"),
        (BootstrapProvider { reference: reference("KubeadmConfig"), says: text("") }, "WaitingForBootstrapProvider",
            "waiting for KubeadmConfig m1 to make the bootstrap data"),
        (InfrastructureProvider { reference: reference("DevMachine"), says: text("booting") },
            "WaitingForInfrastructureProvider", "waiting for DevMachine m1 to be provisioned: booting"),
        (BrokenContract { reference: reference("DevMachine"), field: "spec.providerID" }, "BrokenContract",
            "DevMachine m1 says it is done but does not set spec.providerID"),
        (NodeLookup { why: text("no kubeconfig") }, "WaitingForControlPlane",
            "the Node was not looked up yet: no kubeconfig"),
        (Workload { why: text("refused"), since: at(0) }, "WaitingForWorkloadCluster",
            "the workload cluster has not answered since 1970-01-01T00:00:00Z: refused"),
        (Node { provider_id: text("p://1") }, "WaitingForNode", "waiting for a Node with spec.providerID p://1"),
        (NodeHealthy { name: text("n1"), says: text("") }, "WaitingForHealthyNode", "Node n1 is not healthy"),
        (MinReady { left: SignedDuration::from_secs(30) }, "WaitingForMinReadySeconds",
            "ready, and available in 30s"),
        (Update { says: text("disk") }, "WaitingForInPlaceUpdate", "being updated in place: disk"),
        (PreDrainHooks(names(1)), "WaitingForPreDrainHook", "waiting for pre-drain hooks to be removed: m1"),
        (Drain { since: at(0), until: None, progress: Box::default() }, "DrainingNode",
            "draining the Node since 1970-01-01T00:00:00Z:\n"),
        (Volumes { since: at(0), until: Some(at(60)), attached: names(1) }, "WaitingForVolumeDetach",
            "waiting for volumes to be detached since 1970-01-01T00:00:00Z, given up at 1970-01-01T00:01:00Z: m1"),
        (WorkloadOfDeletion { step: DeletionStep::Drain, since: at(0), until: None, why: text("refused") },
            "DrainingNode", "the workload cluster does not answer (drain): refused"),
        (WorkloadOfDeletion { step: DeletionStep::Volumes, since: at(0), until: None, why: text("refused") },
            "WaitingForVolumeDetach", "the workload cluster does not answer (volumes): refused"),
        (PreTerminateHooks(names(1)), "WaitingForPreTerminateHook",
            "waiting for pre-terminate hooks to be removed: m1"),
        (InfrastructureDeletion { kind: text("DevMachine"), name: text("m1") }, "WaitingForInfrastructureDeletion",
            "waiting for DevMachine m1 to be deleted"),
        (BootstrapDeletion { kind: text("KubeadmConfig"), name: text("m1") }, "WaitingForBootstrapDeletion",
            "waiting for KubeadmConfig m1 to be deleted"),
        (NodeDeletion { name: text("n1"), until: None, why: text("no answer") }, "DeletingNode",
            "deleting Node n1: no answer"),
    ];
    for (on, reason, sentence) in cases {
        assert_eq!(on.reason(), reason, "{on:?}");
        assert_eq!(on.sentence().to_string(), sentence, "{on:?}");
        let wait = Wait::since(&on, at(0));
        assert_eq!((wait.reason.as_str(), wait.what), (reason, on.to_string()), "{on:?}");
        let row = format!("\n| `{reason}` |");
        assert!(REFERENCE.contains(&row), "docs/reference.md does not have {reason}");
        // A reason must be one that conditions may have.
        assert!(reason.chars().all(|c| c.is_ascii_alphanumeric()), "{reason}");
    }
}

#[test]
fn a_wait_names_its_hook_its_handlers_its_objects_and_its_interval() {
    let held = Wait::since(&hook(Hook::BeforeWorkersUpgrade, "v1.32.0", "later"), at(7));
    assert_eq!(
        serde_json::to_value(&held).unwrap(),
        serde_json::json!({"reason": "WaitingForHook", "what": "BeforeWorkersUpgrade (gate.e): later; asked again after 30s",
            "hook": "BeforeWorkersUpgrade", "handlers": ["gate.e"], "version": "v1.32.0",
            "since": "1970-01-01T00:00:07Z", "retryAfterSeconds": 30})
    );
    let rolling = Wait::since(&workers(&["a"], "v1.32.0"), at(7));
    assert_eq!(
        serde_json::to_value(&rolling).unwrap(),
        serde_json::json!({"reason": "WaitingForWorkersUpgrade", "what": "MachineDeployment a to reach v1.32.0",
            "objects": [{"kind": "MachineDeployment", "name": "a"}], "version": "v1.32.0",
            "since": "1970-01-01T00:00:07Z"})
    );
}

/// Name, what was waited on, what is waited on now, whether it goes on.
type Row = (&'static str, WaitingOn, WaitingOn, bool);

#[test]
fn a_wait_begins_anew_when_it_is_for_something_else() {
    let before = Hook::BeforeControlPlaneUpgrade;
    let machine = |name: &str| WaitingOn::InPlaceUpdate { machine: text(name) };
    let (no_node, weak) = (PreflightFailure::NoNode { machine: text("m1") }, PreflightFailure::EtcdTooWeak);
    let rows: Vec<Row> = vec![
        ("the same", hook(before, "v1.31.0", "busy"), hook(before, "v1.31.0", "busy"), true),
        ("another message", hook(before, "v1.31.0", "busy"), hook(before, "v1.31.0", "still busy"), true),
        ("another version", hook(before, "v1.31.0", "busy"), hook(before, "v1.32.0", "busy"), false),
        (
            "another hook",
            hook(Hook::BeforeClusterUpgrade, "v1.31.0", "busy"),
            hook(before, "v1.31.0", "busy"),
            false,
        ),
        ("fewer groups", workers(&["a", "b"], "v1.32.0"), workers(&["b"], "v1.32.0"), true),
        ("the next version", workers(&["a"], "v1.32.0"), workers(&["a"], "v1.33.0"), false),
        ("the next machine", machine("m1"), machine("m2"), false),
        ("another check", preflight(vec![no_node]), preflight(vec![weak]), true),
        ("something else", machine("m1"), WaitingOn::Endpoint, false),
    ];
    for (name, first, second, goes_on) in rows {
        let kept = Wait::of(&first, None, at(10));
        assert_eq!(kept.since.0, at(10), "{name}");
        let annotations = BTreeMap::from([(
            WAITING_ON_ANNOTATION.to_owned(),
            Wait::change(Some(&kept), None).flatten().unwrap(),
        )]);
        // What a new process knows is what it reads.
        let read = Wait::read(Some(&annotations)).unwrap();
        assert_eq!(read, kept, "{name}");
        let next = Wait::of(&second, Some(&read), at(20));
        assert_eq!(next.since.0, if goes_on { at(10) } else { at(20) }, "{name}");
    }
}

#[test]
fn evidence_with_a_beginning_of_its_own_tells_since_when() {
    let deletion = WaitingOn::MachineDeletion { machine: text("m1"), since: at(3), hooks: Vec::new() };
    assert_eq!(Wait::of(&deletion, None, at(20)).since.0, at(3));
}

#[test]
fn a_wait_that_goes_on_is_not_written_again() {
    let (held, later) =
        (hook(Hook::BeforeClusterUpgrade, "v1.31.0", "x"), hook(Hook::BeforeClusterUpgrade, "v1.31.0", "y"));
    let wait = Wait::of(&held, None, at(10));
    let kept = Wait::change(Some(&wait), None).flatten().unwrap();
    let annotations = BTreeMap::from([(WAITING_ON_ANNOTATION.to_owned(), kept)]);
    let again = Wait::of(&held, Wait::read(Some(&annotations)).as_ref(), at(99));
    assert_eq!(Wait::change(Some(&again), Some(&annotations)), None);
    let said = Wait::of(&later, Wait::read(Some(&annotations)).as_ref(), at(99));
    assert!(matches!(Wait::change(Some(&said), Some(&annotations)), Some(Some(_))), "it says something else");
    assert_eq!(Wait::change(None, Some(&annotations)), Some(None), "nothing is waited on any more");
    assert_eq!(Wait::change(None, None), None);
    let broken = BTreeMap::from([(WAITING_ON_ANNOTATION.to_owned(), "{".to_owned())]);
    assert_eq!(Wait::read(Some(&broken)), None);
}

#[test]
fn when_it_is_tried_again_is_the_rest_of_the_interval() {
    let seconds = |seconds| Some(std::time::Duration::from_secs(seconds));
    let held = hook(Hook::BeforeClusterUpgrade, "v1.31.0", "x");
    assert_eq!((held.retry_after(at(0)), held.interval()), (seconds(12), seconds(30)));
    let draining = WaitingOn::Drain { since: at(0), until: Some(at(60)), progress: Box::default() };
    assert_eq!((draining.retry_after(at(50)), draining.interval()), (seconds(10), seconds(20)));
    assert_eq!(WaitingOn::Endpoint.retry_after(at(0)), None, "an event tells");
}

#[test]
fn the_owner_is_told_the_command_that_ends_a_wait() {
    use WaitingOn::{Approval, Held, HeldAt, SequenceHeld, UpgradeHolds};
    let text = str::to_owned;
    let cluster: Cluster = serde_json::from_value(json!({"metadata": {"name": "c", "namespace": "n", "annotations": {
        "before-upgrade.hook.cluster.cluster.x-k8s.io/a": "", "before-upgrade.hook.cluster.cluster.x-k8s.io/b": "",
    }}}))
    .unwrap();
    let keys = vec![text("before-upgrade.hook.cluster.cluster.x-k8s.io/a")];
    let step = "control-plane/v1.31.2".parse().unwrap();
    for (on, command) in [
        (Held { reason: text("lunch") }, Some("windlass upgrade resume -n n c")),
        (HeldAt { at: v("v1.31.0"), next: v("v1.32.0") }, Some("windlass upgrade resume -n n c")),
        (Approval { step }, Some("windlass upgrade approve -n n c control-plane/v1.31.2")),
        (
            UpgradeHolds { keys },
            Some(
                "kubectl annotate cluster -n n c before-upgrade.hook.cluster.cluster.x-k8s.io/a- \
                 before-upgrade.hook.cluster.cluster.x-k8s.io/b-",
            ),
        ),
        (SequenceHeld { by: text("a") }, None),
    ] {
        let wait = Wait::since(&on, Timestamp::UNIX_EPOCH);
        assert_eq!(wait.command(&cluster).as_deref(), command, "{wait:?}");
    }
}
