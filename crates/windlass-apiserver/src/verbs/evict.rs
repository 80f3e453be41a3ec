//! Eviction: a deletion of a pod that asks its disruption budget first.

use bytes::Bytes;
use http::StatusCode;
use serde_json::Value;

use super::Call;
use crate::api::{Failure, Status};
use crate::response::Reply;
use crate::selection::selects;
use crate::stored::{meta, parse};

impl Call {
    /// Deletes the pod unless a PodDisruptionBudget says that none may go now.
    ///
    /// Nothing here computes the status of budgets, and an eviction does not count itself against it: that is
    /// left to the component that writes the status.
    pub(super) async fn evict(&self, body: &Bytes) -> Result<Reply, Failure> {
        let eviction = if body.is_empty() { Value::Null } else { self.read_document(body)?.value };
        let name = eviction["metadata"]["name"].as_str().unwrap_or_default();
        if !name.is_empty() && name != self.name() {
            return Err(Failure::bad_request("name in URL does not match name in Eviction object"));
        }
        let options = self.delete_options(&eviction["deleteOptions"])?;
        self.check_budget()?;
        self.remove(self.name(), &options).await?;
        Ok(Reply::json(StatusCode::CREATED, Status::success(None).to_json()))
    }

    fn check_budget(&self) -> Result<(), Failure> {
        let pod = self.find(self.name())?;
        let labels = &meta(&pod).labels;
        let phase = self.resource.value(&pod)?["status"]["phase"].as_str().unwrap_or_default().to_owned();
        // A pod that does not run, or is going already, disrupts nothing.
        if matches!(phase.as_str(), "Succeeded" | "Failed" | "Pending") || meta(&pod).deleted_at.is_some() {
            return Ok(());
        }
        let Some(budgets) = self.registry.get("policy", "v1", "poddisruptionbudgets") else { return Ok(()) };
        let snapshot = self.server.store.snapshot();
        let mut covering = Vec::new();
        for budget in snapshot.list(&budgets.scope(Some(&self.namespace))) {
            let budget = parse(budget)?;
            let selector = &budget["spec"]["selector"];
            if selector.is_object() && selects(selector, labels) {
                covering.push(budget);
            }
        }
        match covering.as_slice() {
            [] => Ok(()),
            [budget] => allows(budget),
            _ => Err(Failure::internal(
                "this pod has more than one PodDisruptionBudget, which the eviction subresource does not support",
            )),
        }
    }
}

fn allows(budget: &Value) -> Result<(), Failure> {
    const REFUSED: &str = "Cannot evict pod as it would violate the pod's disruption budget.";
    let name = budget["metadata"]["name"].as_str().unwrap_or_default();
    let number = |field: &str| budget["status"][field].as_i64().unwrap_or_default();
    let generation = budget["metadata"]["generation"].as_i64().unwrap_or_default();
    if number("observedGeneration") < generation {
        let why = format!("The disruption budget {name} is still being processed by the server.");
        return Err(Failure::disruption(REFUSED, &why, 10));
    }
    if number("disruptionsAllowed") > 0 {
        return Ok(());
    }
    let (wanted, healthy) = (number("desiredHealthy"), number("currentHealthy"));
    let why = format!("The disruption budget {name} needs {wanted} healthy pods and has {healthy} currently");
    Err(Failure::disruption(REFUSED, &why, 0))
}
