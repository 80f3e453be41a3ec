//! `windlass extension lint`: the manifest that registers an extension, checked offline.

use std::path::PathBuf;

use clap::Args;

use super::manifest::MAX_FILE;
use super::test::{ReportFormat, print_report};
use crate::exit::Failure;
use crate::output;

/// Check an ExtensionConfig manifest without calling the extension
#[derive(Args)]
#[command(after_help = "\
Ends with exit code 1 if anything is found that Cluster API would refuse or fail on. ClusterClasses in the same
file are checked against the extensions they name.

Examples:
  windlass extension lint extensionconfig.yaml
  windlass extension lint extensionconfig.yaml -o json")]
pub(super) struct LintCommand {
    /// Manifest file; several documents are fine
    file: PathBuf,
    /// Output format
    #[arg(short, long, value_enum, default_value_t = ReportFormat::Table)]
    output: ReportFormat,
}

pub(super) fn run(command: &LintCommand) -> Result<(), Failure> {
    let text = output::read_file(&command.file, MAX_FILE).map_err(Failure::Invalid)?;
    print_report(command.output, &windlass_conformance::lint(&command.file.to_string_lossy(), &text))
}
