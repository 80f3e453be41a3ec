//! `windlass simulate script`: a story in virtual time.

use std::fmt::Write as _;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anstyle::Style;
use clap::Args;
use serde_json::json;
use windlass_simulate::script::{
    GOALS, Outcome, PlayError, PlayFailure, PlayOptions, Script, Shown, VERBS, answer, play, spoken,
};

use crate::exit::Failure;
use crate::output::{self, Format};
use crate::table::{HEAD, Table};
use crate::{describe, plan, stops};

/// The most that is read of a story, and of a file that it names.
const LIMIT: u64 = 16 * 1024 * 1024;

const TOLD: Style = Style::new().dimmed();

/// Play a story: create clusters, change them, let things go wrong, and see what happens, in virtual time.
///
/// A story has one statement per line; indented lines below a statement belong to it, and # begins a comment. The
/// controllers, the API and the in-memory provider are those that everything else uses, and nothing outside is touched.
/// The same story and seed give the same output. The language is described in docs/stories.md.
#[derive(Args)]
#[command(after_help = "\
Examples:
  windlass simulate script upgrade.txt
  windlass simulate script upgrade.txt --seed 7 -o json
  windlass simulate script approvals.txt --live-extensions
  windlass simulate script --verbs
  windlass simulate script - <<END
  create cluster prod v1.31.0
    workers web 2
  until prod is at v1.31.0
  upgrade prod to v1.32.0
  crash before write 5
  until prod is at v1.32.0 within 1h
  machines of prod
  END

Exit codes: 0 the story was played to its end, 1 a goal was not reached or a rule was broken, 2 the story is not
valid, 3 a statement was refused. `try` before a statement lets the story go on.")]
pub(crate) struct ScriptCommand {
    /// The story; - is standard input
    #[arg(value_name = "FILE", required_unless_present = "verbs")]
    file: Option<PathBuf>,
    /// List the statements that there are
    #[arg(long, conflicts_with_all = ["file", "seed", "output"])]
    verbs: bool,
    /// What all chance comes from: the same seed, the same story
    #[arg(long, value_name = "S", default_value_t = 0)]
    seed: u64,
    /// Call extensions that the story registers over HTTPS, where they are
    #[arg(long)]
    live_extensions: bool,
    /// Output format
    #[arg(short, long, value_enum, default_value_t = Format::Table)]
    output: Format,
}

pub(crate) fn run(command: &ScriptCommand) -> Result<(), Failure> {
    let Some(file) = command.file.as_ref().filter(|_| !command.verbs) else {
        return output::print(&verbs());
    };
    let is_standard_input = file == Path::new("-");
    let (name, text) = match is_standard_input {
        true => ("standard input".to_owned(), standard_input()?),
        false => {
            let text = output::read_file(file, LIMIT).map_err(Failure::Invalid)?;
            (file.display().to_string(), text)
        }
    };
    let invalid = |line: usize, message: String| Failure::Invalid(format!("{name}:{line}: {message}"));
    let script = Script::parse(&text).map_err(|error| {
        let forms: String = error.forms.iter().map(|form| format!("\n  usage: {form}")).collect();
        invalid(error.line, error.message + &forms)
    })?;
    let folder = if is_standard_input { None } else { file.parent() };
    let read = |path: &str| {
        output::read_file(&folder.map_or_else(|| PathBuf::from(path), |folder| folder.join(path)), LIMIT)
    };
    let options = PlayOptions { seed: command.seed, live_extensions: command.live_extensions, read: &read };
    let mut printed = Ok(());
    let mut outcomes = Vec::new();
    let played = play(&script, &options, |outcome| match command.output {
        Format::Table if printed.is_ok() => printed = output::print(&told(outcome)),
        Format::Table => {}
        _ => outcomes.push(outcome.clone()),
    });
    if command.output != Format::Table {
        output::print_document(command.output, &json!({"seed": command.seed, "statements": outcomes}))?;
    } else if played.is_ok() && !script.closing.is_empty() {
        output::print(&format!("{}\n", script.closing.join("\n").trim_end()))?;
    }
    printed?;
    played.map_err(|PlayError { line, cause }| {
        let message = format!("{name}:{line}: {cause}");
        match cause {
            PlayFailure::Invalid(_) => Failure::Invalid(message),
            PlayFailure::Refused(_) => Failure::Refused(message),
            _ => Failure::Failed(message),
        }
    })
}

fn standard_input() -> Result<String, Failure> {
    let mut text = String::new();
    let cannot = |error: std::io::Error| Failure::Invalid(format!("cannot read standard input: {error}"));
    std::io::stdin().take(LIMIT).read_to_string(&mut text).map_err(cannot)?;
    Ok(text)
}

/// A statement and what became of it.
fn told(outcome: &Outcome) -> String {
    let mut text = String::new();
    // Writing to a String does not fail.
    let mut line = |row: std::fmt::Arguments<'_>| {
        let _ = writeln!(text, "{row}");
    };
    for comment in &outcome.comments {
        line(format_args!("{comment}"));
    }
    for (index, row) in outcome.statement.lines().enumerate() {
        let mark = if index == 0 { "> " } else { "  " };
        line(format_args!("{HEAD}{mark}{row}{HEAD:#}"));
    }
    for happening in &outcome.happened {
        let at = clock(happening.at_seconds);
        let again = happening.repeated.map_or_else(String::new, |repeated| {
            format!(" ({} times, last at {})", repeated.times, clock(repeated.last_seconds))
        });
        line(format_args!("{TOLD}{at:>9}{TOLD:#}  {}{again}", happening.what));
    }
    for said in [&outcome.note, &outcome.failed].into_iter().flatten() {
        line(format_args!("{said}"));
    }
    match &outcome.shown {
        None => {}
        Some(Shown::Description { cluster, now }) => {
            text.push_str(&describe::table::render(cluster, *now, false, None))
        }
        Some(Shown::Plan(shown)) => {
            match &shown.steps {
                Some(steps) => text.push_str(&plan::table::render(steps)),
                None => text.push_str("nothing to do: everything is there\n"),
            }
            text.push_str(&stops::render(&stops::StopDocument::all(&shown.stops, &shown.cluster)));
        }
        Some(Shown::Machines(rows)) if rows.is_empty() => text.push_str("there are no machines\n"),
        Some(Shown::Machines(rows)) => {
            let mut table = Table::new(["MACHINE", "GROUP", "VERSION", "KUBELET", "STATUS"]);
            for row in rows {
                let cells = [&row.name, &row.group, &row.version, &row.kubelet, &row.status];
                table.row(cells.map(|cell| (cell.clone(), Style::new())));
            }
            text.push_str(&table.render());
        }
        Some(Shown::Hooks(calls)) if calls.is_empty() => text.push_str("no hook was called\n"),
        Some(Shown::Hooks(calls)) => {
            let mut table = Table::new(["AT", "HOOK", "ANSWER"]);
            for call in calls {
                let cells = [clock(call.at_seconds), call.to_string(), answer(call)];
                table.row(cells.map(|cell| (cell, Style::new())));
            }
            text.push_str(&table.render());
        }
    }
    text.push('\n');
    text
}

fn clock(seconds: u64) -> String {
    spoken(Duration::from_secs(seconds))
}

/// All statements and goals.
fn verbs() -> String {
    let mut text = format!("{HEAD}Statements{HEAD:#}\n");
    // Writing to a String does not fail.
    let mut line = |form: &str, does: &str| {
        let _ = writeln!(text, "  {form}\n      {}", wrapped(does));
    };
    VERBS.iter().for_each(|usage| line(usage.form, usage.does));
    let _ = writeln!(text, "\n{HEAD}Goals of until{HEAD:#}");
    let mut line = |form: &str, does: &str| {
        let _ = writeln!(text, "  {form}\n      {}", wrapped(does));
    };
    GOALS.iter().for_each(|(form, does)| line(form, does));
    text.push_str(
        "\nA PART is CLUSTER, CLUSTER/GROUP or CLUSTER/control-plane; an OBJECT is KIND/NAME, such as cluster/prod.\n\
         A DURATION is as in Go: 90s, 10m, 1h30m. See docs/stories.md.\n",
    );
    text
}

/// Breaks a sentence into lines that fit below a form.
fn wrapped(sentence: &str) -> String {
    const WIDTH: usize = 100;
    let (mut text, mut width) = (String::new(), 0);
    for word in sentence.split(' ') {
        if width > 0 && width + word.len() >= WIDTH {
            text.push_str("\n      ");
            width = 0;
        } else if width > 0 {
            text.push(' ');
        }
        text.push_str(word);
        width += word.len() + 1;
    }
    text
}
