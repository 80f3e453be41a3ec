//! `windlass up`: the whole management plane in one process.

mod settings;

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;
use clap::builder::FalseyValueParser;
use windlass_engine::features::Features;
use windlass_manager::{Up, UpError};
use windlass_web::Web;

use crate::exit::Failure;
use crate::logging::{self, LogFormat};
use crate::output;
use crate::serve::{certificate_name, not_running, reachable, termination};
use crate::web::WebListen;
use settings::Settings;

/// Run the whole management plane in this process: API, controllers, admission, in-memory machines
#[derive(Args)]
#[command(after_help = "\
Everything that was acknowledged is on the disk: a crash or kill -9 loses nothing, and the next start goes on where
the last one was. A flag beats its environment variable, and that beats the config file, which has the same names:
  dataDir: /var/lib/windlass
  listen: 127.0.0.1:6443
  controllers: ['*', -machinepool]
  devProvider: false
  webListen: 127.0.0.1:8081
  logFormat: json

Examples:
  windlass up
  windlass up --data-dir /var/lib/windlass --no-dev-provider --log-format json
  kubectl --kubeconfig ~/.local/share/windlass/kubeconfig apply -f examples/quickstart.yaml")]
pub(crate) struct UpCommand {
    /// File with the same settings, YAML
    #[arg(long, value_name = "FILE", env = "WINDLASS_CONFIG")]
    config: Option<PathBuf>,
    /// Where to keep objects and credentials; left out, windlass below the user's data directory
    #[arg(long, value_name = "DIR", env = "WINDLASS_DATA_DIR", conflicts_with = "in_memory")]
    data_dir: Option<PathBuf>,
    /// Keep everything in memory: it is gone when the process ends
    #[arg(long, env = "WINDLASS_IN_MEMORY", value_parser = FalseyValueParser::new())]
    in_memory: bool,
    /// Address of the API; port 0 picks one [default: 127.0.0.1:6443]
    #[arg(long, value_name = "IP:PORT", env = "WINDLASS_LISTEN")]
    listen: Option<SocketAddr>,
    /// Name or address that clients know this API by, for its certificate; may be given several times
    #[arg(
        long = "tls-san",
        value_name = "NAME",
        env = "WINDLASS_TLS_SAN",
        value_delimiter = ',',
        value_parser = certificate_name
    )]
    tls_san: Option<Vec<String>>,
    /// Where to write a kubeconfig for the administrator (mode 0600); left out, into the data directory
    #[arg(long, value_name = "FILE", env = "WINDLASS_KUBECONFIG_OUT")]
    kubeconfig_out: Option<PathBuf>,
    /// Controllers to run: names, or * and those to leave out with a minus [default: *]
    #[arg(
        long,
        value_name = "LIST",
        env = "WINDLASS_CONTROLLERS",
        value_delimiter = ',',
        allow_hyphen_values = true
    )]
    controllers: Option<Vec<String>>,
    /// Leave out the in-memory provider, whose machines exist in this process only
    #[arg(long, env = "WINDLASS_NO_DEV_PROVIDER", value_parser = FalseyValueParser::new())]
    no_dev_provider: bool,
    /// Store objects without the defaults and checks of Cluster API
    #[arg(long, env = "WINDLASS_NO_ADMISSION", value_parser = FalseyValueParser::new())]
    no_admission: bool,
    /// Features that are on or off, as in ClusterTopologyWorkerVersionPinning=false
    #[arg(long, value_name = "NAME=BOOL,...", env = "WINDLASS_FEATURE_GATES")]
    feature_gates: Option<Features>,
    /// Address of /healthz, /readyz and /metrics, plain HTTP; port 0 picks one
    #[arg(long, value_name = "IP:PORT", env = "WINDLASS_METRICS_LISTEN")]
    metrics_listen: Option<SocketAddr>,
    /// Address of the page for browsers, plain HTTP, or off; port 0 picks one [default: 127.0.0.1:0]
    #[arg(long, value_name = "IP:PORT", env = "WINDLASS_WEB_LISTEN")]
    web_listen: Option<WebListen>,
    /// File with a token that lets into the page, besides the link that is printed and works once
    #[arg(long, value_name = "FILE", env = "WINDLASS_WEB_TOKEN_FILE")]
    web_token_file: Option<PathBuf>,
    /// What to log: error, warn, info, debug or trace; also for parts, as in warn,windlass_inmemory=debug [default: info]
    #[arg(long, value_name = "LEVEL", env = "WINDLASS_LOG_LEVEL")]
    log_level: Option<String>,
    /// How to log [default: text]
    #[arg(long, value_enum, env = "WINDLASS_LOG_FORMAT")]
    log_format: Option<LogFormat>,
}

pub(crate) async fn run(command: UpCommand) -> Result<(), Failure> {
    let settings = Settings::settle(command)?;
    logging::start(&settings.log_level, settings.log_format)?;
    if let Some(warning) = reachable(settings.options.listen, &settings.options.names) {
        output::note(&warning);
    }
    let up = Up::start(settings.options).await.map_err(failed)?;
    if let Some(problem) = up.embedded().no_backup() {
        output::note(&format!("backups are possible only while this server is stopped: {problem}"));
    }
    let web = settings.web.start(up.client()).await?;
    // A script that reads that it is ready may stop it at once.
    let stop = termination()?;
    output::print(&ready(&up, web.as_ref()))?;
    let page = tokio::spawn(async move {
        if let Some(web) = web {
            web.run().await;
        }
    });
    let ended = up.run_until(stop).await.map_err(failed);
    page.abort();
    ended
}

fn failed(error: UpError) -> Failure {
    match &error {
        UpError::Embedded(problem) => not_running(problem),
        _ => Failure::Failed(error.to_string()),
    }
}

fn ready(up: &Up, web: Option<&Web>) -> String {
    let mut text = format!("Ready: {}\n", up.url());
    if let Some(address) = up.diagnostics() {
        text.push_str(&format!("Metrics: http://{address}/metrics\n"));
    }
    let kubeconfig = up.kubeconfig().map(|path| path.display());
    if let Some(path) = &kubeconfig {
        text.push_str(&format!("Kubeconfig: {path}\n"));
    }
    if let Some(web) = web {
        text.push_str(&format!("Page: {}\n", web.link()));
    }
    if let Some(path) = &kubeconfig {
        text.push_str(&format!("\nNext: kubectl --kubeconfig {path} apply -f examples/quickstart.yaml\n"));
    }
    text
}
