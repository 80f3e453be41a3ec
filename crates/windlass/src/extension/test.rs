//! `windlass extension test`: the conformance of a live extension.

use std::collections::BTreeMap;
use std::io::{IsTerminal, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use clap::{Args, ValueEnum};
use serde::de::DeserializeOwned;
use windlass_api::hooks::Settings;
use windlass_api::printable;
use windlass_conformance::{
    CapiVersion, CheckId, ClientIdentity, HookSelection, Options, Progress, Report, ShellCommands, Target,
};
use windlass_version::Version;

use super::manifest;
use crate::exit::Failure;
use crate::output;

/// Test a live extension against the contract of the Runtime SDK
#[derive(Args)]
#[command(after_help = "\
Without --hooks only discovery and harmless requests are sent. Hooks named there are called with objects that are
clearly marked as synthetic; an extension may act on them, so test one that may.

Ends with exit code 1 if anything is found that real callers would fail on.

Examples:
  windlass extension test https://localhost:9443 --ca-file ca.crt
  windlass extension test --config extensionconfig.yaml --hooks BeforeClusterUpgrade,GenerateUpgradePlan
  windlass extension test --config extensionconfig.yaml --hooks all -o junit > report.xml")]
pub(super) struct TestCommand {
    /// Address of the extension, as in spec.clientConfig.url
    #[arg(conflicts_with = "config")]
    url: Option<String>,
    /// ExtensionConfig manifest to take address, CA bundle and settings from
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Hooks whose handlers are called: names joined with commas, or all
    #[arg(long, value_name = "NAME,...", default_value = "")]
    hooks: String,
    /// Certificates to trust, PEM; left out, those of the system
    #[arg(long, value_name = "FILE")]
    ca_file: Option<PathBuf>,
    /// Name that the certificate must cover; left out, the host of the address
    #[arg(long, value_name = "NAME")]
    server_name: Option<String>,
    /// Where to connect instead of looking up the host, for example the end of a port forward
    #[arg(long, value_name = "IP:PORT")]
    address: Option<SocketAddr>,
    /// Client certificate, PEM
    #[arg(long, value_name = "FILE", requires = "client_key")]
    client_cert: Option<PathBuf>,
    /// Key of the client certificate, PEM
    #[arg(long, value_name = "FILE", requires = "client_cert")]
    client_key: Option<PathBuf>,
    /// Setting to send with every call
    #[arg(long = "setting", value_name = "KEY=VALUE")]
    settings: Vec<String>,
    /// Setting that makes handlers block, to see how they do it
    #[arg(long = "block-setting", value_name = "KEY=VALUE")]
    block_settings: Vec<String>,
    /// Ask blocking handlers again until they let go, for at most this long
    #[arg(long, value_name = "SECONDS")]
    poll_for: Option<u64>,
    /// Checks to leave out, for example T8, which uploads 20 MiB
    #[arg(long, value_name = "ID,...", value_delimiter = ',')]
    leave_out: Vec<String>,
    /// Releases of Cluster API that shall be able to use the extension
    #[arg(long, value_name = "V,...", value_delimiter = ',')]
    capi_version: Vec<String>,
    /// Kubernetes versions, old to new, between which upgrade plans are asked for
    #[arg(long, value_name = "V,...", value_delimiter = ',')]
    kubernetes_versions: Vec<String>,
    /// Variables of the synthetic Cluster: a list with name and value, YAML
    #[arg(long, value_name = "FILE")]
    variables: Option<PathBuf>,
    /// Templates of your provider to send to topology mutation hooks: a list, YAML
    #[arg(long, value_name = "FILE")]
    templates: Option<PathBuf>,
    /// Report of an earlier test (-o json), to find variables that changed in a breaking way
    #[arg(long, value_name = "FILE")]
    baseline: Option<PathBuf>,
    /// Address of a single replica behind the URL; may be repeated
    #[arg(long = "replica", value_name = "IP:PORT")]
    replicas: Vec<SocketAddr>,
    /// Readiness endpoint of the extension
    #[arg(long, value_name = "URL")]
    readiness_url: Option<String>,
    /// Command that tells the extension to end, to see how it does
    #[arg(long, value_name = "COMMAND", requires = "start_command")]
    stop_command: Option<String>,
    /// Command that starts it again
    #[arg(long, value_name = "COMMAND")]
    start_command: Option<String>,
    /// Command that stops what the extension might depend on
    #[arg(long, value_name = "COMMAND", requires = "start_siblings_command")]
    stop_siblings_command: Option<String>,
    /// Command that starts that again
    #[arg(long, value_name = "COMMAND")]
    start_siblings_command: Option<String>,
    /// Report certificates that expire within this many days
    #[arg(long, value_name = "DAYS", default_value_t = 30)]
    certificate_days: u32,
    /// Calls made in parallel to see whether the extension stands it
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u16).range(1..=1000))]
    concurrency: u16,
    /// How often a request is repeated to see whether the answer stays the same
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u16).range(2..=100))]
    repetitions: u16,
    /// Say nothing while the test runs
    #[arg(short, long)]
    quiet: bool,
    /// Output format
    #[arg(short, long, value_enum, default_value_t = ReportFormat::Table)]
    output: ReportFormat,
}

/// Formats of reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum ReportFormat {
    /// For people
    Table,
    /// For scripts; the fields are stable
    Json,
    /// For CI systems
    Junit,
}

/// Prints a report and ends as it says.
pub(super) fn print_report(format: ReportFormat, report: &Report) -> Result<(), Failure> {
    output::print(&match format {
        ReportFormat::Table => report.to_table(),
        ReportFormat::Json => report.to_json(),
        ReportFormat::Junit => report.to_junit(),
    })?;
    match report.exit_code() {
        0 => Ok(()),
        code => Err(Failure::Printed(code)),
    }
}

pub(super) async fn run(command: TestCommand) -> Result<(), Failure> {
    let (target, options) = (target(&command)?, options(&command)?);
    let show = !command.quiet && std::io::stderr().is_terminal();
    let progress = move |progress: &Progress| {
        if show {
            // Progress is for a terminal; a closed standard error is no reason to stop.
            // Handlers have the names that the extension gave them.
            let _ = writeln!(std::io::stderr(), "{}", printable(&progress.to_string()));
        }
    };
    let report = windlass_conformance::run(&target, &options, &progress)
        .await
        .map_err(|error| Failure::Invalid(error.to_string()))?;
    print_report(command.output, &report)
}

fn target(command: &TestCommand) -> Result<Target, Failure> {
    let mut target = match (&command.url, &command.config) {
        (Some(url), _) => Target::new(url),
        (None, Some(path)) => from_config(path)?,
        (None, None) => {
            return Err(Failure::Invalid("the address of an extension or --config is needed".to_owned()));
        }
    };
    if let Some(path) = &command.ca_file {
        target = target.with_ca_bundle(read(path)?);
    }
    if command.server_name.is_some() {
        target.server_name.clone_from(&command.server_name);
    }
    target.address = command.address;
    if let (Some(certificate), Some(key)) = (&command.client_cert, &command.client_key) {
        let (certificate_pem, key_pem) = (read(certificate)?.into_bytes(), read(key)?.into_bytes());
        target.client_identity = Some(ClientIdentity { certificate_pem, key_pem });
    }
    target.settings.extend(settings("--setting", &command.settings)?);
    Ok(target)
}

/// A service can be reached from outside its cluster only through something like a port forward, so that its
/// name is what the certificate must cover, not where to connect.
fn from_config(path: &Path) -> Result<Target, Failure> {
    let config = manifest::read_config(path)?;
    let client = &config.spec.client_config;
    let url = match (&client.url, &client.service) {
        (Some(url), _) => url.clone(),
        (None, Some(service)) => {
            let port = service.port.map(|port| format!(":{port}")).unwrap_or_default();
            let path = service.path.as_deref().unwrap_or_default();
            format!("https://{}.{}.svc{port}{path}", service.name, service.namespace)
        }
        (None, None) => String::new(),
    };
    let mut target = Target::new(url);
    target.ca_bundle = client.ca_bundle.clone();
    target.settings = config.spec.settings;
    Ok(target)
}

fn options(command: &TestCommand) -> Result<Options, Failure> {
    let mut options = Options {
        hooks: command
            .hooks
            .parse::<HookSelection>()
            .map_err(|error| Failure::Invalid(format!("--hooks: {error}")))?,
        leave_out: command.leave_out.iter().map(|id| check(id)).collect::<Result<_, _>>()?,
        certificate_warning_days: command.certificate_days,
        concurrency: command.concurrency.into(),
        repetitions: command.repetitions.into(),
        poll_for: command.poll_for.map(Duration::from_secs),
        replicas: command.replicas.clone(),
        readiness_url: command.readiness_url.clone(),
        ..Options::default()
    };
    if !command.capi_version.is_empty() {
        options.capi_versions =
            each("--capi-version", &command.capi_version, |text| text.parse::<CapiVersion>())?;
    }
    if !command.kubernetes_versions.is_empty() {
        options.kubernetes_versions =
            each("--kubernetes-versions", &command.kubernetes_versions, Version::parse)?;
    }
    if !command.block_settings.is_empty() {
        options.block_settings = Some(settings("--block-setting", &command.block_settings)?);
    }
    if let Some(path) = &command.variables {
        options.variables = read_list(path)?;
    }
    if let Some(path) = &command.templates {
        options.templates = read_list(path)?;
    }
    if let Some(path) = &command.baseline {
        #[derive(serde::Deserialize)]
        struct Baseline<T> {
            #[serde(default = "BTreeMap::new")]
            variables: BTreeMap<String, T>,
        }
        let baseline: Baseline<_> = serde_json::from_str(&read(path)?)
            .map_err(|error| Failure::Invalid(format!("{}: not a report: {error}", path.display())))?;
        options.variables_baseline = baseline.variables;
    }
    let commands = ShellCommands {
        terminate: command.stop_command.clone(),
        start: command.start_command.clone(),
        stop_siblings: command.stop_siblings_command.clone(),
        start_siblings: command.start_siblings_command.clone(),
    };
    if commands.terminate.is_some() || commands.stop_siblings.is_some() {
        options.operations = Some(Arc::new(commands));
    }
    Ok(options)
}

fn check(id: &str) -> Result<CheckId, Failure> {
    let known = CheckId::ALL.iter().find(|check| check.as_str().eq_ignore_ascii_case(id.trim()));
    known.copied().ok_or_else(|| {
        let known: Vec<&str> = CheckId::ALL.iter().map(|check| check.as_str()).collect();
        Failure::Invalid(format!("--leave-out: there is no check {id:?}; known are {}", known.join(", ")))
    })
}

fn each<T, E: std::fmt::Display>(
    flag: &str,
    texts: &[String],
    read: impl Fn(&str) -> Result<T, E>,
) -> Result<Vec<T>, Failure> {
    let read = texts.iter().map(|text| read(text.trim()));
    read.collect::<Result<_, _>>().map_err(|error| Failure::Invalid(format!("{flag}: {error}")))
}

fn settings(flag: &str, pairs: &[String]) -> Result<Settings, Failure> {
    let split = |pair: &String| {
        let (key, value) = pair.split_once('=')?;
        Some((key.to_owned(), value.to_owned()))
    };
    pairs
        .iter()
        .map(|pair| {
            split(pair)
                .ok_or_else(|| Failure::Invalid(format!("{flag}: {pair:?} is not of the form KEY=VALUE")))
        })
        .collect()
}

fn read(path: &Path) -> Result<String, Failure> {
    output::read_file(path, manifest::MAX_FILE).map_err(Failure::Invalid)
}

fn read_list<T: DeserializeOwned>(path: &Path) -> Result<Vec<T>, Failure> {
    serde_json::from_value(manifest::read_yaml(path)?)
        .map_err(|error| Failure::Invalid(format!("{}: {error}", path.display())))
}
