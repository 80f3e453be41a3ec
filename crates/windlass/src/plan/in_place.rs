//! `windlass plan --in-place`: what extensions would update in place, before anything happens.

use std::path::Path;

use serde::Serialize;
use serde_json::Value;
use windlass_api::runtime::ExtensionConfig;
use windlass_controllers::in_place::InPlaceExtensions;
use windlass_engine::in_place::{Found, questions};
use windlass_hooks::HookClient;
use windlass_hooks::transport::{HttpsTransport, boxed};

use super::PlanFormat;
use crate::exit::Failure;
use crate::output::{self, Format};

/// Largest file that is read: an export of a cluster with a few thousand machines.
const MAX_FILE: u64 = 64 * 1024 * 1024;

/// What was found out about some machines.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Answer {
    subject: String,
    namespace: String,
    /// None if it could not be found out.
    can_update_in_place: Option<bool>,
    fields: Vec<FieldAnswer>,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<String>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct FieldAnswer {
    field: String,
    covered_by: Option<String>,
}

pub(super) fn run(path: &Path, format: PlanFormat) -> Result<(), Failure> {
    let text = output::read_file(path, MAX_FILE).map_err(Failure::Invalid)?;
    let manifests: Vec<Value> = serde_saphyr::from_multiple(&text).map_err(|error| {
        Failure::Invalid(format!("{}: not valid YAML: {}", path.display(), output::yaml_error(&error)))
    })?;
    let manifests: Vec<Value> = manifests.into_iter().flat_map(items).collect();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Failure::Failed(error.to_string()))?;
    let answers = runtime.block_on(ask(&manifests))?;
    match format {
        PlanFormat::Json => output::print_document(Format::Json, &answers),
        PlanFormat::Yaml => output::print_document(Format::Yaml, &answers),
        PlanFormat::Table => output::print(&table(&answers)),
        PlanFormat::Mermaid => Err(Failure::Invalid(
            "there is no diagram of an update in place: use -o table, json or yaml".to_owned(),
        )),
    }
}

/// What kubectl prints for several objects is a list of them.
fn items(document: Value) -> Vec<Value> {
    match document {
        Value::Null => Vec::new(),
        Value::Object(mut list) if list.get("kind").is_some_and(|kind| kind == "List") => {
            match list.remove("items") {
                Some(Value::Array(items)) => items,
                _ => Vec::new(),
            }
        }
        other => vec![other],
    }
}

/// Asks the extensions whose ExtensionConfigs are among the manifests.
async fn ask(manifests: &[Value]) -> Result<Vec<Answer>, Failure> {
    let configs = manifests.iter().filter(|object| object["kind"] == "ExtensionConfig");
    let configs: Vec<ExtensionConfig> = configs
        .map(|config| {
            serde_json::from_value(config.clone())
                .map_err(|error| Failure::Invalid(format!("an ExtensionConfig cannot be read: {error}")))
        })
        .collect::<Result<_, _>>()?;
    let hooks = HookClient::builder(boxed(HttpsTransport::new())).build();
    hooks.warm_up(configs.into_iter().map(|config| (config, None))).await;
    let not_ready: Vec<String> = hooks
        .registry()
        .readiness()
        .into_iter()
        .filter_map(|(name, readiness)| match readiness {
            windlass_hooks::Readiness::NotReady(error) => Some(format!("extension {name}: {error}")),
            windlass_hooks::Readiness::Ready { .. } => None,
        })
        .collect();
    if !not_ready.is_empty() {
        return Err(Failure::Failed(not_ready.join("\n")));
    }
    let extensions = InPlaceExtensions::discovered(hooks);
    let mut answers = Vec::new();
    for question in questions(manifests) {
        let found = match question.states {
            Err(missing) => Found::Impossible(missing),
            Ok((current, desired)) => {
                let asked = extensions.ask(question.level, &question.namespace, current, desired).await;
                asked.unwrap_or_else(|error| Found::NoAnswer(error.to_string()))
            }
        };
        let (can_update_in_place, fields, message) = match found {
            Found::Verdict(verdict) => {
                let fields = verdict.fields.iter().map(|field| FieldAnswer {
                    field: field.field.to_string(),
                    covered_by: field.by.as_ref().map(ToString::to_string),
                });
                let covered = verdict.is_covered() && !verdict.asked.is_empty();
                (Some(covered), fields.collect(), None)
            }
            Found::Impossible(why) => (Some(false), Vec::new(), Some(why)),
            Found::NoAnswer(why) => (None, Vec::new(), Some(why)),
        };
        let (subject, namespace) = (question.subject, question.namespace);
        answers.push(Answer { subject, namespace, can_update_in_place, fields, message });
    }
    Ok(answers)
}

fn table(answers: &[Answer]) -> String {
    if answers.is_empty() {
        return "All machines in the manifests are as they shall be.\n".to_owned();
    }
    let mut lines = Vec::new();
    for answer in answers {
        lines.push(format!(
            "{}: {}",
            answer.subject,
            match answer.can_update_in_place {
                Some(true) => "updated in place",
                Some(false) => "not updated in place",
                None => "nobody knows",
            }
        ));
        for FieldAnswer { field, covered_by } in &answer.fields {
            lines.push(format!("  {field}: {}", covered_by.as_deref().unwrap_or("nobody")));
        }
        lines.extend(answer.message.iter().map(|message| format!("  {message}")));
    }
    lines.join("\n") + "\n"
}
