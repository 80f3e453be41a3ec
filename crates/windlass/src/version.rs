//! `windlass version`: which build this is, and what it speaks.

use std::fmt::Write as _;

use clap::Args;
use serde::Serialize;
use windlass_api::crds;
use windlass_api::names::HOOKS_API_VERSION;

use crate::exit::Failure;
use crate::output::{self, Format};

/// Say which build this is, and which API versions it speaks
#[derive(Args)]
#[command(after_help = "\
Examples:
  windlass version
  windlass version -o json | jq -r .commit")]
pub(crate) struct VersionCommand {
    /// Output format
    #[arg(short, long, value_enum, default_value_t = Format::Table)]
    output: Format,
}

/// Facts of the build. They are put in by the build script.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Build {
    version: &'static str,
    /// `unknown` where the program was not built by `cargo xtask dist`, or by a packager who set `WINDLASS_COMMIT`.
    commit: &'static str,
    target: &'static str,
    compiler: &'static str,
    optimisation: &'static str,
    /// API versions, the stored one of each group first.
    api_versions: Vec<String>,
}

impl Build {
    fn this() -> Self {
        Self {
            version: env!("CARGO_PKG_VERSION"),
            commit: env!("WINDLASS_BUILD_COMMIT"),
            target: env!("WINDLASS_BUILD_TARGET"),
            compiler: env!("WINDLASS_BUILD_COMPILER"),
            optimisation: env!("WINDLASS_BUILD_OPTIMISATION"),
            api_versions: api_versions(),
        }
    }
}

/// The groups and versions of the CRDs that the program was built with, and those of the hooks.
fn api_versions() -> Vec<String> {
    let mut known = Vec::new();
    for manifest in crds::for_a_cluster() {
        let group = manifest["spec"]["group"].as_str().unwrap_or_default().to_owned();
        for version in manifest["spec"]["versions"].as_array().into_iter().flatten() {
            let stored = version["storage"].as_bool().unwrap_or_default();
            let version = version["name"].as_str().unwrap_or_default();
            known.push((group.clone(), !stored, format!("{group}/{version}")));
        }
    }
    known.push((HOOKS_API_VERSION.to_owned(), false, HOOKS_API_VERSION.to_owned()));
    known.sort();
    known.dedup();
    known.into_iter().map(|(_, _, name)| name).collect()
}

pub(crate) fn run(command: &VersionCommand) -> Result<(), Failure> {
    let build = Build::this();
    match command.output {
        Format::Table => output::print(&table(&build)),
        format => output::print_document(format, &build),
    }
}

fn table(build: &Build) -> String {
    let mut text = format!("windlass {}\n", build.version);
    let facts = [
        ("commit", build.commit),
        ("target", build.target),
        ("compiler", build.compiler),
        ("optimisation", build.optimisation),
    ];
    for (name, fact) in facts {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{name:<14}{fact}");
    }
    for (index, version) in build.api_versions.iter().enumerate() {
        let name = if index == 0 { "API versions" } else { "" };
        let _ = writeln!(text, "{name:<14}{version}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_fact_is_there_and_stored_versions_come_first() {
        let build = Build::this();
        assert_eq!(build.version, env!("CARGO_PKG_VERSION"));
        assert!(build.compiler.starts_with("rustc "), "{}", build.compiler);
        assert!(build.target.contains('-'), "{}", build.target);
        let place = |version: &str| build.api_versions.iter().position(|known| known == version);
        assert!(place("cluster.x-k8s.io/v1beta2").is_some());
        assert!(place("cluster.x-k8s.io/v1beta2") < place("cluster.x-k8s.io/v1beta1"));
        assert!(place(HOOKS_API_VERSION).is_some());
        let text = table(&build);
        assert!(text.lines().all(|line| line.len() <= 80), "{text}");
    }
}
