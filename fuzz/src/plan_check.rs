//! Any plan is either proven safe and complete, or refused with reasons.

use windlass_plan::{PlanDiff, PlanDocument, PlanRequest, RefusalDocument, Source, WorkerGroup, plan, prove};
use windlass_version::Version;

/// One input: five lines with the control plane's version, the workers' versions, the target, and the two
/// plans; versions on a line are separated by spaces. A sixth line makes it a list of versions instead.
pub fn run(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let mut lines = text.lines();
    let mut words = || -> Vec<String> {
        lines
            .next()
            .unwrap_or_default()
            .split(' ')
            .filter(|word| !word.is_empty())
            .map(str::to_owned)
            .collect()
    };
    let (from, workers, to, control_plane, stops, list) =
        (words(), words(), words(), words(), words(), words());
    let version = |words: &[String]| words.first().and_then(|word| Version::parse(word).ok());
    let (Some(from), Some(to)) = (version(&from), version(&to)) else { return };
    let groups = workers
        .iter()
        .filter_map(|word| Version::parse(word).ok())
        .enumerate()
        .map(|(n, version)| WorkerGroup::new(format!("g{n}"), version));
    let source = if list.is_empty() {
        Source::Given { control_plane, workers: stops }
    } else {
        Source::Versions(list)
    };
    let request = PlanRequest::new(from, to).with_workers(groups).with_source(source);
    match plan(&request) {
        Ok(plan) => {
            let steps = plan.operations.iter().map(|operation| &operation.step);
            let proof = prove(&request.control_plane, &request.workers, steps);
            assert_eq!(proof.map(|proof| proof.worst), Ok(plan.worst_skew));
            let document = PlanDocument::from(&plan);
            let json = serde_json::to_string(&document).expect("plans are plain data");
            let read: PlanDocument = serde_json::from_str(&json).expect("what is printed can be read");
            assert!(PlanDiff::between(&document, &read).is_empty());
        }
        Err(refusal) => {
            assert!(!refusal.violations.is_empty());
            assert_eq!(RefusalDocument::from(&refusal).errors.len(), refusal.violations.len());
        }
    }
}
