//! Runs the demo: a management plane, an extension on HTTPS, a cluster, and its upgrade.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use futures_util::future::LocalBoxFuture;
use kube::Client;
use kube::api::{Api, ApiResource, DynamicObject, Patch, PatchParams};
use serde_json::{Value, json};
use tokio::sync::oneshot;
use tokio::time::{Instant, timeout};
use windlass_api::api_version;
use windlass_extension::{DevelopmentCertificate, Server, Tls};
use windlass_manager::{Data, Up, UpError, UpOptions};
use windlass_plan::{MAX_LISTED_VERSIONS, PlanRequest, Source, WorkerGroup, plan};
use windlass_simulate::{Startup, TopologyManifests, UpgradeRequest, UpgradeSteering, simulate_upgrade};
use windlass_store::Scope;
use windlass_version::Version;

use crate::extension::{Calls, extension};
use crate::journal::{Journal, Story};
use crate::model::{Model, Phase};

/// The cluster.
const CLUSTER: &str = "demo";
/// Machines of the control plane.
const CONTROL_PLANE: u32 = 3;
/// How long machines take at speed 1.
const STARTUP: Startup = Startup { vm: 20.0, node: 10.0, jitter: 0.3 };
/// Controllers may look as often as this at what they own. At their own pace, for clusters whose machines take minutes,
/// an upgrade of machines that take a moment would be mostly waiting.
const PACE: Duration = Duration::from_millis(100);
/// After so long without a change the model is shown again: time passes.
const TICK: Duration = Duration::from_millis(250);
/// How long the end waits for the simulation, which has had the whole demo to run beside it.
const SIMULATION: Duration = Duration::from_secs(1);
/// How long creating the cluster, or upgrading it, may take at most before something is wrong.
const LIMIT: Duration = Duration::from_secs(3600);

/// What to show.
#[derive(Clone, Debug, PartialEq)]
pub struct DemoOptions {
    /// Version at the beginning.
    pub from: Version,
    /// Version at the end.
    pub to: Version,
    /// How many machines each worker group has.
    pub workers: Vec<u32>,
    /// How many times faster than real machines those of the demo start.
    pub speed: f64,
    /// What all chance comes from.
    pub seed: u64,
    /// Whether machines are updated in place instead of being replaced.
    pub in_place: bool,
    /// Where to write a kubeconfig.
    pub kubeconfig: Option<PathBuf>,
}

/// Why there is nothing to see.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DemoError {
    /// There is no safe way from one version to the other.
    #[error("{0}")]
    NoPlan(windlass_plan::Refusal),
    /// There is no way at all.
    #[error("{to} is not newer than {from}: there is nothing to upgrade to")]
    NotNewer {
        /// Version at the beginning.
        from: Version,
        /// Version at the end.
        to: Version,
    },
    /// The management plane does not run.
    #[error(transparent)]
    Up(#[from] UpError),
    /// The extension does not run.
    #[error("the extension does not run: {0}")]
    Extension(String),
    /// The API refused something.
    #[error("cannot {what}: {reason}")]
    Refused {
        /// What was tried.
        what: String,
        /// Why not.
        reason: String,
    },
    /// It did not get to the end.
    #[error("not done after {} s; waiting on {}", waited.as_secs(), waiting_on.join("; "))]
    Stuck {
        /// How long it went on.
        waited: Duration,
        /// What is waited on.
        waiting_on: Vec<String>,
    },
    /// The management plane ended too early.
    #[error("the management plane ended")]
    Ended,
}

/// The management plane of a demo that is over.
pub struct Kept {
    stop: Option<oneshot::Sender<()>>,
    serving: tokio::task::JoinHandle<Result<(), UpError>>,
    extension: tokio::task::JoinHandle<()>,
    url: String,
}

impl Kept {
    /// Where its API listens.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Ends it.
    ///
    /// # Errors
    ///
    /// When it ended badly.
    pub async fn stop(mut self) -> Result<(), DemoError> {
        if let Some(stop) = self.stop.take() {
            // If it has ended already, the receiver is gone.
            let _ = stop.send(());
        }
        let ended = (&mut self.serving).await.map_err(|_| DemoError::Ended)?;
        self.extension.abort();
        Ok(ended?)
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        self.serving.abort();
        self.extension.abort();
    }
}

/// A demo that is over.
pub struct Outcome {
    /// The last that was shown.
    pub model: Model,
    /// How long the same upgrade takes with machines at their real speed, as a simulation in virtual time says.
    pub virtual_time: Option<Duration>,
    /// What still runs.
    pub kept: Kept,
}

/// Runs the demo, and shows every change. Returns when the cluster is upgraded.
///
/// # Errors
///
/// When there is no plan, something does not start, or the upgrade does not end.
pub fn run<'a>(
    options: &'a DemoOptions,
    show: impl FnMut(&Model) + 'a,
) -> LocalBoxFuture<'a, Result<Outcome, DemoError>> {
    run_with(options, Box::new(show))
}

fn run_with<'a>(
    options: &'a DemoOptions,
    mut show: Box<dyn FnMut(&Model) + 'a>,
) -> LocalBoxFuture<'a, Result<Outcome, DemoError>> {
    Box::pin(async move {
        if !options.from.is_older_than(&options.to) {
            return Err(DemoError::NotNewer { from: options.from.clone(), to: options.to.clone() });
        }
        let versions = versions(&options.from, &options.to);
        let groups: Vec<String> = (0..options.workers.len()).map(group_name).collect();
        let request = PlanRequest::new(options.from.clone(), options.to.clone())
            .with_workers(groups.iter().map(|name| WorkerGroup::new(name.as_str(), options.from.clone())))
            .with_source(Source::versions(versions.iter().map(ToString::to_string)));
        let operations = plan(&request).map_err(DemoError::NoPlan)?.operations;

        let loopback: SocketAddr = (Ipv4Addr::LOCALHOST, 0).into();
        let up = Up::start(UpOptions {
            seed: Some(options.seed),
            kubeconfig: options.kubeconfig.clone(),
            longest_pace: (options.speed > 1.0).then_some(PACE),
            ..UpOptions::new(Data::Memory, loopback)
        })
        .await?;
        let (client, url) = (up.client(), up.url().to_owned());
        let store = up.embedded().server().store().clone();
        let (stop, stopped) = oneshot::channel::<()>();
        let serving = tokio::spawn(up.run_until(async move {
            // Dropped means stopped too.
            let _ = stopped.await;
        }));

        let calls = Calls::default();
        let server = serve_extension(&calls, options.in_place, loopback).await?;
        let config: Value = serde_saphyr::from_str(&server.manifest("127.0.0.1"))
            .map_err(|error| DemoError::Extension(error.to_string()))?;
        let extension = tokio::spawn(async move {
            let _ = server.run_until(std::future::pending()).await;
        });
        let kept = Kept { stop: Some(stop), serving, extension, url };

        let wanted = CONTROL_PLANE + options.workers.iter().sum::<u32>();
        let mut journal = Journal::new(Story {
            from: options.from.clone(),
            to: options.to.clone(),
            versions: versions.clone(),
            speed: options.speed,
            operations,
            groups: groups.clone(),
            machines_wanted: wanted as usize,
        });
        let mut watcher = store.watch(Scope::All, store.revision()).map_err(|_| DemoError::Ended)?;
        apply(&client, &config).await?;
        for mut object in manifests(options, &versions, &groups).objects() {
            if options.in_place {
                without_surge(&mut object);
            }
            apply(&client, &object).await?;
        }

        let request = UpgradeRequest {
            manifests: manifests(&DemoOptions { speed: 1.0, ..options.clone() }, &versions, &groups)
                .objects(),
            to: options.to.to_string(),
            seed: options.seed,
            live_extensions: false,
            steering: UpgradeSteering::default(),
        };
        let (tell, simulated) = oneshot::channel();
        let in_place = options.in_place;
        // A thread of its own, so that the end does not wait for it.
        std::thread::spawn(move || {
            // The simulation replaces machines; how long updates in place take is up to the extension.
            let report = if in_place { None } else { simulate_upgrade(&request).ok() };
            let time = report.map(|report| Duration::from_secs(report.virtual_seconds));
            // If the demo is over, the receiver is gone.
            let _ = tell.send(time);
        });

        let mut phase = Phase::Creating;
        let mut begun = Instant::now();
        loop {
            let changed = async {
                loop {
                    let event = watcher.next().await.map_err(|_| DemoError::Ended)?;
                    if journal.take(&event) {
                        return Ok::<(), DemoError>(());
                    }
                }
            };
            tokio::select! {
                changed = timeout(TICK, changed) => { changed.unwrap_or(Ok(()))? }
                () = calls.changed() => {}
            }
            // Calls before writes: what made a call necessary is then among what was written.
            let mut called = calls.lines();
            while let Some(event) = watcher.try_next().map_err(|_| DemoError::Ended)? {
                journal.take(&event);
            }
            let waited = begun.elapsed();
            if waited > LIMIT {
                let waiting_on = journal.model(phase, waited, Vec::new()).waiting_on;
                return Err(DemoError::Stuck { waited, waiting_on });
            }
            match phase {
                Phase::Creating if journal.is_at(&options.from) => {
                    begun = Instant::now();
                    calls.begin(begun);
                    journal.begin();
                    phase = Phase::Upgrading;
                    called.clear();
                    set_version(&client, &options.to).await?;
                }
                Phase::Upgrading if journal.is_at(&options.to) => phase = Phase::Done,
                _ => {}
            }
            let model = journal.model(phase, begun.elapsed(), called);
            show(&model);
            if phase == Phase::Done {
                let virtual_time = timeout(SIMULATION, simulated).await.ok().and_then(Result::ok).flatten();
                return Ok(Outcome { model, virtual_time, kept });
            }
        }
    })
}

fn group_name(number: usize) -> String {
    format!("team-{}", char::from(b'a' + u8::try_from(number % 26).unwrap_or_default()))
}

/// Both ends, and the first release of every minor in between: of one major, and one more than a list may have at most. The
/// planner says what is wrong with what is longer.
fn versions(from: &Version, to: &Version) -> Vec<Version> {
    let mut versions = vec![from.clone()];
    let mut minor = from.minor().next();
    while minor < to.minor() && minor.major == to.minor().major && versions.len() < MAX_LISTED_VERSIONS {
        versions.push(Version::new(minor.major, minor.minor, 0));
        minor = minor.next();
    }
    if from != to {
        versions.push(to.clone());
    }
    versions
}

fn manifests(options: &DemoOptions, versions: &[Version], groups: &[String]) -> TopologyManifests {
    let startup = Startup {
        vm: STARTUP.vm / options.speed,
        node: STARTUP.node / options.speed,
        jitter: STARTUP.jitter,
    };
    let manifests = TopologyManifests::new(CLUSTER, &options.from.to_string(), CONTROL_PLANE)
        .versions(versions.iter().map(ToString::to_string))
        .startup(startup);
    groups
        .iter()
        .zip(&options.workers)
        .fold(manifests, |manifests, (name, replicas)| manifests.machine_deployment(name, *replicas))
}

/// Lets the control plane and worker groups have no machine too many: one that is updated in place needs no substitute.
fn without_surge(object: &mut Value) {
    if object["kind"] == "KubeadmControlPlaneTemplate" {
        object["spec"]["template"]["spec"]["rollout"] =
            json!({"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0}}});
    }
    let groups = object.pointer_mut("/spec/topology/workers/machineDeployments");
    for group in groups.and_then(Value::as_array_mut).into_iter().flatten() {
        let limits = json!({"maxSurge": 0, "maxUnavailable": 1});
        group["rollout"] = json!({"strategy": {"type": "RollingUpdate", "rollingUpdate": limits}});
    }
}

async fn serve_extension(
    calls: &Calls,
    in_place: bool,
    address: SocketAddr,
) -> Result<windlass_extension::BoundServer, DemoError> {
    let failed = |error: &dyn std::fmt::Display| DemoError::Extension(error.to_string());
    let extension = extension(calls, in_place).map_err(|error| failed(&error))?;
    let certificate =
        DevelopmentCertificate::generate(["localhost", "127.0.0.1"]).map_err(|error| failed(&error))?;
    Server::new(extension, Tls::development(certificate)).bind(address).await.map_err(|error| failed(&error))
}

/// Applies an object as a user would.
async fn apply(client: &Client, object: &Value) -> Result<(), DemoError> {
    let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let (kind, name) = (text("/kind"), text("/metadata/name"));
    let resource = ApiResource::from_gvk(&api_version::kind(text("/apiVersion"), kind));
    let api: Api<DynamicObject> = match text("/metadata/namespace") {
        "" => Api::all_with(client.clone(), &resource),
        namespace => Api::namespaced_with(client.clone(), namespace, &resource),
    };
    let parameters = PatchParams::apply("windlass-demo").force();
    let refused = |error: kube::Error| DemoError::Refused {
        what: format!("apply {kind} {name}"),
        reason: error.to_string(),
    };
    api.patch(name, &parameters, &Patch::Apply(object)).await.map(drop).map_err(refused)
}

async fn set_version(client: &Client, version: &Version) -> Result<(), DemoError> {
    let api: Api<windlass_api::cluster::Cluster> = Api::default_namespaced(client.clone());
    let patch = json!({"spec": {"topology": {"version": version.to_string()}}});
    let refused = |error: kube::Error| DemoError::Refused {
        what: format!("upgrade to {version}"),
        reason: error.to_string(),
    };
    api.patch(CLUSTER, &PatchParams::default(), &Patch::Merge(patch)).await.map(drop).map_err(refused)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_way_goes_through_every_minor() {
        let way = |from: &str, to: &str| {
            let versions = versions(&Version::parse(from).unwrap(), &Version::parse(to).unwrap());
            versions.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(way("v1.29.3", "v1.32.1"), "v1.29.3 v1.30.0 v1.31.0 v1.32.1");
        assert_eq!(way("v1.29.3", "v1.29.4"), "v1.29.3 v1.29.4");
        assert_eq!(way("v1.29.3", "v1.29.3"), "v1.29.3");
        assert_eq!(way("v1.29.3", "v2.3.0"), "v1.29.3 v2.3.0", "no minor is the last of a major");
    }

    #[tokio::test]
    async fn a_target_too_far_away_is_refused_as_the_planner_refuses_it() {
        for (to, expected) in [("v2.0.0", "v2.0.0"), ("v1.400000000.0", "100 are allowed")] {
            let options = DemoOptions {
                from: Version::parse("v1.31.0").unwrap(),
                to: Version::parse(to).unwrap(),
                workers: vec![1],
                speed: 1.0,
                seed: 1,
                in_place: false,
                kubeconfig: None,
            };
            let error = run(&options, |_| ()).await.err().unwrap();
            assert!(matches!(error, DemoError::NoPlan(_)), "{error}");
            assert!(error.to_string().contains(expected), "{error}");
        }
    }
}
