//! What stands against a take-over in what Windlass would write.

use std::collections::BTreeMap;

use serde_json::Value;
use windlass_api::conditions::UP_TO_DATE;

use super::{Finding, Level};
use crate::topology::{TAKE_OVER_REFUSED, different_fields};

/// A write that did not happen.
#[derive(Clone, Debug, PartialEq)]
pub struct WouldWrite {
    /// `create`, `update`, `patch`, `apply` or `delete`.
    pub verb: &'static str,
    /// Path of the object, or of its kind if it would be created.
    pub path: String,
    /// Whether the object is not there yet, as far as the server says so.
    pub is_new: bool,
    /// What would be sent; nothing for deletions.
    pub body: Value,
    /// What the server would make of an object that is not there yet; nothing otherwise.
    pub becomes: Value,
}

impl WouldWrite {
    /// Whether only a status would be written.
    pub fn is_status(&self) -> bool {
        self.path.ends_with("/status")
    }

    /// Plural and name of an object whose coming or going means that machines are replaced.
    pub fn rolls_out(&self) -> Option<(&str, &str)> {
        const ROLLS: [&str; 4] = ["machines", "machinesets", "machinedeployments", "machinepools"];
        let (_, within) = self.path.split_once("/namespaces/")?;
        let mut parts = within.split('/').skip(1);
        let plural = parts.next()?;
        let name = parts.next().or_else(|| self.body["metadata"]["name"].as_str()).unwrap_or("(new)");
        (ROLLS.contains(&plural) || plural.ends_with("templates")).then_some((plural, name))
    }
}

/// Fields that would be lost, Machines that would count as outdated, and machines, or what machines are made from, that would come or
/// go. `rotated` has the templates that new ones would stand in for, by the paths of the new ones.
pub fn write_findings(
    writes: &[WouldWrite],
    machines: &[Value],
    rotated: &BTreeMap<String, Value>,
) -> Vec<Finding> {
    let mut findings: Vec<Finding> = writes.iter().filter_map(refused).collect();
    findings.extend(writes.iter().filter_map(|write| outdated(write, machines)));
    for write in writes.iter().filter(|write| write.verb == "delete" || write.is_new) {
        let Some((plural, name)) = write.rolls_out() else { continue };
        let differs = rotated.get(&write.path).map(|before| {
            let name = before["metadata"]["name"].as_str().unwrap_or_default();
            format!(
                " instead of {name}, which differs in {}",
                different_fields(before, &write.becomes).join(", ")
            )
        });
        let what = format!(
            "Windlass would {} it{}: machines would be replaced by taking over",
            write.verb,
            differs.unwrap_or_default()
        );
        let remedy = "windlass run --dry-run shows the whole object".to_owned();
        findings.push(Finding { level: Level::Blocks, about: format!("{plural} {name}"), what, remedy });
    }
    findings
}

/// What a Cluster would say about a take-over that Windlass refuses.
fn refused(write: &WouldWrite) -> Option<Finding> {
    let conditions = write.body["status"]["conditions"].as_array()?;
    let message =
        conditions.iter().find(|condition| condition["reason"] == TAKE_OVER_REFUSED)?["message"].as_str()?;
    let name = write.path.trim_end_matches("/status").rsplit('/').next()?;
    let (what, remedy) = message.split_once(". ")?;
    let (about, what, remedy) = (format!("Cluster {name}"), what.to_owned(), remedy.to_owned());
    Some(Finding { level: Level::Blocks, about, what, remedy })
}

/// A Machine that is up to date now, and would not be any more.
fn outdated(write: &WouldWrite, machines: &[Value]) -> Option<Finding> {
    let (_, within) = write.path.split_once("/namespaces/")?;
    let [namespace, "machines", name, "status"] = within.split('/').collect::<Vec<_>>()[..] else {
        return None;
    };
    let up_to_date = |object: &Value| {
        let conditions = object["status"]["conditions"].as_array();
        conditions.into_iter().flatten().find(|condition| condition["type"] == UP_TO_DATE).cloned()
    };
    let said = up_to_date(&write.body).filter(|said| said["status"] == "False")?;
    let machine = machines.iter().find(|machine| {
        machine["metadata"]["namespace"] == namespace && machine["metadata"]["name"] == name
    })?;
    // One that is outdated already is on its way out, whoever does it.
    if up_to_date(machine).is_some_and(|before| before["status"] == "False") {
        return None;
    }
    let message = said["message"].as_str().unwrap_or_default().replace('\n', " ");
    Some(Finding {
        level: Level::Blocks,
        about: format!("Machine {namespace}/{name}"),
        what: format!("would count as outdated and be replaced: {message}"),
        remedy: "windlass run --dry-run shows what is compared".to_owned(),
    })
}
