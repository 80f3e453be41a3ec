//! Access to workload clusters: a `kube::Client` for a Cluster, or why there is none.

use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::future::BoxFuture;
use k8s_openapi::api::core::v1::Secret;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config};
use tokio::time::{Instant, timeout};
use windlass_etcd::Channel;
use windlass_runtime::{ObjectKey, describe_error};

use crate::etcd_credentials::EtcdCredentials;
use crate::port_forward::port_forward;

/// Where kubeadm lets etcd listen for clients.
const ETCD_PORT: u16 = 2379;

/// Why a workload cluster does not answer. That is nothing unusual: control planes come up, restart and go.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoAnswer {
    /// There is no kubeconfig for it.
    #[error("there is no Secret {secret} with a kubeconfig")]
    NoKubeconfig {
        /// The Secret that was looked for.
        secret: String,
    },
    /// What is written down makes no sense.
    #[error("the kubeconfig in Secret {secret} cannot be used: {why}")]
    BadKubeconfig {
        /// The Secret.
        secret: String,
        /// What is wrong with it.
        why: String,
    },
    /// Nothing listens, or the connection broke.
    #[error("{server} cannot be reached: {why}")]
    Unreachable {
        /// The address.
        server: String,
        /// What happened.
        why: String,
    },
    /// It took too long.
    #[error("no answer within {} s", .0.as_secs())]
    TimedOut(Duration),
    /// It answered with an error.
    #[error("{0}")]
    Refused(String),
}

/// Gives access to workload clusters.
pub trait WorkloadAccess: Send + Sync + 'static {
    /// A client for the workload cluster of a Cluster. That there is a client does not mean that it will be answered:
    /// ask with [`answer`].
    fn client<'a>(&'a self, cluster: &'a ObjectKey) -> BoxFuture<'a, Result<Client, NoAnswer>>;

    /// A way to the member of etcd on a Node of a Cluster. That there is one does not mean that it will be answered.
    fn etcd<'a>(&'a self, cluster: &'a ObjectKey, node: &'a str) -> BoxFuture<'a, Result<Channel, NoAnswer>>;

    /// Forgets what it remembers of a Cluster that is gone: another of the same name is elsewhere.
    fn forget(&self, _cluster: &ObjectKey) {}
}

/// How long a request to a workload cluster may take. Machines wait for nothing else meanwhile, and the next
/// reconcile asks again.
const PATIENCE: Duration = Duration::from_secs(10);

/// Asks a workload cluster something, for at most ten seconds. An object that is not there is `Ok(None)`.
///
/// # Errors
///
/// [`NoAnswer`], for whatever else went wrong.
pub async fn answer<T>(request: impl Future<Output = Result<T, kube::Error>>) -> Result<Option<T>, NoAnswer> {
    match timeout(PATIENCE, request).await {
        Err(_) => Err(NoAnswer::TimedOut(PATIENCE)),
        Ok(Ok(answer)) => Ok(Some(answer)),
        Ok(Err(kube::Error::Api(status))) if status.code == 404 => Ok(None),
        Ok(Err(error)) => Err(NoAnswer::Refused(describe_error(&error))),
    }
}

/// What a resolver makes of the address in a kubeconfig.
pub enum Resolved {
    /// It does not know the address.
    Elsewhere,
    /// The address is its own, and nothing listens there.
    Down,
    /// It answers for the address in the process.
    InProcess {
        /// The API server.
        client: Client,
        /// The members of etcd, by the name of their Node.
        etcd: Members,
    },
}

/// Ways to the members of an etcd, by the name of their Node.
pub type Members = Arc<dyn Fn(&str) -> Channel + Send + Sync>;

/// Answers addresses in the process, as in-memory clusters need it.
pub type Resolver = Arc<dyn Fn(&str) -> Resolved + Send + Sync>;

/// Finds workload clusters by the Secret `<cluster>-kubeconfig`, as Cluster API's users know it.
#[derive(Clone)]
pub struct KubeconfigAccess {
    client: Client,
    resolvers: Vec<Resolver>,
    known: Arc<Mutex<BTreeMap<ObjectKey, Known>>>,
    credentials: EtcdCredentials,
}

/// What was in a kubeconfig, and until when that counts.
#[derive(Clone)]
struct Known {
    version: String,
    server: String,
    until: Instant,
    target: Target,
}

#[derive(Clone)]
enum Target {
    /// Ask the resolvers every time: they know at once when something listens.
    InProcess,
    Remote(Client),
}

/// What a Cluster is reached through.
enum Reached {
    InProcess(Client, Members),
    Remote(Client),
}

/// How long a kubeconfig is used before it is read again. Certificates in it are renewed long before they expire.
const KUBECONFIG_TTL: Duration = Duration::from_secs(30);

impl KubeconfigAccess {
    /// Reads the kubeconfigs with this client, that of the management cluster.
    pub fn new(client: Client) -> Self {
        let credentials = EtcdCredentials::new(client.clone());
        Self { client, resolvers: Vec::new(), known: Arc::default(), credentials }
    }

    /// Adds something that answers addresses in the process.
    #[must_use]
    pub fn resolving(mut self, resolver: Resolver) -> Self {
        self.resolvers.push(resolver);
        self
    }

    async fn look_up(&self, cluster: &ObjectKey) -> Result<Reached, NoAnswer> {
        let fresh = self.known().get(cluster).filter(|known| Instant::now() < known.until).cloned();
        let known = match fresh {
            Some(known) => known,
            None => {
                let read = self.read(cluster).await?;
                self.known().insert(cluster.clone(), read.clone());
                read
            }
        };
        match known.target {
            Target::Remote(client) => Ok(Reached::Remote(client)),
            Target::InProcess => match self.resolve(&known.server) {
                Resolved::InProcess { client, etcd } => Ok(Reached::InProcess(client, etcd)),
                Resolved::Down | Resolved::Elsewhere => {
                    Err(NoAnswer::Unreachable { server: known.server, why: "connection refused".to_owned() })
                }
            },
        }
    }

    async fn read(&self, cluster: &ObjectKey) -> Result<Known, NoAnswer> {
        let secret = format!("{}-kubeconfig", cluster.name);
        let bad = |why: String| NoAnswer::BadKubeconfig { secret: secret.clone(), why };
        let secrets: Api<Secret> = Api::namespaced(self.client.clone(), &cluster.namespace);
        let Some(found) = answer(secrets.get(&secret)).await? else {
            self.known().remove(cluster);
            return Err(NoAnswer::NoKubeconfig { secret });
        };
        let version = found.metadata.resource_version;
        let version = version.ok_or_else(|| bad("it has no resourceVersion".to_owned()))?;
        let until = Instant::now() + KUBECONFIG_TTL;
        if let Some(known) = self.known().get(cluster).filter(|known| known.version == version) {
            return Ok(Known { until, ..known.clone() });
        }
        let data = found.data.unwrap_or_default();
        let Some(value) = data.get("value") else { return Err(bad("it has no key \"value\"".to_owned())) };
        let text = std::str::from_utf8(&value.0).map_err(|error| bad(error.to_string()))?;
        let kubeconfig = Kubeconfig::from_yaml(text).map_err(|error| bad(error.to_string()))?;
        let server = server(&kubeconfig).ok_or_else(|| bad("it names no server".to_owned()))?;
        let target = match self.resolve(&server) {
            Resolved::InProcess { .. } | Resolved::Down => Target::InProcess,
            Resolved::Elsewhere => {
                let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await;
                let mut config = config.map_err(|error| bad(error.to_string()))?;
                let agent = http::HeaderValue::from_static(windlass_runtime::AGENT);
                config.headers.push((http::header::USER_AGENT, agent));
                Target::Remote(Client::try_from(config).map_err(|error| bad(error.to_string()))?)
            }
        };
        Ok(Known { version, server, until, target })
    }

    /// The member of a cluster elsewhere, through a port-forward of its API server.
    async fn forwarded(&self, cluster: &ObjectKey, client: Client, node: &str) -> Result<Channel, NoAnswer> {
        let credentials = self.credentials.of(cluster).await?;
        let pod = format!("etcd-{node}");
        let unreachable = |why: String| NoAnswer::Unreachable { server: pod.clone(), why };
        let stream = port_forward(&client, "kube-system", &pod, ETCD_PORT).await;
        let stream = stream.map_err(|error| unreachable(error.to_string()))?;
        Channel::tls(stream, &credentials, &pod).await.map_err(|error| unreachable(error.to_string()))
    }

    fn resolve(&self, server: &str) -> Resolved {
        let answers = self.resolvers.iter().map(|resolver| resolver(server));
        let mut mine = answers.filter(|answer| !matches!(answer, Resolved::Elsewhere));
        mine.next().unwrap_or(Resolved::Elsewhere)
    }

    fn known(&self) -> MutexGuard<'_, BTreeMap<ObjectKey, Known>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl WorkloadAccess for KubeconfigAccess {
    fn client<'a>(&'a self, cluster: &'a ObjectKey) -> BoxFuture<'a, Result<Client, NoAnswer>> {
        Box::pin(async {
            Ok(match self.look_up(cluster).await? {
                Reached::InProcess(client, _) | Reached::Remote(client) => client,
            })
        })
    }

    fn etcd<'a>(&'a self, cluster: &'a ObjectKey, node: &'a str) -> BoxFuture<'a, Result<Channel, NoAnswer>> {
        Box::pin(async move {
            match self.look_up(cluster).await? {
                Reached::InProcess(_, etcd) => Ok(etcd(node)),
                Reached::Remote(client) => self.forwarded(cluster, client, node).await,
            }
        })
    }

    fn forget(&self, cluster: &ObjectKey) {
        self.known().remove(cluster);
        self.credentials.forget(cluster);
    }
}

impl fmt::Debug for KubeconfigAccess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let known = self.known();
        f.debug_map()
            .entries(known.iter().map(|(cluster, known)| (cluster.to_string(), &known.server)))
            .finish()
    }
}

/// The address of the current context, or of the only cluster.
fn server(kubeconfig: &Kubeconfig) -> Option<String> {
    let current = kubeconfig.current_context.as_deref();
    let context = kubeconfig.contexts.iter().find(|context| Some(context.name.as_str()) == current);
    let wanted = context.and_then(|context| Some(context.context.as_ref()?.cluster.clone()));
    let cluster = match wanted {
        Some(wanted) => kubeconfig.clusters.iter().find(|cluster| cluster.name == wanted),
        None => kubeconfig.clusters.first(),
    };
    cluster?.cluster.as_ref()?.server.clone()
}
