//! The controllers on an API that is somewhere else.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use futures_util::future::BoxFuture;
use k8s_openapi::api::coordination::v1::Lease;
use kube::Client;
use kube::api::Api;
use tokio::net::TcpListener;
use tokio::sync::Notify;
use tokio::task::AbortHandle;
use windlass_api::names::WATCH_FILTER_LABEL;
use windlass_engine::features::Features;
use windlass_engine::readiness::{UPSTREAMS_LEASES, leads_instead};
use windlass_hooks::HookClient;
use windlass_inmemory::Provider;
use windlass_runtime::{Clock, Manager, Options, describe_error};

use crate::controllers::{Plane, hook_client};
use crate::diagnostics::{Diagnostics, serve_diagnostics};
use crate::leader::{Candidate, LeaderOptions, Standing, hold_all};
use crate::metrics::PlaneMetrics;
use crate::selection::Selection;
use crate::webhooks::{CertificateFiles, WebhookError, serve_webhooks};

/// How long reconciles that are under way are given at the end.
const DRAIN: Duration = Duration::from_secs(8);

/// How the controllers run.
pub struct RunOptions {
    /// The API.
    pub client: Client,
    /// Which controllers run.
    pub controllers: Selection,
    /// Which features are on.
    pub features: Features,
    /// Only objects whose label `cluster.x-k8s.io/watch-filter` has this value are reconciled.
    pub watch_filter: Option<String>,
    /// Whether the in-memory provider runs here too, for trying things out.
    pub has_dev_provider: bool,
    /// How one of several processes is elected; left out, this one acts.
    pub leader: Option<LeaderOptions>,
    /// Leases of other programs that must be held too, so that their controllers rest.
    pub held_leases: Vec<LeaderOptions>,
    /// Where `/healthz`, `/readyz` and `/metrics` are answered.
    pub diagnostics: Option<SocketAddr>,
    /// Where webhooks are answered, and with which certificate.
    pub webhooks: Option<(SocketAddr, CertificateFiles)>,
    /// Whether to end as soon as there is nothing to do.
    pub once: bool,
}

/// Why the controllers do not run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// An address cannot be listened on.
    #[error("cannot listen on {address}: {source}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// Why not.
        source: io::Error,
    },
    /// Webhooks cannot be served.
    #[error(transparent)]
    Webhooks(#[from] WebhookError),
    /// There is no API to look at.
    #[error("the API does not answer: {0}")]
    Unreachable(String),
    /// Cluster API's own controllers run, and this process would write to the same objects.
    #[error(
        "Cluster API's manager {holder} holds the Lease {lease} and does the work of the controllers {}: two programs would write to \
         the same objects. Hold its Lease with --hold-lease {lease}, or leave these controllers out; docs/migrating.md says how",
        controllers.join(", ")
    )]
    UpstreamLeads {
        /// Namespace and name.
        lease: String,
        /// What holds it.
        holder: String,
        /// Controllers that both would run.
        controllers: Vec<&'static str>,
    },
    /// Another process may lead by now.
    #[error("the lease was lost: another process may act now, so this one ends")]
    LeaseLost,
    /// The controllers ended by themselves.
    #[error("the controllers ended")]
    Ended,
}

/// Where it listens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Listening {
    /// Diagnostics.
    pub diagnostics: Option<SocketAddr>,
    /// Webhooks.
    pub webhooks: Option<SocketAddr>,
}

/// How far it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Told {
    /// It acts, or takes over when the process that acts is gone.
    Ready,
    /// It acts.
    Leads,
}

/// How it ended, if nothing went wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// It was told to.
    Stopped,
    /// There was nothing to do any more.
    Idle,
}

/// Ends a task with itself.
pub(crate) struct Task(AbortHandle);

impl Drop for Task {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Runs the controllers until it is told to stop. Says where it listens as soon as it does, when it is ready, which is when it
/// leads or waits for another process that does, and when it leads.
///
/// # Errors
///
/// When an address is not free, the certificate cannot be used, or the Lease is lost.
pub fn run<'a>(
    options: RunOptions,
    listening: impl FnOnce(Listening) + Send + 'a,
    told: impl Fn(Told) + Send + Sync + 'a,
    stop: impl Future<Output = ()> + Send + 'a,
) -> BoxFuture<'a, Result<Ended, RunError>> {
    run_until(Box::pin(stop), options, Box::new(listening), Box::new(told))
}

fn run_until<'a>(
    mut stop: BoxFuture<'a, ()>,
    options: RunOptions,
    listening: Box<dyn FnOnce(Listening) + Send + 'a>,
    told: Box<dyn Fn(Told) + Send + Sync + 'a>,
) -> BoxFuture<'a, Result<Ended, RunError>> {
    Box::pin(async move {
        let client = options.client.clone();
        if options.once {
            // A process that stays may wait until the API answers; a dry run has nothing to show.
            let version = client.apiserver_version().await;
            version.map_err(|error| RunError::Unreachable(describe_error(&error)))?;
        }
        let manager_options = match &options.watch_filter {
            Some(value) => Options::new().only_labelled(WATCH_FILTER_LABEL, value),
            None => Options::new(),
        };
        let manager = Manager::new(client.clone(), manager_options);
        let hooks = hook_client(client.clone());
        let mut tasks = Vec::new();

        let mut candidate = options.leader.clone().map(|leader| Candidate::new(client.clone(), leader));
        let standing = candidate.as_ref().map(Candidate::standing);
        let mut at = Listening { diagnostics: None, webhooks: None };
        if let Some(address) = options.diagnostics {
            let can_lead = move || standing.as_ref().map_or(Ok(()), Standing::check);
            let (bound, task) = diagnostics(address, &manager, &hooks, can_lead).await?;
            at.diagnostics = Some(bound);
            tasks.push(task);
        }
        if let Some((address, files)) = options.webhooks.clone() {
            let (listener, bound) = listen(address).await?;
            at.webhooks = Some(bound);
            let serving = serve_webhooks(listener, files, client.clone(), options.features)?;
            tasks.push(Task(tokio::spawn(serving).abort_handle()));
        }
        listening(at);

        if let Some(candidate) = &mut candidate {
            tokio::select! {
                () = &mut stop => return Ok(Ended::Stopped),
                () = candidate.join() => {}
            }
        }
        if !options.once
            && let Err(refused) = nothing_leads_instead(&client, &options).await
        {
            if let Some(candidate) = &mut candidate {
                candidate.resign().await;
            }
            return Err(refused);
        }
        told(Told::Ready);
        let mut candidates: Vec<Candidate> = candidate.into_iter().collect();
        candidates.extend(options.held_leases.into_iter().map(|lease| Candidate::new(client.clone(), lease)));
        let has_all = Notify::new();
        let mut held = Box::pin(hold_all(&mut candidates, &has_all));
        tokio::select! {
            () = &mut stop => return Ok(Ended::Stopped),
            () = &mut held => return Err(RunError::LeaseLost),
            () = has_all.notified() => {}
        }
        told(Told::Leads);
        // Its draws depend on names and the seed, so that they are the same in the next process that leads.
        let provider = options.has_dev_provider.then(|| Provider::new(Clock::real(), 1));
        let plane = Plane { client, hooks, provider, features: options.features };
        plane.register_selected(&manager, &options.controllers);
        let mut running = manager.start();
        let idle = async {
            match options.once {
                true => drop(manager.idle().await),
                false => std::future::pending().await,
            }
        };
        let outcome = tokio::select! {
            () = &mut stop => Ok(Ended::Stopped),
            () = idle => Ok(Ended::Idle),
            () = &mut held => Err(RunError::LeaseLost),
            _ = running.ended() => return Err(RunError::Ended),
        };
        if outcome.is_err() {
            // Whatever is in the middle of something must not write any more.
            drop(running);
            return outcome;
        }
        running.stop(DRAIN).await;
        drop(held);
        for candidate in &mut candidates {
            candidate.resign().await;
        }
        outcome
    })
}

/// Looks once, at the start, whether Cluster API's managers run whose Leases are not going to be held. What may not be read is taken
/// to be fine: a Lease that is held is waited for in any case.
async fn nothing_leads_instead(client: &Client, options: &RunOptions) -> Result<(), RunError> {
    let own = options.leader.as_ref().map(LeaderOptions::full_name).unwrap_or_default();
    for (namespace, name) in UPSTREAMS_LEASES {
        let is_held = options.held_leases.iter().any(|held| held.namespace == namespace && held.name == name);
        if is_held {
            continue;
        }
        let lease = match Api::<Lease>::namespaced(client.clone(), namespace).get_opt(name).await {
            Ok(found) => found,
            Err(error) => {
                tracing::debug!(namespace, name, error = %describe_error(&error), "cannot read this Lease");
                None
            }
        };
        let leads = lease.and_then(|lease| {
            leads_instead(&lease, &options.controllers.names(), &own, jiff::Timestamp::now())
        });
        if let Some((holder, controllers)) = leads {
            let lease = format!("{namespace}/{name}");
            return Err(RunError::UpstreamLeads { lease, holder: holder.identity, controllers });
        }
    }
    Ok(())
}

/// Answers questions about a manager, which may begin to run later: one that waits for its turn is ready, if `able` says that
/// it can have one.
pub(crate) async fn diagnostics(
    address: SocketAddr,
    manager: &Manager,
    hooks: &HookClient,
    able: impl Fn() -> Result<(), String> + Send + Sync + 'static,
) -> Result<(SocketAddr, Task), RunError> {
    let (listener, bound) = listen(address).await?;
    let (metrics, watched) = (PlaneMetrics::new(manager, hooks.metrics()), manager.clone());
    let ready = move || able().and_then(|()| is_current(&watched));
    let diagnostics = Diagnostics::new(ready, move || metrics.render());
    Ok((bound, Task(tokio::spawn(serve_diagnostics(listener, diagnostics)).abort_handle())))
}

async fn listen(address: SocketAddr) -> Result<(TcpListener, SocketAddr), RunError> {
    let cannot = |source| RunError::Listen { address, source };
    let listener = TcpListener::bind(address).await.map_err(cannot)?;
    let bound = listener.local_addr().map_err(cannot)?;
    Ok((listener, bound))
}

/// Whether no watch has a problem.
fn is_current(manager: &Manager) -> Result<(), String> {
    let failing = manager.watches().into_iter().find_map(|watch| Some((watch.kind, watch.last_error?)));
    failing.map_or(Ok(()), |(kind, why)| Err(format!("{kind} is not watched: {why}")))
}
