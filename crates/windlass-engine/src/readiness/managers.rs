//! Who reconciles the kinds of Cluster API now: upstream's managers hold Leases, and so does Windlass.

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::coordination::v1::Lease;
use kube_core::ResourceExt;
use serde::Serialize;
use serde_json::Value;

use super::object::full_name;
use super::{CalledService, Finding, Level};

/// Cluster API's core manager.
const CORE: &str = "Cluster API core";

/// A program that reconciles, the name of its Lease, and which of Windlass's controllers do the same.
const KNOWN: [(&str, &str, &[&str]); 4] = [
    (
        CORE,
        "controller-leader-election-capi",
        &[
            "topology",
            "extensionconfig",
            "cluster",
            "machinedeployment",
            "machineset",
            "machine",
            "machinepool",
            "machinehealthcheck",
            "clusterresourceset",
        ],
    ),
    (
        "Cluster API kubeadm control plane",
        "kubeadm-control-plane-manager-leader-election-capi",
        &["kubeadmcontrolplane"],
    ),
    ("Cluster API kubeadm bootstrap", "kubeadm-bootstrap-manager-leader-election-capi", &[]),
    (WINDLASS, "windlass", &[]),
];

/// Controllers of Cluster API that a feature gate turns off.
const GATED: [(&str, &str); 3] =
    [("ClusterTopology", "topology"), ("RuntimeSDK", "extensionconfig"), ("MachinePool", "machinepool")];

const WINDLASS: &str = "Windlass";

/// How long a Lease counts that does not say.
const DEFAULT_DURATION: i32 = 15;

/// A program that may reconcile.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Component {
    /// What it is.
    pub name: String,
    /// Namespace and name of its Lease.
    pub lease: String,
    /// The process that holds the Lease now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub holder: Option<Holder>,
    /// Controllers of Windlass that do the same work, those left out that a feature gate turns off.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub same_work: Vec<String>,
}

/// A process that holds a Lease.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Holder {
    /// What it calls itself, which is the name of its Pod in the first place.
    pub identity: String,
    /// When it renewed the Lease.
    pub renewed: Timestamp,
}

pub(super) fn components(leases: &[Lease], deployments: &[Deployment], now: Timestamp) -> Vec<Component> {
    let mut found = Vec::new();
    for (name, lease_name, same_work) in KNOWN {
        for lease in leases.iter().filter(|lease| lease.name_any() == lease_name) {
            let namespace = lease.namespace().unwrap_or_default();
            let off = turned_off(deployments, &namespace);
            let is_off = |controller: &str| {
                GATED.iter().any(|(gate, gated)| *gated == controller && off.contains(&(*gate).to_owned()))
            };
            let same_work = same_work.iter().filter(|controller| !is_off(controller));
            found.push(Component {
                name: name.to_owned(),
                lease: format!("{namespace}/{lease_name}"),
                holder: holder(lease, now),
                same_work: same_work.map(|&controller| controller.to_owned()).collect(),
            });
        }
    }
    found
}

/// Feature gates that every manager in a namespace has off. A gate that is not named may be on.
fn turned_off(deployments: &[Deployment], namespace: &str) -> Vec<String> {
    let here = deployments.iter().filter(|deployment| deployment.namespace().as_deref() == Some(namespace));
    let arguments = here.filter_map(|deployment| {
        let pod = deployment.spec.as_ref()?.template.spec.as_ref()?;
        let arguments = pod.containers.iter().filter_map(|container| container.args.as_ref()).flatten();
        arguments.filter_map(|argument| argument.strip_prefix("--feature-gates=")).next_back()
    });
    let mut off: Option<Vec<String>> = None;
    for gates in arguments {
        let these: Vec<String> = gates
            .split(',')
            .filter_map(|gate| gate.trim().strip_suffix("=false"))
            .map(str::to_owned)
            .collect();
        off = Some(match off {
            Some(before) => before.into_iter().filter(|gate| these.contains(gate)).collect(),
            None => these,
        });
    }
    off.unwrap_or_default()
}

/// The process that holds a Lease, unless it has not renewed it in time.
fn holder(lease: &Lease, now: Timestamp) -> Option<Holder> {
    let spec = lease.spec.as_ref()?;
    let identity = spec.holder_identity.clone().filter(|identity| !identity.is_empty())?;
    let renewed = spec.renew_time.as_ref()?.0;
    let duration = spec.lease_duration_seconds.unwrap_or(DEFAULT_DURATION);
    let is_current = now.duration_since(renewed) <= SignedDuration::from_secs(duration.into());
    is_current.then_some(Holder { identity, renewed })
}

/// Leases of the managers whose work Windlass can do, where clusterctl installs them: namespace and name.
pub const UPSTREAMS_LEASES: [(&str, &str); 2] = [
    ("capi-system", "controller-leader-election-capi"),
    ("capi-kubeadm-control-plane-system", "kubeadm-control-plane-manager-leader-election-capi"),
];

/// The process that holds a Lease of Cluster API and does the work of some of these controllers, and which: a start would fight with
/// it. Controllers that a feature gate may have turned off do not count. `own` is the name under which Windlass holds such a Lease.
pub fn leads_instead(
    lease: &Lease,
    controllers: &[&str],
    own: &str,
    now: Timestamp,
) -> Option<(Holder, Vec<&'static str>)> {
    let (_, _, same_work) = KNOWN.iter().find(|(_, name, _)| *name == lease.name_any())?;
    let is_gated = |controller: &str| GATED.iter().any(|(_, gated)| *gated == controller);
    let same: Vec<&'static str> = same_work
        .iter()
        .copied()
        .filter(|controller| controllers.contains(controller) && !is_gated(controller))
        .collect();
    let holder = holder(lease, now).filter(|holder| holder.identity != own)?;
    (!same.is_empty()).then_some((holder, same))
}

pub(super) fn findings(
    components: &[Component],
    services: &[CalledService],
    controllers: &[&str],
) -> Vec<Finding> {
    let mut findings = Vec::new();
    for component in components {
        let Some(holder) = &component.holder else { continue };
        let about = format!("Lease {}", component.lease);
        let same = component.same_work.iter().filter(|controller| controllers.contains(&controller.as_str()));
        let same: Vec<&str> = same.map(String::as_str).collect();
        let Holder { identity, renewed } = holder;
        match same[..] {
            _ if is_windlass(components, identity) => findings.push(Finding::new(
                Level::Note,
                about,
                format!("Windlass holds it: the controllers of {} rest", component.name),
                "",
            )),
            [] => findings.push(Finding::new(
                Level::Note,
                about,
                format!("{} runs: {identity}", component.name),
                "",
            )),
            _ => findings.push(Finding::new(
                Level::Blocks,
                about,
                format!(
                    "{} runs ({identity}, renewed at {renewed}) and does the work of the controllers {}",
                    component.name,
                    same.join(", ")
                ),
                "stop it, keeping its webhooks and CRDs, or leave these controllers out: docs/migrating.md says how",
            )),
        }
    }
    for service in services {
        let about = &service.called_by;
        let name = format!("{}/{}", service.namespace, service.name);
        match service.has_endpoints {
            Some(true) => {}
            Some(false) => findings.push(Finding::new(
                Level::Blocks,
                about,
                format!("calls the Service {name}, and no Pod stands behind it: what it is asked about cannot be written"),
                format!("kubectl --namespace {} get pods, or remove it if nothing should answer any more", service.namespace),
            )),
            None => findings.push(Finding::new(
                Level::Warning,
                about,
                format!("calls the Service {name}; whether a Pod stands behind it could not be read"),
                "allow list of endpointslices.discovery.k8s.io",
            )),
        }
    }
    findings
}

/// ClusterResourceSets that no program would apply any more.
pub(super) fn add_ons(components: &[Component], sets: &[Value], controllers: &[&str]) -> Vec<Finding> {
    const CONTROLLER: &str = "clusterresourceset";
    let is_upstreams = components.iter().any(|component| {
        let holder = component.holder.as_ref();
        component.name == CORE && holder.is_some_and(|holder| !is_windlass(components, &holder.identity))
    });
    if is_upstreams || controllers.contains(&CONTROLLER) {
        return Vec::new();
    }
    let found = sets.iter().map(|set| {
        Finding::new(
            Level::Warning,
            format!("ClusterResourceSet {}", full_name(set)),
            "is applied by nothing: Cluster API's core does not run, and the controller clusterresourceset is left out",
            "add it to --controllers",
        )
    });
    found.collect()
}

/// Windlass holds the Leases of others in the name of its own.
fn is_windlass(components: &[Component], identity: &str) -> bool {
    components.iter().any(|component| component.name == WINDLASS && component.lease == identity)
}
