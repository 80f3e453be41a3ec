//! Updates of Machines without replacement: N1 to N6.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::{Instant, sleep};
use windlass_api::Hook;

use crate::answer::{Reply, field};
use crate::calls;
use crate::changes::changed_paths;
use crate::check::{CheckId, Finding, Rule};
use crate::patches::ReadPatch;
use crate::session::{HOOKS_OPT_IN, Handler, Session};
use crate::synthetic::{self, Change};

/// One of the two hooks that say what can be updated.
struct Level {
    hook: Hook,
    /// Patch in the response, object in the request.
    parts: [(&'static str, &'static str); 3],
    /// What callers keep of a patched object.
    kept: &'static str,
    objects: fn(Option<Change>) -> Value,
}

const MACHINE: Level = Level {
    hook: Hook::CanUpdateMachine,
    parts: [
        ("machinePatch", "machine"),
        ("infrastructureMachinePatch", "infrastructureMachine"),
        ("bootstrapConfigPatch", "bootstrapConfig"),
    ],
    kept: "/spec",
    objects: synthetic::machine_objects,
};

const MACHINE_SET: Level = Level {
    hook: Hook::CanUpdateMachineSet,
    parts: [
        ("machineSetPatch", "machineSet"),
        ("infrastructureMachineTemplatePatch", "infrastructureMachineTemplate"),
        ("bootstrapConfigTemplatePatch", "bootstrapConfigTemplate"),
    ],
    kept: "/spec/template/spec",
    objects: synthetic::machine_set_objects,
};

/// What a change comes to after patching: the three specs, by change.
type Outcomes = BTreeMap<&'static str, Vec<Value>>;

/// Checks all handlers of in-place hooks that may be called.
pub(crate) async fn check(session: &mut Session<'_>) {
    let machine = check_level(session, &MACHINE).await;
    let machine_set = check_level(session, &MACHINE_SET).await;
    if let (Some(machine), Some(machine_set)) = (machine, machine_set) {
        let subject = session.whole();
        session.ledger.looked_at(CheckId::N4, &subject);
        for (change, specs) in machine {
            if machine_set.get(change).is_some_and(|other| *other != specs) {
                let observed = format!("{change} is covered differently");
                session.ledger.found(Finding::new(Rule::InPlaceDisagree, &subject, observed));
            }
        }
    }
    for handler in session.callable(Hook::UpdateMachine) {
        check_update(session, &handler).await;
    }
    let reason = "no handler of CanUpdateMachine or CanUpdateMachineSet was called";
    for check in [CheckId::N1, CheckId::N2, CheckId::N3, CheckId::N6] {
        session.ledger.skip(check, reason, Some(HOOKS_OPT_IN));
    }
    let reason = "CanUpdateMachine and CanUpdateMachineSet were not both called";
    session.ledger.skip(CheckId::N4, reason, Some(HOOKS_OPT_IN));
    session.ledger.skip(CheckId::N5, "no handler of UpdateMachine was called", Some(HOOKS_OPT_IN));
}

async fn check_level(session: &mut Session<'_>, level: &Level) -> Option<Outcomes> {
    let mut outcomes = None;
    for handler in session.callable(level.hook) {
        let subject = handler.subject();
        session.calling(&handler, "which changes can be made in place");
        let current = (level.objects)(None);
        if let Some(reply) = ask(session, level, &handler, &current).await {
            session.ledger.looked_at(CheckId::N2, &subject);
            let (specs, _) = apply(&subject, level, &current, &reply);
            if specs != kept_specs(level, &current) {
                let observed = "current equals desired, and a patch changes something";
                session.ledger.found(Finding::new(Rule::NeedlessPatch, &subject, observed));
            }
        }
        let covered = outcomes.get_or_insert_with(Outcomes::new);
        for change in Change::ALL {
            let desired = (level.objects)(Some(change));
            let Some(reply) = ask(session, level, &handler, &desired).await else { continue };
            for check in [CheckId::N1, CheckId::N3, CheckId::N6] {
                session.ledger.looked_at(check, &subject);
            }
            if !reply.success {
                let observed = format!("{}: {:?}", change.name(), reply.message);
                session.ledger.found(Finding::new(Rule::UnsupportedFails, &subject, observed));
                continue;
            }
            let (specs, found) = apply(&subject, level, &current, &reply);
            found.into_iter().for_each(|finding| session.ledger.found(finding));
            covered.insert(change.name(), specs);
        }
    }
    outcomes
}

async fn ask(session: &mut Session<'_>, level: &Level, handler: &Handler, desired: &Value) -> Option<Reply> {
    let request = synthetic::can_update(level.hook.name(), &(level.objects)(None), desired);
    let request = synthetic::with_settings(request, &session.settings());
    calls::call(session, handler, &request).await
}

/// The specs after patching, and what is wrong with the patches.
fn apply(subject: &str, level: &Level, current: &Value, reply: &Reply) -> (Vec<Value>, Vec<Finding>) {
    let mut found = Vec::new();
    let mut specs = kept_specs(level, current);
    for ((patch_name, part), spec) in level.parts.iter().zip(&mut specs) {
        let Some(patch) = field(&reply.value, patch_name).filter(|patch| is_defined(patch)) else { continue };
        let object = &current[part];
        let applied = ReadPatch::read(field(patch, "patchType"), field(patch, "patch"))
            .and_then(|patch| patch.apply(object).map_err(|error| error.to_string()));
        let patched = match applied {
            Ok(patched) => patched,
            Err(reason) => {
                let observed = format!("{patch_name}: {reason}");
                found.push(Finding::new(Rule::InPlacePatchInvalid, subject, observed));
                continue;
            }
        };
        for path in changed_paths(object, &patched) {
            let observed = format!("{patch_name} changes {path}");
            if path == "/status" || path.starts_with("/status/") {
                found.push(Finding::new(Rule::PatchTouchesStatus, subject, observed));
            } else if path != level.kept && !path.starts_with(&format!("{}/", level.kept)) {
                found.push(Finding::new(Rule::InPlacePatchOutsideSpec, subject, observed));
            }
        }
        *spec = patched.pointer(level.kept).cloned().unwrap_or_default();
    }
    (specs, found)
}

fn kept_specs(level: &Level, objects: &Value) -> Vec<Value> {
    let spec = |(_, part): &(&str, &str)| objects[part].pointer(level.kept).cloned().unwrap_or_default();
    level.parts.iter().map(spec).collect()
}

/// A patch without type and content is the same as none.
fn is_defined(patch: &Value) -> bool {
    ["patchType", "patch"]
        .iter()
        .any(|name| field(patch, name).is_some_and(|value| !value.is_null() && *value != json!("")))
}

/// N5: the same update over and over.
async fn check_update(session: &mut Session<'_>, handler: &Handler) {
    let subject = handler.subject();
    session.calling(handler, "the same update over and over");
    let request = synthetic::request(Hook::UpdateMachine, session.options, &session.settings());
    let deadline = Instant::now() + session.options.poll_for.unwrap_or_default();
    let mut seen: Vec<Reply> = Vec::new();
    let mut calls_left = session.options.repetitions.max(3);
    while calls_left > 0 {
        let Some(reply) = calls::call(session, handler, &request).await else { return };
        session.ledger.looked_at(CheckId::N5, &subject);
        let in_progress = reply.is_blocking();
        let retry = Duration::from_secs(u64::try_from(reply.retry).unwrap_or_default());
        seen.push(reply);
        // While the update runs and polling was opted into, calls do not count: the end is of interest.
        let left = deadline.saturating_duration_since(Instant::now());
        if in_progress && !left.is_zero() {
            sleep(retry.min(left)).await;
        } else {
            calls_left -= 1;
        }
    }
    if let Some(finding) = judge_sequence(&subject, &seen) {
        session.ledger.found(finding);
    }
}

fn judge_sequence(subject: &str, seen: &[Reply]) -> Option<Finding> {
    seen.windows(2).find_map(|pair| match pair {
        [before, after] if before.success && !after.success => {
            let observed = format!("succeeded, then failed: {:?}", after.message);
            Some(Finding::new(Rule::UpdateFailsWhenRepeated, subject, observed))
        }
        [before, after] if before.success && before.retry == 0 && after.is_blocking() => {
            let observed = "answered that it is done, and then that it is in progress";
            Some(Finding::new(Rule::UpdateRestarts, subject, observed))
        }
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use base64::Engine;
    use base64::engine::general_purpose::STANDARD;

    use super::*;

    fn reply(value: Value) -> Reply {
        Reply {
            success: value["status"] == "Success",
            message: String::new(),
            retry: value["retryAfterSeconds"].as_i64().unwrap_or(0),
            value,
            elapsed: Duration::ZERO,
        }
    }

    fn merge(document: Value) -> Value {
        json!({"patchType": "JSONMergePatch", "patch": STANDARD.encode(document.to_string())})
    }

    #[test]
    fn patches_are_judged_by_what_they_change() {
        for (level, answer, expected) in [
            (&MACHINE, json!({}), vec![]),
            (&MACHINE, json!({"machinePatch": {}}), vec![]),
            (&MACHINE, json!({"machinePatch": merge(json!({"spec": {"version": "v1.33.1"}}))}), vec![]),
            (
                &MACHINE,
                json!({"machinePatch": merge(json!({"metadata": {"labels": {"a": "b"}}}))}),
                vec![Rule::InPlacePatchOutsideSpec],
            ),
            (
                &MACHINE,
                json!({"machinePatch": merge(json!({"status": {"a": "b"}}))}),
                vec![Rule::PatchTouchesStatus],
            ),
            (
                &MACHINE,
                json!({"bootstrapConfigPatch": {"patchType": "JSONPatch", "patch": "%"}}),
                vec![Rule::InPlacePatchInvalid],
            ),
            (
                &MACHINE_SET,
                json!({"machineSetPatch": merge(json!({"spec": {"template": {"spec": {"version": "v1"}}}}))}),
                vec![],
            ),
            (
                &MACHINE_SET,
                json!({"machineSetPatch": merge(json!({"spec": {"replicas": 2}}))}),
                vec![Rule::InPlacePatchOutsideSpec],
            ),
        ] {
            let (_, found) = apply("s", level, &(level.objects)(None), &reply(answer.clone()));
            let rules: Vec<Rule> = found.iter().map(|finding| finding.rule).collect();
            assert_eq!(rules, expected, "{answer}");
        }
    }

    #[test]
    fn both_levels_see_the_same_specs() {
        for change in [None, Some(Change::Version), Some(Change::BootstrapFile), Some(Change::Unsupported)] {
            assert_eq!(
                kept_specs(&MACHINE, &synthetic::machine_objects(change)),
                kept_specs(&MACHINE_SET, &synthetic::machine_set_objects(change))
            );
        }
    }

    #[test]
    fn an_update_goes_from_in_progress_to_done_and_stays_there() {
        let progress = || reply(json!({"status": "Success", "retryAfterSeconds": 5}));
        let done = || reply(json!({"status": "Success", "retryAfterSeconds": 0}));
        let failed = || reply(json!({"status": "Failure"}));
        for (seen, expected) in [
            (vec![progress(), progress(), done(), done()], None),
            (vec![failed(), failed()], None),
            (vec![done(), progress()], Some(Rule::UpdateRestarts)),
            (vec![progress(), failed()], Some(Rule::UpdateFailsWhenRepeated)),
        ] {
            assert_eq!(judge_sequence("s", &seen).map(|finding| finding.rule), expected);
        }
    }
}
