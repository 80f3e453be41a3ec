//! Who reconciles the kinds of Cluster API now: upstream's managers hold Leases, and so does Windlass.

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::coordination::v1::Lease;
use kube_core::ResourceExt;
use serde::Serialize;

use super::{CalledService, Finding, Level};

/// A program that reconciles, the name of its Lease, and which of Windlass's controllers do the same.
const KNOWN: [(&str, &str, &str); 4] = [
    (
        "Cluster API core",
        "controller-leader-election-capi",
        "cluster, clusterclass, topology, machine, machinedeployment, machineset, machinepool, machinehealthcheck, extensionconfig",
    ),
    (
        "Cluster API kubeadm control plane",
        "kubeadm-control-plane-manager-leader-election-capi",
        "kubeadmcontrolplane",
    ),
    ("Cluster API kubeadm bootstrap", "kubeadm-bootstrap-manager-leader-election-capi", ""),
    (WINDLASS, "windlass", ""),
];

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
    /// Controllers of Windlass that do the same work.
    pub same_work: String,
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

pub(super) fn components(leases: &[Lease], now: Timestamp) -> Vec<Component> {
    let mut found = Vec::new();
    for (name, lease_name, same_work) in KNOWN {
        for lease in leases.iter().filter(|lease| lease.name_any() == lease_name) {
            found.push(Component {
                name: name.to_owned(),
                lease: format!("{}/{lease_name}", lease.namespace().unwrap_or_default()),
                holder: holder(lease, now),
                same_work: same_work.to_owned(),
            });
        }
    }
    found
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

pub(super) fn findings(components: &[Component], services: &[CalledService]) -> Vec<Finding> {
    let mut findings = Vec::new();
    // Windlass holds the Leases of others in the name of its own.
    let is_windlass = |identity: &str| {
        components.iter().any(|component| component.name == WINDLASS && component.lease == identity)
    };
    for component in components {
        let Some(holder) = &component.holder else { continue };
        let about = format!("Lease {}", component.lease);
        match component.same_work.as_str() {
            _ if is_windlass(&holder.identity) => findings.push(Finding::new(
                Level::Note,
                about,
                format!("Windlass holds it: the controllers of {} rest", component.name),
                "",
            )),
            "" => findings.push(Finding::new(
                Level::Note,
                about,
                format!("{} runs: {}", component.name, holder.identity),
                "",
            )),
            controllers => findings.push(Finding::new(
                Level::Blocks,
                about,
                format!("{} runs ({}) and does the work of the controllers {controllers}", component.name, holder.identity),
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
