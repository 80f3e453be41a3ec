//! `windlass extension openapi`: the hooks as an OpenAPI document.

use clap::Args;
use windlass_api::openapi;

use crate::exit::Failure;
use crate::output::{self, DocumentFormat};

/// Print the OpenAPI 3.0 document of all hooks
#[derive(Args)]
#[command(after_help = "\
Examples:
  windlass extension openapi > runtime-sdk-openapi.yaml
  windlass extension openapi -o json | jq '.paths | keys'")]
pub(super) struct OpenapiCommand {
    /// Version to write into the document; left out, that of windlass
    #[arg(long, value_name = "TEXT", default_value = env!("CARGO_PKG_VERSION"))]
    document_version: String,
    /// Output format
    #[arg(short, long, value_enum, default_value_t = DocumentFormat::Yaml)]
    output: DocumentFormat,
}

pub(super) fn run(command: &OpenapiCommand) -> Result<(), Failure> {
    output::print_document(command.output.into(), &openapi::document(&command.document_version))
}
