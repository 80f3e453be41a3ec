//! An upgrade in one line, for those who follow it without a terminal.

use windlass_engine::describe::{ClusterDescription, StepState};
use windlass_engine::progress::Verdict;

/// The step that runs, and what is waited on.
pub(crate) fn line(described: &ClusterDescription) -> String {
    let steps = described.upgrade.as_ref().map(|upgrade| upgrade.steps.as_slice()).unwrap_or_default();
    let done = steps.iter().filter(|step| step.state == StepState::Done).count();
    let running = steps.iter().find(|step| step.state == StepState::Running);
    let step = running.map(|step| {
        let machines = match (step.machines_done, step.machines) {
            (Some(done), Some(all)) => format!(", {done} of {all} machines"),
            _ => String::new(),
        };
        format!("{} to {}{machines}", step.part, step.version)
    });
    let waits = described.waiting_on.as_ref().map(|waiting| waiting.wait.to_string());
    let parts: Vec<String> = [step, waits].into_iter().flatten().collect();
    match described.progress.verdict {
        Verdict::UpToDate => {
            format!("up to date at {}", described.version.as_deref().unwrap_or("no version of its own"))
        }
        verdict => format!("{verdict} [{done}/{}] {}", steps.len(), parts.join("; ")),
    }
}
