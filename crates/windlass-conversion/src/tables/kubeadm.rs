//! KubeadmConfig and what has one in it.

use serde_json::Value;

use crate::error::ConvertError;
use crate::form::{to_duration, to_seconds};
use crate::path::{Fields, get, put, take};
use crate::rule::{Code, Form, Pairing, Rule, at, each, flag, seconds, within};
use crate::tables::status::{CONDITIONS, FAILURES};
use crate::walk::Context;

pub(crate) const KUBEADM_CONFIG: &[Rule] = &[
    within("spec", KUBEADM_CONFIG_SPEC),
    flag("status.ready", "status.initialization.dataSecretCreated"),
    CONDITIONS,
    FAILURES,
];

pub(crate) const KUBEADM_CONFIG_TEMPLATE: &[Rule] = &[within("spec.template.spec", KUBEADM_CONFIG_SPEC)];

pub(crate) const KUBEADM_CONFIG_SPEC: &[Rule] = &[
    Rule::Code(Code { up: timeouts_up, down: timeouts_down }),
    within("clusterConfiguration", CLUSTER_CONFIGURATION),
    within("initConfiguration", INIT_CONFIGURATION),
    within("joinConfiguration", JOIN_CONFIGURATION),
    each("files", Pairing::Key("path"), &[at("append", Form::Flag)]),
    at("ignition.containerLinuxConfig.strict", Form::Flag),
    Rule::Lost("useExperimentalRetryJoin"),
];

const CLUSTER_CONFIGURATION: &[Rule] = &[
    Rule::Lost("apiVersion"),
    Rule::Lost("kind"),
    Rule::Lost("clusterName"),
    Rule::Lost("kubernetesVersion"),
    Rule::Lost("networking"),
    within("apiServer", COMPONENT),
    within("controllerManager", COMPONENT),
    within("scheduler", COMPONENT),
    at("etcd.local.extraArgs", Form::Args),
];

const COMPONENT: &[Rule] = &[
    at("extraArgs", Form::Args),
    each("extraVolumes", Pairing::Key("hostPath"), &[at("readOnly", Form::Flag)]),
];

const INIT_CONFIGURATION: &[Rule] = &[
    Rule::Lost("apiVersion"),
    Rule::Lost("kind"),
    each("bootstrapTokens", Pairing::Place, &[seconds("ttl", "ttlSeconds")]),
    at("nodeRegistration.kubeletExtraArgs", Form::Args),
    at("localAPIEndpoint.bindPort", Form::NonZero),
];

const JOIN_CONFIGURATION: &[Rule] = &[
    Rule::Lost("apiVersion"),
    Rule::Lost("kind"),
    at("nodeRegistration.kubeletExtraArgs", Form::Args),
    at("controlPlane.localAPIEndpoint.bindPort", Form::NonZero),
    at("discovery.bootstrapToken.unsafeSkipCAVerification", Form::Flag),
    at("discovery.file.kubeConfig.cluster.insecureSkipTLSVerify", Form::Flag),
    at("discovery.file.kubeConfig.user.exec.provideClusterInfo", Form::Flag),
];

/// Two timeouts that v1beta1 has elsewhere. All others are in the conversion data only.
const CONTROL_PLANE_TIMEOUT: &str = "clusterConfiguration.apiServer.timeoutForControlPlane";
const DISCOVERY_TIMEOUT: &str = "joinConfiguration.discovery.timeout";
const INIT_TIMEOUTS: &str = "initConfiguration.timeouts";
const JOIN_TIMEOUTS: &str = "joinConfiguration.timeouts";
const INIT_COMPONENTS: &str = "initConfiguration.timeouts.controlPlaneComponentHealthCheckSeconds";
const JOIN_COMPONENTS: &str = "joinConfiguration.timeouts.controlPlaneComponentHealthCheckSeconds";
const TLS_BOOTSTRAP: &str = "joinConfiguration.timeouts.tlsBootstrapSeconds";

/// The timeouts of the conversion data, unless v1beta1 says something else by now than it said for them.
fn timeouts_up(
    source: &mut Fields,
    made: &mut Fields,
    data: Option<&Fields>,
    context: &Context<'_>,
) -> Result<(), ConvertError> {
    let mut seconds_at = |path: &str| -> Result<Option<Value>, ConvertError> {
        let context = Context { path: context.field(path), ..*context };
        take(source, path).map(|duration| to_seconds(&duration, &context)).transpose()
    };
    let (components, bootstrap) = (seconds_at(CONTROL_PLANE_TIMEOUT)?, seconds_at(DISCOVERY_TIMEOUT)?);
    let mut timeouts = Fields::new();
    for path in [INIT_TIMEOUTS, JOIN_TIMEOUTS] {
        drop(take(source, path));
        if let Some(kept) = data.and_then(|data| get(data, path)) {
            put(&mut timeouts, path, kept.clone());
        }
    }
    if components.as_ref() != component_timeout(&timeouts) {
        for path in [INIT_COMPONENTS, JOIN_COMPONENTS] {
            drop(take(&mut timeouts, path));
            if let Some(components) = &components {
                put(&mut timeouts, path, components.clone());
            }
        }
    }
    if bootstrap.as_ref() != get(&timeouts, TLS_BOOTSTRAP) {
        drop(take(&mut timeouts, TLS_BOOTSTRAP));
        if let Some(bootstrap) = bootstrap {
            put(&mut timeouts, TLS_BOOTSTRAP, bootstrap);
        }
    }
    crate::path::merge(made, timeouts);
    Ok(())
}

fn timeouts_down(source: &mut Fields, made: &mut Fields, context: &Context<'_>) -> Result<(), ConvertError> {
    let duration = |path: &str, seconds: &Value| {
        to_duration(seconds, &Context { path: context.field(path), ..*context })
    };
    if let Some(seconds) = component_timeout(source) {
        put(made, CONTROL_PLANE_TIMEOUT, duration(INIT_COMPONENTS, seconds)?);
    }
    if let Some(seconds) = get(source, TLS_BOOTSTRAP) {
        put(made, DISCOVERY_TIMEOUT, duration(TLS_BOOTSTRAP, seconds)?);
    }
    for path in [INIT_TIMEOUTS, JOIN_TIMEOUTS] {
        drop(take(source, path));
    }
    Ok(())
}

/// What v1beta1 shows as the timeout of the control plane.
fn component_timeout(spec: &Fields) -> Option<&Value> {
    get(spec, INIT_COMPONENTS).or_else(|| get(spec, JOIN_COMPONENTS))
}
