//! Output formats that all commands share.

use std::borrow::Cow;
use std::io::{self, ErrorKind, Write};

use clap::ValueEnum;
use serde::Serialize;
use windlass_api::{is_unprintable, printable};

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
    let text = encoded(format, document);
    print(&text.map_err(|error| Failure::Failed(format!("cannot encode the output: {error}")))?)
}

/// A document in which nothing is lost and nothing does something to a terminal. YAML has no escapes outside of quotes, so
/// that a document with something to escape is JSON, which is YAML too.
fn encoded(format: Format, document: &impl Serialize) -> Result<String, String> {
    if format == Format::Yaml {
        let text = serde_saphyr::to_string(document).map_err(|error| error.to_string())?;
        if !text.contains(|c| c != '\n' && is_unprintable(c)) {
            return Ok(text);
        }
    }
    let text = serde_json::to_string_pretty(document).map_err(|error| error.to_string())?;
    // A line break in a string is escaped already; the others are between the fields.
    let lines: Vec<Cow<'_, str>> = text.lines().map(json_escaped).collect();
    Ok(lines.join("\n") + "\n")
}

/// JSON with everything escaped that would do something to a terminal: in JSON it can stand in strings only.
pub(crate) fn json_escaped(text: &str) -> Cow<'_, str> {
    if !text.contains(is_unprintable) {
        return Cow::Borrowed(text);
    }
    let escape = |c: char| -> String {
        match is_unprintable(c) {
            true => c.encode_utf16(&mut [0; 2]).iter().map(|unit| format!("\\u{unit:04x}")).collect(),
            false => c.to_string(),
        }
    };
    Cow::Owned(text.chars().map(escape).collect())
}

/// A message of several lines, of which only its first is at the margin: what is in it cannot begin a line that looks like one
/// of ours.
pub(crate) fn message(text: &str) -> String {
    let mut lines = text.lines();
    let mut shown = printable(lines.next().unwrap_or_default()).into_owned();
    for line in lines {
        let indent = if line.starts_with(' ') || line.is_empty() { "" } else { "  " };
        shown.push_str(&format!("\n{indent}{}", printable(line)));
    }
    shown
}

/// Text with nothing in it that does something to a terminal but line breaks, tabs and colours. What comes from objects and
/// extensions is escaped where it is put into the text, its colours too; this is for what was forgotten.
fn harmless(text: &str) -> Cow<'_, str> {
    let is_plain = |c: char| matches!(c, '\n' | '\t') || !is_unprintable(c);
    if text.chars().all(is_plain) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let length = style_length(rest).unwrap_or(c.len_utf8());
        let (one, after) = rest.split_at(length);
        let keep = length > 1 && c == '\u{1b}' || is_plain(c);
        shown.push_str(&if keep { Cow::Borrowed(one) } else { printable(one) });
        rest = after;
    }
    Cow::Owned(shown)
}

/// How long the escape sequence is that a text begins with, if it is one that sets colours and weights.
fn style_length(text: &str) -> Option<usize> {
    let parameters = text.strip_prefix("\u{1b}[")?;
    let end = parameters.find(|c: char| !c.is_ascii_digit() && c != ';')?;
    parameters[end..].starts_with('m').then_some(2 + end + 1)
}

/// Prints text that may contain colours; they are left out where they do not belong.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    let mut out = anstream::stdout().lock();
    match out.write_all(harmless(text).as_bytes()).and_then(|()| out.flush()) {
        // The reader has seen enough, as in `windlass plan ... | head -3`.
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        other => Ok(other?),
    }
}

/// Clears a terminal, and prints on it.
pub(crate) fn redraw(text: &str) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    // From the upper left corner; what has scrolled out of sight goes too.
    out.write_all(b"\x1b[H\x1b[2J\x1b[3J").and_then(|()| out.flush())?;
    drop(out);
    print(text)
}

/// Tells the user something that is not the answer.
pub(crate) fn note(text: &str) {
    // Nothing depends on whether it is read.
    let _ = writeln!(anstream::stderr(), "note: {}", message(text));
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

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// A string that clears the screen, colours, begins a line, rings and turns around.
    const HOSTILE: &str = "x\u{1b}[2J\u{1b}[31m\r\nerror: forged\u{202e}\u{9b}\u{7}";

    #[test]
    fn documents_lose_nothing_and_do_nothing_to_a_terminal() {
        let document = json!({"name": HOSTILE, "list": ["plain", HOSTILE]});
        for format in [Format::Json, Format::Yaml] {
            let text = encoded(format, &document).unwrap();
            assert!(!text.contains(|c| c != '\n' && is_unprintable(c)), "{text:?}");
            let read: Value = serde_saphyr::from_str(&text).unwrap();
            assert_eq!(read, document, "{format:?}");
        }
        assert_eq!(encoded(Format::Yaml, &json!({"a": "b"})).unwrap(), "a: b\n");
    }

    #[test]
    fn only_the_first_line_of_a_message_is_at_the_margin() {
        let shown = message(HOSTILE);
        assert_eq!(shown.lines().count(), 2);
        assert!(shown.lines().skip(1).all(|line| line.starts_with("  ")), "{shown:?}");
        assert!(!shown.contains(|c| c != '\n' && is_unprintable(c)), "{shown:?}");
        assert_eq!(message("one\n  two\nthree"), "one\n  two\n  three");
    }

    #[test]
    fn text_keeps_its_colours_and_nothing_else() {
        let style = anstyle::Style::new().bold();
        let own = format!("{style}head{style:#}\n\tcell é");
        assert_eq!(harmless(&own), own);
        assert_eq!(harmless("a\u{1b}[2Jb\u{1b}]0;t\u{7}"), r"a\u{1b}[2Jb\u{1b}]0;t\u{7}");
        assert_eq!(harmless("a\u{1b}[1;31mb\u{202e}"), "a\u{1b}[1;31mb\\u{202e}");
    }
}
