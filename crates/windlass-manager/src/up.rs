//! The whole management plane in one process.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use futures_util::future::BoxFuture;
use kube::Client;
use tokio::net::TcpListener;
use windlass_apiserver::Clock;
use windlass_engine::features::Features;
use windlass_hooks::HookClient;
use windlass_inmemory::Provider;
use windlass_runtime::{Manager, Options, Running};

use crate::admission::EmbeddedAdmission;
use crate::controllers::{Plane, hook_client};
use crate::crds::{InstallError, install};
use crate::embedded::{Data, Embedded, EmbeddedError};
use crate::run::{RunError, Task, diagnostics};
use crate::selection::Selection;

/// How long reconciles that are under way are given when it stops. The API ends after them, and all of it has ten
/// seconds.
const DRAIN: Duration = Duration::from_secs(4);

/// How the plane runs.
#[derive(Clone, Debug)]
pub struct UpOptions {
    /// Where everything is kept.
    pub data: Data,
    /// Where the API listens; port 0 takes a free port.
    pub listen: SocketAddr,
    /// Where a kubeconfig is written.
    pub kubeconfig: Option<PathBuf>,
    /// Which controllers run.
    pub controllers: Selection,
    /// Which features are on.
    pub features: Features,
    /// Whether there are machines in memory.
    pub has_dev_provider: bool,
    /// Whether what is stored is defaulted and checked.
    pub has_admission: bool,
    /// Where `/healthz`, `/readyz` and `/metrics` are answered.
    pub diagnostics: Option<SocketAddr>,
    /// Names and addresses that clients know the API by, besides those of this machine.
    pub names: Vec<String>,
    /// What all chance comes from; left out, another in every process.
    pub seed: Option<u64>,
    /// The slowest pace that a controller may take; left out, each has its own.
    pub longest_pace: Option<Duration>,
}

impl UpOptions {
    /// Everything, on these data.
    pub fn new(data: Data, listen: SocketAddr) -> Self {
        Self {
            data,
            listen,
            kubeconfig: None,
            controllers: Selection::all(),
            features: Features::default(),
            has_dev_provider: true,
            has_admission: true,
            diagnostics: None,
            names: Vec::new(),
            seed: None,
            longest_pace: None,
        }
    }
}

/// Why the plane does not run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum UpError {
    /// The API does not run.
    #[error(transparent)]
    Embedded(#[from] EmbeddedError),
    /// An address cannot be listened on.
    #[error(transparent)]
    Diagnostics(#[from] RunError),
    /// A kind could not be defined.
    #[error(transparent)]
    Install(#[from] InstallError),
}

/// A management plane that runs: its controllers act, its API is answered once [`run_until`](Self::run_until) is.
pub struct Up {
    embedded: Embedded,
    listener: TcpListener,
    running: Running,
    hooks: HookClient,
    url: String,
    kubeconfig: Option<PathBuf>,
    diagnostics: Option<(SocketAddr, Task)>,
}

impl Up {
    /// Starts the API, defines the kinds of Cluster API, and starts the controllers.
    ///
    /// # Errors
    ///
    /// When the data are in use or damaged, or the address is not free.
    pub fn start(options: UpOptions) -> BoxFuture<'static, Result<Self, UpError>> {
        Box::pin(Self::started(options))
    }

    async fn started(options: UpOptions) -> Result<Self, UpError> {
        let admission = options.has_admission.then(|| EmbeddedAdmission::with_features(options.features));
        // Data first: a second process on the same directory is told so, and not that the address is taken.
        let embedded = Embedded::open(&options.data, admission.as_ref()).await?;
        embedded.add_names(options.names);
        let (listener, url) = Embedded::listen(options.listen).await?;
        install(embedded.server(), windlass_api::crds::manifests()).await?;
        if let Some(path) = &options.kubeconfig {
            embedded.write_kubeconfig(path, &url)?;
        }
        let mut manager_options = Options::new();
        if let Some(seed) = options.seed {
            manager_options = manager_options.seed(seed);
        }
        if let Some(pace) = options.longest_pace {
            manager_options = manager_options.longest_pace(pace);
        }
        let client = embedded.client();
        let manager = Manager::new(client.clone(), manager_options);
        let hooks = hook_client(client.clone());
        // Draws of the provider depend on names and this seed, so that they are the same after a restart.
        let provider =
            options.has_dev_provider.then(|| Provider::new(Clock::real(), options.seed.unwrap_or(1)));
        let plane = Plane { client, hooks: hooks.clone(), provider, features: options.features };
        plane.register_selected(&manager, &options.controllers);
        let diagnostics = match options.diagnostics {
            Some(address) => {
                let store = embedded.server().store().clone();
                let writable = move || match store.failure() {
                    Some(reason) => Err(format!("the store cannot write: {reason}")),
                    None => Ok(()),
                };
                Some(diagnostics(address, &manager, &hooks, writable).await?)
            }
            None => None,
        };
        let running = manager.start();
        let kubeconfig = options.kubeconfig;
        Ok(Self { embedded, listener, running, hooks, url, kubeconfig, diagnostics })
    }

    /// Where the API listens.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The kubeconfig that was written.
    pub fn kubeconfig(&self) -> Option<&Path> {
        self.kubeconfig.as_deref()
    }

    /// A client in the process, which may do everything.
    pub fn client(&self) -> Client {
        self.embedded.client()
    }

    /// The API.
    pub fn embedded(&self) -> &Embedded {
        &self.embedded
    }

    /// What runs the controllers.
    pub fn manager(&self) -> &Manager {
        self.running.manager()
    }

    /// Where diagnostics are answered.
    pub fn diagnostics(&self) -> Option<SocketAddr> {
        self.diagnostics.as_ref().map(|(address, _)| *address)
    }

    /// What calls extensions.
    pub fn hooks(&self) -> &HookClient {
        &self.hooks
    }

    /// Serves the API until it is told to stop; then lets what is being reconciled end, and requests after that.
    ///
    /// # Errors
    ///
    /// When the API cannot be served, or the store does not close.
    pub fn run_until<'a>(
        self,
        stop: impl Future<Output = ()> + Send + 'a,
    ) -> BoxFuture<'a, Result<(), UpError>> {
        self.serve_until(Box::pin(stop))
    }

    fn serve_until<'a>(self, stop: BoxFuture<'a, ()>) -> BoxFuture<'a, Result<(), UpError>> {
        Box::pin(async move {
            let Self { embedded, listener, running, diagnostics: _diagnostics, .. } = self;
            let stop = async move {
                stop.await;
                tracing::info!("stopping: reconciles and requests that are under way may end");
                running.stop(DRAIN).await;
            };
            Ok(embedded.serve(listener, stop).await?)
        })
    }
}
