//! `windlass crds`: the CustomResourceDefinitions.

use clap::Args;
use serde_json::{Value, json};
use windlass_api::crds;

use crate::exit::Failure;
use crate::output::{self, DocumentFormat, Format};

/// Print the CustomResourceDefinitions of all kinds, or of some
#[derive(Args)]
#[command(after_help = "\
Examples:
  windlass crds | kubectl apply --server-side -f -
  windlass crds cluster md kcp > some.yaml
  windlass crds -o json | jq -r '.items[].metadata.name'
  windlass serve --cluster-api        the embedded API, with all of them installed")]
pub(crate) struct CrdsCommand {
    /// Kind, plural, short name or full name of a CRD; left out, all
    #[arg(value_name = "NAME")]
    names: Vec<String>,
    /// Output format: YAML is one document each, JSON a list
    #[arg(short, long, value_enum, default_value_t = DocumentFormat::Yaml)]
    output: DocumentFormat,
}

pub(crate) fn run(command: &CrdsCommand) -> Result<(), Failure> {
    let selected = select(crds::for_a_cluster(), &command.names)?;
    match command.output {
        DocumentFormat::Json => {
            let list = json!({"apiVersion": "v1", "kind": "List", "items": selected});
            output::print_document(Format::Json, &list)
        }
        DocumentFormat::Yaml => {
            let mut text = String::new();
            for manifest in &selected {
                let document = serde_saphyr::to_string(manifest)
                    .map_err(|error| Failure::Failed(format!("cannot encode the output: {error}")))?;
                text.push_str("---\n");
                text.push_str(&document);
            }
            output::print(&text)
        }
    }
}

/// Those that are called so, in the order of the CRDs; each once.
fn select(manifests: Vec<Value>, names: &[String]) -> Result<Vec<Value>, Failure> {
    if let Some(unknown) =
        names.iter().find(|name| !manifests.iter().any(|manifest| is_called(manifest, name)))
    {
        let plurals: Vec<&str> =
            manifests.iter().filter_map(|manifest| manifest["spec"]["names"]["plural"].as_str()).collect();
        return Err(Failure::Invalid(format!(
            "no CRD is called {unknown:?}; there are {}",
            plurals.join(", ")
        )));
    }
    let wanted = |manifest: &Value| names.is_empty() || names.iter().any(|name| is_called(manifest, name));
    Ok(manifests.into_iter().filter(wanted).collect())
}

fn is_called(manifest: &Value, name: &str) -> bool {
    let names = &manifest["spec"]["names"];
    let short = names["shortNames"].as_array().into_iter().flatten();
    [&manifest["metadata"]["name"], &names["plural"], &names["kind"]]
        .into_iter()
        .chain(short)
        .filter_map(Value::as_str)
        .any(|known| known.eq_ignore_ascii_case(name))
}
