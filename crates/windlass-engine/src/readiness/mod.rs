//! Whether Windlass can run on a management cluster: what is installed there, what it would take over, and what stands in the
//! way. Everything is read from objects that anybody may `get` and `list`; nothing here decides anything for a controller.

mod clusters;
mod health_checks;
mod kinds;
mod machines;
mod managers;
mod object;
mod owners;
mod providers;
mod workers;
mod writes;

use std::fmt;

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde::Serialize;
use serde_json::Value;

pub use clusters::ClusterState;
pub use kinds::InstalledKind;
pub use managers::{Component, Holder, UPSTREAMS_LEASES, leads_instead};
pub use providers::InstalledProvider;
pub use writes::{WouldWrite, write_findings};

/// What was read of a management cluster.
#[derive(Clone, Debug, Default)]
pub struct Management {
    /// CRDs of Cluster API's groups.
    pub crds: Vec<CustomResourceDefinition>,
    /// All Leases.
    pub leases: Vec<Lease>,
    /// Deployments in the namespaces of these Leases, whose arguments say which features are on; empty if they could not be read.
    pub deployments: Vec<Deployment>,
    /// Services that webhooks and conversions of Cluster API's kinds are sent to.
    pub services: Vec<CalledService>,
    /// Objects by their kind, as the API shows them in its newest version.
    pub objects: Objects,
}

/// The objects that findings are about.
#[derive(Clone, Debug, Default)]
pub struct Objects {
    /// Clusters.
    pub clusters: Vec<Value>,
    /// ClusterClasses.
    pub cluster_classes: Vec<Value>,
    /// Control planes of the kind that Windlass has a controller for.
    pub control_planes: Vec<Value>,
    /// MachineDeployments.
    pub machine_deployments: Vec<Value>,
    /// Machines.
    pub machines: Vec<Value>,
    /// MachinePools.
    pub machine_pools: Vec<Value>,
    /// MachineHealthChecks.
    pub machine_health_checks: Vec<Value>,
    /// ExtensionConfigs.
    pub extension_configs: Vec<Value>,
    /// ClusterResourceSets.
    pub cluster_resource_sets: Vec<Value>,
    /// What clusterctl has on record about what it installed.
    pub providers: Vec<Value>,
}

/// A Service that the API server calls before it writes or converts an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CalledService {
    /// What names it, such as `ValidatingWebhookConfiguration capi-validating-webhook-configuration`.
    pub called_by: String,
    /// Namespace of the Service.
    pub namespace: String,
    /// Name of the Service.
    pub name: String,
    /// Whether a Pod stands behind it, if that could be read.
    pub has_endpoints: Option<bool>,
}

/// How much a finding weighs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// Worth knowing.
    Note,
    /// Something will not work, or not as it did before.
    Warning,
    /// Windlass must not run like this.
    Blocks,
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Note => "note",
            Self::Warning => "warning",
            Self::Blocks => "blocks",
        })
    }
}

/// Something that a user should know before Windlass runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// How much it weighs.
    pub level: Level,
    /// The object it is about, such as `Cluster team-a/prod`.
    pub about: String,
    /// What was found, with its evidence.
    pub what: String,
    /// What to do; empty if nothing has to be done.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub remedy: String,
}

impl Finding {
    fn new(
        level: Level,
        about: impl Into<String>,
        what: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Self {
        Self { level, about: about.into(), what: what.into(), remedy: remedy.into() }
    }
}

/// Everything that was found out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// Kinds of Cluster API, by group and kind.
    pub kinds: Vec<InstalledKind>,
    /// Providers that clusterctl has installed, with their releases.
    pub providers: Vec<InstalledProvider>,
    /// Programs that reconcile them, and whether they run.
    pub components: Vec<Component>,
    /// Clusters that would be taken over.
    pub clusters: Vec<ClusterState>,
    /// Findings, the heaviest first.
    pub findings: Vec<Finding>,
}

impl Report {
    /// The heaviest level among the findings.
    pub fn worst(&self) -> Option<Level> {
        self.findings.iter().map(|finding| finding.level).max()
    }

    /// Adds findings, and keeps the order.
    pub fn add(&mut self, findings: impl IntoIterator<Item = Finding>) {
        self.findings.extend(findings);
        self.findings.sort_by(|a, b| b.level.cmp(&a.level).then_with(|| a.about.cmp(&b.about)));
    }
}

/// Looks at everything that was read, for one who would run these controllers.
pub fn assess(management: &Management, controllers: &[&str], now: Timestamp) -> Report {
    let Management { crds, leases, deployments, services, objects } = management;
    let providers = providers::installed(&objects.providers);
    let mut report = Report {
        kinds: kinds::installed(crds),
        components: managers::components(leases, deployments, now),
        clusters: clusters::states(objects, &providers),
        providers,
        findings: Vec::new(),
    };
    let mut findings = kinds::findings(crds);
    findings.extend(managers::findings(&report.components, services, controllers));
    findings.extend(managers::add_ons(&report.components, &objects.cluster_resource_sets, controllers));
    findings.extend(clusters::findings(objects));
    findings.extend(machines::findings(objects));
    findings.extend(workers::findings(objects));
    findings.extend(health_checks::findings(&objects.machine_health_checks));
    findings.extend(owners::findings(objects, crds));
    report.add(findings);
    report
}
