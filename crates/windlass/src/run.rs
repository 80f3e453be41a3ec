//! `windlass run`: the controllers on a Kubernetes API that is somewhere else.

use std::io::Write;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use clap::builder::FalseyValueParser;
use kube::{Client, Config};
use windlass_engine::features::Features;
use windlass_manager::{
    CertificateFiles, Ended, LeaderOptions, Listening, RunError, RunOptions, Selection, Told, WouldWrite,
    dry_run,
};

use crate::exit::Failure;
use crate::kubeconfig;
use crate::logging::{self, LogFormat};
use crate::output;
use crate::serve::termination;
use crate::web::{WebListen, WebSettings};

/// Run the controllers on a Kubernetes API: a management cluster, or another process's
#[derive(Args)]
#[command(after_help = "\
Of several processes one acts: the one that holds the Lease. The others take over when it is gone. Controllers that
run elsewhere, such as upstream's, are left out with --controllers. deploy/ has manifests for all of it. Where Cluster
API's managers hold their Leases, and these are not to be held, a start is refused with exit code 3.

Examples:
  windlass run --kubeconfig ~/.kube/config --dry-run
  windlass run --kubeconfig kubeconfig --controllers topology,extensionconfig
  windlass run --kubeconfig ~/.kube/config --dev-provider
  windlass run --metrics-listen 0.0.0.0:8080 --webhook-listen 0.0.0.0:9443 --tls-cert tls.crt --tls-key tls.key")]
pub(crate) struct RunCommand {
    /// Kubeconfig of the API; left out, KUBECONFIG, ~/.kube/config, or the cluster that this runs in
    #[arg(long, value_name = "FILE", env = "WINDLASS_KUBECONFIG")]
    kubeconfig: Option<PathBuf>,
    /// Context in the kubeconfig; left out, its current one
    #[arg(long, value_name = "NAME", env = "WINDLASS_CONTEXT")]
    context: Option<String>,
    /// Controllers to run: names, or * and those to leave out with a minus
    #[arg(
        long,
        value_name = "LIST",
        env = "WINDLASS_CONTROLLERS",
        default_value = "*",
        value_delimiter = ',',
        allow_hyphen_values = true
    )]
    controllers: Vec<String>,
    /// Reconcile only objects whose label cluster.x-k8s.io/watch-filter has this value
    #[arg(long, value_name = "VALUE", env = "WINDLASS_WATCH_FILTER")]
    watch_filter: Option<String>,
    /// Run the in-memory provider too: machines that exist in this process alone, to try things out on a management
    /// cluster that has no infrastructure
    #[arg(long, env = "WINDLASS_DEV_PROVIDER", value_parser = FalseyValueParser::new())]
    dev_provider: bool,
    /// Act without holding the Lease: only if there is no other process
    #[arg(long, env = "WINDLASS_NO_LEADER_ELECTION", value_parser = FalseyValueParser::new())]
    no_leader_election: bool,
    /// Namespace of the Lease
    #[arg(long, value_name = "NAME", env = "WINDLASS_LEASE_NAMESPACE", default_value = "windlass-system")]
    lease_namespace: String,
    /// Name of the Lease
    #[arg(long, value_name = "NAME", env = "WINDLASS_LEASE_NAME", default_value = "windlass")]
    lease_name: String,
    /// After how many seconds without a renewal another process may take the Lease
    #[arg(long, value_name = "SECONDS", env = "WINDLASS_LEASE_SECONDS", default_value_t = 15,
        value_parser = clap::value_parser!(u64).range(3..=3600))]
    lease_seconds: u64,
    /// Lease of another program that must be held before anything is done, so that its controllers rest while its webhooks
    /// go on; may be given more than once
    #[arg(long, value_name = "NAMESPACE/NAME", conflicts_with_all = ["no_leader_election", "dry_run"], value_parser = lease_name)]
    hold_lease: Vec<(String, String)>,
    /// What this process calls itself in the Lease; left out, the name of the host and a number
    #[arg(long, value_name = "NAME", env = "WINDLASS_IDENTITY")]
    identity: Option<String>,
    /// Address of /healthz, /readyz and /metrics, plain HTTP; port 0 picks one
    #[arg(long, value_name = "IP:PORT", env = "WINDLASS_METRICS_LISTEN")]
    metrics_listen: Option<SocketAddr>,
    /// Address of the page for browsers, plain HTTP; left out, there is none. Port 0 picks one
    #[arg(
        long,
        value_name = "IP:PORT",
        env = "WINDLASS_WEB_LISTEN",
        default_value = "off",
        hide_default_value = true
    )]
    web_listen: WebListen,
    /// File with a token that lets into the page, besides the link that is printed and works once
    #[arg(long, value_name = "FILE", env = "WINDLASS_WEB_TOKEN_FILE")]
    web_token_file: Option<PathBuf>,
    /// Address of the admission webhooks
    #[arg(long, value_name = "IP:PORT", env = "WINDLASS_WEBHOOK_LISTEN", requires = "tls_cert")]
    webhook_listen: Option<SocketAddr>,
    /// Certificate of the webhooks, PEM; read again when it changes
    #[arg(long, value_name = "FILE", env = "WINDLASS_TLS_CERT", requires_all = ["tls_key", "webhook_listen"])]
    tls_cert: Option<PathBuf>,
    /// Key of the certificate, PEM
    #[arg(long, value_name = "FILE", env = "WINDLASS_TLS_KEY", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    /// Features that are on or off, as in ClusterTopologyWorkerVersionPinning=false
    #[arg(long, value_name = "NAME=BOOL,...", env = "WINDLASS_FEATURE_GATES", default_value_t)]
    feature_gates: Features,
    /// Print what would be written, once, and write nothing
    #[arg(long)]
    dry_run: bool,
    /// What to log: error, warn, info, debug or trace; also for parts, as in warn,windlass_hooks=debug
    #[arg(long, value_name = "LEVEL", env = "WINDLASS_LOG_LEVEL", default_value = "info")]
    log_level: String,
    /// How to log
    #[arg(long, value_enum, env = "WINDLASS_LOG_FORMAT", default_value_t = LogFormat::Text)]
    log_format: LogFormat,
}

pub(crate) async fn run(command: RunCommand) -> Result<(), Failure> {
    let controllers =
        Selection::from_names(&command.controllers).map_err(|error| Failure::Invalid(error.to_string()))?;
    logging::start(&command.log_level, command.log_format)?;
    let mut client = client(&command).await?;
    if command.dry_run {
        client = dry_run(client, told);
    }
    let web = WebSettings { listen: command.web_listen, token_file: command.web_token_file.clone() };
    let web = web.start(client.clone()).await?;
    let leader = leader(&command);
    let options = RunOptions {
        client,
        controllers,
        features: command.feature_gates,
        watch_filter: command.watch_filter,
        has_dev_provider: command.dev_provider,
        held_leases: command
            .hold_lease
            .iter()
            .map(|(namespace, name)| leader.beside(namespace, name))
            .collect(),
        leader: (!command.no_leader_election && !command.dry_run).then_some(leader),
        diagnostics: command.metrics_listen,
        webhooks: command
            .webhook_listen
            .zip(command.tls_cert.zip(command.tls_key))
            .map(|(address, (certificate, key))| (address, CertificateFiles { certificate, key })),
        once: command.dry_run,
    };
    // A script that reads that it runs may stop it at once.
    let stop = termination()?;
    let page = web.map(|web| {
        say(&format!("Page: {}", web.link()));
        tokio::spawn(web.run())
    });
    let ended = windlass_manager::run(options, listening, how_far, stop).await;
    if let Some(page) = page {
        page.abort();
    }
    match ended {
        Ok(Ended::Stopped | Ended::Idle) => Ok(()),
        Err(error @ RunError::Webhooks(_)) => Err(Failure::Invalid(error.to_string())),
        Err(error @ RunError::UpstreamLeads { .. }) => Err(Failure::Refused(error.to_string())),
        Err(error) => Err(Failure::Failed(error.to_string())),
    }
}

async fn client(command: &RunCommand) -> Result<Client, Failure> {
    let config = match (&command.kubeconfig, &command.context) {
        // In a cluster there is no file.
        (None, None) => Config::infer().await.map_err(|error| kubeconfig::unusable(&error))?,
        (file, context) => kubeconfig::read(file.as_deref(), context.as_deref()).await?,
    };
    kubeconfig::client(config)
}

fn leader(command: &RunCommand) -> LeaderOptions {
    let identity = command.identity.clone().unwrap_or_else(|| {
        let host = std::env::var("HOSTNAME").ok().filter(|name| !name.is_empty());
        format!("{}_{:016x}", host.as_deref().unwrap_or("windlass"), fastrand::u64(..))
    });
    let lease = Duration::from_secs(command.lease_seconds);
    LeaderOptions {
        lease,
        // In the proportions that Kubernetes' own controllers use.
        renew_deadline: lease * 2 / 3,
        retry: lease * 2 / 15,
        ..LeaderOptions::new(&command.lease_namespace, &command.lease_name, &identity)
    }
}

fn lease_name(text: &str) -> Result<(String, String), String> {
    let (namespace, name) =
        text.split_once('/').filter(|(namespace, name)| !namespace.is_empty() && !name.is_empty()).ok_or(
            "a namespace, a slash and a name are needed, as in capi-system/controller-leader-election-capi",
        )?;
    Ok((namespace.to_owned(), name.to_owned()))
}

fn listening(at: Listening) {
    if let Some(address) = at.diagnostics {
        say(&format!("Metrics: http://{address}/metrics"));
    }
    if let Some(address) = at.webhooks {
        say(&format!("Webhooks: https://{address}"));
    }
}

fn how_far(told: Told) {
    match told {
        Told::Ready => say("Ready"),
        Told::Leads => say("Leading"),
    }
}

fn told(write: WouldWrite) {
    let WouldWrite { verb, path, body, .. } = write;
    match body {
        serde_json::Value::Null => say(&format!("would {verb} {path}")),
        body => say(&format!("would {verb} {path}\n  {body}")),
    }
}

/// A line for the user who started it. A closed standard output is no reason to stop.
fn say(line: &str) {
    let mut out = anstream::stdout().lock();
    let _ = writeln!(out, "{}", output::message(line)).and_then(|()| out.flush());
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Cli {
        #[command(flatten)]
        run: RunCommand,
    }

    #[test]
    fn webhooks_need_their_certificate_and_a_lease_keeps_its_proportions() {
        for wrong in [
            &["--webhook-listen", "127.0.0.1:0"][..],
            &["--tls-cert", "c"],
            &["--webhook-listen", "127.0.0.1:0", "--tls-cert", "c"],
            &["--lease-seconds", "1"],
        ] {
            assert!(Cli::try_parse_from([&["windlass"], wrong].concat()).is_err(), "{wrong:?}");
        }
        let right = ["windlass", "--webhook-listen", "127.0.0.1:0", "--tls-cert", "c", "--tls-key", "k"];
        let command = Cli::try_parse_from(right).unwrap_or_else(|error| panic!("{error}")).run;
        let leader = leader(&command);
        let times = (leader.lease, leader.renew_deadline, leader.retry);
        assert_eq!(times, (Duration::from_secs(15), Duration::from_secs(10), Duration::from_secs(2)));
    }
}
