//! Logs of commands that run until they are told to end: on standard error, as text or JSON.

use std::io::IsTerminal;
use std::str::FromStr;

use clap::ValueEnum;
use serde::Deserialize;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

use crate::exit::Failure;

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
    let lines = tracing_subscriber::fmt::layer().with_writer(std::io::stderr);
    let started = match format {
        LogFormat::Json => registry.with(lines.json().flatten_event(true)).try_init(),
        LogFormat::Text => registry.with(lines.with_ansi(std::io::stderr().is_terminal())).try_init(),
    };
    started.map_err(|error| Failure::Failed(format!("cannot log: {error}")))
}
