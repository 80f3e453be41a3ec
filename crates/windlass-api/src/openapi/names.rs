//! What Cluster API calls the types, where it does not call them as we do.
//!
//! Places are a component and a field, `ClusterStatus.deprecated`; a row holds for every place that ends so.

/// A type of ours, a place where it stands, and its name there; `*` is the component that the field belongs to. The first row
/// that fits counts. Cluster API often has a type for each place where we have one for all.
pub(super) const NAMES: &[(&str, &str, &str)] = &[
    ("ApiEndpoint", "", "APIEndpoint"),
    ("ConditionGate", ".availabilityGates", "ClusterAvailabilityGate"),
    ("ConditionGate", ".readinessGates", "MachineReadinessGate"),
    ("DeletionOrderSpec", "MachineSetSpec.deletion", "MachineSetDeletionSpec"),
    ("DeletionTimeouts", "MachineSpec.deletion", "MachineDeletionSpec"),
    ("DeletionTimeouts", "", "*MachineDeletionSpec"),
    ("HealthCheckRemediation", "", "*Remediation"),
    ("HealthChecks", "", "*Checks"),
    ("MachineDeploymentHealthCheckRemediation", "", "*Remediation"),
    ("MachineObjects", "", "*Objects"),
    ("MachineSetObjects", "", "*Objects"),
    ("MachinesStatus", ".controlPlane", "ClusterControlPlaneStatus"),
    ("MachinesStatus", ".workers", "WorkersStatus"),
    ("NamingSpec", ".machineNaming", "MachineNamingSpec"),
    ("OrderedDeletionSpec", "", "*MachineDeletionSpec"),
    ("RemediationTriggerIf", "", "*TriggerIf"),
    ("RollingUpdate", "", "*RollingUpdate"),
    ("RolloutStrategy", "", "MachineDeploymentTopologyRolloutStrategy"),
    ("TemplateMeta", "", "ObjectMeta"),
    ("TemplateReference", "", "MachineHealthCheckRemediationTemplateReference"),
    ("UnhealthyCondition", ".unhealthyNodeConditions", "UnhealthyNodeCondition"),
    ("UpgradeStep", "Request.controlPlaneUpgrades", "UpgradeStepInfo"),
    ("UpgradeStep", "Request.workersUpgrades", "UpgradeStepInfo"),
    ("VariableOverrides", "ControlPlaneTopology.variables", "ControlPlaneVariables"),
    ("VariableOverrides", "MachineDeploymentTopology.variables", "MachineDeploymentVariables"),
    ("VariableOverrides", "MachinePoolTopology.variables", "MachinePoolVariables"),
];

/// Places that are any object in Rust, so that nothing is lost that a later version adds, and what they are.
pub(super) const KNOWN_OBJECTS: &[(&str, &str)] = &[
    ("Request.cluster", "Cluster"),
    ("Objects.machine", "Machine"),
    ("Objects.machineSet", "MachineSet"),
    ("ExternalUpdateRequest.machines", "Machine"),
    ("VariableSchema.openAPIV3Schema", "JSONSchemaProps"),
    ("Cluster.metadata", "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"),
    ("Machine.metadata", "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"),
    ("MachineSet.metadata", "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"),
    ("ClusterStatus.deprecated", "ClusterDeprecatedStatus"),
    ("MachineStatus.deprecated", "MachineDeprecatedStatus"),
    ("MachineSetStatus.deprecated", "MachineSetDeprecatedStatus"),
    ("MachineStatus.nodeInfo", "io.k8s.api.core.v1.NodeSystemInfo"),
];

/// Types of `cluster.x-k8s.io` that the hooks refer to. What these refer to is of that group, too.
pub(super) const OF_CLUSTER_GROUP: &[&str] = &["Cluster", "ClusterClassVariable", "Machine", "MachineSet"];

/// Lists of Kubernetes' own types, how they merge, and by which key.
pub(super) const LISTS: &[(&str, &str, Option<&str>)] = &[
    ("ObjectMeta.finalizers", "set", None),
    ("ObjectMeta.managedFields", "atomic", None),
    ("ObjectMeta.ownerReferences", "map", Some("uid")),
];

/// What every kind has, and what is said about it.
const KIND_FIELDS: &[(&str, &str)] = &[
    ("apiVersion", "Group and version of the type."),
    ("kind", "Name of the type, in CamelCase."),
    ("metadata", "Metadata of the object."),
    ("spec", "The desired state."),
    ("status", "The observed state."),
];

/// Where a type lives in Go; names of components start with it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Package {
    Hooks,
    Cluster,
    Kubernetes,
}

/// Where a schema stands: the component, without its package, and the field.
#[derive(Clone, Copy)]
pub(super) struct Place<'a> {
    pub(super) package: Package,
    pub(super) component: &'a str,
    pub(super) field: &'a str,
}

/// The name of a component: the Go import path with dots for slashes, then the name of the type.
#[derive(Clone)]
pub(super) struct ComponentName {
    pub(super) package: Package,
    pub(super) full: String,
    pub(super) short: String,
}

impl ComponentName {
    /// The name of the component that one of our types is at a place.
    pub(super) fn of(type_: &str, place: Place<'_>) -> Self {
        if let Some(path) = type_.strip_prefix("io.k8s.") {
            let short = path.rsplit('.').next().unwrap_or(path).to_owned();
            return Self { package: Package::Kubernetes, full: format!("k8s.io.{path}"), short };
        }
        let named = NAMES.iter().find(|(of, at, _)| *of == type_ && place.is(at));
        let short = named.map_or(type_, |(_, _, name)| name).replace('*', place.component);
        let package =
            if OF_CLUSTER_GROUP.contains(&short.as_str()) { Package::Cluster } else { place.package };
        let path = match package {
            Package::Cluster => "sigs.k8s.io.cluster-api.api.core.v1beta2",
            Package::Hooks | Package::Kubernetes => "sigs.k8s.io.cluster-api.api.runtime.hooks.v1alpha1",
        };
        Self { package, full: format!("{path}.{short}"), short }
    }
}

impl Place<'_> {
    pub(super) fn is(self, end: &str) -> bool {
        let Self { component, field, .. } = self;
        format!("{component}.{field}").ends_with(end)
    }

    pub(super) fn known_object(self) -> Option<&'static str> {
        KNOWN_OBJECTS.iter().find(|(at, _)| self.is(at)).map(|(_, type_)| *type_)
    }

    /// What is said about the field, if its schema says nothing.
    pub(super) fn description(self) -> Option<&'static str> {
        KIND_FIELDS.iter().find(|(field, _)| *field == self.field).map(|(_, description)| *description)
    }
}
