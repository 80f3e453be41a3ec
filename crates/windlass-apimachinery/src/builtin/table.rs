//! The exceptions, kind by kind.

use super::Special::{List, Map, PatchedList, Set, Struct, Whole};
use super::{Fields, ListRule, PatchRule, Special};

/// The kinds that have exceptions of their own: group, kind, fields.
pub(super) static KINDS: &[(&str, &str, Fields)] = &[
    ("", "ConfigMap", &[("metadata", META), ("data", Map), ("binaryData", Map)]),
    ("", "Endpoints", PLAIN),
    ("", "Event", &[("metadata", META), ("involvedObject", Whole), ("related", Whole)]),
    ("", "LimitRange", PLAIN),
    ("", "Namespace", &[("metadata", META), ("status", CONDITIONS)]),
    ("", "Node", &[("metadata", META), ("spec", Struct(NODE_SPEC)), ("status", Struct(NODE_STATUS))]),
    ("", "PersistentVolume", &[("metadata", META), ("spec", Struct(VOLUME_SPEC))]),
    ("", "PersistentVolumeClaim", CLAIM),
    ("", "Pod", &[("metadata", META), ("spec", Struct(POD_SPEC)), ("status", Struct(POD_STATUS))]),
    ("", "PodTemplate", &[("metadata", META), ("template", Struct(POD_TEMPLATE))]),
    (
        "",
        "ReplicationController",
        &[
            ("metadata", META),
            ("spec", Struct(&[("selector", Whole), ("template", Struct(POD_TEMPLATE))])),
            ("status", CONDITIONS),
        ],
    ),
    (
        "",
        "ResourceQuota",
        &[
            ("metadata", META),
            ("spec", Struct(&[("hard", Map)])),
            ("status", Struct(&[("hard", Map), ("used", Map)])),
        ],
    ),
    ("", "Secret", &[("metadata", META), ("data", Map), ("stringData", Map)]),
    ("", "Service", &[("metadata", META), ("spec", Struct(SERVICE_SPEC)), ("status", CONDITIONS)]),
    (
        "",
        "ServiceAccount",
        &[
            ("metadata", META),
            ("secrets", list(&[("name", None)], "name", NONE)),
            ("imagePullSecrets", PatchedList(by("name"))),
        ],
    ),
    ("admissionregistration.k8s.io", "MutatingWebhookConfiguration", WEBHOOKS),
    ("admissionregistration.k8s.io", "ValidatingWebhookConfiguration", WEBHOOKS),
    (
        "apiextensions.k8s.io",
        "CustomResourceDefinition",
        &[("metadata", META), ("status", Struct(&[("conditions", only_applied(&[("type", None)]))]))],
    ),
    ("apiregistration.k8s.io", "APIService", &[("metadata", META), ("status", CONDITIONS)]),
    ("apps", "DaemonSet", WORKLOAD),
    ("apps", "Deployment", WORKLOAD),
    ("apps", "ReplicaSet", WORKLOAD),
    ("apps", "StatefulSet", WORKLOAD),
    (
        "batch",
        "CronJob",
        &[
            ("metadata", META),
            ("spec", Struct(&[("jobTemplate", Struct(&[("metadata", META), ("spec", Struct(JOB_SPEC))]))])),
        ],
    ),
    (
        "batch",
        "Job",
        &[
            ("metadata", META),
            ("spec", Struct(JOB_SPEC)),
            ("status", Struct(&[("conditions", PatchedList(by("type")))])),
        ],
    ),
    (
        "certificates.k8s.io",
        "CertificateSigningRequest",
        &[
            ("metadata", META),
            ("spec", Struct(&[("extra", Map)])),
            ("status", Struct(&[("conditions", only_applied(&[("type", None)]))])),
        ],
    ),
    ("coordination.k8s.io", "Lease", PLAIN),
    ("events.k8s.io", "Event", &[("metadata", META), ("regarding", Whole), ("related", Whole)]),
    (
        "policy",
        "PodDisruptionBudget",
        &[
            ("metadata", META),
            ("spec", Struct(&[("selector", Whole)])),
            ("status", Struct(&[("conditions", CONDITION_LIST), ("disruptedPods", Map)])),
        ],
    ),
    ("rbac.authorization.k8s.io", "ClusterRole", PLAIN),
    ("rbac.authorization.k8s.io", "ClusterRoleBinding", &[("metadata", META), ("roleRef", Whole)]),
    ("rbac.authorization.k8s.io", "Role", PLAIN),
    ("rbac.authorization.k8s.io", "RoleBinding", &[("metadata", META), ("roleRef", Whole)]),
    ("storage.k8s.io", "StorageClass", &[("metadata", META), ("parameters", Map)]),
];

/// A kind with nothing special but its metadata.
pub(super) static PLAIN: Fields = &[("metadata", META)];

const NONE: Fields = &[];

const META: Special = Struct(OBJECT_META);

static OBJECT_META: Fields = &[
    ("labels", Map),
    ("annotations", Map),
    ("finalizers", Set),
    ("ownerReferences", list(&[("uid", None)], "uid", NONE)),
];

const CONDITIONS: Special = Struct(&[("conditions", CONDITION_LIST)]);
const CONDITION_LIST: Special = list(&[("type", None)], "type", NONE);

static WEBHOOKS: Fields = &[
    ("metadata", META),
    (
        "webhooks",
        list(
            &[("name", None)],
            "name",
            &[
                ("namespaceSelector", Whole),
                ("objectSelector", Whole),
                ("matchConditions", list(&[("name", None)], "name", NONE)),
            ],
        ),
    ),
];

static WORKLOAD: Fields = &[
    ("metadata", META),
    ("spec", Struct(&[("selector", Whole), ("template", Struct(POD_TEMPLATE))])),
    ("status", CONDITIONS),
];

static JOB_SPEC: Fields = &[("selector", Whole), ("template", Struct(POD_TEMPLATE))];

static POD_TEMPLATE: Fields = &[("metadata", META), ("spec", Struct(POD_SPEC))];

static POD_SPEC: Fields = &[
    ("containers", list(&[("name", None)], "name", CONTAINER)),
    ("initContainers", list(&[("name", None)], "name", CONTAINER)),
    ("ephemeralContainers", list(&[("name", None)], "name", CONTAINER)),
    ("volumes", list(&[("name", None)], "name", VOLUME)),
    ("imagePullSecrets", whole_items(&[("name", None)], "name")),
    ("hostAliases", list(&[("ip", None)], "ip", NONE)),
    (
        "topologySpreadConstraints",
        list(
            &[("topologyKey", None), ("whenUnsatisfiable", None)],
            "topologyKey",
            &[("labelSelector", Whole)],
        ),
    ),
    ("schedulingGates", list(&[("name", None)], "name", NONE)),
    ("resourceClaims", list(&[("name", None)], "name", NONE)),
    ("nodeSelector", Whole),
    ("overhead", Map),
    ("dnsConfig", Struct(&[])),
];

static POD_STATUS: Fields = &[
    ("conditions", CONDITION_LIST),
    ("podIPs", list(&[("ip", None)], "ip", NONE)),
    ("hostIPs", PatchedList(by("ip"))),
];

static CONTAINER: Fields = &[
    ("env", list(&[("name", None)], "name", &[("valueFrom", Struct(ENV_SOURCE))])),
    ("ports", list(&[("containerPort", None), ("protocol", Some("TCP"))], "containerPort", NONE)),
    ("volumeMounts", list(&[("mountPath", None)], "mountPath", NONE)),
    ("volumeDevices", list(&[("devicePath", None)], "devicePath", NONE)),
    ("resources", Struct(RESOURCES)),
    ("resizePolicy", Struct(&[])),
];

static ENV_SOURCE: Fields =
    &[("configMapKeyRef", Whole), ("secretKeyRef", Whole), ("fieldRef", Whole), ("resourceFieldRef", Whole)];

static RESOURCES: Fields = &[("limits", Map), ("requests", Map), ("claims", only_applied(&[("name", None)]))];

static VOLUME: Fields = &[
    ("csi", Struct(&[("volumeAttributes", Map), ("nodePublishSecretRef", Whole)])),
    ("flexVolume", Struct(&[("options", Map), ("secretRef", Whole)])),
];

static NODE_SPEC: Fields = &[("podCIDRs", Set)];

static NODE_STATUS: Fields = &[
    ("conditions", CONDITION_LIST),
    ("addresses", list(&[("type", None)], "type", NONE)),
    ("allocatable", Map),
    ("capacity", Map),
];

static SERVICE_SPEC: Fields =
    &[("ports", list(&[("port", None), ("protocol", Some("TCP"))], "port", NONE)), ("selector", Whole)];

static VOLUME_SPEC: Fields = &[("capacity", Map), ("claimRef", Whole)];

static CLAIM: Fields = &[
    ("metadata", META),
    ("spec", Struct(&[("selector", Whole), ("resources", Struct(RESOURCES)), ("dataSource", Whole)])),
    ("status", Struct(&[("conditions", CONDITION_LIST), ("capacity", Map), ("allocatedResources", Map)])),
];

/// A list that both applies and patches merge, by keys and by a key.
const fn list(
    keys: &'static [(&'static str, Option<&'static str>)],
    patch_key: &'static str,
    item: Fields,
) -> Special {
    List(ListRule { keys, patch: Some(PatchRule { key: patch_key, item }), item, whole_items: false })
}

/// Like [`list`], of structs that are owned as a whole.
const fn whole_items(
    keys: &'static [(&'static str, Option<&'static str>)],
    patch_key: &'static str,
) -> Special {
    List(ListRule {
        keys,
        patch: Some(PatchRule { key: patch_key, item: NONE }),
        item: NONE,
        whole_items: true,
    })
}

/// A list that applies merge and patches replace.
const fn only_applied(keys: &'static [(&'static str, Option<&'static str>)]) -> Special {
    List(ListRule { keys, patch: None, item: NONE, whole_items: false })
}

const fn by(key: &'static str) -> PatchRule {
    PatchRule { key, item: NONE }
}
