//! Upgrade plans from a list of versions.

use windlass_api::hooks::{
    GenerateUpgradePlanRequest, GenerateUpgradePlanResponse, HookResponse, UpgradeStep,
};
use windlass_plan::{PlanRequest, Refusal, Source, WorkerGroup, plan};
use windlass_version::{ParseError, Version};

/// The answer to GenerateUpgradePlan, given the versions that may be used, old to new.
///
/// The control plane goes through the newest listed version of every minor on the way. The workers' steps
/// are left to the caller, which takes the fewest that the skew policy allows; but a request for which there
/// are none, because the workers are too far behind or ahead, is refused here. The answer depends on nothing
/// but its arguments, so that it is the same however often it is asked for.
///
/// A request without a way to the target is answered with a failure that lists everything in its way.
pub fn from_list<T: Into<String>>(
    request: &GenerateUpgradePlanRequest,
    versions: impl IntoIterator<Item = T>,
) -> GenerateUpgradePlanResponse {
    match control_plane_steps(request, Source::versions(versions)) {
        Ok(steps) => GenerateUpgradePlanResponse {
            control_plane_upgrades: steps
                .iter()
                .map(|version| UpgradeStep::from(version.to_string()))
                .collect(),
            ..GenerateUpgradePlanResponse::success()
        },
        Err(reason) => GenerateUpgradePlanResponse::failure(reason.to_string()),
    }
}

fn control_plane_steps(request: &GenerateUpgradePlanRequest, source: Source) -> Result<Vec<Version>, NoPlan> {
    let from = version("fromControlPlaneKubernetesVersion", &request.from_control_plane_kubernetes_version)?;
    let to = version("toKubernetesVersion", &request.to_kubernetes_version)?;
    let workers = request
        .from_workers_kubernetes_version
        .as_deref()
        .map(|text| version("fromWorkersKubernetesVersion", text))
        .transpose()?
        .map(|version| WorkerGroup::new("workers", version));
    let request = PlanRequest::new(from, to).with_workers(workers).with_source(source);
    Ok(plan(&request)?.control_plane)
}

fn version(field: &'static str, text: &str) -> Result<Version, NoPlan> {
    text.parse().map_err(|source| NoPlan::Version { field, source })
}

#[derive(Debug, thiserror::Error)]
enum NoPlan {
    #[error("{field}: {source}")]
    Version { field: &'static str, source: ParseError },
    #[error("no upgrade plan: {0}")]
    Refused(#[from] Refusal),
}

#[cfg(test)]
mod tests {
    use windlass_api::hooks::ResponseStatus;
    use windlass_api::object::Object;

    use super::*;

    const LIST: [&str; 6] = ["v1.29.0", "v1.30.4", "v1.31.2", "v1.32.0", "v1.32.5", "v1.33.1"];

    fn answer(from: &str, workers: Option<&str>, to: &str) -> GenerateUpgradePlanResponse {
        let request =
            GenerateUpgradePlanRequest::new(Object::default(), from, workers.map(str::to_owned), to);
        from_list(&request, LIST)
    }

    #[test]
    fn the_control_plane_goes_through_every_minor() {
        for (from, workers, to, expected) in [
            ("v1.29.0", Some("v1.29.0"), "v1.33.1", &["v1.30.4", "v1.31.2", "v1.32.5", "v1.33.1"][..]),
            ("v1.31.2", Some("v1.29.0"), "v1.33.1", &["v1.32.5", "v1.33.1"]),
            ("v1.32.5", None, "v1.33.1", &["v1.33.1"]),
            ("v1.33.1", Some("v1.32.5"), "v1.33.1", &[]),
        ] {
            let response = answer(from, workers, to);
            assert_eq!(response.status(), &ResponseStatus::Success, "{}", response.message());
            let steps: Vec<&str> =
                response.control_plane_upgrades.iter().map(|step| step.version.as_str()).collect();
            assert_eq!(steps, expected, "{from} to {to}");
            assert!(response.workers_upgrades.is_empty());
        }
    }

    #[test]
    fn what_stands_in_the_way_is_listed() {
        for (from, workers, to, expected) in [
            ("latest", None, "v1.33.1", "fromControlPlaneKubernetesVersion: "),
            ("v1.33.1", Some("?"), "v1.33.1", "fromWorkersKubernetesVersion: "),
            ("v1.32.5", None, "", "toKubernetesVersion: "),
            ("v1.32.5", None, "v1.35.0", "no upgrade plan: "),
            ("v1.33.1", None, "v1.32.5", "no upgrade plan: "),
            ("v1.33.1", Some("v1.29.0"), "v1.33.1", "no upgrade plan: "),
        ] {
            let response = answer(from, workers, to);
            assert_eq!(response.status(), &ResponseStatus::Failure, "{from} {to}");
            assert!(response.message().starts_with(expected), "{}", response.message());
        }
    }
}
