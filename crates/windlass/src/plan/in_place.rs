//! `windlass plan --in-place`: what extensions would update in place, before anything happens.

use std::path::Path;

use windlass_controllers::in_place::{PreviewError, preview};
use windlass_engine::in_place::{Preview, PreviewedEffect, PreviewedField};
use windlass_hooks::HookClient;
use windlass_hooks::transport::{HttpsTransport, boxed};

use super::PlanFormat;
use crate::exit::Failure;
use crate::manifests;
use crate::output::{self, Format};

/// Largest file that is read: an export of a cluster with a few thousand machines.
const MAX_FILE: u64 = 64 * 1024 * 1024;

pub(super) fn run(path: &Path, format: PlanFormat) -> Result<(), Failure> {
    let manifests = manifests::read(&[path.to_owned()], MAX_FILE)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Failure::Failed(error.to_string()))?;
    let hooks = HookClient::builder(boxed(HttpsTransport::new())).build();
    let previews = runtime.block_on(preview(hooks, &manifests)).map_err(|error| match error {
        PreviewError::ExtensionConfig(_) => Failure::Invalid(error.to_string()),
        PreviewError::NotReady(_) => Failure::Failed(error.to_string()),
    })?;
    match format {
        PlanFormat::Json => output::print_document(Format::Json, &previews),
        PlanFormat::Yaml => output::print_document(Format::Yaml, &previews),
        PlanFormat::Table => output::print(&table(&previews)),
        PlanFormat::Mermaid => Err(Failure::Invalid(
            "there is no diagram of an update in place: use -o table, json or yaml".to_owned(),
        )),
    }
}

fn table(previews: &[Preview]) -> String {
    if previews.is_empty() {
        return "All machines in the manifests are up to date.\n".to_owned();
    }
    let mut lines = Vec::new();
    for preview in previews {
        lines.push(format!(
            "{}: {}",
            preview.subject,
            match preview.can_update_in_place {
                Some(true) => "updated in place",
                Some(false) => "not updated in place",
                None => "unknown",
            }
        ));
        for PreviewedField { field, covered_by } in &preview.fields {
            lines.push(format!("  {field}: {}", covered_by.as_deref().unwrap_or("no extension")));
        }
        for PreviewedEffect { handler, affects_availability, requirements } in &preview.effects {
            let affects =
                if *affects_availability { "affects availability" } else { "does not affect availability" };
            let before = match requirements.is_empty() {
                true => String::new(),
                false => format!(", asks for {} before", requirements.join(" and ")),
            };
            lines.push(format!("  {handler} {affects}{before}"));
        }
        lines.extend(preview.notes.iter().map(|note| format!("  {note}")));
        lines.extend(preview.message.iter().map(|message| format!("  {message}")));
    }
    lines.join("\n") + "\n"
}
