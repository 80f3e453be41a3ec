//! ExtensionConfigs with each other, with ClusterClasses and with Namespaces: L4, L6, L7 and L9.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use serde_json::Value;
use windlass_api::Hook;
use windlass_api::hooks::HookTag;
use windlass_api::label_selector::Selector;
use windlass_api::names::NAMESPACE_NAME_LABEL;
use windlass_api::runtime::ExtensionConfig;

use super::Registered;
use crate::check::{CheckId, Finding, Rule};
use crate::report::Ledger;

type Labels = BTreeMap<String, String>;

pub(super) fn check(
    configs: &[Registered],
    classes: &[(String, Value)],
    namespaces: &[Value],
    ledger: &mut Ledger,
) {
    let namespaces: BTreeMap<String, Labels> = namespaces.iter().filter_map(labels_of_namespace).collect();
    check_namespaces(configs, &namespaces, ledger);
    for (subject, class) in classes {
        for reference in references(class) {
            check_reference(subject, class, &reference, configs, &namespaces, ledger);
        }
    }
    check_overlap(configs, &namespaces, ledger);

    let reason = "no ClusterClass in the file refers to an extension";
    let opt_in = "put the ClusterClasses into the same file";
    ledger.skip(CheckId::L6, reason, Some(opt_in));
    ledger.skip(CheckId::L7, reason, Some(opt_in));
    let reason = "fewer than two ExtensionConfigs in the file have in-place handlers in their status";
    ledger.skip(CheckId::L9, reason, Some("put all ExtensionConfigs of the cluster into the same file"));
    ledger.skip(CheckId::L12, "there is no caBundle", None);
    ledger.skip(CheckId::L14, "there are no other documents", None);
}

fn labels_of_namespace(namespace: &Value) -> Option<(String, Labels)> {
    let name = namespace["metadata"]["name"].as_str()?.to_owned();
    let given = namespace["metadata"]["labels"].as_object().into_iter().flatten();
    let mut labels: Labels =
        given.filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned()))).collect();
    labels.insert(NAMESPACE_NAME_LABEL.to_owned(), name.clone());
    Some((name, labels))
}

/// The selector as admission leaves it; `None` if it is invalid, which is reported elsewhere.
fn selector(config: &ExtensionConfig) -> Option<Selector> {
    let everything = LabelSelector::default();
    Selector::compile(Some(config.spec.namespace_selector.as_ref().unwrap_or(&everything))).ok()
}

fn check_namespaces(configs: &[Registered], namespaces: &BTreeMap<String, Labels>, ledger: &mut Ledger) {
    for Registered { subject, config } in configs {
        let Some(selector) = selector(config) else { continue };
        if !namespaces.is_empty() && !namespaces.values().any(|labels| selector.matches(labels)) {
            let names: Vec<&str> = namespaces.keys().map(String::as_str).collect();
            let observed = format!("{selector} matches none of {}", names.join(", "));
            let field = format!("{subject}: spec.namespaceSelector");
            ledger.found(Finding::new(Rule::SelectorMatchesNone, field, observed));
        }
    }
}

/// A field of a ClusterClass that names a handler.
struct Reference {
    field: String,
    hook: Hook,
    name: String,
}

fn references(class: &Value) -> Vec<Reference> {
    // The first spelling is that of v1beta2, the second that of v1beta1.
    const OF_PATCHES: [(&str, Hook); 5] = [
        ("generatePatchesExtension", Hook::GeneratePatches),
        ("validateTopologyExtension", Hook::ValidateTopology),
        ("discoverVariablesExtension", Hook::DiscoverVariables),
        ("generateExtension", Hook::GeneratePatches),
        ("validateExtension", Hook::ValidateTopology),
    ];
    let mut references = Vec::new();
    let mut add = |field: String, hook: Hook, name: &Value| {
        references.extend(name.as_str().map(|name| Reference { field, hook, name: name.to_owned() }));
    };
    for (index, patch) in class["spec"]["patches"].as_array().into_iter().flatten().enumerate() {
        for (name, hook) in OF_PATCHES {
            add(format!("spec.patches[{index}].external.{name}"), hook, &patch["external"][name]);
        }
    }
    let plan = &class["spec"]["upgrade"]["external"]["generateUpgradePlanExtension"];
    add("spec.upgrade.external.generateUpgradePlanExtension".to_owned(), Hook::GenerateUpgradePlan, plan);
    references
}

fn check_reference(
    class_subject: &str,
    class: &Value,
    reference: &Reference,
    configs: &[Registered],
    namespaces: &BTreeMap<String, Labels>,
    ledger: &mut Ledger,
) {
    let Reference { field, hook, name } = reference;
    let subject = format!("{class_subject}: {field}");
    ledger.looked_at(CheckId::L6, class_subject);
    let extension = match name.split('.').collect::<Vec<_>>().as_slice() {
        [_, extension] => (*extension).to_owned(),
        _ => {
            let observed = format!("{name:?} is not <handler>.<ExtensionConfig>");
            ledger.found(Finding::new(Rule::ReferenceUnresolved, subject, observed));
            return;
        }
    };
    let not_checked = |what: String| Finding::new(Rule::ReferenceNotChecked, class_subject, what);
    let Some(Registered { config, .. }) =
        configs.iter().find(|registered| registered.config.name() == extension)
    else {
        ledger.found(not_checked(format!("ExtensionConfig {extension} is not in the file")));
        return;
    };
    check_class_namespace(&subject, class, *hook, config, namespaces, ledger);
    let handlers = &config.status.handlers;
    if handlers.is_empty() {
        ledger.found(not_checked(format!("ExtensionConfig {extension} has no status.handlers")));
        return;
    }
    match handlers.iter().find(|handler| handler.name == *name) {
        None => {
            let observed = format!("{name} is not among the handlers of ExtensionConfig {extension}");
            ledger.found(Finding::new(Rule::ReferenceUnresolved, subject, observed));
        }
        Some(handler) if handler.request_hook.hook != hook.name() => {
            let observed = format!("{name} handles {}, not {hook}", handler.request_hook.hook);
            ledger.found(Finding::new(Rule::ReferenceOfOtherHook, subject, observed));
        }
        Some(_) => {}
    }
}

/// Only DiscoverVariables is called for the namespace of the class; the others for that of a Cluster.
fn check_class_namespace(
    subject: &str,
    class: &Value,
    hook: Hook,
    config: &ExtensionConfig,
    namespaces: &BTreeMap<String, Labels>,
    ledger: &mut Ledger,
) {
    let Some(namespace) = class["metadata"]["namespace"].as_str() else { return };
    let (Hook::DiscoverVariables, Some(selector)) = (hook, selector(config)) else { return };
    let by_name_only = selector.requirements().iter().all(|one| one.key == NAMESPACE_NAME_LABEL);
    let name_only = || Labels::from([(NAMESPACE_NAME_LABEL.to_owned(), namespace.to_owned())]);
    let labels = match namespaces.get(namespace) {
        Some(labels) => labels.clone(),
        None if by_name_only => name_only(),
        // Without its labels nothing can be said about the namespace.
        None => return,
    };
    ledger.looked_at(CheckId::L7, subject);
    if !selector.matches(&labels) {
        let observed = format!("{selector} does not match namespace {namespace}");
        ledger.found(Finding::new(Rule::ClassNamespaceNotSelected, subject, observed));
    }
}

fn check_overlap(configs: &[Registered], namespaces: &BTreeMap<String, Labels>, ledger: &mut Ledger) {
    let in_place = |config: &ExtensionConfig| -> Vec<Hook> {
        let handlers = config.status.handlers.iter();
        let hooks = handlers.filter_map(|handler| handler.request_hook.resolve().ok());
        hooks.filter(|hook| hook.tag() == HookTag::InPlaceUpdate).collect()
    };
    for (index, one) in configs.iter().enumerate() {
        for other in &configs[index + 1..] {
            let hooks = in_place(&other.config);
            let shared: Vec<&str> = in_place(&one.config)
                .into_iter()
                .filter(|hook| hooks.contains(hook))
                .map(Hook::name)
                .collect();
            if shared.is_empty() {
                continue;
            }
            ledger.looked_at(CheckId::L9, &one.subject);
            if overlap(&one.config, &other.config, namespaces) {
                let observed = format!("{} also handles {} there", other.subject, shared.join(", "));
                ledger.found(Finding::new(Rule::InPlaceOverlap, &one.subject, observed));
            }
        }
    }
}

/// Whether a namespace can be selected by both. Without namespaces in the file only what is certain counts.
fn overlap(one: &ExtensionConfig, other: &ExtensionConfig, namespaces: &BTreeMap<String, Labels>) -> bool {
    let (Some(first), Some(second)) = (selector(one), selector(other)) else { return false };
    if namespaces.is_empty() {
        first.is_everything() || second.is_everything() || first == second
    } else {
        namespaces.values().any(|labels| first.matches(labels) && second.matches(labels))
    }
}
