//! `windlass serve`: only the embedded Kubernetes API.

mod crds;

use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};

use clap::Args;
use tokio::signal::unix::{SignalKind, signal};
use windlass_apiserver::serve::CredentialsError;
use windlass_manager::{Data, Embedded, EmbeddedError, install};
use windlass_store::OpenError;

use crate::exit::Failure;
use crate::logging::{self, LogFormat};
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
    /// Name or address that clients know this API by, for its certificate; may be given several times
    #[arg(long = "tls-san", value_name = "NAME", value_parser = certificate_name)]
    tls_san: Vec<String>,
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

pub(crate) async fn run(command: ServeCommand) -> Result<(), Failure> {
    logging::start("warn", LogFormat::Text)?;
    let failed = |error: &dyn std::fmt::Display| Failure::Failed(error.to_string());
    let data = if command.in_memory {
        Data::Memory
    } else {
        Data::Directory { path: data_dir(command.data_dir.as_deref())?, relaxed: command.relaxed }
    };
    let embedded = Embedded::open(&data, None).await.map_err(|error| not_running(&error))?;
    if let Some(problem) = embedded.no_backup() {
        output::note(&format!("backups are possible only while this server is stopped: {problem}"));
    }
    if command.cluster_api {
        let crds = windlass_api::crds::manifests();
        install(embedded.server(), crds).await.map_err(|error| failed(&error))?;
    }
    if let Some(directory) = &command.crds {
        crds::apply(embedded.server(), directory).await?;
    }
    if let Some(warning) = reachable(command.listen, &command.tls_san) {
        output::note(&warning);
    }
    embedded.add_names(command.tls_san.iter().cloned());
    let (listener, url) = Embedded::listen(command.listen).await.map_err(|error| not_running(&error))?;
    if let Some(path) = &command.kubeconfig_out {
        embedded.write_kubeconfig(path, &url).map_err(|error| failed(&error))?;
    }
    // A script that reads that it is ready may stop it at once.
    let stop = termination()?;
    output::print(&ready(&url, &command))?;
    embedded.serve(listener, stop).await.map_err(|error| failed(&error))
}

/// A name or address as a certificate may have it.
pub(crate) fn certificate_name(text: &str) -> Result<String, String> {
    let is_name = !text.is_empty()
        && text.len() <= 253
        && text.split('.').all(|label| !label.is_empty() && label.len() <= 63)
        && text.chars().all(|c| c.is_ascii_alphanumeric() || ['-', '.'].contains(&c));
    match is_name || text.parse::<IpAddr>().is_ok() {
        true => Ok(text.to_owned()),
        false => Err("neither a DNS name nor an IP address".to_owned()),
    }
}

/// What to say about an address that other machines can reach.
pub(crate) fn reachable(listen: SocketAddr, names: &[String]) -> Option<String> {
    let ip = listen.ip();
    if ip.is_loopback() {
        return None;
    }
    let mut text = format!(
        "the API listens on {listen}, which other machines can reach. Clients need a certificate or a token; health \
         and version are answered to all. See docs/security.md."
    );
    if names.is_empty() {
        let known = if ip.is_unspecified() { "localhost and 127.0.0.1".to_owned() } else { format!("{ip}") };
        text.push_str(&format!(
            "\n      Its certificate is for {known}: give --tls-san for every other name or address that clients use."
        ));
    }
    Some(text)
}

/// Why the API does not run, and what can be done about it.
pub(crate) fn not_running(error: &EmbeddedError) -> Failure {
    let advice = match error {
        EmbeddedError::Open(OpenError::Damaged { .. }) => {
            "restore a backup with windlass restore --replace, or begin anew in another directory"
        }
        EmbeddedError::Open(OpenError::NewerFormat { .. }) => {
            "it was written by a newer windlass: start that one"
        }
        EmbeddedError::Credentials(CredentialsError::Damaged { .. }) => {
            "put a copy back, or remove the directory that it is in: others are made, and kubeconfigs and tokens that \
             were given out are worth nothing any more"
        }
        EmbeddedError::Listen { source, .. } if source.kind() == ErrorKind::AddrInUse => {
            "--listen takes another address, and with port 0 a port that is free"
        }
        _ => return Failure::Failed(error.to_string()),
    };
    Failure::Failed(format!("{error}\n{advice}"))
}

/// Is ready when the process is told to end. Signals that come from now on are noticed.
pub(crate) fn termination() -> Result<impl Future<Output = ()>, Failure> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    })
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_that_others_can_reach_is_said_to_be_one() {
        let address = |text: &str| text.parse().unwrap();
        assert_eq!(reachable(address("127.0.0.1:6443"), &[]), None);
        assert_eq!(reachable(address("[::1]:6443"), &[]), None);
        let all = reachable(address("0.0.0.0:6443"), &[]).unwrap();
        assert!(all.contains("other machines can reach") && all.contains("--tls-san"), "{all}");
        let named = reachable(address("10.0.0.1:6443"), &["api.example.org".to_owned()]).unwrap();
        assert!(!named.contains("--tls-san"), "{named}");
    }

    #[test]
    fn names_of_certificates_are_names_or_addresses() {
        for name in ["api", "api.example.org", "10.0.0.1", "fd00::1"] {
            assert!(certificate_name(name).is_ok(), "{name}");
        }
        for name in ["", "a b", "a..b", "*", "ü", &"a".repeat(64), "a\n"] {
            assert!(certificate_name(name).is_err(), "{name:?}");
        }
    }
}
