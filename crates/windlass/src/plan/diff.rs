//! `windlass plan diff`: what changes from one plan to another.

use std::path::{Path, PathBuf};

use anstyle::{AnsiColor, Style};
use clap::Args;
use windlass_plan::{Change, PlanDiff, PlanDocument};

use crate::exit::Failure;
use crate::output::{self, Format};

/// Largest plan file that is read: some thousand operations.
const MAX_FILE: u64 = 3 * 1024 * 1024;

/// Most operations that are compared; far above what clusters have, and it bounds the work.
const MAX_OPERATIONS: usize = 4000;

/// Compare two plans printed with -o json
#[derive(Args)]
#[command(after_help = "\
Examples:
  windlass plan --from v1.29.0 --to v1.31.0 --versions v1.30.4,v1.31.0 -o json > before.json
  windlass plan --from v1.29.0 --to v1.31.0 --versions v1.30.5,v1.31.0 -o json > after.json
  windlass plan diff before.json after.json")]
pub(super) struct DiffCommand {
    /// The plan before
    before: PathBuf,
    /// The plan after
    after: PathBuf,
    /// End with exit code 1 if the plans differ
    #[arg(long)]
    exit_code: bool,
    /// Output format
    #[arg(short, long, value_enum, default_value_t = Format::Table)]
    output: Format,
}

pub(super) fn run(command: DiffCommand) -> Result<(), Failure> {
    let diff = PlanDiff::between(&read(&command.before)?, &read(&command.after)?);
    match command.output {
        Format::Table => output::print(&render(&diff))?,
        format => output::print_document(format, &diff)?,
    }
    if command.exit_code && !diff.is_empty() { Err(Failure::Printed(1)) } else { Ok(()) }
}

fn read(path: &Path) -> Result<PlanDocument, Failure> {
    let text = output::read_file(path, MAX_FILE).map_err(Failure::Invalid)?;
    let invalid = |message: String| Failure::Invalid(format!("{}: {message}", path.display()));
    let plan: PlanDocument = serde_json::from_str(&text)
        .map_err(|error| invalid(format!("not a plan printed with -o json: {error}")))?;
    let count = plan.operations.len();
    if count > MAX_OPERATIONS {
        return Err(invalid(format!("{count} operations, at most {MAX_OPERATIONS} can be compared")));
    }
    Ok(plan)
}

pub(crate) fn render(diff: &PlanDiff) -> String {
    const ADDED: Style = Style::new().fg_color(Some(anstyle::Color::Ansi(AnsiColor::Green)));
    const REMOVED: Style = Style::new().fg_color(Some(anstyle::Color::Ansi(AnsiColor::Red)));
    if diff.is_empty() {
        let input = if diff.same_input { "the same input" } else { "different input" };
        return format!("The plans do the same (computed from {input}).\n");
    }
    let mut text = String::new();
    for field in &diff.fields {
        text.push_str(&format!("{field}\n"));
    }
    if !diff.fields.is_empty() {
        text.push('\n');
    }
    for change in &diff.operations {
        text.push_str(&match change {
            Change::Kept(operation) => format!("  {operation}\n"),
            Change::Removed(operation) => format!("{REMOVED}- {operation}{REMOVED:#}\n"),
            Change::Added(operation) => format!("{ADDED}+ {operation}{ADDED:#}\n"),
        });
    }
    text
}
