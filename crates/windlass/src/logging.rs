//! Logs of commands that run until they are told to end: on standard error, as text or JSON.

use std::io::{self, Write};
use std::str::FromStr;

use clap::ValueEnum;
use serde::Deserialize;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use windlass_api::printable;

use crate::exit::Failure;
use crate::output::json_escaped;

/// How lines of the log look.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum LogFormat {
    /// For people
    #[default]
    Text,
    /// One JSON object per line
    Json,
}

/// Starts to log. The level is one for all (`info`), or one for each part (`warn,windlass_runtime=debug`).
pub(crate) fn start(level: &str, format: LogFormat) -> Result<(), Failure> {
    let targets = Targets::from_str(level)
        .map_err(|error| Failure::Invalid(format!("log level {level:?} is not understood: {error}")))?;
    // Their debug lines tell of every byte.
    let quiet = ["hyper", "hyper_util", "rustls", "tower", "h2"];
    let targets = quiet.into_iter().fold(targets, |targets, name| match level.contains(name) {
        true => targets,
        false => targets.with_target(name, LevelFilter::WARN),
    });
    // What it says of requests that fail, those who made them say too, and better.
    let targets = match level.contains("kube_client") {
        true => targets,
        false => targets.with_target("kube_client", LevelFilter::OFF),
    };
    let registry = tracing_subscriber::registry().with(targets);
    let lines = tracing_subscriber::fmt::layer()
        .with_ansi(false)
        .with_writer(move || Escaped { format, out: io::stderr() });
    let started = match format {
        LogFormat::Json => registry.with(lines.json().flatten_event(true)).try_init(),
        LogFormat::Text => registry.with(lines).try_init(),
    };
    started.map_err(|error| Failure::Failed(format!("cannot log: {error}")))
}

/// Lines of a log, written whole. What is in them comes from objects, extensions and clients: whatever would move the cursor
/// of a terminal, begin a line of its own, or change the order of what is read, is escaped.
struct Escaped<W> {
    format: LogFormat,
    out: W,
}

impl<W: Write> Write for Escaped<W> {
    /// Takes one line with its end.
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let text = String::from_utf8_lossy(line);
        let text = text.strip_suffix('\n').unwrap_or(&text);
        let escaped = match self.format {
            LogFormat::Text => printable(text),
            LogFormat::Json => json_escaped(text),
        };
        writeln!(self.out, "{escaped}")?;
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex, PoisonError};

    use super::*;

    #[derive(Clone, Default)]
    struct Buffer(Arc<Mutex<Vec<u8>>>);

    impl Write for Buffer {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// What is logged of a hostile message and field.
    fn logged(format: LogFormat, hostile: &str) -> String {
        let buffer = Buffer::default();
        let out = buffer.clone();
        let lines = tracing_subscriber::fmt::layer()
            .with_ansi(false)
            .with_writer(move || Escaped { format, out: out.clone() });
        let log = || tracing::warn!(quoted = hostile, plain = %hostile, "{hostile}");
        let registry = tracing_subscriber::registry();
        match format {
            LogFormat::Json => {
                tracing::subscriber::with_default(registry.with(lines.json().flatten_event(true)), log);
            }
            LogFormat::Text => tracing::subscriber::with_default(registry.with(lines), log),
        }
        let bytes = buffer.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn what_is_logged_of_others_is_one_line_that_does_nothing_to_a_terminal() {
        let hostile = "a\u{1b}[31m red\r\n2026-01-01T00:00:00Z  INFO forged\u{202e}txt\u{9b}2J\u{7}";
        for format in [LogFormat::Text, LogFormat::Json] {
            let text = logged(format, hostile);
            let line = text.strip_suffix('\n').unwrap();
            assert!(!line.contains(windlass_api::is_unprintable), "{format:?}: {line:?}");
            if format == LogFormat::Json {
                let read: serde_json::Value = serde_json::from_str(line).unwrap();
                for field in ["message", "quoted", "plain"] {
                    assert_eq!(read[field], hostile, "nothing is lost");
                }
            }
        }
    }
}
