//! Values of variables: filled in and checked by the schemas of the class.

use std::sync::Arc;

use serde_json::{Value, json};
use windlass_api::cluster::{ClusterClass, ClusterVariable, Topology};
use windlass_apimachinery::schema::{RuleBudget, Rules, Schema};

/// Fills in the defaults of a topology's variables and checks all values.
///
/// # Errors
///
/// Everything that is wrong, each with the field it is about.
pub(crate) fn default_and_validate(
    class: &ClusterClass,
    topology: &mut Topology,
    old: Option<&Topology>,
) -> Result<(), Vec<String>> {
    let definitions = definitions(class);
    let mut problems = Vec::new();
    // One for all values: a topology is one request, however many overrides are in it.
    let mut budget = RuleBudget::default();
    for definition in &definitions {
        if topology.variables.iter().any(|variable| variable.name == definition.name) {
            continue;
        }
        if let Some(value) = definition.default() {
            topology.variables.push(ClusterVariable { name: definition.name.to_owned(), value });
        } else if definition.required {
            problems.push(format!(
                "spec.topology.variables: variable {:?} is required, a value that fits its schema is accepted",
                definition.name
            ));
        }
    }
    let old_values = old.map(|old| old.variables.as_slice()).unwrap_or_default();
    let values =
        Values { variables: &mut topology.variables, old: old_values, field: "spec.topology.variables" };
    check(&definitions, values, &mut budget, &mut problems);
    let mut check_overrides = |overrides: &mut Vec<ClusterVariable>, field: String| {
        let values = Values { variables: overrides, old: &[], field: &field };
        check(&definitions, values, &mut budget, &mut problems);
    };
    check_overrides(
        &mut topology.control_plane.variables.overrides,
        "spec.topology.controlPlane.variables.overrides".to_owned(),
    );
    for entry in &mut topology.workers.machine_deployments {
        let field = format!("spec.topology.workers.machineDeployments[{}].variables.overrides", entry.name);
        check_overrides(&mut entry.variables.overrides, field);
    }
    for entry in &mut topology.workers.machine_pools {
        let field = format!("spec.topology.workers.machinePools[{}].variables.overrides", entry.name);
        check_overrides(&mut entry.variables.overrides, field);
    }
    if problems.is_empty() { Ok(()) } else { Err(problems) }
}

/// What is wrong with the schemas of a class's own variables.
pub(crate) fn check_definitions(class: &ClusterClass) -> Vec<String> {
    let mut problems = Vec::new();
    for (index, variable) in class.spec.variables.iter().enumerate() {
        let field = format!("spec.variables[{index}].schema.openAPIV3Schema");
        let schema = Value::Object(variable.schema.open_api_v3_schema.0.clone());
        let schema = Schema::from_crd(&wrapped(&schema), &field).map(Arc::new);
        // Rules that cannot be evaluated, or that may cost too much, are refused here and not with the first Cluster.
        if let Err(causes) = schema.and_then(|schema| Rules::compile(&schema, &field)) {
            problems.extend(causes.iter().map(|cause| readable(&cause.to_string())));
        }
        if variable.name == "builtin" {
            problems.push(format!(
                "spec.variables[{index}].name: \"builtin\" is reserved, another name is accepted"
            ));
        }
        if class.spec.variables[..index].iter().any(|other| other.name == variable.name) {
            problems.push(format!(
                "spec.variables[{index}].name: {:?} is defined twice, a name that no other variable has is accepted",
                variable.name
            ));
        }
    }
    problems
}

struct Definition<'a> {
    name: &'a str,
    required: bool,
    /// The schema of an object that has the value as its only field: a value at the top may have a default, too.
    schema: Result<Arc<Schema>, String>,
}

impl Definition<'_> {
    fn default(&self) -> Option<Value> {
        let mut holder = json!({});
        self.schema.as_ref().ok()?.apply_defaults(&mut holder).ok()?;
        holder.get_mut("value").map(Value::take)
    }
}

/// The definitions of a class: those that were discovered, or its own before that.
fn definitions(class: &ClusterClass) -> Vec<Definition<'_>> {
    let discovered = class.status.variables.iter().filter_map(|variable| {
        let first = variable.definitions.first()?;
        let required = variable.definitions.iter().any(|definition| definition.required == Some(true));
        Some((variable.name.as_str(), required, &first.schema.open_api_v3_schema.0))
    });
    let own = class.spec.variables.iter().map(|variable| {
        (variable.name.as_str(), variable.required == Some(true), &variable.schema.open_api_v3_schema.0)
    });
    let mut all: Vec<Definition<'_>> = Vec::new();
    for (name, required, schema) in discovered.chain(own) {
        if all.iter().any(|known| known.name == name) {
            continue;
        }
        let parsed = Schema::parse(&wrapped(&Value::Object(schema.clone())));
        let schema = parsed
            .map(Arc::new)
            .map_err(|causes| causes.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "));
        all.push(Definition { name, required, schema });
    }
    all
}

fn wrapped(schema: &Value) -> Value {
    json!({"type": "object", "properties": {"value": schema}})
}

/// The values in one place of a topology.
struct Values<'a> {
    variables: &'a mut [ClusterVariable],
    old: &'a [ClusterVariable],
    field: &'a str,
}

fn check(
    definitions: &[Definition<'_>],
    values: Values<'_>,
    budget: &mut RuleBudget,
    problems: &mut Vec<String>,
) {
    let Values { variables, old, field } = values;
    for index in 0..variables.len() {
        let (before, rest) = variables.split_at_mut(index);
        let Some(variable) = rest.first_mut() else { break };
        let at = format!("{field}[{}]", variable.name);
        if before.iter().any(|other| other.name == variable.name) {
            problems.push(format!("{at}: the variable is given twice, one value is accepted"));
        }
        let Some(definition) = definitions.iter().find(|definition| definition.name == variable.name) else {
            let known: Vec<&str> = definitions.iter().map(|definition| definition.name).collect();
            let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
            problems.push(format!(
                "{at}: the ClusterClass does not define this variable, those that it defines are accepted: {known}"
            ));
            continue;
        };
        let schema = match &definition.schema {
            Ok(schema) => schema,
            Err(problem) => {
                problems.push(format!(
                    "{at}: the schema of the variable cannot be used, no value is accepted: {problem}"
                ));
                continue;
            }
        };
        let mut holder = json!({"value": variable.value});
        // What is nested too deeply to be pruned is refused below.
        let unknown = schema.prune(&mut holder.clone()).unwrap_or_default();
        problems.extend(
            unknown
                .iter()
                .map(|path| format!("{at}.{path}: there is no such field, those of the schema are accepted")),
        );
        if schema.apply_defaults(&mut holder).is_err() {
            problems.push(format!("{at}.value: is nested too deeply, fewer levels are accepted"));
            continue;
        }
        let old = old.iter().find(|old| old.name == variable.name);
        let old = old.map(|old| json!({"value": old.value}));
        let mut causes = schema.validate(&holder, None);
        match Rules::compile_accepted(schema) {
            Ok(rules) => {
                let broken = rules.evaluate_within(budget, &holder, old.as_ref(), &causes);
                causes.extend(broken);
            }
            Err(broken) => causes.extend(broken),
        }
        problems.extend(causes.iter().map(|cause| format!("{at}.{cause}")));
        if let Some(value) = holder.get_mut("value") {
            variable.value = value.take();
        }
    }
}

/// Paths of schemas are told without the object around them.
fn readable(text: &str) -> String {
    text.replace(".properties[value]", "")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn class(variables: Value) -> ClusterClass {
        serde_json::from_value(json!({"spec": {"variables": variables}})).unwrap()
    }

    fn topology(variables: Value, overrides: Value) -> Topology {
        serde_json::from_value(json!({
            "variables": variables,
            "workers": {"machineDeployments": [{"name": "web", "variables": {"overrides": overrides}}]},
        }))
        .unwrap()
    }

    fn definitions() -> Value {
        json!([
            {"name": "size", "required": false, "schema": {"openAPIV3Schema":
                {"type": "integer", "minimum": 1, "maximum": 9, "default": 3}}},
            {"name": "image", "required": true, "schema": {"openAPIV3Schema":
                {"type": "string", "enum": ["a", "b"]}}},
            {"name": "proxy", "required": false, "schema": {"openAPIV3Schema": {"type": "object",
                "required": ["url"],
                "properties": {"url": {"type": "string"}, "port": {"type": "integer", "default": 80}},
                "x-kubernetes-validations": [{"rule": "self.port > 0", "message": "port must be positive"}]}}},
        ])
    }

    #[test]
    fn defaults_are_filled_in_at_the_top_and_below() {
        let class = class(definitions());
        let mut topology = topology(
            json!([{"name": "image", "value": "a"}, {"name": "proxy", "value": {"url": "http://x"}}]),
            json!([{"name": "size", "value": 5}]),
        );
        default_and_validate(&class, &mut topology, None).unwrap();
        let values: Value = topology
            .variables
            .iter()
            .map(|variable| (variable.name.clone(), variable.value.clone()))
            .collect::<serde_json::Map<_, _>>()
            .into();
        assert_eq!(values, json!({"image": "a", "size": 3, "proxy": {"url": "http://x", "port": 80}}));
    }

    #[test]
    fn everything_that_is_wrong_is_told_with_its_field() {
        let class = class(definitions());
        let mut topology = topology(
            json!([
                {"name": "size", "value": 12},
                {"name": "proxy", "value": {"port": 0, "tls": true}},
                {"name": "colour", "value": "red"},
            ]),
            json!([{"name": "size", "value": "big"}]),
        );
        let problems = default_and_validate(&class, &mut topology, None).unwrap_err();
        let all = problems.join("\n");
        for part in [
            "spec.topology.variables: variable \"image\" is required, a value that fits its schema is accepted",
            "spec.topology.variables[size].value: Invalid value: 12",
            "spec.topology.variables[proxy].value.url: Required value",
            "spec.topology.variables[proxy].value.tls: there is no such field",
            "spec.topology.variables[colour]: the ClusterClass does not define this variable, those that it defines are accepted: size, image, proxy",
            "spec.topology.workers.machineDeployments[web].variables.overrides[size].value: Invalid value",
        ] {
            assert!(all.contains(part), "{part}\nnot in\n{all}");
        }
    }

    #[test]
    fn rules_of_schemas_hold() {
        let class = class(definitions());
        let mut topology = topology(
            json!([{"name": "image", "value": "a"}, {"name": "proxy", "value": {"url": "x", "port": -1}}]),
            json!([]),
        );
        let problems = default_and_validate(&class, &mut topology, None).unwrap_err();
        assert_eq!(problems.len(), 1, "{problems:?}");
        assert!(problems[0].contains("port must be positive"), "{problems:?}");
    }

    #[test]
    fn definitions_of_a_class_are_checked() {
        let class = class(json!([
            {"name": "a", "schema": {"openAPIV3Schema": {"type": "strin"}}},
            {"name": "builtin", "schema": {"openAPIV3Schema": {"type": "string"}}},
            {"name": "a", "schema": {"openAPIV3Schema": {"type": "string"}}},
        ]));
        let all = check_definitions(&class).join("\n");
        for part in
            ["spec.variables[0].schema.openAPIV3Schema", "\"builtin\" is reserved", "\"a\" is defined twice"]
        {
            assert!(all.contains(part), "{part} not in {all}");
        }
    }

    #[test]
    fn rules_that_may_cost_too_much_are_refused_with_their_class() {
        let doubled = ".map(s, s + s)".repeat(27);
        let rule = format!("['aaaaaaaaaa']{doubled}.all(s, s != '')");
        let schema = json!({"type": "string", "x-kubernetes-validations": [{"rule": rule}]});
        let class = class(json!([{"name": "a", "schema": {"openAPIV3Schema": schema}}]));
        let problems = check_definitions(&class);
        assert!(problems[0].contains("estimated rule cost exceeds budget"), "{problems:?}");
        let mut topology = topology(json!([{"name": "a", "value": "x"}]), json!([]));
        let problems = default_and_validate(&class, &mut topology, None).unwrap_err();
        assert!(problems[0].contains("cost limit exceeded"), "a class of an older version: {problems:?}");
    }

    #[test]
    fn the_values_of_a_topology_share_what_rules_may_cost() {
        let rule = "self.all(a, self.all(b, a != b || a == b))";
        let list = json!({"type": "array", "maxItems": 200, "items": {"type": "integer"},
            "x-kubernetes-validations": [{"rule": rule}]});
        let class = class(json!([{"name": "a", "schema": {"openAPIV3Schema": list}}]));
        assert_eq!(check_definitions(&class), Vec::<String>::new());
        let value = json!({"name": "a", "value": vec![1; 200]});
        let mut one = topology(json!([value]), json!([]));
        assert_eq!(default_and_validate(&class, &mut one, None), Ok(()));
        let mut many = one;
        let entry = topology(json!([]), json!([value])).workers.machine_deployments.remove(0);
        many.workers.machine_deployments = vec![entry; 100];
        let problems = default_and_validate(&class, &mut many, None).unwrap_err();
        assert!(problems[0].contains("running out of cost budget"), "{problems:?}");
    }
}
