//! Which Kubernetes API a command talks to: as kubectl chooses it.

use std::error::Error;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use kube::config::{KubeConfigOptions, Kubeconfig, KubeconfigError};
use kube::{Client, Config};

use crate::exit::Failure;

/// How long connecting may take. An API that is there answers in milliseconds.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Arguments of commands that read from an API.
#[derive(Args)]
pub(crate) struct ApiArguments {
    /// File that says where the API is; left out, as kubectl does: KUBECONFIG, else ~/.kube/config
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// Context of that file; left out, its current one
    #[arg(long, value_name = "NAME")]
    context: Option<String>,
}

impl ApiArguments {
    /// Whether an API was named.
    pub(crate) fn is_given(&self) -> bool {
        self.kubeconfig.is_some() || self.context.is_some()
    }

    /// A client, and the namespace that the context names.
    pub(crate) async fn connect(&self) -> Result<(Client, String), Failure> {
        let mut config = read(self.kubeconfig.as_deref(), self.context.as_deref()).await?;
        config.connect_timeout = Some(CONNECT_TIMEOUT);
        let namespace = config.default_namespace.clone();
        Ok((client(config)?, namespace))
    }
}

/// Arguments of commands about one Cluster of an API.
#[derive(Args)]
pub(crate) struct ClusterArguments {
    /// Name of the Cluster
    pub(crate) name: String,
    /// Namespace of the Cluster; left out, that of the context
    #[arg(short, long, value_name = "NS")]
    namespace: Option<String>,
    #[command(flatten)]
    api: ApiArguments,
}

impl ClusterArguments {
    /// A client, and the namespace of the Cluster.
    pub(crate) async fn connect(&self) -> Result<(Client, String), Failure> {
        let (client, default_namespace) = self.api.connect().await?;
        Ok((client, self.namespace.clone().unwrap_or(default_namespace)))
    }
}

/// How to reach the API that a file names; left out, as kubectl does.
pub(crate) async fn read(file: Option<&Path>, context: Option<&str>) -> Result<Config, Failure> {
    let file = match file {
        Some(path) => Kubeconfig::read_from(path),
        None => Kubeconfig::read(),
    };
    let invalid = |error: KubeconfigError| unusable(&error);
    let options =
        KubeConfigOptions { context: context.map(ToOwned::to_owned), ..KubeConfigOptions::default() };
    Config::from_custom_kubeconfig(file.map_err(invalid)?, &options).await.map_err(invalid)
}

/// A client of an API that is read about in a file.
pub(crate) fn client(mut config: Config) -> Result<Client, Failure> {
    let url = config.cluster_url.clone();
    config.headers.push((http::header::USER_AGENT, http::HeaderValue::from_static(windlass_manager::AGENT)));
    Client::try_from(config)
        .map_err(|error| Failure::Invalid(format!("cannot use the kubeconfig: {url}: {}", chain(&error))))
}

/// What a file that cannot be used is answered with.
pub(crate) fn unusable(error: &dyn Error) -> Failure {
    Failure::Invalid(format!("cannot use the kubeconfig: {}", chain(error)))
}

/// An error with what caused it: kubeconfigs fail in nested ways.
fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text = format!("{text}: {cause_text}");
        }
        next = cause.source();
    }
    text
}
