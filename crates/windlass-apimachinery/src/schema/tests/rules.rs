//! Validation rules: what they see, when they run, and what they say.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::cause::Cause;
use crate::schema::{Rules, Schema};

fn compile(schema: Value) -> Result<Rules, Vec<String>> {
    let root = json!({"type": "object", "properties": {"spec": schema}});
    let schema = Arc::new(Schema::from_crd(&root, "root").unwrap_or_else(|causes| panic!("{causes:?}")));
    Rules::compile(&schema, "root").map_err(|causes| causes.iter().map(ToString::to_string).collect())
}

fn broken(schema: Value, value: Value, old: Option<Value>) -> Vec<String> {
    let rules = compile(schema).unwrap();
    let old = old.map(|old| json!({"spec": old}));
    let causes = rules.evaluate(&json!({"spec": value}), old.as_ref(), &[]);
    causes.iter().map(|cause| format!("{} {cause}", cause.reason.as_str())).collect()
}

/// An object with one rule and a few fields of different types.
fn object(rule: Value) -> Value {
    json!({
        "type": "object",
        "properties": {
            "min": {"type": "integer"}, "max": {"type": "integer"}, "ratio": {"type": "number"},
            "name": {"type": "string"}, "my-name": {"type": "string"}, "namespace": {"type": "string"},
            "at": {"type": "string", "format": "date-time"}, "for": {"type": "string", "format": "duration"},
            "data": {"type": "string", "format": "byte"},
            "ios": {"x-kubernetes-int-or-string": true},
            "labels": {"type": "object", "additionalProperties": {"type": "string"}},
            "list": {"type": "array", "maxItems": 100, "items": {"type": "object", "properties": {"n": {"type": "integer"}}}},
            "tags": {"type": "array", "maxItems": 64, "items": {"type": "string"}},
        },
        "x-kubernetes-validations": [rule],
    })
}

#[test]
fn rules_see_values_as_their_schema_types_them() {
    let value = json!({
        "min": 1, "max": 2, "ratio": 1, "name": "a", "my-name": "b", "namespace": "c",
        "at": "2026-11-15T19:10:41Z", "for": "90s", "data": "aGk=", "ios": "5%",
        "labels": {"a-b": "x"}, "list": [{"n": 1}, {"n": 3}], "tags": ["x", "y"],
    });
    let holds = [
        "self.min <= self.max",
        "self.ratio == 1.0",
        "self.ratio / 2.0 == 0.5",
        "self.my__dash__name == 'b' && self.__namespace__ == 'c'",
        "self.at < timestamp('2027-01-01T00:00:00Z')",
        "self.__for__ == duration('1m30s')",
        "size(self.data) == 2",
        "self.ios == '5%'",
        "self.labels['a-b'] == 'x'",
        "'a-b' in self.labels",
        "self.labels.all(k, k.startsWith('a'))",
        "self.list.all(e, e.n > 0) && self.list.exists(e, e.n == 3)",
        "self.list.map(e, e.n).sum() == 4",
        "self.list[1].n == 3",
        "self.tags.filter(t, t != 'x') == ['y']",
        "has(self.name) && !has(self.list[0].n) == false",
        "self.?name.orValue('none') == 'a'",
        "quantity('1Gi').isGreaterThan(quantity('1Mi'))",
        "self.name.matches('^[a-z]$')",
        "isURL('https://a.example/x') && url('https://a.example/x').getHost() == 'a.example'",
        "ip('10.0.0.1').family() == 4 && cidr('10.0.0.0/8').containsIP('10.0.0.1')",
        "math.greatest(self.min, self.max) == 2",
        "sets.contains(self.tags, ['x'])",
        "dyn(self.min) == 1",
        "'%s-%d'.format([self.name, self.min]) == 'a-1'",
        "semver('1.2.3').major() == 1",
    ];
    for rule in holds {
        let result = broken(object(json!({"rule": rule})), value.clone(), None);
        assert_eq!(result, Vec::<String>::new(), "{rule}");
    }
    for rule in ["self.min > self.max", "size(self.tags) == 0"] {
        assert_eq!(broken(object(json!({"rule": rule})), value.clone(), None).len(), 1, "{rule}");
    }
}

#[test]
fn an_absent_optional_field_is_empty() {
    let rule = json!({"rule": "self.?name.orValue('none') == 'none'"});
    assert_eq!(broken(object(rule), json!({}), None), Vec::<String>::new());
}

#[test]
fn a_broken_rule_says_what_it_was_told_to_say() {
    let base = "self.min <= self.max";
    let cases = [
        (json!({"rule": base}), "FieldValueInvalid spec: Invalid value: failed rule: self.min <= self.max"),
        (
            json!({"rule": base, "message": " min above max "}),
            "FieldValueInvalid spec: Invalid value: min above max",
        ),
        (
            json!({"rule": base, "messageExpression": "'min is ' + string(self.min)"}),
            "FieldValueInvalid spec: Invalid value: min is 5",
        ),
        (
            json!({"rule": base, "message": "fallback", "messageExpression": "self.list[7].n"}),
            "FieldValueInvalid spec: Invalid value: fallback",
        ),
        (
            json!({"rule": base, "message": "fallback", "messageExpression": "'two\\nlines'"}),
            "FieldValueInvalid spec: Invalid value: fallback",
        ),
        (
            json!({"rule": base, "reason": "FieldValueForbidden", "message": "m"}),
            "FieldValueForbidden spec: Forbidden: m",
        ),
        (
            json!({"rule": base, "reason": "FieldValueRequired", "message": "m"}),
            "FieldValueRequired spec: Required value: m",
        ),
        (
            json!({"rule": base, "reason": "FieldValueDuplicate", "message": "m"}),
            "FieldValueDuplicate spec: Duplicate value",
        ),
        (
            json!({"rule": base, "fieldPath": ".min", "message": "m"}),
            "FieldValueInvalid spec.min: Invalid value: m",
        ),
        (
            json!({"rule": base, "fieldPath": ".labels['a.b']", "message": "m"}),
            "FieldValueInvalid spec.labels[a.b]: Invalid value: m",
        ),
    ];
    for (rule, expected) in cases {
        assert_eq!(
            broken(object(rule.clone()), json!({"min": 5, "max": 1, "list": []}), None),
            [expected],
            "{rule}"
        );
    }
}

#[test]
fn scalars_are_printed_and_places_are_named() {
    let even = json!([{"rule": "self % 2 == 0", "message": "must be even"}]);
    let number = json!({"type": "integer", "x-kubernetes-validations": even});
    let cases = [
        (json!({"type": "array", "items": number}), json!([2, 3]), "spec[1]"),
        (json!({"type": "object", "additionalProperties": number}), json!({"a": 3}), "spec[a]"),
        (json!({"type": "object", "properties": {"a": number}}), json!({"a": 3}), "spec.a"),
    ];
    for (schema, value, place) in cases {
        let expected = format!("FieldValueInvalid {place}: Invalid value: 3: must be even");
        assert_eq!(broken(schema, value, None), [expected]);
    }
}

#[test]
fn a_rule_that_cannot_be_evaluated_is_a_broken_rule() {
    let missing = broken(object(json!({"rule": "self.name == 'x'"})), json!({}), None);
    assert_eq!(
        missing,
        [
            "FieldValueInvalid spec: Invalid value: \"object\": no such key: name evaluating rule: self.name == 'x'"
        ]
    );
    let overload = broken(object(json!({"rule": "self.ios < 5"})), json!({"ios": "x"}), None);
    assert_eq!(overload.len(), 1, "{overload:?}");
    assert!(overload[0].contains("did not match") || overload[0].contains("evaluating rule"), "{overload:?}");
    let text = broken(object(json!({"rule": "self.min"})), json!({"min": 1}), None);
    assert_eq!(
        text,
        ["FieldValueInvalid spec: Invalid value: \"object\": rule is not a condition: self.min"]
    );
}

#[test]
fn transition_rules_run_only_where_there_was_a_value() {
    let immutable = |schema: Value| {
        let mut schema = schema;
        schema["x-kubernetes-validations"] = json!([{"rule": "self == oldSelf", "message": "immutable"}]);
        schema
    };
    let text = immutable(json!({"type": "string", "maxLength": 16}));
    let fields = json!({"type": "object", "properties": {"a": text}});
    let by_key = json!({
        "type": "array", "maxItems": 8, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"],
        "items": {"type": "object", "required": ["k"], "properties": {"k": {"type": "string"}, "v": text}},
    });
    let plain = json!({"type": "array", "maxItems": 8, "items": text});
    let atomic = json!({"type": "object", "x-kubernetes-map-type": "atomic", "properties": {"a": text}});
    let cases = [
        ("created", &fields, json!({"a": "x"}), None, 0),
        ("unchanged", &fields, json!({"a": "x"}), Some(json!({"a": "x"})), 0),
        ("changed", &fields, json!({"a": "y"}), Some(json!({"a": "x"})), 1),
        ("added", &fields, json!({"a": "y"}), Some(json!({})), 0),
        (
            "changed by key",
            &by_key,
            json!([{"k": "2"}, {"k": "1", "v": "y"}]),
            Some(json!([{"k": "1", "v": "x"}])),
            1,
        ),
        ("added by key", &by_key, json!([{"k": "2", "v": "y"}]), Some(json!([{"k": "1", "v": "x"}])), 0),
        ("plain lists have no identity", &plain, json!(["y"]), Some(json!(["x"])), 0),
        ("nor have atomic maps", &atomic, json!({"a": "y"}), Some(json!({"a": "x"})), 0),
    ];
    for (name, schema, new, old, expected) in cases {
        assert_eq!(broken(schema.clone(), new, old).len(), expected, "{name}");
    }
}

#[test]
fn optional_old_self_also_runs_on_new_values() {
    let rule = json!({"rule": "oldSelf.hasValue() || self.name == 'first'", "optionalOldSelf": true});
    assert_eq!(broken(object(rule.clone()), json!({"name": "x"}), None).len(), 1);
    assert_eq!(broken(object(rule.clone()), json!({"name": "first"}), None).len(), 0);
    assert_eq!(broken(object(rule), json!({"name": "x"}), Some(json!({"name": "y"}))).len(), 0);
    let value =
        json!({"rule": "oldSelf.orValue({'name': self.name}).name == self.name", "optionalOldSelf": true});
    assert_eq!(broken(object(value.clone()), json!({"name": "x"}), None).len(), 0);
    assert_eq!(broken(object(value), json!({"name": "x"}), Some(json!({"name": "y"}))).len(), 1);
}

#[test]
fn unchanged_values_are_not_held_against_an_update() {
    let rule = json!({"rule": "self.min <= self.max"});
    let schema = json!({"type": "object", "properties": {"a": object(rule), "b": {"type": "string"}}});
    let bad = json!({"min": 5, "max": 1});
    let update = |new: Value| broken(schema.clone(), new, Some(json!({"a": bad, "b": "x"})));
    assert_eq!(update(json!({"a": bad, "b": "y"})).len(), 0, "the broken part did not change");
    assert_eq!(update(json!({"a": {"min": 6, "max": 1}, "b": "x"})).len(), 1, "the broken part changed");
}

#[test]
fn nulls_are_not_shown_to_rules() {
    let text =
        json!({"type": "string", "nullable": true, "x-kubernetes-validations": [{"rule": "self != ''"}]});
    assert_eq!(broken(text, json!(null), None), Vec::<String>::new());
}

#[test]
fn an_object_that_breaks_its_schema_is_not_shown_to_rules() {
    let rules = compile(object(json!({"rule": "self.min <= self.max"}))).unwrap();
    let object = json!({"spec": {"min": 5, "max": 1}});
    let blocked = rules.evaluate(&object, None, &[Cause::required("spec.name", "")]);
    assert_eq!(blocked.len(), 1);
    assert_eq!(
        blocked[0].to_string(),
        "<nil>: Invalid value: null: some validation rules were not checked because the object was invalid; \
         correct the existing errors to complete validation"
    );
    let not_blocking = Cause::invalid("spec.min", &json!(5), "too large");
    assert_eq!(rules.evaluate(&object, None, &[not_blocking]).len(), 1);
    assert_eq!(rules.evaluate(&object, None, &[])[0].field, "spec");
    assert!(!rules.is_empty());
    assert!(compile(json!({"type": "object"})).unwrap().is_empty());
}

#[test]
fn what_cannot_be_evaluated_is_refused_when_the_crd_is_created() {
    let cases = [
        ("self.min <", "Syntax error"),
        ("self.nope == 1", "undefined field 'nope'"),
        ("self.list.all(e, e.m == 1)", "undefined field 'm'"),
        ("self.list[0].m == 1", "undefined field 'm'"),
        ("other == 1", "undeclared reference to 'other'"),
        (
            "frobnicate(self.min)",
            "undeclared reference to 'frobnicate': this server does not have the function",
        ),
        ("cel.bind(x, self.min, x > 0)", "undeclared reference to 'cel.bind'"),
        ("self.?name.optMap(x, x + '!').hasValue()", "undeclared reference to 'optMap'"),
        ("type(self.min) == int", "undeclared reference to 'type'"),
        ("Foo{a: 1}.a == 1", "message literals"),
    ];
    for (rule, expected) in cases {
        let causes = compile(object(json!({"rule": rule}))).map(|_| ()).unwrap_err();
        let place = "root.properties[spec].x-kubernetes-validations[0].rule: Invalid value: ";
        assert_eq!(causes.len(), 1, "{rule}: {causes:?}");
        assert!(causes[0].starts_with(place), "{}", causes[0]);
        assert!(causes[0].contains("compilation failed: "), "{}", causes[0]);
        assert!(causes[0].contains(expected), "{rule}: {}", causes[0]);
        assert!(!causes[0].contains('\n'), "{}", causes[0]);
    }
    let others = [
        (json!({"rule": "true", "messageExpression": "self.nope"}), "messageExpression"),
        (
            json!({"rule": "true", "fieldPath": ".nope"}),
            "fieldPath must be a valid path: does not refer to a valid field",
        ),
        (json!({"rule": "true", "fieldPath": "min"}), "expected [ or . but got: min"),
        (json!({"rule": "true", "optionalOldSelf": true}), "may not be set if oldSelf is not used in rule"),
    ];
    for (rule, expected) in others {
        let causes = compile(object(rule)).map(|_| ()).unwrap_err();
        assert!(causes[0].contains(expected), "{}", causes[0]);
    }
}

#[test]
fn a_root_rule_knows_the_name_but_not_the_labels() {
    let root = |rule: &str| {
        let schema = json!({
            "type": "object", "properties": {"spec": {"type": "object"}}, "x-kubernetes-validations": [{"rule": rule}],
        });
        let schema = Arc::new(Schema::from_crd(&schema, "root").unwrap());
        Rules::compile(&schema, "root")
    };
    let rules = root("self.metadata.name == 'n' && self.kind == 'K'").unwrap();
    let named = json!({"kind": "K", "metadata": {"name": "n"}, "spec": {}});
    assert_eq!(rules.evaluate(&named, None, &[]), []);
    let other = json!({"kind": "K", "metadata": {"name": "m"}, "spec": {}});
    assert_eq!(rules.evaluate(&other, None, &[])[0].field, "<nil>");
    assert!(root("self.metadata.labels == {}").is_err());
}

#[test]
fn rules_of_the_kinds_that_crds_have_hold_and_break() {
    let cases = [
        (
            "size(self) != size(oldSelf) || self == oldSelf",
            json!({"type": "string"}),
            json!("abc"),
            Some(json!("abd")),
            1,
        ),
        ("self == oldSelf", json!({"type": "string"}), json!("a"), Some(json!("b")), 1),
        (
            "has(self.ref) || has(self.name)",
            json!({"type": "object", "properties": {"ref": {"type": "string"}, "name": {"type": "string"}}}),
            json!({}),
            None,
            1,
        ),
        (
            "!has(oldSelf.a) || has(self.a)",
            json!({"type": "object", "properties": {"a": {"type": "string"}}}),
            json!({}),
            Some(json!({"a": "x"})),
            1,
        ),
        (
            "self.all(x, self.exists_one(y, x.t == y.t))",
            json!({"type": "array", "maxItems": 16, "items": {"type": "object", "properties": {"t": {"type": "string", "maxLength": 63}}}}),
            json!([{"t": "a"}, {"t": "a"}]),
            None,
            1,
        ),
        (
            "self.all(x, self.exists_one(y, x.t == y.t))",
            json!({"type": "array", "maxItems": 16, "items": {"type": "object", "properties": {"t": {"type": "string", "maxLength": 63}}}}),
            json!([{"t": "a"}, {"t": "b"}]),
            None,
            0,
        ),
    ];
    for (rule, mut schema, new, old, expected) in cases {
        schema["x-kubernetes-validations"] = json!([{"rule": rule}]);
        assert_eq!(broken(schema, new, old).len(), expected, "{rule}");
    }
}

#[test]
fn a_rule_that_costs_too_much_is_stopped_and_no_other_is_evaluated() {
    let rule = |text: &str| json!({"rule": text, "message": "never"});
    let mut schema =
        object(rule("self.tags.all(a, self.tags.all(b, self.tags.all(c, a != b || b != c || a == c)))"));
    schema["x-kubernetes-validations"].as_array_mut().unwrap().push(rule("false"));
    schema["properties"]["tags"]["items"]["maxLength"] = 8.into();
    let tags = |count: usize| json!({"tags": (0..count).map(|tag| tag.to_string()).collect::<Vec<_>>()});
    let expected = "FieldValueInvalid spec: Invalid value: \"object\": 'operation cancelled: actual cost limit \
        exceeded': no further validation rules will be run due to call cost exceeds limit for rule: never";
    assert_eq!(broken(schema.clone(), tags(64), None), [expected]);
    assert_eq!(broken(schema, tags(5), None).len(), 1, "only the rule that is false");
}

#[test]
fn rules_that_cost_too_much_together_are_stopped() {
    let item = object(json!({"rule": "self.name.matches('^a')", "message": "never"}));
    let schema = json!({"type": "array", "maxItems": 12, "items": item});
    let value = Value::from(vec![json!({"name": "a".repeat(2_400_000)}); 12]);
    let expected = "Invalid value: \"object\": validation failed due to running out of cost budget, no further \
        validation rules will be run";
    let causes = broken(schema, value, None);
    assert_eq!(causes.len(), 1);
    assert!(causes[0].ends_with(expected), "{causes:?}");
}

#[test]
fn long_texts_cost_more_than_short_ones() {
    let mut schema =
        object(json!({"rule": "self.tags.all(a, self.name.matches('^[a-z]+$'))", "message": "no"}));
    schema["properties"]["name"]["maxLength"] = 100_000.into();
    let value = |length: usize| json!({"name": "a".repeat(length), "tags": vec!["x"; 64]});
    assert_eq!(broken(schema.clone(), value(10), None), Vec::<String>::new());
    let causes = broken(schema, value(50_000), None);
    assert!(causes.len() == 1 && causes[0].contains("cost limit exceeded"), "{causes:?}");
}

/// What a rule may cost by the bounds in its schema is bounded when the schema is created.
#[test]
fn rules_that_may_cost_too_much_are_refused_with_their_schema() {
    let doubled = |times: usize| {
        let steps: String = (0..times).map(|_| ".map(s, s + s)").collect();
        format!("['aaaaaaaaaa']{steps}.all(s, s != '')")
    };
    let list = |bounds: Value| {
        let mut list = json!({"type": "array", "items": {"type": "string"}});
        list.as_object_mut().unwrap().extend(bounds.as_object().unwrap().clone());
        list
    };
    let text = |bounds: Value| {
        let mut text = bounds;
        text["type"] = "string".into();
        text
    };
    let cases = [
        ("a string of 10 bytes doubled 27 times", doubled(27), json!({"type": "string"}), true),
        ("a string of 10 bytes doubled 5 times", doubled(5), json!({"type": "string"}), false),
        ("an unbounded list, once", "self.all(a, a.matches('^[a-z]+$'))".into(), list(json!({})), true),
        (
            "an unbounded list of integers, once",
            "self.all(a, a > 0)".into(),
            json!({"type": "array", "items": {"type": "integer"}}),
            false,
        ),
        (
            "an unbounded list within itself",
            "self.all(a, self.all(b, a > b || a < b))".into(),
            json!({"type": "array", "items": {"type": "integer"}}),
            true,
        ),
        (
            "a bounded list within itself",
            "self.all(a, self.all(b, a > b || a < b))".into(),
            json!({"type": "array", "maxItems": 100, "items": {"type": "integer"}}),
            false,
        ),
        (
            "a bounded list of unbounded strings",
            "self.all(a, self.all(b, a == b))".into(),
            list(json!({"maxItems": 100})),
            true,
        ),
        ("an unbounded string, searched", "self.contains(self)".into(), text(json!({})), true),
        ("a bounded string, searched", "self.contains(self)".into(), text(json!({"maxLength": 1000})), false),
    ];
    for (name, rule, mut schema, refused) in cases {
        schema["x-kubernetes-validations"] = json!([{"rule": rule}]);
        match compile(schema) {
            Ok(_) => assert!(!refused, "{name} is accepted"),
            Err(causes) => {
                assert!(refused, "{name}: {causes:?}");
                assert!(
                    causes[0].contains("Forbidden: estimated rule cost exceeds budget by factor of"),
                    "{causes:?}"
                );
            }
        }
    }
}

/// What an older version accepted is still served, and bounded when it is evaluated.
#[test]
fn rules_that_were_accepted_once_are_not_estimated_again() {
    let rule = json!([{"rule": "self.all(a, self.all(b, a == b))"}]);
    let list = json!({"type": "array", "items": {"type": "string"}, "x-kubernetes-validations": rule});
    let schema = json!({"type": "object", "properties": {"spec": list}});
    let schema = Arc::new(Schema::from_crd(&schema, "root").unwrap());
    assert!(Rules::compile(&schema, "root").is_err());
    let rules = Rules::compile_accepted(&schema).unwrap();
    assert_eq!(rules.evaluate(&json!({"spec": ["a", "a"]}), None, &[]), []);
    let causes = rules.evaluate(&json!({"spec": vec!["a"; 2_000]}), None, &[]);
    assert!(causes.len() == 1 && causes[0].to_string().contains("cost limit exceeded"), "{causes:?}");
}

/// How often a rule is evaluated counts: it is inside of lists and maps.
#[test]
fn a_cheap_rule_in_a_long_list_is_expensive() {
    let rule = json!([{"rule": "self.contains('abcdefghij')"}]);
    let item = json!({"type": "string", "maxLength": 1000, "x-kubernetes-validations": rule});
    let list = |bound: u64| json!({"type": "array", "maxItems": bound, "items": item});
    assert!(compile(list(1_000)).is_ok());
    assert!(compile(list(1_000_000)).is_err());
    let nested = json!({"type": "array", "maxItems": 1_000, "items": list(1_000)});
    assert!(compile(nested).is_err());
    let many: serde_json::Map<String, Value> = (0..40).map(|n| (format!("l{n}"), list(20_000))).collect();
    let causes = compile(json!({"type": "object", "properties": many})).map(|_| ()).unwrap_err();
    let total = "estimated rule cost total for entire OpenAPIv3 schema exceeds budget";
    assert!(causes.iter().any(|cause| cause.contains(total)), "{causes:?}");
}
