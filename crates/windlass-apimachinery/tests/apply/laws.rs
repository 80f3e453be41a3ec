//! What holds for any configuration and any history.

use std::collections::BTreeSet;

use proptest::prelude::*;
use serde_json::{Map, Value, json};
use windlass_apimachinery::fieldmanager::typed::{compare, fields, merge, remove};
use windlass_apimachinery::fieldmanager::{Endpoint, ManagedFields, Manager, PathElement, Set, Shape};

use crate::scenario::{Scenario, identified, schema};

const OBJECT: Endpoint = Endpoint::Object { has_status: true };

/// A spec of a few fields, with few values, so that managers meet.
fn spec() -> impl Strategy<Value = Value> {
    let text = || prop::sample::select(vec!["a", "b", "c"]).prop_map(Value::from);
    let number = || (0..3).prop_map(Value::from);
    let unique = |values: Vec<Value>| {
        let mut seen = BTreeSet::new();
        Value::Array(values.into_iter().filter(|value| seen.insert(value.to_string())).collect())
    };
    let set = move || prop::collection::vec(text(), 1..4).prop_map(unique);
    let map = move || {
        prop::collection::btree_map("[xyz]", text(), 1..3)
            .prop_map(|map| Value::Object(map.into_iter().collect::<Map<_, _>>()))
    };
    let port =
        (80..83i64, prop::option::of(text()), prop::option::of(set())).prop_map(|(port, name, targets)| {
            let mut item = json!({"port": port});
            name.into_iter().for_each(|name| item["name"] = name);
            targets.into_iter().for_each(|targets| item["targets"] = targets);
            item
        });
    let ports = prop::collection::vec(port, 1..4).prop_map(|ports| {
        let mut seen = BTreeSet::new();
        Value::Array(ports.into_iter().filter(|port| seen.insert(port["port"].to_string())).collect())
    });
    let raw = text().prop_recursive(3, 8, 3, |inner| {
        prop_oneof![
            prop::collection::btree_map("[xyz]", inner.clone(), 1..3)
                .prop_map(|map| Value::Object(map.into_iter().collect::<Map<_, _>>())),
            prop::collection::vec(inner, 1..3).prop_map(Value::Array),
        ]
    });
    let maybe = |name: &'static str, strategy: BoxedStrategy<Value>| {
        prop::option::of(strategy).prop_map(move |value| value.map(|value| (name.to_owned(), value)))
    };
    let present = (
        maybe("color", text().boxed()),
        maybe("size", number().boxed()),
        maybe("tags", set().boxed()),
        maybe("args", set().boxed()),
        maybe("labels", map().boxed()),
        maybe("amap", map().boxed()),
        maybe("box", number().prop_map(|w| json!({"w": w})).boxed()),
        maybe("ports", ports.boxed()),
        maybe("raw", raw.prop_map(|raw| json!({"r": raw})).boxed()),
    );
    present.prop_map(|(a, b, c, d, e, f, g, h, i)| {
        Value::Object([a, b, c, d, e, f, g, h, i].into_iter().flatten().collect())
    })
}

/// What a manager does.
#[derive(Debug, Clone)]
enum Act {
    Apply { manager: &'static str, spec: Value, force: bool },
    Update { manager: &'static str, spec: Value },
}

fn act() -> impl Strategy<Value = Act> {
    let manager = || prop::sample::select(vec!["m1", "m2", "m3"]);
    prop_oneof![
        3 => (manager(), spec(), any::<bool>()).prop_map(|(manager, spec, force)| Act::Apply { manager, spec, force }),
        1 => (manager(), spec()).prop_map(|(manager, spec)| Act::Update { manager, spec }),
    ]
}

fn applied(spec: &Value) -> Value {
    json!({"spec": spec})
}

/// An object with a history. Applies that conflict leave no trace in it.
fn after(acts: &[Act]) -> Scenario {
    let mut scenario = Scenario::new("law");
    for act in acts {
        match act {
            Act::Apply { manager, spec, force } => {
                let _ = scenario.apply(manager, applied(spec), *force, OBJECT);
            }
            Act::Update { manager, spec } => {
                let mut object = scenario.object.clone().unwrap_or_else(|| identified(json!({})));
                object["spec"] = spec.clone();
                scenario.update(manager, object);
            }
        }
    }
    scenario
}

fn spec_shape() -> Shape {
    Shape::of_resource(&schema())
}

fn owned_by(scenario: &Scenario, manager: &str) -> Set {
    let managed =
        scenario.object.as_ref().map(|object| ManagedFields::of(object).unwrap()).unwrap_or_default();
    managed.managers.get(&Manager::applier(manager, "")).map(|owned| owned.fields.clone()).unwrap_or_default()
}

/// The fields that applying a spec owns.
fn claimed(spec: &Value) -> Set {
    let everything = fields(&identified(applied(spec)), &spec_shape());
    everything.below_spec()
}

/// The part of a set inside `.spec`, as a set from the root.
trait BelowSpec {
    fn below_spec(&self) -> Set;
}

impl BelowSpec for Set {
    fn below_spec(&self) -> Set {
        let root = PathElement::field("spec");
        let inside: Vec<_> = self.paths().into_iter().filter(|path| path.first() == Some(&root)).collect();
        Set::of(inside.iter().map(Vec::as_slice))
    }
}

proptest! {
    #[test]
    fn applying_twice_is_applying_once(acts in prop::collection::vec(act(), 0..6), spec in spec()) {
        let mut scenario = after(&acts);
        if scenario.apply("m1", applied(&spec), true, OBJECT).is_ok() {
            let once = scenario.object.clone();
            scenario.apply("m1", applied(&spec), false, OBJECT).unwrap();
            prop_assert_eq!(&scenario.object, &once);
        }
    }

    #[test]
    fn a_forced_apply_gets_what_it_asks_for(acts in prop::collection::vec(act(), 0..6), spec in spec()) {
        let mut scenario = after(&acts);
        scenario.apply("m1", applied(&spec), true, OBJECT).unwrap();
        let owned = owned_by(&scenario, "m1");
        prop_assert_eq!(owned.below_spec(), claimed(&spec));
        let object = scenario.object.clone().unwrap();
        let merged = merge(&object, &identified(applied(&spec)), &spec_shape());
        prop_assert_eq!(merged, object, "applying over the result changes nothing");
    }

    #[test]
    fn forcing_in_turn_moves_ownership_back_and_forth(acts in prop::collection::vec(act(), 0..4), one in spec(), two in spec()) {
        let mut scenario = after(&acts);
        scenario.apply("m1", applied(&one), true, OBJECT).unwrap();
        scenario.apply("m2", applied(&two), true, OBJECT).unwrap();
        let (first, second) = (owned_by(&scenario, "m1"), owned_by(&scenario, "m2"));
        for _ in 0..2 {
            scenario.apply("m1", applied(&one), true, OBJECT).unwrap();
            prop_assert_eq!(owned_by(&scenario, "m1").below_spec(), claimed(&one));
            scenario.apply("m2", applied(&two), true, OBJECT).unwrap();
            prop_assert_eq!(owned_by(&scenario, "m2"), second.clone());
            prop_assert_eq!(owned_by(&scenario, "m1"), first.clone());
        }
    }

    #[test]
    fn what_nobody_owns_any_more_disappears(specs in prop::collection::vec((prop::sample::select(vec!["m1", "m2", "m3"]), spec()), 1..6)) {
        let mut scenario = Scenario::new("law");
        for (manager, spec) in &specs {
            scenario.apply(manager, applied(spec), true, OBJECT).unwrap();
        }
        for manager in ["m1", "m2", "m3"] {
            scenario.apply(manager, json!({}), false, OBJECT).unwrap();
        }
        let object = scenario.object.clone().unwrap();
        // An empty spec may be left, applied by one field manager and owned by none.
        let left = object.get("spec").cloned().unwrap_or_else(|| json!({}));
        prop_assert_eq!(left, json!({}));
        prop_assert!(scenario.owners().is_empty(), "{:?}", scenario.owners());
    }

    #[test]
    fn everything_that_is_applied_is_owned_by_somebody(acts in prop::collection::vec(act(), 1..6)) {
        let scenario = after(&acts);
        let Some(object) = scenario.object.clone() else { return Ok(()) };
        let managed = ManagedFields::of(&object).unwrap();
        // An object that lost all its field managers is not tracked until the next apply.
        prop_assume!(!managed.managers.is_empty());
        let owned = managed.managers.values().fold(Set::default(), |all, entry| all.union(&entry.fields));
        // The default of `protocol` comes from the server; an empty spec has no field manager.
        let unowned: Vec<String> = fields(&object, &spec_shape()).below_spec().leaves().difference(&owned).paths().iter()
            .map(|path| windlass_apimachinery::fieldmanager::display(path))
            .filter(|path| !path.ends_with(".protocol") && path != ".spec").collect();
        prop_assert_eq!(unowned, Vec::<String>::new());
        // Compared with nothing, everything is an addition, lists and maps included.
        let present = compare(&json!({}), &object, &spec_shape()).added;
        let absent = owned.difference(&present);
        prop_assert!(absent.is_empty(), "owned but absent: {:?}", absent.to_fields_v1());
    }

    #[test]
    fn lists_keep_their_order(live in prop::sample::subsequence(vec!["a", "b", "c", "d", "e"], 0..5).prop_shuffle(), config in prop::sample::subsequence(vec!["a", "b", "c", "x", "y"], 1..5).prop_shuffle()) {
        let object = |tags: &[&str]| identified(json!({"spec": {"tags": tags}}));
        let merged = merge(&object(&live), &object(&config), &spec_shape());
        let tags: Vec<&str> = merged["spec"]["tags"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
        let of = |keep: &dyn Fn(&&str) -> bool| tags.iter().copied().filter(|tag| keep(tag)).collect::<Vec<_>>();
        prop_assert_eq!(of(&|tag| config.contains(tag)), config.clone(), "applied elements come as applied");
        let others: Vec<&str> = live.iter().copied().filter(|tag| !config.contains(tag)).collect();
        prop_assert_eq!(of(&|tag| !config.contains(tag)), others, "other elements come as they were");
        let all: BTreeSet<&str> = live.iter().chain(&config).copied().collect();
        prop_assert_eq!(tags.len(), all.len());
    }

    #[test]
    fn fields_survive_the_wire(spec in spec()) {
        let set = claimed(&spec);
        prop_assert_eq!(Set::from_fields_v1(&set.to_fields_v1()), Ok(set.clone()));
        let text = set.to_fields_v1().to_string();
        let read: Value = serde_json::from_str(&text).unwrap();
        prop_assert_eq!(Set::from_fields_v1(&read), Ok(set));
    }

    #[test]
    fn sets_obey_the_laws_of_sets(one in spec(), two in spec()) {
        let (a, b) = (claimed(&one), claimed(&two));
        prop_assert_eq!(a.union(&b), b.union(&a));
        prop_assert_eq!(a.intersection(&b), b.intersection(&a));
        prop_assert_eq!(a.difference(&b).union(&a.intersection(&b)), a.clone());
        prop_assert!(a.difference(&b).intersection(&b).is_empty());
        prop_assert_eq!(a.union(&b).len() + a.intersection(&b).len(), a.len() + b.len());
        prop_assert!(a.recursive_difference(&a).is_empty());
        prop_assert_eq!(a.leaves().difference(&a), Set::default());
    }

    #[test]
    fn comparing_tells_what_merging_did(one in spec(), two in spec()) {
        let shape = spec_shape();
        let (old, new) = (identified(applied(&one)), identified(applied(&two)));
        let same = compare(&old, &old, &shape);
        prop_assert!(same.added.is_empty() && same.modified.is_empty() && same.removed.is_empty());
        let (there, back) = (compare(&old, &new, &shape), compare(&new, &old, &shape));
        prop_assert_eq!(&there.added, &back.removed);
        prop_assert_eq!(&there.removed, &back.added);
        prop_assert_eq!(&there.modified, &back.modified);
        let merged = merge(&old, &new, &shape);
        let done = compare(&old, &merged, &shape);
        prop_assert_eq!(merge(&old, &old, &shape), old.clone());
        // Without a schema a map may give way to a scalar, and take what is in it along.
        prop_assert!(done.removed.paths().iter().all(|path| path.get(1) == Some(&PathElement::field("raw"))));
        // An empty spec is a field of its own, which it no longer is when there is something in it.
        let lost = fields(&new, &shape).difference(&fields(&merged, &shape));
        prop_assert!(lost.paths().iter().all(|path| path.len() == 1), "{:?}", lost.to_fields_v1());
    }

    #[test]
    fn removing_all_fields_leaves_none(spec in spec()) {
        let shape = spec_shape();
        let object = identified(applied(&spec));
        let bare = remove(&object, &fields(&object, &shape), &Set::default(), &shape);
        let left: Vec<_> = fields(&bare, &shape).below_spec().paths().into_iter().filter(|path| path.len() > 2).collect();
        prop_assert!(left.is_empty(), "{:?}", left);
        prop_assert_eq!(remove(&object, &Set::default(), &Set::default(), &shape), object);
    }
}
