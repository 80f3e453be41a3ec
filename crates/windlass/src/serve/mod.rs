//! `windlass serve`: only the embedded Kubernetes API.

mod crds;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use windlass_apiserver::serve::{Credentials, Home, serve};
use windlass_apiserver::{ApiServer, Clock, Options};
use windlass_store::{History, Store};

use crate::exit::Failure;
use crate::output;

/// Serve a Kubernetes API from this process: no etcd, no management cluster
#[derive(Args)]
#[command(after_help = "\
Pods do not run here: it is an API for controllers, with custom resources, watches, server-side apply, garbage
collection and admission, and a store on disk. Every acknowledged write is synced.

Examples:
  windlass serve --kubeconfig-out kubeconfig
  windlass serve --in-memory --listen 127.0.0.1:0 --kubeconfig-out /tmp/kubeconfig
  windlass serve --data-dir /var/lib/windlass --crds crds/
  windlass serve --in-memory --cluster-api --kubeconfig-out kubeconfig
  kubectl --kubeconfig kubeconfig get namespaces")]
pub(crate) struct ServeCommand {
    /// Where to keep objects and credentials; left out, windlass below the user's data directory
    #[arg(long, value_name = "DIR", conflicts_with = "in_memory")]
    data_dir: Option<PathBuf>,
    /// Keep everything in memory: it is gone when the process ends
    #[arg(long)]
    in_memory: bool,
    /// Address to listen on; port 0 picks one
    #[arg(long, value_name = "IP:PORT", default_value = "127.0.0.1:6443")]
    listen: SocketAddr,
    /// Where to write a kubeconfig for the administrator (mode 0600)
    #[arg(long, value_name = "FILE")]
    kubeconfig_out: Option<PathBuf>,
    /// Directory with manifests of CustomResourceDefinitions to create or update at the start
    #[arg(long, value_name = "DIR")]
    crds: Option<PathBuf>,
    /// Install the CustomResourceDefinitions of Cluster API at the start; `windlass crds` prints them
    #[arg(long)]
    cluster_api: bool,
    /// Acknowledge writes before they are on the disk: faster, and a crash loses the last moments
    #[arg(long, conflicts_with = "in_memory")]
    relaxed: bool,
}

/// How long a stop may take before what is still open is cut off.
const STOP_LIMIT: Duration = Duration::from_secs(10);

pub(crate) async fn run(command: ServeCommand) -> Result<(), Failure> {
    let failed = |error: &dyn std::fmt::Display| Failure::Failed(error.to_string());
    let (store, credentials, control) = if command.in_memory {
        let credentials = Credentials::ephemeral().map_err(|error| failed(&error))?;
        (Store::in_memory(History::default()), credentials, None)
    } else {
        let directory = data_dir(command.data_dir.as_deref())?;
        let home = Home::new(&directory);
        home.create()
            .map_err(|error| Failure::Failed(format!("cannot make {}: {error}", directory.display())))?;
        let mut options = windlass_store::Options::new();
        if command.relaxed {
            options = options.relaxed();
        }
        let store = Store::open(home.store(), &options).map_err(|error| failed(&error))?;
        let credentials = Credentials::in_directory(&home.pki()).map_err(|error| failed(&error))?;
        let control = match home.control(store.clone()) {
            Ok(control) => Some(control),
            Err(error) => {
                output::note(&format!("backups are possible only while this server is stopped: {error}"));
                None
            }
        };
        (store, credentials, control)
    };
    let options = Options::new()
        .clock(Clock::system())
        .token_key(credentials.token_key())
        .ca_bundle(credentials.ca_bundle());
    let server = ApiServer::start(store.clone(), options).await.map_err(|error| failed(&error))?;
    if command.cluster_api {
        crds::apply_cluster_api(&server).await?;
    }
    if let Some(directory) = &command.crds {
        crds::apply(&server, directory).await?;
    }
    let listener = TcpListener::bind(command.listen)
        .await
        .map_err(|error| Failure::Failed(format!("cannot listen on {}: {error}", command.listen)))?;
    let url = format!("https://{}", listener.local_addr()?);
    if let Some(path) = &command.kubeconfig_out {
        credentials.write_kubeconfig(path, &url).map_err(|error| failed(&error))?;
    }
    // Whoever reads that it is ready may stop it at once.
    let mut terminate = signal(SignalKind::terminate())?;
    output::print(&ready(&url, &command))?;
    let stop = async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = tokio::signal::ctrl_c() => {}
        }
    };
    serve(server, listener, Arc::new(credentials), stop).await.map_err(|error| failed(&error))?;
    drop(control);
    match tokio::time::timeout(STOP_LIMIT, store.close()).await {
        Ok(closed) => closed.map_err(|error| failed(&error)),
        Err(_) => Err(Failure::Failed("the disk did not take the last writes in time".to_owned())),
    }
}

fn ready(url: &str, command: &ServeCommand) -> String {
    let mut text = format!("Ready: {url}\n");
    if let Some(path) = &command.kubeconfig_out {
        text.push_str(&format!("\nNext: kubectl --kubeconfig {} get namespaces\n", path.display()));
    }
    text
}

/// The data directory that was named, or the usual one.
pub(crate) fn data_dir(named: Option<&Path>) -> Result<PathBuf, Failure> {
    if let Some(named) = named {
        return Ok(named.to_owned());
    }
    let absolute = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    absolute("XDG_DATA_HOME")
        .or_else(|| absolute("HOME").map(|home| home.join(".local/share")))
        .map(|base| base.join("windlass"))
        .ok_or_else(|| Failure::Invalid("neither --data-dir nor HOME is set".to_owned()))
}
