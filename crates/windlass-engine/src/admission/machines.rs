//! What Clusters, classes and MachineDeployments say about machines in the same words: labels, taints, rollouts and
//! health checks.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use windlass_api::cluster::{
    HealthChecks, MachineTaint, RemediationTriggerIf, RollingUpdate, RolloutStrategy, RolloutStrategyType,
    TemplateMeta, TemplateReference,
};
use windlass_api::label_selector::{is_label_key, is_label_value};

use super::Verdict;
use crate::annotated_strategy::{Typed, contradictions};

/// A Machine that may not even take this long to become a Node would be replaced again and again.
const SHORTEST_STARTUP_SECONDS: i32 = 30;

const KEY: &str = "a name, or a domain, a slash and a name, is";

/// A number of machines. The schemas of the kinds say the same, where their CRDs are ours.
pub(super) fn check_replicas(field: &str, replicas: Option<i32>, verdict: &mut Verdict) {
    if let Some(replicas) = replicas.filter(|replicas| *replicas < 0) {
        verdict.refuse(field, format!("{replicas} is not accepted, a number of at least 0 is"));
    }
}

pub(super) fn check_metadata(field: &str, metadata: &TemplateMeta, verdict: &mut Verdict) {
    for (key, value) in &metadata.labels {
        if !is_label_key(key) {
            verdict.refuse(format!("{field}.labels"), format!("key {key:?} is not accepted, {KEY}"));
        }
        if !is_label_value(value) {
            verdict.refuse(
                format!("{field}.labels[{key}]"),
                format!(
                    "{value:?} is not accepted, up to 63 letters, digits, dashes, dots and underscores are"
                ),
            );
        }
    }
    for key in metadata.annotations.keys() {
        // Keys of annotations differ from those of labels only in case, which does not matter for them.
        if !is_label_key(&key.to_ascii_lowercase()) {
            verdict.refuse(format!("{field}.annotations"), format!("key {key:?} is not accepted, {KEY}"));
        }
    }
}

pub(super) fn check_taints(field: &str, taints: &[MachineTaint], verdict: &mut Verdict) {
    for (index, taint) in taints.iter().enumerate() {
        let (key, value) = (&taint.key, &taint.value);
        if !is_label_key(key) {
            verdict.refuse(format!("{field}[{index}].key"), format!("{key:?} is not accepted, {KEY}"));
        }
        if !is_label_value(value) {
            verdict.refuse(
                format!("{field}[{index}].value"),
                format!(
                    "{value:?} is not accepted, up to 63 letters, digits, dashes, dots and underscores are"
                ),
            );
        }
    }
}

/// Checks how machines are replaced. What cannot make a single step is refused.
pub(super) fn check_strategy(field: &str, strategy: &RolloutStrategy, verdict: &mut Verdict) {
    let external = strategy.type_ == RolloutStrategyType::External;
    if strategy.fallback_rolling.is_some() && !external {
        verdict.refuse(format!("{field}.fallbackRolling"), "is accepted with type External only");
    }
    if strategy.rolling_update.is_some() && strategy.type_ == RolloutStrategyType::OnDelete {
        verdict.refuse(
            format!("{field}.rollingUpdate"),
            "is not accepted with type OnDelete; remove it, or use type RollingUpdate",
        );
    }
    let surge = strategy.rolling_update.as_ref().and_then(|limits| limits.max_surge.as_ref());
    // The CRD fills in a surge of one where nothing was said, which stays when only the type is changed.
    if external && surge.is_some_and(|surge| *surge != IntOrString::Int(1)) {
        verdict.refuse(
            format!("{field}.rollingUpdate.maxSurge"),
            "is not accepted with type External, which adds no Machine; use fallbackRolling.maxSurge for Machines that \
             are replaced, or type RollingUpdate",
        );
    }
    if let Some(limits) = &strategy.rolling_update {
        // Machines that are updated in place need neither room nor absence.
        check_limits(&format!("{field}.rollingUpdate"), limits, !external, verdict);
    }
    if let Some(limits) = &strategy.fallback_rolling {
        check_limits(&format!("{field}.fallbackRolling"), limits, true, verdict);
    }
}

/// Checks annotations about the strategy against what the field says.
pub(super) fn check_annotated_strategy(
    field: &str,
    annotations: Option<&BTreeMap<String, String>>,
    strategy: Option<&RolloutStrategy>,
    verdict: &mut Verdict,
) {
    let typed = match strategy.map(|strategy| (&strategy.type_, strategy)) {
        None | Some((RolloutStrategyType::RollingUpdate, _)) => Typed::RollingUpdate,
        Some((RolloutStrategyType::External, strategy)) => {
            Typed::External { falls_back: strategy.fallback_rolling.is_some() }
        }
        Some((RolloutStrategyType::Unknown(text), _)) if text.is_empty() => Typed::RollingUpdate,
        Some(_) => Typed::Other,
    };
    for (key, why) in contradictions(annotations, typed) {
        verdict.refuse(format!("{field}.annotations[{key}]"), why);
    }
}

fn check_limits(field: &str, limits: &RollingUpdate, must_move: bool, verdict: &mut Verdict) {
    let mut read = |name: &str, value: Option<&IntOrString>| {
        let value = value?;
        let amount = amount(value);
        if amount.is_none() {
            verdict.refuse(
                format!("{field}.{name}"),
                format!(
                    "{} is not accepted, a number such as 1 or a percentage such as 20% is",
                    shown(value)
                ),
            );
        }
        amount
    };
    let surge = read("maxSurge", limits.max_surge.as_ref());
    let unavailable = read("maxUnavailable", limits.max_unavailable.as_ref());
    let none_unavailable = limits.max_unavailable.is_none() || unavailable == Some(0);
    if must_move && surge == Some(0) && none_unavailable {
        verdict.refuse(
            format!("{field}.maxUnavailable"),
            "0 is not accepted where maxSurge is 0, 1 or more is: no Machine could ever be replaced",
        );
    }
}

/// Checks when Machines are replaced, and how.
pub(super) fn check_health_check(
    field: &str,
    checks: &HealthChecks,
    trigger_if: &RemediationTriggerIf,
    template: Option<&TemplateReference>,
    verdict: &mut Verdict,
) {
    if let Some(seconds) = checks.node_startup_timeout_seconds
        && seconds != 0
        && seconds < SHORTEST_STARTUP_SECONDS
    {
        verdict.refuse(
            format!("{field}.checks.nodeStartupTimeoutSeconds"),
            format!("{seconds} is not accepted, 0 or at least {SHORTEST_STARTUP_SECONDS} is"),
        );
    }
    let remediation = format!("{field}.remediation");
    if let Some(most) = &trigger_if.unhealthy_less_than_or_equal_to
        && amount(most).is_none()
    {
        verdict.refuse(
            format!("{remediation}.triggerIf.unhealthyLessThanOrEqualTo"),
            format!("{} is not accepted, a number such as 1 or a percentage such as 40% is", shown(most)),
        );
    }
    if let Some(range) = &trigger_if.unhealthy_in_range
        && !is_range(range)
    {
        verdict.refuse(
            format!("{remediation}.triggerIf.unhealthyInRange"),
            format!("{range:?} is not accepted, a range such as [3-5] is"),
        );
    }
    if let Some(template) = template
        && !template.kind.ends_with("Template")
    {
        verdict.refuse(
            format!("{remediation}.templateRef.kind"),
            format!("{:?} is not accepted, a kind that ends in Template is", template.kind),
        );
    }
}

fn is_range(text: &str) -> bool {
    let inner = text.strip_prefix('[').and_then(|text| text.strip_suffix(']'));
    let ends = inner.and_then(|inner| inner.split_once('-'));
    ends.and_then(|(low, high)| Some(low.parse::<u32>().ok()? <= high.parse().ok()?)).unwrap_or(false)
}

/// A number of Machines or a percentage of them.
fn amount(value: &IntOrString) -> Option<u32> {
    match value {
        IntOrString::Int(number) => u32::try_from(*number).ok(),
        IntOrString::String(text) => text.strip_suffix('%')?.parse().ok(),
    }
}

fn shown(value: &IntOrString) -> String {
    match value {
        IntOrString::Int(number) => number.to_string(),
        IntOrString::String(text) => format!("{text:?}"),
    }
}
