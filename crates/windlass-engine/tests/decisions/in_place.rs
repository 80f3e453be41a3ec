//! Extensions say what they can update in place; together they cover a change, or they do not.

#![expect(clippy::unwrap_used, reason = "a failing helper fails the test")]

use serde_json::{Value, json};
use windlass_api::hooks::{Patch, PatchDocument, PatchType};
use windlass_api::{HandlerName, Object, RegisteredName};
use windlass_engine::in_place::{
    CAN_UPDATE_IN_PLACE, Claims, Composition, InPlaceAnswer, Incomparable, Level, Objects, Preview,
    WhyNotInPlace, finding,
};

fn object(value: Value) -> Object {
    Object::try_from(value).unwrap()
}

fn name(extension: &str) -> RegisteredName {
    RegisteredName::new(&HandlerName::new("can-update").unwrap(), extension).unwrap()
}

/// A machine of a version, with a disk and files.
fn machine(version: &str, disk: u32, files: &[&str]) -> Objects {
    let files: Vec<Value> = files.iter().map(|content| json!({"content": content})).collect();
    Objects {
        machine: object(json!({"kind": "Machine", "metadata": {"name": "m"}, "status": {"phase": "Running"},
            "spec": {"version": version, "clusterName": "c", "providerID": "p"}})),
        infrastructure: object(json!({"kind": "DevMachine", "spec": {"disk": disk}})),
        bootstrap: Some(object(json!({"kind": "KubeadmConfig", "spec": {"files": files}}))),
    }
}

fn composition(current: Objects, desired: Objects) -> Composition {
    Composition::new(Level::Machine, current, desired).unwrap()
}

fn steps(steps: Value) -> Option<Patch> {
    Some(Patch::json_patch(&steps))
}

fn overlay(overlay: Value) -> Option<Patch> {
    Some(Patch::json_merge_patch(&overlay))
}

fn versions() -> Claims {
    Claims { machine: overlay(json!({"spec": {"version": "v2"}})), ..Claims::default() }
}

#[test]
fn one_extension_covers_everything_or_leaves_fields_open() {
    let mut all = composition(machine("v1", 1, &["a"]), machine("v2", 1, &["b"]));
    assert!(!all.is_covered());
    let claims = Claims {
        bootstrap: steps(json!([{"op": "replace", "path": "/spec/files/0/content", "value": "b"}])),
        ..versions()
    };
    all.take(&name("ext"), &claims).unwrap();
    assert!(all.is_covered() && all.verdict().is_covered());
    assert_eq!(all.verdict().extensions(), ["ext"]);

    let mut some = composition(machine("v1", 1, &["a"]), machine("v2", 2, &["b"]));
    some.take(&name("ext"), &versions()).unwrap();
    let verdict = some.verdict();
    assert!(!some.is_covered() && !verdict.is_covered());
    assert_eq!(verdict.open(), ["DevMachine spec.disk", "KubeadmConfig spec.files[0].content"]);
    let text = "* DevMachine spec.disk: no extension\n\
                * KubeadmConfig spec.files[0].content: no extension\n\
                * Machine spec.version: can-update.ext";
    assert_eq!(verdict.to_string(), text);
}

#[test]
fn each_extension_sees_what_the_ones_before_it_cover() {
    let mut both = composition(machine("v1", 1, &["a"]), machine("v2", 1, &["a", "new"]));
    both.take(&name("a"), &versions()).unwrap();
    assert_eq!(both.current().machine.spec().unwrap()["version"], "v2");
    // A list may be shared, item by item.
    let files = steps(json!([{"op": "add", "path": "/spec/files/-", "value": {"content": "new"}}]));
    both.take(&name("b"), &Claims { bootstrap: files, ..Claims::default() }).unwrap();
    assert!(both.is_covered());
    assert_eq!(both.verdict().extensions(), ["a", "b"]);
    assert_eq!(both.desired(), &machine("v2", 1, &["a", "new"]));
}

#[test]
fn who_covers_nothing_is_not_called_for_the_update() {
    let mut composition = composition(machine("v1", 1, &[]), machine("v2", 1, &[]));
    composition.take(&name("a"), &Claims::default()).unwrap();
    composition.take(&name("b"), &Claims { machine: overlay(json!({})), ..Claims::default() }).unwrap();
    composition.take(&name("c"), &Claims { machine: steps(json!([])), ..Claims::default() }).unwrap();
    assert_eq!(composition.verdict().open(), ["Machine spec.version"]);
    composition.take(&name("d"), &versions()).unwrap();
    assert_eq!(composition.verdict().extensions(), ["d"]);
}

#[test]
fn a_field_that_is_given_a_value_that_nobody_wants_stays_open() {
    let mut composition = composition(machine("v1", 1, &[]), machine("v2", 1, &[]));
    let odd = Claims {
        machine: overlay(json!({"spec": {"version": "v3"}})),
        infrastructure: overlay(json!({"spec": {"disk": 7}})),
        ..Claims::default()
    };
    composition.take(&name("a"), &odd).unwrap();
    assert_eq!(composition.verdict().open(), ["DevMachine spec.disk", "Machine spec.version"]);
    assert_eq!(composition.verdict().extensions(), Vec::<String>::new());
}

#[test]
fn an_extension_that_was_not_reached_covers_nothing() {
    let mut composition = composition(machine("v1", 1, &[]), machine("v2", 1, &[]));
    composition.pass_over(&name("a"));
    let verdict = composition.verdict();
    assert!(!verdict.is_covered() && verdict.extensions().is_empty());
    assert!(verdict.to_string().contains("can-update.a was not reached"), "{verdict}");
}

#[test]
fn claims_that_overlap_or_contradict_are_errors_that_name_both() {
    let after_version = || {
        let mut composition = composition(machine("v1", 1, &[]), machine("v2", 2, &[]));
        composition.take(&name("a"), &versions()).unwrap();
        composition
    };
    for (claims, expected) in [
        (
            versions(),
            "the answer of can-update.b cannot be used: Machine spec.version is covered by can-update.a already",
        ),
        (
            Claims { machine: overlay(json!({"spec": {"version": "v3"}})), ..Claims::default() },
            "the answer of can-update.b cannot be used: Machine spec.version is covered by can-update.a already, \
             which gives it another value",
        ),
        (
            Claims {
                machine: steps(json!([{"op": "remove", "path": "/spec/version"}])),
                ..Claims::default()
            },
            "the answer of can-update.b cannot be used: Machine spec.version is covered by can-update.a already, \
             which gives it another value",
        ),
    ] {
        let mut composition = after_version();
        let before = composition.verdict();
        assert_eq!(composition.take(&name("b"), &claims).unwrap_err().to_string(), expected);
        assert_eq!(composition.verdict(), before);
    }
}

/// Cluster API counts negative indices from the end, in every patch of an extension.
#[test]
fn a_negative_index_counts_from_the_end_of_a_list() {
    let mut composition = composition(machine("v1", 1, &["a", "b"]), machine("v1", 1, &["a", "c", "d"]));
    let claims = Claims {
        bootstrap: steps(json!([
            {"op": "replace", "path": "/spec/files/-1/content", "value": "c"},
            {"op": "add", "path": "/spec/files/-1", "value": {"content": "d"}},
        ])),
        ..Claims::default()
    };
    composition.take(&name("a"), &claims).unwrap();
    assert!(composition.is_covered());
}

#[test]
fn answers_that_cannot_be_used_change_nothing_and_show_no_values() {
    let patch = |patch_type: PatchType, bytes: &str| {
        Some(Patch { patch_type, patch: PatchDocument::from_bytes(bytes.as_bytes()) })
    };
    let of_machine = |patch| Claims { machine: patch, ..Claims::default() };
    for (claims, expected) in [
        (
            of_machine(patch(PatchType::default(), "{\"spec\": \"hidden\"}")),
            "the patch of Machine has no patchType",
        ),
        (
            of_machine(patch(PatchType::from("Strategic"), "{}")),
            "patchType \"Strategic\" of Machine is unknown",
        ),
        (of_machine(patch(PatchType::JsonPatch, "hidden")), "the patch of Machine is no JSON"),
        (
            of_machine(patch(PatchType::JsonPatch, "\"hidden\"")),
            "the patch of Machine is no list of JSONPatch operations",
        ),
        (
            of_machine(patch(PatchType::JsonPatch, "[{\"op\": \"hidden\"}]")),
            "the patch of Machine is no list of JSONPatch operations",
        ),
        (
            of_machine(patch(PatchType::JsonMergePatch, "[1]")),
            "the patch of Machine is no JSONMergePatch object",
        ),
        (
            of_machine(steps(json!([{"op": "test", "path": "/kind", "value": "Machine"},
                {"op": "test", "path": "/spec/version", "value": "hidden"}]))),
            "the patch of Machine does not apply: operation at index 1 (test \"/spec/version\"): the test failed: \
             the value is another one",
        ),
        (
            of_machine(steps(json!([{"op": "replace", "path": "/spec/absent", "value": "hidden"}]))),
            "the patch of Machine does not apply: operation at index 0 (replace \"/spec/absent\"): there is no \
             field \"absent\"",
        ),
        (
            of_machine(steps(json!([{"op": "replace", "path": "", "value": "hidden"}]))),
            "the patch of Machine is no patch that leaves an object",
        ),
    ] {
        let mut composition = composition(machine("v1", 1, &[]), machine("v2", 1, &[]));
        let error = composition.take(&name("a"), &claims).unwrap_err().to_string();
        assert_eq!(error, format!("the answer of can-update.a cannot be used: {expected}"));
        assert!(!error.contains("hidden"));
        assert_eq!(composition.current(), &machine("v1", 1, &[]));
        assert!(composition.verdict().asked.is_empty());
    }
    let bare = |version| Objects { bootstrap: None, ..machine(version, 1, &[]) };
    let mut composition = composition(bare("v1"), bare("v2"));
    let claims = Claims { bootstrap: overlay(json!({"spec": {}})), ..Claims::default() };
    let error = composition.take(&name("a"), &claims).unwrap_err().to_string();
    assert!(error.ends_with("it patches a bootstrap config, and there is none"), "{error}");
}

#[test]
fn what_an_update_does_to_a_machine_is_what_all_that_cover_something_say() {
    let says = |affects_availability: Option<bool>, requirements: &[&str]| {
        let requirements = requirements.iter().map(|name| (*name).to_owned()).collect();
        Claims { affects_availability, requirements, ..Claims::default() }
    };
    let version = |claims: Claims| Claims { machine: versions().machine, ..claims };
    let disk = |claims: Claims| Claims { infrastructure: overlay(json!({"spec": {"disk": 2}})), ..claims };
    let bystander = says(None, &["Drain"]);
    for (first, second, affects, requirements) in [
        (says(Some(false), &[]), says(Some(false), &[]), false, vec![]),
        (says(Some(false), &[]), says(None, &[]), true, vec![]),
        (says(Some(true), &[]), says(Some(false), &[]), true, vec![]),
        (says(Some(false), &[]), says(Some(false), &["Drain"]), true, vec!["Drain"]),
        (says(Some(false), &["VolumeDetach"]), says(Some(false), &[]), true, vec!["Drain", "VolumeDetach"]),
    ] {
        let mut composition = composition(machine("v1", 1, &[]), machine("v2", 2, &[]));
        composition.take(&name("a"), &bystander).unwrap();
        composition.take(&name("b"), &version(first)).unwrap();
        composition.take(&name("c"), &disk(second)).unwrap();
        let effect = composition.verdict().effect();
        assert_eq!(effect.takes_out_of_service(), affects);
        let names: Vec<&str> = effect.requirements.iter().map(|requirement| requirement.as_str()).collect();
        assert_eq!(names, requirements);
    }
    let mut composition = composition(machine("v1", 1, &[]), machine("v2", 1, &[]));
    let error = composition.take(&name("a"), &version(says(None, &["Reboot"]))).unwrap_err().to_string();
    assert!(
        error.ends_with("it asks for \"Reboot\" before the update, known are Drain and VolumeDetach"),
        "{error}"
    );
    composition.take(&name("a"), &version(says(Some(false), &[]))).unwrap();
    let verdict = composition.verdict();
    let text = "* Machine spec.version: can-update.a\n* can-update.a does not affect availability";
    assert_eq!(verdict.to_string(), text);
    let preview = serde_json::to_value(Preview::new("m".to_owned(), "ns".to_owned(), &Ok(verdict))).unwrap();
    assert_eq!(preview["effects"], json!([{"handler": "can-update.a", "affectsAvailability": false}]));
}

/// Wrong base64 does not even become an answer: the response is refused when it is read.
#[test]
fn wrong_base64_is_no_answer() {
    let wire = json!({"status": "Success", "machinePatch": {"patchType": "JSONPatch", "patch": "%%%"}});
    let read: Result<windlass_api::hooks::CanUpdateMachineResponse, _> = serde_json::from_value(wire);
    assert!(read.unwrap_err().to_string().contains("neither base64 nor JSON"));
}

#[test]
fn of_a_machine_set_only_the_specification_of_its_machines_counts() {
    let set = |version: &str, replicas: u32| Objects {
        machine: object(json!({"kind": "MachineSet", "spec": {"replicas": replicas, "template": {"spec":
            {"version": version, "taints": [replicas]}}}})),
        infrastructure: object(json!({"kind": "DevMachineTemplate", "metadata": {"name": version},
            "spec": {"template": {"spec": {"disk": 1}}}})),
        bootstrap: None,
    };
    let mut composition = Composition::new(Level::MachineSet, set("v1", 1), set("v2", 5)).unwrap();
    assert_eq!(composition.verdict().open(), ["MachineSet spec.template.spec.version"]);
    let claims = overlay(json!({"spec": {"replicas": 5, "template": {"spec": {"version": "v2"}}}}));
    composition.take(&name("a"), &Claims { machine: claims, ..Claims::default() }).unwrap();
    assert!(composition.is_covered());
    assert_eq!(composition.current().machine.pointer("/spec/replicas"), Some(&json!(1)));
    let note = "* MachineSet spec.replicas: can-update.a changes it, which is dropped, only spec.template.spec counts";
    assert!(composition.verdict().to_string().contains(note), "{}", composition.verdict());
}

/// Cluster API takes over `spec` alone, and extensions that patch more than that work with it.
#[test]
fn what_a_patch_changes_outside_of_the_specification_is_dropped_and_noted() {
    let note = |field: &str| {
        format!("* Machine {field}: can-update.a changes it, which is dropped, only spec counts")
    };
    let version = json!({"op": "replace", "path": "/spec/version", "value": "v2"});
    for (patch, dropped) in [
        (overlay(json!({"status": {"phase": "hidden"}, "spec": {"version": "v2"}})), vec!["status.phase"]),
        (
            overlay(json!({"metadata": {"labels": {"a": "hidden"}}, "spec": {"version": "v2"}})),
            vec!["metadata.labels.a"],
        ),
        (
            steps(json!([{"op": "add", "path": "/status/nodes", "value": "hidden"}, version,
                {"op": "replace", "path": "/metadata/name", "value": "hidden"}])),
            vec!["metadata.name", "status.nodes"],
        ),
        // The objects that an extension gets have no status: a patch of what is not there is dropped too.
        (
            steps(json!([{"op": "replace", "path": "/conditions/0", "value": "hidden"}, version])),
            vec!["conditions.0"],
        ),
    ] {
        let mut composition = composition(machine("v1", 1, &[]), machine("v2", 1, &[]));
        composition.take(&name("a"), &Claims { machine: patch, ..Claims::default() }).unwrap();
        assert!(composition.is_covered());
        let mut after = machine("v1", 1, &[]);
        after.machine = machine("v2", 1, &[]).machine;
        assert_eq!(composition.current(), &after, "nothing but the version");
        let lines: Vec<String> = dropped.iter().map(|field| note(field)).collect();
        let text = format!("* Machine spec.version: can-update.a\n{}", lines.join("\n"));
        assert_eq!(composition.verdict().to_string(), text);
        let preview = Preview::new("Machine m".to_owned(), "ns".to_owned(), &Ok(composition.verdict()));
        assert_eq!(preview.can_update_in_place, Some(true));
        let expected: Vec<String> = lines.iter().map(|line| line["* ".len()..].to_owned()).collect();
        assert_eq!(preview.notes, expected);
    }
    // A patch that takes the whole of it away claims nothing.
    let mut composition = composition(machine("v1", 1, &[]), machine("v2", 1, &[]));
    let gone = Claims { machine: steps(json!([{"op": "remove", "path": "/spec"}])), ..Claims::default() };
    composition.take(&name("a"), &gone).unwrap();
    assert_eq!(composition.verdict().open(), ["Machine spec.version"]);
}

#[test]
fn a_machine_does_not_become_one_of_another_kind() {
    let current = machine("v1", 1, &[]);
    let other = Objects { infrastructure: object(json!({"kind": "OtherMachine"})), ..machine("v1", 1, &[]) };
    let refused = Composition::new(Level::Machine, current.clone(), other).unwrap_err();
    assert_eq!(
        refused,
        Incomparable::OtherKind { from: "DevMachine".to_owned(), to: "OtherMachine".to_owned() }
    );
    let bare = Objects { bootstrap: None, ..machine("v1", 1, &[]) };
    let refused = Composition::new(Level::Machine, current, bare).unwrap_err();
    assert_eq!(refused, Incomparable::BootstrapOnOneSide);
}

#[test]
fn the_condition_says_who_covers_what() {
    let verdict = |claims: &Claims| {
        let mut composition = composition(machine("v1", 1, &[]), machine("v2", 1, &[]));
        composition.take(&name("a"), claims).unwrap();
        composition.verdict().into_answer()
    };
    let (can, cannot) = (verdict(&versions()), verdict(&Claims::default()));
    let failed = Err(WhyNotInPlace::NoAnswer("it is down".to_owned()));
    let of = |answers: &[&InPlaceAnswer]| {
        let subjects: Vec<(String, InPlaceAnswer)> =
            answers.iter().map(|answer| ("MachineSet x".to_owned(), (*answer).clone())).collect();
        finding(&subjects).map(|finding| (format!("{:?}", finding.status), finding.reason, finding.message))
    };
    let line = |status: &str, reason: &str, message: &str| {
        Some((status.to_owned(), reason.to_owned(), message.to_owned()))
    };
    assert_eq!(of(&[]), None);
    let covered = "MachineSet x can be updated in place\n* Machine spec.version: can-update.a";
    assert_eq!(of(&[&can]), line("True", "Covered", covered));
    let open = "MachineSet x cannot be updated in place\n* Machine spec.version: no extension";
    assert_eq!(of(&[&cannot]), line("False", "NotCovered", open));
    assert_eq!(of(&[&can, &cannot]), line("False", "NotCovered", &format!("{covered}\n{open}")));
    let unknown = format!("{covered}\nMachineSet x: it is down");
    assert_eq!(of(&[&can, &failed]), line("Unknown", "NoUsableAnswer", &unknown));
    assert_eq!(CAN_UPDATE_IN_PLACE, "CanUpdateInPlace");
}

#[test]
fn a_preview_says_per_field_which_handler_covers_it_or_why_it_is_unknown() {
    let mut composition = composition(machine("v1", 1, &[]), machine("v2", 2, &[]));
    composition.take(&name("a"), &versions()).unwrap();
    let preview = |answer: InPlaceAnswer| {
        serde_json::to_value(Preview::new("Machine m".to_owned(), "ns".to_owned(), &answer)).unwrap()
    };
    assert_eq!(
        preview(composition.verdict().into_answer()),
        json!({"subject": "Machine m", "namespace": "ns", "canUpdateInPlace": false, "fields": [
            {"field": "DevMachine spec.disk", "coveredBy": null},
            {"field": "Machine spec.version", "coveredBy": "can-update.a"},
        ], "effects": [{"handler": "can-update.a", "affectsAvailability": true}]})
    );
    let rest = Claims { infrastructure: overlay(json!({"spec": {"disk": 2}})), ..Claims::default() };
    composition.take(&name("b"), &rest).unwrap();
    assert_eq!(preview(composition.verdict().into_answer())["canUpdateInPlace"], true);
    // Nothing changes, and no extension was there to say so.
    assert_eq!(preview(Ok(Default::default()))["canUpdateInPlace"], false);
    let unknown = preview(Err(WhyNotInPlace::NoAnswer("it is down".to_owned())));
    assert_eq!((&unknown["canUpdateInPlace"], &unknown["message"]), (&Value::Null, &json!("it is down")));
    let impossible = preview(Err(WhyNotInPlace::Impossible("t1 is not in the manifests".to_owned())));
    assert_eq!(impossible["canUpdateInPlace"], false);
    assert_eq!(impossible["message"], "t1 is not in the manifests");
}
