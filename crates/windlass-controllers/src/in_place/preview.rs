//! What extensions would update in place of the machines in manifests, before anything happens.

use serde_json::Value;
use windlass_api::runtime::ExtensionConfig;
use windlass_engine::in_place::{Preview, WhyNotInPlace, questions};
use windlass_hooks::{HookClient, Readiness};

use super::InPlaceExtensions;

/// Why there is no preview.
#[derive(Debug, thiserror::Error)]
pub enum PreviewError {
    /// An ExtensionConfig among the manifests cannot be read.
    #[error("an ExtensionConfig cannot be read: {0}")]
    ExtensionConfig(#[from] serde_json::Error),
    /// Extensions cannot be asked.
    #[error("{}", .0.join("\n"))]
    NotReady(Vec<String>),
}

/// Asks the extensions whose ExtensionConfigs are among the manifests about every MachineSet and control plane Machine that is
/// not up to date.
///
/// # Errors
///
/// An ExtensionConfig cannot be read, or its extension cannot be discovered. That an extension does not answer a question is
/// part of the preview.
pub async fn preview(hooks: HookClient, manifests: &[Value]) -> Result<Vec<Preview>, PreviewError> {
    let configs = manifests.iter().filter(|object| object["kind"] == "ExtensionConfig");
    let configs: Vec<ExtensionConfig> =
        configs.map(|config| serde_json::from_value(config.clone())).collect::<Result<_, _>>()?;
    hooks.warm_up(configs.into_iter().map(|config| (config, None))).await;
    let not_ready: Vec<String> = hooks
        .registry()
        .readiness()
        .into_iter()
        .filter_map(|(name, readiness)| match readiness {
            Readiness::NotReady(error) => Some(format!("extension {name}: {error}")),
            Readiness::Ready { .. } => None,
        })
        .collect();
    if !not_ready.is_empty() {
        return Err(PreviewError::NotReady(not_ready));
    }
    let extensions = InPlaceExtensions::discovered(hooks);
    let mut previews = Vec::new();
    for question in questions(manifests) {
        let answer = match question.states {
            Err(missing) => Err(WhyNotInPlace::Impossible(missing)),
            Ok((current, desired)) => {
                let asked = match extensions.that_can_update(question.level, &question.namespace).await {
                    Ok(extensions) => extensions.ask(current, desired).await,
                    Err(error) => Err(error),
                };
                asked.unwrap_or_else(|error| Err(WhyNotInPlace::NoAnswer(error.to_string())))
            }
        };
        previews.push(Preview::new(question.subject, question.namespace, &answer));
    }
    Ok(previews)
}
