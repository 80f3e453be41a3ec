//! Reads what a Cluster is made of from any API, to describe it. Nothing is written.

use futures_util::future::BoxFuture;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Event;
use kube::api::{Api, DynamicObject, ListParams};
use kube::{Client, ResourceExt};
use serde_json::Value;
use windlass_api::cluster::{
    Cluster, ContractVersionedObjectReference, Machine, MachineDeployment, MachinePool,
};
use windlass_api::names::CLUSTER_NAME_LABEL;
use windlass_engine::describe::{ClusterDescription, Described, VersionChange};
use windlass_runtime::{ObjectKey, describe_error, uid_of};

/// Why a Cluster could not be described.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DescribeError {
    /// The API does not know the kinds of Cluster API in the version that is needed.
    #[error("this API has no {kind} of {api_version}: is Cluster API installed there?")]
    NoKind {
        /// The kind.
        kind: &'static str,
        /// Its group and version.
        api_version: &'static str,
    },
    /// There is no such Cluster.
    #[error("there is no Cluster {name} in namespace {namespace}; {}", there_are(.there))]
    NotFound {
        /// Namespace that was looked in.
        namespace: String,
        /// Name that was looked for.
        name: String,
        /// Namespaces and names of the Clusters that there are.
        there: Vec<String>,
    },
    /// The API did not answer as it should.
    #[error("cannot read {what}: {why}")]
    Read {
        /// What was read.
        what: &'static str,
        /// What went wrong.
        why: String,
    },
}

/// The Clusters that there are, few enough for a line.
fn there_are(there: &[String]) -> String {
    match there {
        [] => "there are no Clusters at all".to_owned(),
        few if few.len() <= 10 => format!("there are {}", few.join(", ")),
        many => format!("there are {} and {} more", many[..10].join(", "), many.len() - 10),
    }
}

/// Describes a Cluster at a moment.
///
/// # Errors
///
/// When it does not exist, or the API does not let it be read. What it refers to may be missing: the description then
/// says less.
pub fn describe_cluster<'a>(
    client: &'a Client,
    namespace: &'a str,
    name: &'a str,
    now: Timestamp,
) -> BoxFuture<'a, Result<ClusterDescription, DescribeError>> {
    Box::pin(described(client, namespace, name, now))
}

async fn described(
    client: &Client,
    namespace: &str,
    name: &str,
    now: Timestamp,
) -> Result<ClusterDescription, DescribeError> {
    let clusters: Api<Cluster> = Api::namespaced(client.clone(), namespace);
    let cluster = match clusters.get(name).await {
        Ok(cluster) => cluster,
        // A kind that does not exist is not found either, but in other words.
        Err(kube::Error::Api(status)) if status.code == 404 => {
            return Err(not_found(client, namespace, name).await);
        }
        Err(error) => return Err(read_error("the Cluster", &error)),
    };
    let of_cluster = ListParams::default().labels(&format!("{CLUSTER_NAME_LABEL}={name}"));
    let deployments: Api<MachineDeployment> = Api::namespaced(client.clone(), namespace);
    let machine_deployments =
        deployments.list(&of_cluster).await.map_err(|error| read_error("MachineDeployments", &error))?.items;
    let pools: Api<MachinePool> = Api::namespaced(client.clone(), namespace);
    let machine_pools =
        pools.list(&of_cluster).await.map_err(|error| read_error("MachinePools", &error))?.items;
    let machines: Api<Machine> = Api::namespaced(client.clone(), namespace);
    let machines = machines.list(&of_cluster).await.map_err(|error| read_error("Machines", &error))?.items;
    let infrastructure = referred(client, namespace, cluster.spec.infrastructure_ref.as_ref()).await;
    let control_plane = referred(client, namespace, cluster.spec.control_plane_ref.as_ref()).await;
    let version_changes = version_changes(client, &cluster).await;
    let objects = Described {
        cluster: &cluster,
        infrastructure: infrastructure.as_ref(),
        control_plane: control_plane.as_ref(),
        machine_deployments: &machine_deployments,
        machine_pools: &machine_pools,
        machines: &machines,
        version_changes: &version_changes,
    };
    Ok(ClusterDescription::of(objects, now))
}

/// What events of a Cluster tell about versions. A user who may not read events is told less.
async fn version_changes(client: &Client, cluster: &Cluster) -> Vec<VersionChange> {
    let events: Api<Event> = Api::namespaced(client.clone(), &ObjectKey::of(cluster).namespace);
    let Ok(uid) = uid_of(cluster) else { return Vec::new() };
    let about = format!("involvedObject.uid={uid}");
    let Ok(events) = events.list(&ListParams::default().fields(&about)).await else { return Vec::new() };
    events.items.iter().filter_map(version_change).collect()
}

/// What an event tells about a version.
pub(crate) fn version_change(event: &Event) -> Option<VersionChange> {
    VersionChange::read(event.message.as_deref()?, first_seen(event)?)
}

/// When what an event tells happened first.
pub(crate) fn first_seen(event: &Event) -> Option<Timestamp> {
    let at = event.first_timestamp.as_ref().or(event.last_timestamp.as_ref()).map(|time| time.0);
    at.or_else(|| event.event_time.as_ref().map(|time| time.0))
}

async fn not_found(client: &Client, namespace: &str, name: &str) -> DescribeError {
    let clusters: Api<Cluster> = Api::all(client.clone());
    match clusters.list(&ListParams::default()).await {
        Ok(all) => {
            let full = |found: &Cluster| format!("{}/{}", ObjectKey::of(found).namespace, found.name_any());
            let mut there: Vec<String> = all.items.iter().map(full).collect();
            there.sort();
            DescribeError::NotFound { namespace: namespace.to_owned(), name: name.to_owned(), there }
        }
        Err(kube::Error::Api(status)) if status.code == 404 => {
            DescribeError::NoKind { kind: Cluster::KIND, api_version: Cluster::API_VERSION }
        }
        Err(error) => read_error("Clusters", &error),
    }
}

/// An object of a provider, in the version that the API prefers. Where it cannot be read, the rest is still worth showing.
async fn referred(
    client: &Client,
    namespace: &str,
    reference: Option<&ContractVersionedObjectReference>,
) -> Option<Value> {
    let reference = reference?;
    let group = kube::discovery::group(client, &reference.api_group).await.ok()?;
    let (resource, _) = group.recommended_kind(&reference.kind)?;
    let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), namespace, &resource);
    let found = api.get_opt(&reference.name).await.ok()??;
    serde_json::to_value(found).ok()
}

fn read_error(what: &'static str, error: &kube::Error) -> DescribeError {
    DescribeError::Read { what, why: describe_error(error) }
}
