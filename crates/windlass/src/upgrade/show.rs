//! What a verb does, for people and for scripts.

use serde::Serialize;
use serde_json::Value;
use windlass_controllers::steer::LivePlan;
use windlass_engine::steer::Change;
use windlass_plan::{PlanDiff, PlanDocument, RefusalDocument};

use crate::exit::Failure;
use crate::output::{self, Format};
use crate::plan;
use crate::stops::{self, StopDocument};

/// What is shown of a verb.
pub(super) struct Shown<'a> {
    /// The change of the Cluster.
    pub(super) change: &'a Change,
    /// What follows from it.
    pub(super) plan: Option<&'a LivePlan>,
    /// The plan that it replaces, while an upgrade runs.
    pub(super) before: Option<&'a LivePlan>,
    /// The change that is made after it.
    pub(super) then: Option<&'a Change>,
    /// Where it stops until the owner of the Cluster lets it go on.
    pub(super) stops: Vec<StopDocument>,
    /// Whether the Cluster was changed.
    pub(super) is_done: bool,
}

/// The fields are a contract with scripts.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Document<'a> {
    changed: bool,
    patch: &'a Value,
    kubectl: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    then_kubectl: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    plan: Option<PlanDocument>,
    #[serde(skip_serializing_if = "Option::is_none")]
    planned_by: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    refused: Option<RefusalDocument>,
    #[serde(skip_serializing_if = "Option::is_none")]
    difference: Option<PlanDiff>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    stops: &'a [StopDocument],
}

impl<'a> Shown<'a> {
    /// A verb that has no plan.
    pub(super) fn of_change(change: &'a Change, is_done: bool) -> Self {
        Self { change, plan: None, before: None, then: None, stops: Vec::new(), is_done }
    }

    pub(super) fn print(&self, format: Format) -> Result<(), Failure> {
        match format {
            Format::Table => output::print(&self.table()),
            format => output::print_document(format, &self.document()),
        }
    }

    fn document(&self) -> Document<'_> {
        let (plan, planned_by, refused) = match self.plan {
            Some(LivePlan::Plan(plan)) => (Some(PlanDocument::from(plan.as_ref())), None, None),
            Some(LivePlan::OfExtension(handler)) => (None, Some(handler.as_str()), None),
            Some(LivePlan::Refused(refusal)) => (None, None, Some(RefusalDocument::from(refusal))),
            None => (None, None, None),
        };
        Document {
            changed: self.is_done,
            patch: &self.change.patch,
            kubectl: self.change.to_string(),
            then_kubectl: self.then.map(ToString::to_string),
            plan,
            planned_by,
            refused,
            difference: self.difference(),
            stops: &self.stops,
        }
    }

    /// What changes about the plan of an upgrade that runs.
    fn difference(&self) -> Option<PlanDiff> {
        match (self.before, self.plan) {
            (Some(LivePlan::Plan(before)), Some(LivePlan::Plan(after))) => {
                Some(PlanDiff::between(&before.as_ref().into(), &after.as_ref().into()))
            }
            _ => None,
        }
    }

    fn table(&self) -> String {
        let mut text = String::new();
        match self.plan {
            Some(LivePlan::Plan(plan)) => text.push_str(&plan::table::render_steps(plan)),
            Some(LivePlan::Refused(refusal)) => text.push_str(&format!("There is no path: {refusal}\n")),
            Some(LivePlan::OfExtension(handler)) => {
                text.push_str(&format!("The plan comes from {handler}, which the controllers ask.\n"));
            }
            None => {}
        }
        text.push_str(&stops::render(&self.stops));
        if let Some(difference) = self.difference() {
            text.push_str(&format!("\nWhat changes:\n{}", plan::diff::render(&difference)));
        }
        let head = if self.is_done { "Done. The same by hand:" } else { "By hand:" };
        if !text.is_empty() {
            text.push('\n');
        }
        text.push_str(&format!("{head}\n  {}\n", self.change));
        if let Some(then) = self.then {
            text.push_str(&format!("  {then}\n"));
        }
        text
    }
}
