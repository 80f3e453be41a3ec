//! Upgrade plans: U1 to U3.

use windlass_api::Hook;
use windlass_api::hooks::{
    GenerateUpgradePlanRequest, GenerateUpgradePlanResponse, HookRequest, UpgradeStep, decode_lenient,
};
use windlass_plan::{PlanRequest, Source, WorkerGroup};
use windlass_version::{Comparison, Distance, MAX_KUBELET_MINORS_BEHIND, Version};

use crate::answer::Reply;
use crate::calls;
use crate::check::{CheckId, Finding, Rule};
use crate::session::{HOOKS_OPT_IN, Handler, Session};
use crate::synthetic;

/// Asks every upgrade plan handler for plans between all pairs of versions.
pub(crate) async fn check(session: &mut Session<'_>) {
    for handler in session.callable(Hook::GenerateUpgradePlan) {
        session.calling(&handler, "plans between all pairs of versions");
        check_handler(session, &handler).await;
    }
    for check in [CheckId::U1, CheckId::U2, CheckId::U3] {
        session.ledger.skip(check, "no handler of GenerateUpgradePlan was called", Some(HOOKS_OPT_IN));
    }
}

async fn check_handler(session: &mut Session<'_>, handler: &Handler) {
    let subject = handler.subject();
    let mut planned = false;
    for question in questions(&session.options.kubernetes_versions) {
        let from = question.control_plane.to_string();
        let cluster = synthetic::cluster(session.options, &from);
        let request = GenerateUpgradePlanRequest::new(
            windlass_api::Object::try_from(cluster).unwrap_or_default(),
            from,
            question.workers.as_ref().map(ToString::to_string),
            question.target.to_string(),
        )
        .with_default_settings(&session.settings());
        let request = serde_json::to_value(request).unwrap_or_default();
        let Some(reply) = calls::call(session, handler, &request).await else { continue };
        for check in [CheckId::U1, CheckId::U2, CheckId::U3] {
            session.ledger.looked_at(check, &subject);
        }
        planned |= reply.success;
        for finding in judge(&subject, &question, &reply) {
            session.ledger.found(finding);
        }
    }
    if !planned && !session.options.kubernetes_versions.is_empty() {
        let observed = "no pair of versions gets a plan";
        session.ledger.found(Finding::new(Rule::NoPlanAtAll, subject, observed));
    }
}

/// Where a cluster is and where it shall go.
#[derive(Clone, Debug, PartialEq)]
struct Question {
    control_plane: Version,
    workers: Option<Version>,
    target: Version,
}

impl Question {
    fn text(&self) -> String {
        let workers = self
            .workers
            .as_ref()
            .map_or_else(|| "without workers".to_owned(), |version| format!("workers {version}"));
        format!("{} ({workers}) to {}", self.control_plane, self.target)
    }
}

/// Every pair of versions: without workers, with workers beside the control plane, and with workers as far
/// behind as the skew policy allows. Pairs with nothing to do are left out: they need no plan.
fn questions(versions: &[Version]) -> Vec<Question> {
    let mut questions = Vec::new();
    for (position, control_plane) in versions.iter().enumerate() {
        let behind = versions[..=position].iter().find(|worker| {
            let distance = worker.minor().distance_to(control_plane.minor());
            matches!(distance, Distance::Forward(minors) if minors <= MAX_KUBELET_MINORS_BEHIND)
        });
        for target in &versions[position..] {
            let arrived = control_plane == target;
            let mut workers: Vec<Option<Version>> = Vec::new();
            if !arrived {
                workers.extend([None, Some(control_plane.clone())]);
            }
            workers
                .extend(behind.filter(|&behind| behind != control_plane).map(|behind| Some(behind.clone())));
            questions.extend(workers.into_iter().map(|workers| Question {
                control_plane: control_plane.clone(),
                workers,
                target: target.clone(),
            }));
        }
    }
    questions
}

/// What is wrong with an answer. A failure is an honest answer: there may be no path.
fn judge(subject: &str, question: &Question, reply: &Reply) -> Vec<Finding> {
    let mut found = Vec::new();
    let decoded: Result<GenerateUpgradePlanResponse, _> = decode_lenient(reply.value.to_string().as_bytes());
    let (true, Ok(response)) = (reply.success, decoded) else { return found };
    let texts = |steps: &[UpgradeStep]| steps.iter().map(|step| step.version.clone()).collect::<Vec<_>>();
    let (control_plane, workers) =
        (texts(&response.control_plane_upgrades), texts(&response.workers_upgrades));
    let text = question.text();
    if question.control_plane.compare(&question.target) == Comparison::Equal {
        if !control_plane.is_empty() {
            let observed = format!("{text}: controlPlaneUpgrades {}", control_plane.join(", "));
            found.push(Finding::new(Rule::StepsAtTarget, subject, observed));
            return found;
        }
    } else if control_plane.is_empty() && workers.is_empty() {
        found.push(Finding::new(Rule::EmptyPlan, subject, format!("{text}: Success without steps")));
    }
    let request = PlanRequest::new(question.control_plane.clone(), question.target.clone())
        .with_workers(question.workers.iter().map(|version| WorkerGroup::new("workers", version.clone())))
        .with_source(Source::Given { control_plane, workers });
    if let Err(refusal) = windlass_plan::plan(&request) {
        found.push(Finding::new(Rule::InvalidPlan, subject, format!("{text}: {refusal}")));
    }
    found
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::{Value, json};

    use super::*;

    fn version(text: &str) -> Version {
        text.parse().unwrap()
    }

    fn rules(question: (&str, Option<&str>, &str), answer: Value) -> Vec<Rule> {
        let (control_plane, workers, target) = question;
        let question = Question {
            control_plane: version(control_plane),
            workers: workers.map(version),
            target: version(target),
        };
        let reply = Reply {
            success: answer["status"] == "Success",
            message: String::new(),
            retry: 0,
            value: answer,
            elapsed: Duration::ZERO,
        };
        judge("s", &question, &reply).iter().map(|finding| finding.rule).collect()
    }

    fn plan(control_plane: &[&str], workers: &[&str]) -> Value {
        let steps =
            |versions: &[&str]| versions.iter().map(|version| json!({"version": version})).collect::<Value>();
        json!({"status": "Success", "controlPlaneUpgrades": steps(control_plane), "workersUpgrades": steps(workers)})
    }

    #[test]
    fn plans_are_judged() {
        let up = ("v1.30.0", Some("v1.30.0"), "v1.32.0");
        let arrived = ("v1.32.0", Some("v1.30.0"), "v1.32.0");
        for (question, answer, expected) in [
            (up, plan(&["v1.31.0", "v1.32.0"], &[]), vec![]),
            (up, plan(&["v1.31.0", "v1.32.0"], &["v1.32.0"]), vec![]),
            (up, json!({"status": "Failure", "message": "no path"}), vec![]),
            (up, plan(&["v1.32.0"], &[]), vec![Rule::InvalidPlan]),
            (up, plan(&["nonsense"], &[]), vec![Rule::InvalidPlan]),
            (up, plan(&["v1.31.0", "v1.32.0"], &["v1.31.7", "v1.32.0"]), vec![Rule::InvalidPlan]),
            (up, plan(&[], &[]), vec![Rule::EmptyPlan, Rule::InvalidPlan]),
            (arrived, plan(&[], &[]), vec![]),
            (arrived, plan(&[], &["v1.32.0"]), vec![]),
            (arrived, plan(&["v1.32.0"], &["v1.32.0"]), vec![Rule::StepsAtTarget]),
        ] {
            assert_eq!(rules(question, answer.clone()), expected, "{question:?} {answer}");
        }
    }

    #[test]
    fn the_matrix_asks_only_what_a_caller_could_ask() {
        let versions: Vec<Version> = (30..=34).map(|minor| Version::new(1, minor, 0)).collect();
        let questions = questions(&versions);
        assert!(questions.len() > 20 && questions.len() < 60, "{}", questions.len());
        for question in &questions {
            let valid = PlanRequest::new(question.control_plane.clone(), question.target.clone())
                .with_workers(question.workers.iter().map(|version| WorkerGroup::new("w", version.clone())))
                .with_source(Source::versions(versions.iter().map(ToString::to_string)));
            assert!(windlass_plan::plan(&valid).is_ok(), "{}", question.text());
        }
    }
}
