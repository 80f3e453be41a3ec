//! The API in this process: where its data is, who may use it, where it listens.

use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use kube::Client;
use tokio::net::TcpListener;
use windlass_apiserver::serve::{Control, Credentials, CredentialsError, Home, ServeError, serve};
use windlass_apiserver::{ApiServer, Clock, Failure, Options};
use windlass_store::{History, OpenError, Store};

use crate::admission::EmbeddedAdmission;

/// How long closing the store may take: by then everything that was acknowledged is on the disk anyway.
const CLOSE_LIMIT: Duration = Duration::from_secs(3);

/// Where objects and credentials are kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Data {
    /// In memory: they are gone when the process ends.
    Memory,
    /// In a directory.
    Directory {
        /// The directory, which is made if it is missing.
        path: PathBuf,
        /// Whether writes are acknowledged before they are on the disk.
        relaxed: bool,
    },
}

/// Why the API does not run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EmbeddedError {
    /// The data directory cannot be made.
    #[error("cannot make {}: {source}", path.display())]
    Directory {
        /// The directory.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// The store cannot be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// There are no credentials.
    #[error(transparent)]
    Credentials(#[from] CredentialsError),
    /// The API refused to start.
    #[error("the API did not start: {0}")]
    Start(Failure),
    /// The address cannot be listened on.
    #[error("cannot listen on {address}: {source}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// Why not.
        source: io::Error,
    },
    /// It cannot be served.
    #[error(transparent)]
    Serve(#[from] ServeError),
    /// The store did not close as it should.
    #[error("the data directory was not closed: {0}")]
    Close(String),
}

/// An API in this process.
pub struct Embedded {
    server: ApiServer,
    store: Store,
    credentials: Arc<Credentials>,
    control: Option<Control>,
    problem: Option<io::Error>,
}

impl Embedded {
    /// Starts an API on its data.
    ///
    /// # Errors
    ///
    /// When the data cannot be used; a directory that another process has open names it.
    pub fn open<'a>(
        data: &'a Data,
        admission: Option<&'a EmbeddedAdmission>,
    ) -> BoxFuture<'a, Result<Self, EmbeddedError>> {
        Box::pin(Self::opened(data, admission))
    }

    async fn opened(data: &Data, admission: Option<&EmbeddedAdmission>) -> Result<Self, EmbeddedError> {
        let (store, credentials, control, problem) = match data {
            Data::Memory => (Store::in_memory(History::default()), Credentials::ephemeral()?, None, None),
            Data::Directory { path, relaxed } => {
                let home = Home::new(path);
                home.create().map_err(|source| EmbeddedError::Directory { path: path.clone(), source })?;
                let mut options = windlass_store::Options::new();
                if *relaxed {
                    options = options.relaxed();
                }
                let store = Store::open(home.store(), &options)?;
                let credentials = Credentials::in_directory(&home.pki())?;
                let (control, problem) = match home.control(store.clone()) {
                    Ok(control) => (Some(control), None),
                    Err(problem) => (None, Some(problem)),
                };
                (store, credentials, control, problem)
            }
        };
        let mut options = Options::new()
            .clock(Clock::real())
            .token_key(credentials.token_key())
            .ca_bundle(credentials.ca_bundle());
        if let Some(admission) = admission {
            options = admission.add_to(options);
        }
        let server = ApiServer::start(store.clone(), options).await.map_err(EmbeddedError::Start)?;
        let embedded = Self { server, store, credentials: Arc::new(credentials), control, problem };
        if let Some(admission) = admission {
            admission.connect(embedded.client());
        }
        Ok(embedded)
    }

    /// The API.
    pub fn server(&self) -> &ApiServer {
        &self.server
    }

    /// A client in the process, which may do everything.
    pub fn client(&self) -> Client {
        Client::new(windlass_runtime::named(self.server.service()), "default")
    }

    /// Why backups are possible only while it is stopped, if so.
    pub fn no_backup(&self) -> Option<&io::Error> {
        self.problem.as_ref()
    }

    /// Adds names and addresses that clients know the API by, for its certificate.
    pub fn add_names(&self, names: impl IntoIterator<Item = String>) {
        self.credentials.add_names(names);
    }

    /// Writes a kubeconfig of the administrator, for the owner's eyes only. It is written again when its certificate
    /// is renewed.
    ///
    /// # Errors
    ///
    /// When the file cannot be written.
    pub fn write_kubeconfig(&self, path: &Path, url: &str) -> Result<(), EmbeddedError> {
        Ok(self.credentials.write_kubeconfig(path, url)?)
    }

    /// Takes an address; port 0 takes a free port. Returns where it listens.
    ///
    /// # Errors
    ///
    /// When the address is not free, or not of this machine.
    pub async fn listen(address: SocketAddr) -> Result<(TcpListener, String), EmbeddedError> {
        let cannot = |source| EmbeddedError::Listen { address, source };
        let listener = TcpListener::bind(address).await.map_err(cannot)?;
        let url = format!("https://{}", listener.local_addr().map_err(cannot)?);
        Ok((listener, url))
    }

    /// Serves until it is told to stop, lets requests end, and closes the store.
    ///
    /// # Errors
    ///
    /// When TLS refuses the credentials, or the store does not close.
    pub fn serve<'a>(
        self,
        listener: TcpListener,
        stop: impl Future<Output = ()> + Send + 'a,
    ) -> BoxFuture<'a, Result<(), EmbeddedError>> {
        self.serve_until(listener, Box::pin(stop))
    }

    fn serve_until<'a>(
        self,
        listener: TcpListener,
        stop: BoxFuture<'a, ()>,
    ) -> BoxFuture<'a, Result<(), EmbeddedError>> {
        Box::pin(async move {
            serve(self.server, listener, self.credentials, stop).await?;
            drop(self.control);
            match tokio::time::timeout(CLOSE_LIMIT, self.store.close()).await {
                Ok(closed) => closed.map_err(|error| EmbeddedError::Close(error.to_string())),
                Err(_) => {
                    Err(EmbeddedError::Close("the disk did not take the last writes in time".to_owned()))
                }
            }
        })
    }
}
