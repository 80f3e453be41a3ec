//! Every branch of the rollout planner, as tables of observed MachineSets and planned sizes.

#![expect(clippy::unwrap_used, reason = "a failing helper fails the test")]

use std::collections::BTreeSet;

use jiff::Timestamp;
use windlass_engine::in_place::{Field, FieldVerdict, Verdict, WhyNotInPlace};
use windlass_engine::rollout::{
    Amount, InPlaceAnswers, Leftover, Limits, Machine, MustReplace, NewSet, Note, Observed, Plan, Progress,
    RollingUpdate, Set, Strategy, WhyCreate, finished_sets, in_place_questions, left_to_external_updaters,
    plan, roles,
};

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

/// A MachineSet `name` created at its own second, with spec, status and available replicas; `new` has the template.
fn set(name: &str, spec: u32, status: u32, available: u32) -> Set {
    let created = name.bytes().next().map_or(0, |first| i64::from(first - b'a'));
    Set {
        name: name.to_owned(),
        created: at(created),
        matches: name.starts_with("new"),
        deleting: false,
        spec,
        status,
        available,
        up_to_date: available,
        revision: 0,
        moves_to: None,
        updated: None,
        receives_from: BTreeSet::new(),
        acknowledged: BTreeSet::new(),
        desired_replicas: None,
        max_replicas: None,
    }
}

fn rolling(surge: u32, unavailable: u32) -> Strategy {
    let (max_surge, max_unavailable) = (Amount::Count(surge), Amount::Count(unavailable));
    Strategy::RollingUpdate(RollingUpdate { max_surge, max_unavailable })
}

fn external(fallback: Option<RollingUpdate>) -> Strategy {
    Strategy::External { max_unavailable: Amount::Count(0), fallback }
}

fn observed(replicas: u32, strategy: Strategy, sets: &[Set]) -> Observed {
    Observed {
        replicas,
        strategy,
        after: None,
        paused: false,
        sets: sets.to_vec(),
        machines: Vec::new(),
        fresh_name: "fresh".to_owned(),
        now: at(1000),
    }
}

fn machine(name: &str, set: &str, pending_acknowledge: bool, updating: bool) -> Machine {
    let set = Some(set.to_owned());
    Machine {
        name: name.to_owned(),
        set,
        pending_acknowledge,
        updating,
        needs_remediation: false,
        reached: false,
    }
}

fn can(sets: &[&str]) -> InPlaceAnswers {
    sets.iter().map(|set| ((*set).to_owned(), Ok(version_covered_by(Some("update.ext"))))).collect()
}

/// A change of the version, which this handler covers, if any does.
fn version_covered_by(handler: Option<&str>) -> Verdict {
    let by = handler.map(|handler| handler.parse().unwrap());
    let field = Field { kind: "MachineSet".to_owned(), path: "spec.version".to_owned() };
    Verdict {
        asked: by.iter().cloned().collect(),
        fields: vec![FieldVerdict { field, by }],
        ..Verdict::default()
    }
}

fn names(list: &[&str]) -> BTreeSet<String> {
    list.iter().map(|&name| name.to_owned()).collect()
}

/// The sizes of a plan by name, new first.
fn sizes(plan: &Plan) -> Vec<(&str, u32)> {
    plan.new.iter().chain(&plan.old).map(|set| (set.name.as_str(), set.replicas)).collect()
}

fn planned(observed: &Observed) -> Plan {
    plan(observed, &InPlaceAnswers::new())
}

#[test]
fn the_new_machine_set_is_the_largest_then_the_oldest_that_matches() {
    let cases: [(&[Set], NewSet, &[&str]); 6] = [
        (&[], NewSet::Missing(WhyCreate::First), &[]),
        (&[set("a", 3, 3, 3)], NewSet::Missing(WhyCreate::NoMatch), &["a"]),
        (&[set("a", 3, 3, 3), set("new", 0, 0, 0)], NewSet::Existing("new".to_owned()), &["a"]),
        (&[set("new1", 1, 1, 1), set("new2", 2, 2, 2)], NewSet::Existing("new2".to_owned()), &["new1"]),
        (&[set("new2", 2, 2, 2), set("new1", 2, 2, 2)], NewSet::Existing("new1".to_owned()), &["new2"]),
        // Old ones: largest first, then oldest, then by name.
        (
            &[set("c", 1, 0, 0), set("b2", 2, 0, 0), set("b1", 2, 0, 0), set("a", 2, 0, 0)],
            NewSet::Missing(WhyCreate::NoMatch),
            &["a", "b1", "b2", "c"],
        ),
    ];
    for (sets, new, old) in cases {
        let roles = roles(&observed(3, rolling(1, 0), sets));
        assert_eq!(roles.new, new);
        assert_eq!(roles.old.iter().map(|set| set.name.as_str()).collect::<Vec<_>>(), old);
    }
}

#[test]
fn a_machine_set_that_is_being_deleted_is_never_the_new_one() {
    let dying = Set { deleting: true, ..set("new", 3, 2, 2) };
    let plan = planned(&observed(3, rolling(1, 0), &[dying]));
    assert_eq!(plan.create, Some(WhyCreate::NoMatch));
    // Its machines still take places, and it is not resized.
    assert_eq!(sizes(&plan), [("fresh", 2), ("new", 3)]);
}

#[test]
fn rollout_after_asks_for_machines_created_after_it() {
    // `new` was created at second 13, `a` at 0, `z` at 25.
    let sets = [set("new", 3, 3, 3), set("a", 1, 1, 1), set("z", 1, 1, 1)];
    let check = |after: i64, now: i64| {
        let observed = Observed { after: Some(at(after)), now: at(now), ..observed(3, rolling(1, 0), &sets) };
        let roles = roles(&observed);
        let old: Vec<_> = roles.old.into_iter().map(|set| (set.name, set.must_replace)).collect();
        (roles.new, old)
    };
    let existing = NewSet::Existing("new".to_owned());
    let free = vec![("a".to_owned(), None), ("z".to_owned(), None)];
    // Not yet, and from before the MachineSet was created.
    assert_eq!(check(20, 19), (existing.clone(), free));
    let expired = |after| Some(MustReplace::RolloutAfter(at(after)));
    assert_eq!(check(13, 30), (existing, vec![("a".to_owned(), expired(13)), ("z".to_owned(), None)]));
    // From the very second on.
    let (new, old) = check(20, 20);
    assert_eq!(new, NewSet::Missing(WhyCreate::RolloutAfter(at(20))));
    let all = [("new", expired(20)), ("a", expired(20)), ("z", None)];
    assert_eq!(old, all.map(|(name, why)| (name.to_owned(), why)));
}

#[test]
fn other_machine_sets_with_the_same_template_are_replaced() {
    let roles = roles(&observed(3, rolling(1, 0), &[set("new1", 2, 2, 2), set("new2", 1, 1, 1)]));
    assert_eq!(roles.old[0].must_replace, Some(MustReplace::SameTemplate));
}

#[test]
fn the_new_machine_set_grows_within_the_surge() {
    for (replicas, strategy, sets, expected) in [
        // First rollout: all at once.
        (3, rolling(1, 0), vec![], vec![("fresh", 3)]),
        (0, rolling(1, 0), vec![], vec![("fresh", 0)]),
        // Nothing to do.
        (3, rolling(1, 0), vec![set("new", 3, 3, 3)], vec![("new", 3)]),
        // Scaled down: availability does not count.
        (2, rolling(1, 0), vec![set("new", 5, 5, 0)], vec![("new", 2)]),
        // Scaled up.
        (5, rolling(1, 0), vec![set("new", 3, 3, 3)], vec![("new", 5)]),
        // One more than the replicas.
        (3, rolling(1, 0), vec![set("new", 0, 0, 0), set("a", 3, 3, 3)], vec![("new", 1), ("a", 3)]),
        (3, rolling(2, 0), vec![set("new", 0, 0, 0), set("a", 3, 3, 3)], vec![("new", 2), ("a", 3)]),
        (3, rolling(9, 0), vec![set("new", 0, 0, 0), set("a", 3, 3, 3)], vec![("new", 3), ("a", 3)]),
        // Machines that are still there count, whatever their MachineSet asks for.
        (3, rolling(1, 0), vec![set("new", 1, 1, 1), set("a", 2, 3, 3)], vec![("new", 1), ("a", 2)]),
        // And so do machines that are asked for but not there.
        (3, rolling(1, 0), vec![set("new", 1, 0, 0), set("a", 3, 3, 3)], vec![("new", 1), ("a", 3)]),
        // No surge: nothing grows before something went.
        (3, rolling(0, 1), vec![set("new", 0, 0, 0), set("a", 3, 3, 3)], vec![("new", 0), ("a", 2)]),
        (3, rolling(0, 1), vec![set("new", 0, 0, 0), set("a", 2, 2, 2)], vec![("new", 1), ("a", 2)]),
        // Scaled up while a rollout runs: new machines have the new template.
        (6, rolling(1, 0), vec![set("new", 1, 1, 1), set("a", 3, 3, 3)], vec![("new", 4), ("a", 3)]),
    ] {
        let plan = planned(&observed(replicas, strategy, &sets));
        assert_eq!(sizes(&plan), expected, "{replicas} {sets:?}");
    }
}

#[test]
fn machines_that_are_seen_count_also_if_no_status_has_them() {
    // A machine was handed over: the old status no longer has it, the new one not yet.
    let sets = [set("new", 1, 1, 1), set("a", 1, 1, 1)];
    let mut state = observed(3, rolling(0, 1), &sets);
    assert_eq!(sizes(&planned(&state))[0], ("new", 2));
    state.machines = ["m1", "m2"].map(|name| machine(name, "new", false, false)).to_vec();
    assert_eq!(sizes(&planned(&state))[0], ("new", 1));
}

#[test]
fn old_machine_sets_shrink_as_far_as_availability_allows() {
    for (replicas, strategy, sets, expected) in [
        // The new machine is available: one old one goes.
        (3, rolling(1, 0), vec![set("new", 1, 1, 1), set("a", 3, 3, 3)], vec![("new", 1), ("a", 2)]),
        // It is not: the brake.
        (3, rolling(1, 0), vec![set("new", 1, 1, 0), set("a", 3, 3, 3)], vec![("new", 1), ("a", 3)]),
        // It is being removed already: nothing more goes.
        (3, rolling(1, 0), vec![set("new", 1, 1, 1), set("a", 2, 3, 3)], vec![("new", 1), ("a", 2)]),
        // One may be missing.
        (3, rolling(0, 1), vec![set("new", 0, 0, 0), set("a", 3, 3, 3)], vec![("new", 0), ("a", 2)]),
        (3, rolling(1, 1), vec![set("new", 0, 0, 0), set("a", 3, 3, 3)], vec![("new", 1), ("a", 2)]),
        // Machines that do not exist yet are given up first, by whichever MachineSet has them.
        (
            3,
            rolling(1, 1),
            vec![set("new", 1, 1, 1), set("a", 2, 2, 2), set("b", 1, 0, 0)],
            vec![("new", 1), ("a", 1), ("b", 0)],
        ),
        // The unavailable one goes first, from the younger MachineSet.
        (
            3,
            rolling(1, 0),
            vec![set("new", 1, 1, 1), set("a", 2, 2, 2), set("b", 1, 1, 0)],
            vec![("new", 1), ("a", 2), ("b", 0)],
        ),
        // Oldest first.
        (
            3,
            rolling(1, 0),
            vec![set("new", 1, 1, 1), set("b", 2, 2, 2), set("a", 1, 1, 1)],
            vec![("new", 1), ("a", 0), ("b", 2)],
        ),
        // Two MachineSets share the budget.
        (
            4,
            rolling(0, 3),
            vec![set("new", 0, 0, 0), set("a", 2, 2, 2), set("b", 2, 2, 2)],
            vec![("new", 0), ("a", 0), ("b", 1)],
        ),
        // Which machine goes is not for the planner to assume: with 2 of 3 available nothing may go.
        (4, rolling(1, 0), vec![set("new", 2, 1, 1), set("a", 3, 3, 2)], vec![("new", 2), ("a", 3)]),
        // Some availability to spare, but less than the budget: only that much.
        (4, rolling(0, 2), vec![set("new", 0, 0, 0), set("a", 4, 4, 3)], vec![("new", 0), ("a", 3)]),
        // Scaled down to nothing.
        (0, rolling(1, 0), vec![set("new", 1, 1, 1), set("a", 3, 3, 3)], vec![("new", 0), ("a", 0)]),
        // Scaled down while a rollout runs.
        (2, rolling(1, 0), vec![set("new", 2, 2, 2), set("a", 2, 2, 2)], vec![("new", 2), ("a", 0)]),
    ] {
        let plan = planned(&observed(replicas, strategy, &sets));
        assert_eq!(sizes(&plan), expected, "{replicas} {strategy:?} {sets:?}");
    }
}

#[test]
fn each_change_has_its_reason() {
    let plan = planned(&observed(3, rolling(1, 1), &[set("new", 0, 0, 0), set("a", 3, 3, 3)]));
    let new = plan.new.unwrap();
    assert_eq!(new.notes, [Note::BecameCurrent { revision: 1 }, Note::Room { machines: 3, ceiling: 4 }]);
    assert_eq!(plan.old[0].notes, [Note::AboveFloor { available: 3, floor: 2 }]);
    assert_eq!(plan.old[0].notes[0].to_string(), "3 available replicas > 2 minimum available replicas");
    let plan = planned(&observed(3, rolling(1, 0), &[set("new", 1, 1, 1), set("a", 3, 2, 2)]));
    assert_eq!(plan.old[0].notes, [Note::Unavailable]);
}

#[test]
fn a_deadlock_costs_one_unavailable_machine_of_an_old_machine_set() {
    // Without any available machine in it, a MachineSet shrinks at no cost.
    let plan = planned(&observed(3, rolling(1, 0), &[set("new", 2, 2, 2), set("a", 2, 2, 0)]));
    assert_eq!(sizes(&plan), [("new", 2), ("a", 1)]);
    assert_eq!(plan.old[0].notes, [Note::Unavailable]);

    // 2 of 3 are available and the planner cannot know which of them goes.
    let plan = planned(&observed(3, rolling(1, 0), &[set("new", 1, 1, 1), set("a", 3, 3, 2)]));
    assert_eq!(sizes(&plan), [("new", 1), ("a", 2)]);
    assert_eq!(plan.old[0].notes, [Note::Deadlock { unavailable: 1 }]);

    let stuck = [set("new", 1, 1, 1), set("a", 2, 2, 1), set("b", 1, 1, 1)];
    let plan = planned(&observed(3, rolling(1, 0), &stuck));
    assert_eq!(sizes(&plan), [("new", 1), ("a", 1), ("b", 1)]);
    assert_eq!(plan.old[0].notes, [Note::Deadlock { unavailable: 1 }]);

    // A machine that is being updated comes back by itself, unless a health check gave it up.
    let updating = machine("m", "a", false, true);
    let given_up = Machine { needs_remediation: true, ..updating.clone() };
    for (machine, expected) in [(updating, 2), (given_up, 1)] {
        let state = Observed { machines: vec![machine], ..observed(3, rolling(1, 0), &stuck) };
        assert_eq!(planned(&state).old[0].replicas, expected);
    }

    for (why, sets) in [
        ("all old machines are available", vec![set("new", 1, 1, 1), set("a", 3, 3, 3)]),
        ("a MachineSet is on its way", vec![set("new", 1, 1, 1), set("a", 2, 2, 1), set("b", 1, 2, 1)]),
        ("the new machines are not available", vec![set("new", 1, 1, 0), set("a", 3, 3, 1)]),
        ("there are no old machines", vec![set("new", 3, 3, 2), set("a", 0, 0, 0)]),
    ] {
        let plan = planned(&observed(3, rolling(1, 0), &sets));
        let notes = plan.old.iter().flat_map(|set| &set.notes);
        assert!(!notes.into_iter().any(|note| matches!(note, Note::Deadlock { .. })), "{why}");
    }
}

#[test]
fn the_revision_of_the_new_machine_set_is_the_highest() {
    let revision = |new: u64, old: &[u64]| {
        let mut sets = vec![Set { revision: new, ..set("new", 1, 1, 1) }];
        for (index, revision) in old.iter().enumerate() {
            sets.push(Set { revision: *revision, ..set(&format!("a{index}"), 0, 0, 0) });
        }
        let plan = planned(&observed(1, rolling(1, 0), &sets));
        assert!(plan.old.iter().all(|set| set.revision.is_none()));
        let new = plan.new.unwrap();
        (new.revision.unwrap(), new.notes.contains(&Note::BecameCurrent { revision: new.revision.unwrap() }))
    };
    assert_eq!(revision(0, &[]), (1, true));
    assert_eq!(revision(1, &[]), (1, false));
    assert_eq!(revision(2, &[1]), (2, false));
    // Back to an earlier template.
    assert_eq!(revision(1, &[2, 3]), (4, true));
    assert_eq!(revision(7, &[2]), (7, false));
}

#[test]
fn moved_machines_are_counted_once() {
    let arrived = [machine("m1", "new", true, true), machine("m2", "new", true, true)];
    let others = [machine("m3", "new", false, true)];
    let machines: Vec<Machine> = arrived.into_iter().chain(others).collect();
    for (before, spec) in [(&[] as &[&str], 3), (&["m1"], 2), (&["m1", "m2"], 1), (&["gone", "m1", "m2"], 1)]
    {
        let new = Set { acknowledged: names(before), ..set("new", 1, 3, 1) };
        let mut state = observed(5, rolling(0, 1), &[new, set("a", 2, 2, 2)]);
        state.machines = machines.clone();
        let plan = plan(&state, &can(&["a"]));
        let new = plan.new.unwrap();
        assert_eq!((new.replicas, new.from, new.acknowledged), (spec, 1, names(&["m1", "m2"])), "{before:?}");
    }
    // What arrived on a MachineSet that is not the new one any more counts there.
    let old = Set { acknowledged: names(&["m1"]), ..set("a", 2, 4, 1) };
    let mut state = observed(5, rolling(0, 1), &[set("new", 1, 1, 1), old]);
    state.machines = vec![machine("m1", "a", true, true), machine("m2", "a", true, true)];
    let old = &plan(&state, &can(&["a"])).old[0];
    assert_eq!((old.replicas, &old.acknowledged), (3, &names(&["m1", "m2"])));
    // Released: nothing waits, nothing is recorded.
    let new = Set { acknowledged: names(&["m1"]), ..set("new", 1, 1, 0) };
    let mut state = observed(5, rolling(0, 1), &[new, set("a", 4, 4, 4)]);
    state.machines = vec![machine("m1", "new", false, true)];
    assert_eq!(plan(&state, &can(&["a"])).new.unwrap().acknowledged, names(&[]));
}

#[test]
fn in_place_nothing_is_added_but_one_machine_where_none_may_be_missing() {
    let cases = [
        // One may be missing: no surge.
        (3, rolling(1, 1), vec![set("new", 0, 0, 0), set("a", 3, 3, 3)], vec![("new", 0), ("a", 2)]),
        (1, rolling(1, 1), vec![set("new", 0, 0, 0), set("a", 1, 1, 1)], vec![("new", 0), ("a", 0)]),
        // None may be: one machine makes room, once.
        (3, rolling(1, 0), vec![set("new", 0, 0, 0), set("a", 3, 3, 3)], vec![("new", 1), ("a", 3)]),
        (3, rolling(3, 0), vec![set("new", 0, 0, 0), set("a", 3, 3, 3)], vec![("new", 1), ("a", 3)]),
        (3, rolling(3, 0), vec![set("new", 1, 0, 0), set("a", 3, 3, 3)], vec![("new", 1), ("a", 3)]),
        (3, rolling(3, 0), vec![set("new", 1, 1, 0), set("a", 3, 3, 3)], vec![("new", 1), ("a", 3)]),
        (3, rolling(3, 0), vec![set("new", 1, 1, 1), set("a", 3, 3, 3)], vec![("new", 1), ("a", 2)]),
        (3, rolling(3, 0), vec![set("new", 1, 1, 1), set("a", 2, 3, 3)], vec![("new", 1), ("a", 2)]),
        // Replicas that are really missing are created.
        (5, rolling(1, 1), vec![set("new", 0, 0, 0), set("a", 3, 3, 3)], vec![("new", 2), ("a", 3)]),
        // Scaled up and surging: only the missing ones.
        (5, rolling(3, 1), vec![set("new", 0, 0, 0), set("a", 3, 3, 3)], vec![("new", 2), ("a", 3)]),
    ];
    for (replicas, strategy, sets, expected) in cases {
        let state = observed(replicas, strategy, &sets);
        assert_eq!(in_place_questions(&state), ["a"]);
        let plan = plan(&state, &can(&["a"]));
        assert_eq!(sizes(&plan), expected, "{replicas} {strategy:?} {sets:?}");
        assert_eq!(plan.old[0].moves_to.as_deref(), Some("new"));
        assert_eq!(plan.new.unwrap().receives_from, names(&["a"]));
    }
}

#[test]
fn in_place_waits_for_what_is_under_way_before_it_adds_a_machine() {
    let quiet = [set("new", 1, 1, 1), set("a", 2, 2, 1)];
    let strategy = rolling(1, 0);
    let grown = |state: &Observed| plan(state, &can(&["a"])).new.unwrap().replicas;
    // 2 of 3 available: nothing shrinks; nothing is under way: one machine is added.
    assert_eq!(grown(&observed(3, strategy, &quiet)), 2);
    let moving: [(&str, Vec<Set>, Vec<Machine>); 5] = [
        ("new is growing", vec![set("new", 1, 0, 0), set("a", 2, 2, 2)], vec![]),
        (
            "new is not up to date",
            vec![Set { up_to_date: 0, ..set("new", 1, 1, 1) }, set("a", 2, 2, 1)],
            vec![],
        ),
        (
            "new is not available",
            vec![Set { up_to_date: 1, ..set("new", 1, 1, 0) }, set("a", 2, 2, 2)],
            vec![],
        ),
        ("old is shrinking", vec![set("new", 1, 1, 1), set("a", 1, 2, 1)], vec![]),
        ("a machine is updating", quiet.to_vec(), vec![machine("m", "a", false, true)]),
    ];
    for (why, sets, machines) in moving {
        let state = Observed { machines, ..observed(3, strategy, &sets) };
        assert_eq!(grown(&state), 1, "{why}");
    }
}

#[test]
fn only_machines_that_need_it_and_may_are_asked_about() {
    let sets = [set("new", 1, 1, 1), set("a", 1, 1, 1), set("b", 1, 0, 0), set("new2", 1, 1, 1)];
    let state = observed(3, rolling(1, 0), &sets);
    // Not `b`, which has no machine, nor `new2`, which has the template.
    assert_eq!(in_place_questions(&state), ["a"]);
    let none: [Observed; 5] = [
        Observed { replicas: 1, ..state.clone() },
        Observed { paused: true, ..state.clone() },
        Observed { strategy: Strategy::OnDelete, ..state.clone() },
        Observed { after: Some(at(500)), ..state.clone() },
        // With the machine that arrived, the new MachineSet has all it needs.
        Observed { replicas: 2, machines: vec![machine("m", "new", true, true)], ..state.clone() },
    ];
    for state in none {
        assert_eq!(in_place_questions(&state), [] as [&str; 0]);
        let plan = plan(&state, &can(&["a", "new2"]));
        assert!(plan.old.iter().all(|set| set.moves_to.is_none()));
    }
    // Who cannot is replaced, who was not asked too.
    let cannot =
        InPlaceAnswers::from([("a".to_owned(), Err(WhyNotInPlace::NotCovered(version_covered_by(None))))]);
    for answers in [cannot, InPlaceAnswers::new()] {
        assert!(plan(&state, &answers).old.iter().all(|set| set.moves_to.is_none()));
    }
}

#[test]
fn external_updaters_are_asked_about_what_extensions_leave_open() {
    let not_covered = WhyNotInPlace::NotCovered(version_covered_by(None));
    let answers = InPlaceAnswers::from([
        ("none".to_owned(), Err(WhyNotInPlace::NoExtension)),
        ("partly".to_owned(), Err(not_covered)),
        ("covered".to_owned(), Ok(version_covered_by(Some("update.updater")))),
        ("no way".to_owned(), Err(WhyNotInPlace::Impossible("another class".to_owned()))),
        ("unasked".to_owned(), Err(WhyNotInPlace::NotAsked)),
        ("taken".to_owned(), Err(WhyNotInPlace::ExternalUpdate)),
    ]);
    let asked = ["none", "partly", "covered", "no way", "unasked", "taken", "unanswered"].map(str::to_owned);
    assert_eq!(left_to_external_updaters(&asked, &answers, false), ["none", "partly"]);
    // Extensions are not asked while an external updater has accepted: what has no answer is its.
    assert_eq!(left_to_external_updaters(&asked, &answers, true), ["none", "partly", "unanswered"]);
    assert_eq!(left_to_external_updaters(&[], &answers, true), [] as [&str; 0]);
}

#[test]
fn external_updates_in_place_also_a_single_machine() {
    let several = Strategy::External { max_unavailable: Amount::Percent(70), fallback: None };
    let state = observed(3, several, &[set("new", 0, 0, 0), set("a", 3, 3, 3)]);
    assert_eq!(sizes(&plan(&state, &can(&["a"]))), [("new", 0), ("a", 1)], "two at a time");

    let external = external(None);
    for (replicas, sets, expected) in [
        (1, vec![set("new", 0, 0, 0), set("a", 1, 1, 1)], vec![("new", 0), ("a", 0)]),
        (3, vec![set("new", 0, 0, 0), set("a", 3, 3, 3)], vec![("new", 0), ("a", 2)]),
        // One at a time.
        (3, vec![set("new", 1, 1, 0), set("a", 2, 2, 2)], vec![("new", 1), ("a", 2)]),
        (3, vec![set("new", 1, 1, 1), set("a", 2, 2, 2)], vec![("new", 1), ("a", 1)]),
        // A machine that is stuck is handed over too.
        (3, vec![set("new", 0, 0, 0), set("a", 3, 3, 1)], vec![("new", 0), ("a", 2)]),
    ] {
        let plan = plan(&observed(replicas, external, &sets), &can(&["a"]));
        assert_eq!(sizes(&plan), expected, "{sets:?}");
        assert_eq!((plan.blocked, plan.old[0].moves_to.as_deref()), (None, Some("new")));
    }
}

#[test]
fn external_without_a_fallback_replaces_nothing_and_says_why() {
    let external = external(None);
    let no = InPlaceAnswers::from([("a".to_owned(), Err(WhyNotInPlace::NoExtension))]);
    for (replicas, sets, expected) in [
        (3, vec![set("new", 0, 0, 0), set("a", 3, 3, 3)], vec![("new", 0), ("a", 3)]),
        // Not even machines that are not available.
        (3, vec![set("new", 0, 0, 0), set("a", 3, 3, 0)], vec![("new", 0), ("a", 3)]),
        // Scaled up: new machines have the new template.
        (4, vec![set("new", 0, 0, 0), set("a", 3, 3, 3)], vec![("new", 1), ("a", 3)]),
        // Scaled down: machines go, none comes.
        (2, vec![set("new", 0, 0, 0), set("a", 3, 3, 3)], vec![("new", 0), ("a", 2)]),
        (2, vec![set("new", 0, 0, 0), set("a", 2, 2, 2)], vec![("new", 0), ("a", 2)]),
        // Shrunk to hand a machine over, which is no longer possible: it is not deleted instead.
        (
            3,
            vec![set("new", 0, 0, 0), Set { moves_to: Some("new".to_owned()), ..set("a", 2, 3, 3) }],
            vec![("new", 0), ("a", 3)],
        ),
    ] {
        let plan = plan(&observed(replicas, external, &sets), &no);
        assert_eq!(sizes(&plan), expected, "{replicas} {sets:?}");
        let blocked = plan.blocked.unwrap();
        assert_eq!(blocked.sets[0].name, "a");
        let machines = sets[1].status;
        assert_eq!(
            blocked.to_string(),
            format!(
                "Rollout is blocked, strategy External has no fallbackRolling\n* {machines} Machines of MachineSet a \
                 cannot be updated in place: no extension updates Machines in place"
            )
        );
    }
    // Machines left over on an old MachineSet are not replaced either: they go.
    let plan_ = plan(&observed(2, external, &[set("new", 2, 2, 2), set("a", 1, 1, 1)]), &no);
    assert_eq!((sizes(&plan_), &plan_.blocked), (vec![("new", 2), ("a", 0)], &None));
    // Those that can are updated while the others stay.
    let sets = [set("new", 0, 0, 0), set("a", 2, 2, 2), set("b", 2, 2, 2)];
    let plan_ = plan(&observed(4, external, &sets), &can(&["b"]));
    assert_eq!(sizes(&plan_), [("new", 0), ("a", 2), ("b", 1)]);
    assert_eq!(plan_.blocked.unwrap().sets.len(), 1);
    // A time has passed: only new machines will do.
    let state = Observed { after: Some(at(20)), ..observed(3, external, &[set("new", 3, 3, 3)]) };
    let plan_ = plan(&state, &InPlaceAnswers::new());
    assert_eq!(sizes(&plan_), [("fresh", 0), ("new", 3)]);
    assert!(plan_.blocked.unwrap().to_string().ends_with("asks for new Machines"));
}

/// A fallback keeps its limits to the end: the last old machine goes when the last new one is available.
#[test]
fn a_fallback_of_external_takes_no_machine_before_its_successor_is_there() {
    let no = InPlaceAnswers::from([("a".to_owned(), Err(WhyNotInPlace::NoExtension))]);
    let strategy = external(Some(RollingUpdate::default()));
    for (sets, expected) in [
        ([set("new", 0, 0, 0), set("a", 1, 1, 1)], [1, 1]),
        ([set("new", 1, 1, 0), set("a", 1, 1, 1)], [1, 1]),
        ([set("new", 1, 1, 1), set("a", 1, 1, 1)], [1, 0]),
    ] {
        let plan = plan(&observed(1, strategy, &sets), &no);
        assert_eq!(sizes(&plan), [("new", expected[0]), ("a", expected[1])], "{sets:?}");
    }
}

/// Its only machine was deleted while the control plane is upgraded: from the old template it would not come back.
#[test]
fn a_machine_that_is_missing_under_external_comes_back_from_the_new_template() {
    for strategy in [external(None), external(Some(RollingUpdate::default()))] {
        for (replicas, sets, expected) in [
            (1, [set("new", 0, 0, 0), set("a", 1, 0, 0)], [0, 0]),
            (1, [set("new", 0, 0, 0), set("a", 0, 0, 0)], [1, 0]),
            (1, [set("new", 1, 0, 0), set("a", 0, 0, 0)], [1, 0]),
        ] {
            let plan = plan(&observed(replicas, strategy, &sets), &InPlaceAnswers::new());
            assert_eq!(sizes(&plan), [("new", expected[0]), ("a", expected[1])], "{sets:?}");
            assert_eq!(plan.blocked, None);
            assert_eq!(plan.old[0].create_disabled, sets[1].spec > 0, "it creates nothing meanwhile");
        }
    }
}

/// Machines of old MachineSet `a`: those that are done, those that are not.
fn members(done: &[&str], left: &[&str]) -> Vec<Machine> {
    let done = done.iter().map(|name| Machine { reached: true, ..machine(name, "a", false, false) });
    done.chain(left.iter().map(|name| machine(name, "a", false, false))).collect()
}

#[test]
fn what_an_external_updater_has_updated_only_changes_hands() {
    let taken = InPlaceAnswers::from([("a".to_owned(), Err(WhyNotInPlace::ExternalUpdate))]);
    for strategy in [external(None), external(Some(RollingUpdate::default()))] {
        for (replicas, sets, machines, expected, handed) in [
            // Nothing happens before something is done, whatever is unavailable meanwhile.
            (3, [set("new", 0, 0, 0), set("a", 3, 3, 3)], members(&[], &["x", "y", "z"]), [0, 3], &[][..]),
            (3, [set("new", 0, 0, 0), set("a", 3, 3, 0)], members(&[], &["x", "y", "z"]), [0, 3], &[]),
            // No availability is spent: all that are done go at once.
            (3, [set("new", 0, 0, 0), set("a", 3, 3, 3)], members(&["x"], &["y", "z"]), [0, 2], &["x"]),
            (
                3,
                [set("new", 0, 0, 0), set("a", 3, 3, 3)],
                members(&["x", "y", "z"], &[]),
                [0, 0],
                &["x", "y", "z"],
            ),
            // Planned again before it has happened: the same.
            (3, [set("new", 0, 0, 0), set("a", 2, 3, 3)], members(&["x"], &["y", "z"]), [0, 2], &["x"]),
            // The status of the MachineSet is older than its machines.
            (3, [set("new", 1, 1, 1), set("a", 2, 3, 3)], members(&[], &["y", "z"]), [1, 2], &[]),
            // One was deleted: first the old MachineSet is made to fit, then the new one grows.
            (3, [set("new", 0, 0, 0), set("a", 3, 2, 2)], members(&[], &["y", "z"]), [0, 2], &[]),
            (3, [set("new", 0, 0, 0), set("a", 2, 2, 2)], members(&[], &["y", "z"]), [1, 2], &[]),
            // Scaled up.
            (4, [set("new", 0, 0, 0), set("a", 3, 3, 3)], members(&[], &["x", "y", "z"]), [1, 3], &[]),
        ] {
            let mut state = observed(replicas, strategy, &sets);
            state.machines = machines;
            let plan = plan(&state, &taken);
            assert_eq!(sizes(&plan), [("new", expected[0]), ("a", expected[1])], "{sets:?}");
            let old = &plan.old[0];
            assert_eq!((&plan.blocked, old.moves_to.as_deref()), (&None, Some("new")));
            assert_eq!((old.updated.clone(), old.create_disabled), (Some(names(handed)), true));
            assert_eq!(old.extensions, [""; 0]);
        }
        // Scaled down: one goes, and none is handed over instead.
        let mut state = observed(2, strategy, &[set("new", 0, 0, 0), set("a", 3, 3, 3)]);
        state.machines = members(&["x"], &["y", "z"]);
        let plan_ = plan(&state, &taken);
        assert_eq!((sizes(&plan_), &plan_.old[0].moves_to), (vec![("new", 0), ("a", 2)], &None));
        // One that a health check has given up goes, and comes back on the new MachineSet.
        let mut state = observed(3, strategy, &[set("new", 0, 0, 0), set("a", 3, 3, 2)]);
        state.machines = members(&["x"], &["y", "z"]);
        state.machines[1].needs_remediation = true;
        let plan_ = plan(&state, &taken);
        assert_eq!(sizes(&plan_), [("new", 0), ("a", 1)]);
        assert_eq!(plan_.old[0].updated, Some(names(&["x"])));
    }
    // What was done before the update was given up still counts; the rest is replaced, or stays.
    let no = InPlaceAnswers::from([("a".to_owned(), Err(WhyNotInPlace::NoExtension))]);
    let mut state = observed(3, external(None), &[set("new", 0, 0, 0), set("a", 3, 3, 3)]);
    state.machines = members(&["x"], &["y", "z"]);
    let plan_ = plan(&state, &no);
    assert_eq!(
        (sizes(&plan_), plan_.old[0].updated.clone()),
        (vec![("new", 0), ("a", 2)], Some(names(&["x"])))
    );
    assert_eq!(plan_.blocked.unwrap().sets[0].machines, 2);
    // While paused, what was agreed on stays.
    let old = Set { moves_to: Some("new".to_owned()), updated: Some(names(&["x"])), ..set("a", 2, 3, 3) };
    let mut state = observed(3, external(None), &[set("new", 0, 0, 0), old]);
    state.paused = true;
    state.machines = members(&["x"], &["y", "z"]);
    let old = &plan(&state, &taken).old[0];
    assert_eq!((old.moves_to.as_deref(), old.updated.clone()), (Some("new"), Some(names(&["x"]))));
}

#[test]
fn external_with_a_fallback_replaces_what_cannot_be_updated() {
    let fallback = Some(RollingUpdate::default());
    let external = external(fallback);
    let sets = [set("new", 0, 0, 0), set("a", 3, 3, 3)];
    let state = observed(3, external, &sets);
    let replaced = planned(&state);
    assert_eq!((sizes(&replaced), &replaced.blocked), (vec![("new", 1), ("a", 3)], &None));
    assert_eq!(replaced.limits, Limits { surge: 1, unavailable: 0 });
    // While all can be updated, the limits of the fallback add no machine.
    let updated = plan(&state, &can(&["a"]));
    assert_eq!(sizes(&updated), [("new", 0), ("a", 2)]);
    // One cannot: the limits of the fallback hold for all.
    let mixed = [set("new", 0, 0, 0), set("a", 2, 2, 2), set("b", 1, 1, 1)];
    let plan = plan(&observed(3, external, &mixed), &can(&["a"]));
    assert_eq!(sizes(&plan), [("new", 1), ("a", 2), ("b", 1)]);
    assert_eq!(plan.new.unwrap().receives_from, names(&["a"]));
}

#[test]
fn on_delete_follows_what_the_user_deletes() {
    for (replicas, sets, expected) in [
        (3, vec![], vec![("fresh", 3)]),
        (3, vec![set("new", 0, 0, 0), set("a", 3, 3, 3)], vec![("new", 0), ("a", 3)]),
        // One was deleted: first the old size follows, then the new one grows.
        (3, vec![set("new", 0, 0, 0), set("a", 3, 2, 2)], vec![("new", 0), ("a", 2)]),
        (3, vec![set("new", 0, 0, 0), set("a", 2, 2, 2)], vec![("new", 1), ("a", 2)]),
        (3, vec![set("new", 1, 0, 0), set("a", 2, 2, 2)], vec![("new", 1), ("a", 2)]),
        // Scaled up: on the new one.
        (5, vec![set("new", 1, 1, 1), set("a", 2, 2, 2)], vec![("new", 3), ("a", 2)]),
        // Scaled down: the oldest of the old ones first.
        (
            3,
            vec![set("new", 1, 1, 1), set("a", 2, 2, 2), set("b", 2, 2, 2)],
            vec![("new", 1), ("a", 0), ("b", 2)],
        ),
        (2, vec![set("new", 3, 3, 3), set("a", 2, 2, 2)], vec![("new", 2), ("a", 0)]),
        (2, vec![set("new", 5, 5, 5)], vec![("new", 2)]),
        // Trimmed by deletion and shrunk by scaling in one plan: never more than there is.
        (2, vec![set("new", 0, 0, 0), set("a", 4, 3, 3)], vec![("new", 0), ("a", 2)]),
        (0, vec![set("new", 0, 0, 0), set("a", 3, 1, 1)], vec![("new", 0), ("a", 0)]),
    ] {
        let plan = planned(&observed(replicas, Strategy::OnDelete, &sets));
        assert_eq!(sizes(&plan), expected, "{replicas} {sets:?}");
        assert!(plan.old.iter().all(|set| set.create_disabled));
        assert!(!plan.new.unwrap().create_disabled);
    }
}

#[test]
fn a_paused_deployment_scales_in_proportion_and_creates_no_machine_set() {
    let max = |max_replicas: u32, set: Set| Set { max_replicas: Some(max_replicas), ..set };
    for (replicas, sets, expected) in [
        (3, vec![], vec![]),
        // The only active one takes all.
        (5, vec![set("a", 3, 3, 3)], vec![("a", 5)]),
        (5, vec![set("new", 0, 0, 0), set("a", 3, 3, 3)], vec![("new", 0), ("a", 5)]),
        // None is active: the new one, or else the youngest.
        (2, vec![set("new", 0, 0, 0), set("a", 0, 0, 0)], vec![("new", 2), ("a", 0)]),
        (2, vec![set("a", 0, 0, 0), set("b", 0, 0, 0)], vec![("a", 0), ("b", 2)]),
        // From 10 + 1 to 20 + 1.
        (20, vec![max(11, set("new", 4, 4, 4)), max(11, set("a", 7, 7, 7))], vec![("new", 8), ("a", 13)]),
        // Down to 5 + 1, rounding is made good by the largest.
        (5, vec![max(11, set("new", 4, 4, 4)), max(11, set("a", 7, 7, 7))], vec![("new", 2), ("a", 4)]),
        // Sizes that are right stay.
        (10, vec![max(11, set("new", 4, 4, 4)), max(11, set("a", 7, 7, 7))], vec![("new", 4), ("a", 7)]),
        (0, vec![max(11, set("new", 4, 4, 4)), max(11, set("a", 7, 7, 7))], vec![("new", 0), ("a", 0)]),
        // Two of one size: the younger grows, the older shrinks.
        (4, vec![max(4, set("a", 2, 2, 2)), max(4, set("b", 2, 2, 2))], vec![("a", 2), ("b", 3)]),
        (2, vec![max(4, set("a", 2, 2, 2)), max(4, set("b", 2, 2, 2))], vec![("a", 1), ("b", 2)]),
    ] {
        let state = Observed { paused: true, ..observed(replicas, rolling(1, 0), &sets) };
        let plan = planned(&state);
        assert_eq!(sizes(&plan), expected, "{replicas} {sets:?}");
        assert_eq!(plan.create, None);
    }
    // The new one has everything, available: old ones are not needed.
    let full = Set { desired_replicas: Some(3), ..set("new", 3, 3, 3) };
    let state = Observed { paused: true, ..observed(3, rolling(1, 0), &[full, set("a", 1, 1, 1)]) };
    assert_eq!(sizes(&planned(&state)), [("new", 3), ("a", 0)]);
}

#[test]
fn pausing_keeps_handovers_that_are_under_way() {
    let new = Set { receives_from: names(&["a"]), acknowledged: names(&["m1"]), ..set("new", 1, 2, 0) };
    let old = Set { moves_to: Some("new".to_owned()), ..set("a", 1, 2, 2) };
    let machines = vec![machine("m1", "new", true, true), machine("m2", "new", true, true)];
    let state = Observed { paused: true, machines, ..observed(3, rolling(0, 1), &[new, old]) };
    let plan = planned(&state);
    assert_eq!(sizes(&plan), [("new", 2), ("a", 1)]);
    assert_eq!(plan.old[0].moves_to.as_deref(), Some("new"));
    let new = plan.new.unwrap();
    assert_eq!((new.receives_from, new.acknowledged), (names(&["a"]), names(&["m1", "m2"])));
}

#[test]
fn old_machine_sets_are_deleted_when_all_is_complete() {
    let done = Progress { desired: 3, replicas: 3, up_to_date: 3, available: 3, observed: true };
    let empty = Leftover { name: "a".to_owned(), spec: 0, status: 0, observed: true, deleting: false };
    assert_eq!(finished_sets(done, std::slice::from_ref(&empty)), ["a"]);
    for set in [
        Leftover { spec: 1, ..empty.clone() },
        Leftover { status: 1, ..empty.clone() },
        Leftover { observed: false, ..empty.clone() },
        Leftover { deleting: true, ..empty.clone() },
    ] {
        assert_eq!(finished_sets(done, &[set]), [] as [&str; 0]);
    }
    for progress in [
        Progress { replicas: 4, ..done },
        Progress { up_to_date: 2, ..done },
        Progress { available: 2, ..done },
        Progress { observed: false, ..done },
    ] {
        assert_eq!(finished_sets(progress, std::slice::from_ref(&empty)), [] as [&str; 0]);
    }
}
