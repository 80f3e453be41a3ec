//! Output formats that all commands share.

use std::io::{self, ErrorKind, Write};

use clap::ValueEnum;
use serde::Serialize;

use crate::exit::Failure;

/// Formats of commands that print a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// For people.
    Table,
    /// For scripts; the fields are stable.
    Json,
    /// The same as JSON, as YAML.
    Yaml,
}

/// Formats of commands whose answer has no table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum DocumentFormat {
    /// For people, and as it is usually published
    Yaml,
    /// For programs
    Json,
}

impl From<DocumentFormat> for Format {
    fn from(format: DocumentFormat) -> Self {
        match format {
            DocumentFormat::Yaml => Self::Yaml,
            DocumentFormat::Json => Self::Json,
        }
    }
}

/// Prints a document as JSON or YAML.
pub(crate) fn print_document(format: Format, document: &impl Serialize) -> Result<(), Failure> {
    let text = match format {
        Format::Yaml => serde_saphyr::to_string(document).map_err(|error| error.to_string()),
        Format::Json | Format::Table => {
            serde_json::to_string_pretty(document).map(|text| text + "\n").map_err(|error| error.to_string())
        }
    };
    print(&text.map_err(|error| Failure::Failed(format!("cannot encode the output: {error}")))?)
}

/// Prints text that may contain colours; they are left out where they do not belong.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    let mut out = anstream::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        // The reader has seen enough, as in `windlass plan ... | head -3`.
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        other => Ok(other?),
    }
}

/// Tells the user something that is not the answer.
pub(crate) fn note(text: &str) {
    // Nothing depends on whether it is read.
    let _ = writeln!(anstream::stderr(), "note: {text}");
}

/// Reads a file that a user named, refusing more than `limit` bytes. The error names the file.
pub(crate) fn read_file(path: &std::path::Path, limit: u64) -> Result<String, String> {
    use std::io::Read;
    let shown = path.display();
    let cannot = |error: io::Error| format!("cannot read {shown}: {error}");
    let file = std::fs::File::open(path).map_err(cannot)?;
    let mut bytes = Vec::new();
    file.take(limit + 1).read_to_end(&mut bytes).map_err(cannot)?;
    if bytes.len() as u64 > limit {
        return Err(format!("{shown} is larger than {} KiB, the most that is read", limit / 1024));
    }
    String::from_utf8(bytes).map_err(|error| {
        let position = error.utf8_error().valid_up_to();
        format!("{shown} is not text: invalid UTF-8 at byte {position}")
    })
}

/// What is wrong with a YAML text, on one line. The parser's message has a picture of the place below it; the first line says what and where.
pub(crate) fn yaml_error(error: &serde_saphyr::Error) -> String {
    let place = error.location().map(|at| format!("line {} column {}: ", at.line(), at.column()));
    let message = error.without_snippet().to_string();
    let first = message.lines().next().unwrap_or_default().trim().to_owned();
    if first.contains("line ") { first } else { place.unwrap_or_default() + &first }
}
