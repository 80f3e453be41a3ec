//! A plan as a Mermaid flowchart, which Markdown viewers draw.

use windlass_plan::{Step, UpgradePlan};

use super::title;

/// Renders a plan as a chain of nodes, one per operation, in the order of execution.
pub(super) fn render(plan: &UpgradePlan) -> String {
    let mut text = String::from("flowchart LR\n");
    text.push_str(&format!("    start([\"{}\"])\n", escape(&plan.from.to_string())));
    let mut before = "start".to_owned();
    for (index, operation) in plan.operations.iter().enumerate() {
        let node = format!("op{}", index + 1);
        let class = match &operation.step {
            Step::ControlPlane { .. } => "controlPlane",
            Step::Workers { .. } => "workers",
        };
        text.push_str(&format!(
            "    {before} --> {node}[\"{}. {}<br/>{} to {}<br/>skew {}\"]:::{class}\n",
            index + 1,
            escape(&title(&operation.step)),
            escape(&operation.step.from().to_string()),
            escape(&operation.step.to().to_string()),
            operation.skew
        ));
        before = node;
    }
    text.push_str(&format!("    {before} --> done([\"{}\"])\n", escape(&plan.to.to_string())));
    text.push_str("    classDef controlPlane fill:#dbeafe,stroke:#1d4ed8,color:#111\n");
    text.push_str("    classDef workers fill:#dcfce7,stroke:#15803d,color:#111\n");
    text
}

/// Names of groups are the user's text; inside quotes Mermaid wants these as entities.
fn escape(text: &str) -> String {
    text.replace('&', "#amp;").replace('"', "#quot;").replace('<', "#lt;").replace('>', "#gt;")
}

#[cfg(test)]
mod tests {
    use super::*;
    use windlass_plan::{PlanRequest, WorkerGroup, plan};
    use windlass_version::Version;

    #[test]
    fn names_cannot_break_out_of_their_node() {
        let request = PlanRequest::new(Version::new(1, 30, 0), Version::new(1, 31, 0))
            .with_workers([WorkerGroup::new("a\"]; evil --> b[<", Version::new(1, 30, 0))]);
        let text = render(&plan(&request).unwrap());
        assert!(text.contains("workers a#quot;]; evil --#gt; b[#lt;<br/>"), "{text}");
    }
}
