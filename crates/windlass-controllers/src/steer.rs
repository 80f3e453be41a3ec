//! Reads where a Cluster is from any API, and steers its upgrade: one small patch per verb.

use http::HeaderValue;
use http::header::CONTENT_TYPE;
use k8s_openapi::api::coordination::v1::Lease;
use kube::api::{Api, ListParams, Patch, PatchParams};
use kube::core::Request;
use kube::{Client, Resource, ResourceExt};
use windlass_api::cluster::{Cluster, ClusterClass};
use windlass_engine::admission::UpgradeState;
use windlass_engine::steer::{Change, PatchKind};
use windlass_engine::topology::{Observed, PlanSource, Stop, stops};
use windlass_plan::{Refusal, Source, UpgradePlan};
use windlass_runtime::{describe_error, namespace_of};
use windlass_version::Version;

use crate::admission::{LookUp, ObjectLookUp};

/// The Lease that upstream's core controllers elect their leader with.
const UPSTREAM_LEASE: &str = "controller-leader-election-capi";

/// A Cluster, its class, and where its parts are.
#[derive(Clone, Debug)]
pub struct Live {
    /// The Cluster.
    pub cluster: Cluster,
    /// The class that the topology of the Cluster refers to.
    pub class: ClusterClass,
    /// Where its parts are, and what was promised about them.
    pub state: UpgradeState,
}

/// What an upgrade from where a Cluster is would do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LivePlan {
    /// The plan.
    Plan(Box<UpgradePlan>),
    /// There is no path.
    Refused(Refusal),
    /// An extension plans, and is asked by the controllers alone.
    OfExtension(String),
}

/// Why a Cluster could not be read or changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SteerError {
    /// It does not exist, or has no topology.
    #[error("{0}")]
    Invalid(String),
    /// Admission refuses the change.
    #[error("{0}")]
    Refused(String),
    /// The API did not answer as it should.
    #[error("{0}")]
    Failed(String),
}

impl Live {
    /// Reads a Cluster and what it is made of. Nothing is written.
    ///
    /// # Errors
    ///
    /// When the Cluster or its class does not exist, or the API does not let them be read.
    pub async fn read(client: &Client, namespace: &str, name: &str) -> Result<Self, SteerError> {
        let clusters: Api<Cluster> = Api::namespaced(client.clone(), namespace);
        let failed = |error: kube::Error| {
            SteerError::Failed(format!("cannot read the Cluster: {}", describe_error(&error)))
        };
        let Some(cluster) = clusters.get_opt(name).await.map_err(failed)? else {
            return Err(SteerError::Invalid(format!("there is no Cluster {name} in namespace {namespace}")));
        };
        let Some(topology) = &cluster.spec.topology else {
            return Err(SteerError::Invalid(format!(
                "Cluster {name} has no topology: its parts are upgraded one by one"
            )));
        };
        let look_up = ObjectLookUp::with_client(client.clone());
        let of = match topology.class_ref.namespace.as_str() {
            "" => namespace,
            other => other,
        };
        let class = look_up.class(of, &topology.class_ref.name).await.map_err(SteerError::Failed)?;
        let Some(class) = class else {
            return Err(SteerError::Invalid(format!(
                "ClusterClass {} does not exist",
                topology.class_ref.name
            )));
        };
        let state = look_up.state(&cluster).await.map_err(SteerError::Failed)?.with_entries(topology);
        Ok(Self { cluster, class, state })
    }

    /// What remains to be done to reach a version.
    pub fn plan(&self, to: &Version) -> LivePlan {
        let external = self.class.spec.upgrade.external.as_ref();
        let handler = external.map(|external| external.generate_upgrade_plan_extension.clone());
        if let Some(handler) = handler.filter(|handler| !handler.is_empty()) {
            return LivePlan::OfExtension(handler);
        }
        match self.state.plan(&self.class, to) {
            Ok(plan) => LivePlan::Plan(Box::new(plan)),
            Err(refusal) => LivePlan::Refused(refusal),
        }
    }

    /// Where an upgrade to a version stops until the owner of the Cluster lets it go on. Nothing is known about one that an
    /// extension plans.
    pub fn stops(&self, to: &Version) -> Vec<Stop> {
        if !matches!(self.plan(to), LivePlan::Plan(_)) {
            return Vec::new();
        }
        let listed = self.class.spec.kubernetes_versions.clone();
        stops(&self.observed(to, Source::first_of(None, listed)))
    }

    /// What an upgrade to a version is decided from, where the versions between come from this source.
    pub fn observed(&self, to: &Version, source: Source) -> Observed {
        Observed {
            source: PlanSource::Known(source),
            control_plane: self.state.control_plane.clone(),
            workers: self.state.workers.clone(),
            created: true,
            control_plane_initialized: true,
            ..Observed::with_annotations(to.clone(), &self.cluster)
        }
    }
}

/// Makes a change of a Cluster, or only asks whether it would be made. The field manager tells who did it.
///
/// # Errors
///
/// When admission refuses it, or the API does not answer as it should.
pub async fn steer(
    client: &Client,
    cluster: &Cluster,
    change: &Change,
    dry_run: bool,
) -> Result<Cluster, SteerError> {
    let namespace =
        namespace_of(cluster).map_err(|incomplete| SteerError::Invalid(incomplete.to_string()))?;
    let parameters = PatchParams { dry_run, ..PatchParams::apply("windlass-upgrade") };
    let parameters = PatchParams { force: false, ..parameters };
    let path = Request::new(Cluster::url_path(&(), Some(namespace)));
    let request = path.patch(&cluster.name_any(), &parameters, &Patch::Merge(&change.patch));
    let request = request.map(|mut request| {
        if change.kind == PatchKind::Json {
            let json_patch = HeaderValue::from_static("application/json-patch+json");
            request.headers_mut().insert(CONTENT_TYPE, json_patch);
        }
        request
    });
    let answer = match request {
        Ok(request) => client.request::<Cluster>(request).await,
        Err(error) => Err(kube::Error::BuildRequest(error)),
    };
    match answer {
        Ok(written) => Ok(written),
        Err(kube::Error::Api(status)) if matches!(status.code, 400 | 403 | 409 | 422) => {
            Err(SteerError::Refused(status.message))
        }
        Err(error) => {
            Err(SteerError::Failed(format!("cannot change the Cluster: {}", describe_error(&error))))
        }
    }
}

/// The namespace in which upstream's controllers hold their Lease, if they do: they know nothing of holds, approvals and
/// targets that change. A user who may not read Leases is not told.
pub async fn upstream_controllers(client: &Client) -> Option<String> {
    let leases: Api<Lease> = Api::all(client.clone());
    let named = ListParams::default().fields(&format!("metadata.name={UPSTREAM_LEASE}"));
    let found = leases.list(&named).await.ok()?.items;
    let held = found.into_iter().find(|lease| {
        let holder = lease.spec.as_ref().and_then(|spec| spec.holder_identity.as_deref());
        lease.name_any() == UPSTREAM_LEASE && holder.is_some_and(|holder| !holder.is_empty())
    });
    held.and_then(|lease| lease.namespace())
}
