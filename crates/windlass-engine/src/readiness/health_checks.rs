//! MachineHealthChecks that could do more than one would think when another program begins to follow them.

use serde_json::Value;

use super::object::{full_name, text};
use super::{Finding, Level};

/// From here on, remediation goes on while most of the Machines are unhealthy.
const MANY: u64 = 50;

pub(super) fn findings(checks: &[Value]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for check in checks {
        let about = format!("MachineHealthCheck {}", full_name(check));
        let remediation = &check["spec"]["remediation"];
        if let Some(limit) = no_limit(&remediation["triggerIf"]) {
            findings.push(Finding::new(
                Level::Note,
                &about,
                format!("{limit}: all of its Machines may be remediated if Nodes cannot be seen"),
                "set spec.remediation.triggerIf.unhealthyLessThanOrEqualTo, such as 40%",
            ));
        }
        let template = &remediation["templateRef"];
        if !template.is_null() {
            let (kind, name) = (text(&template["kind"]), text(&template["name"]));
            findings.push(Finding::new(
                Level::Note,
                &about,
                format!("remediates by {kind} {name}: the controller of that kind must go on running"),
                "",
            ));
        }
    }
    findings
}

/// Why remediation is not limited to a minority, if it is not.
fn no_limit(trigger: &Value) -> Option<String> {
    if trigger["unhealthyInRange"].is_string() {
        return None;
    }
    let limit = match &trigger["unhealthyLessThanOrEqualTo"] {
        Value::Null => return Some("has no limit (spec.remediation.triggerIf)".to_owned()),
        Value::String(limit) => limit,
        // How many that are of all is not said.
        _ => return None,
    };
    let percent: Option<u64> = limit.strip_suffix('%').and_then(|number| number.parse().ok());
    percent.is_some_and(|percent| percent > MANY).then(|| format!("its limit is {limit}"))
}
