//! The messages, as far as clients send them: field number, name in JSON, type.

/// A field of a message.
pub(super) type Field = (u64, &'static str, Type);

/// What a field holds.
pub(super) enum Type {
    Text,
    /// Base64 in JSON.
    Bytes,
    /// JSON inside of a message of its own.
    Json,
    Integer,
    /// A number that is always written, so that 0 says nothing.
    Count,
    Flag,
    Time,
    MicroTime,
    Message(&'static [Field]),
    List(&'static Type),
    Map(&'static Type),
}

use Type::{Bytes, Count, Flag, Integer, Json, List, Map, Message, MicroTime, Text, Time};

/// The fields of a kind.
pub(super) fn message(api_version: &str, kind: &str) -> Option<&'static [Field]> {
    Some(match (api_version, kind) {
        ("v1", "ConfigMap") => CONFIG_MAP,
        ("v1", "Secret") => SECRET,
        ("v1", "Namespace") => NAMESPACE,
        ("v1", "ServiceAccount") => SERVICE_ACCOUNT,
        ("v1", "Event") => CORE_EVENT,
        ("events.k8s.io/v1", "Event") => EVENT,
        ("coordination.k8s.io/v1", "Lease") => LEASE,
        ("authentication.k8s.io/v1", "TokenReview") => TOKEN_REVIEW,
        ("authentication.k8s.io/v1", "TokenRequest") => TOKEN_REQUEST,
        ("authentication.k8s.io/v1", "SelfSubjectReview") => SELF_REVIEW,
        ("authorization.k8s.io/v1", "SubjectAccessReview" | "LocalSubjectAccessReview") => ACCESS_REVIEW,
        ("authorization.k8s.io/v1", "SelfSubjectAccessReview") => SELF_ACCESS_REVIEW,
        ("authorization.k8s.io/v1", "SelfSubjectRulesReview") => RULES_REVIEW,
        ("rbac.authorization.k8s.io/v1", "Role" | "ClusterRole") => ROLE,
        ("rbac.authorization.k8s.io/v1", "RoleBinding" | "ClusterRoleBinding") => ROLE_BINDING,
        ("policy/v1", "Eviction") => EVICTION,
        // Every group sends the options of a deletion as its own.
        (_, "DeleteOptions") => DELETE_OPTIONS,
        _ => return None,
    })
}

const META: Type = Message(OBJECT_META);
const TEXTS: Type = List(&Text);
const TEXT_MAP: Type = Map(&Text);

static SELF_REVIEW: &[Field] = &[(1, "metadata", META)];

static EVICTION: &[Field] = &[(1, "metadata", META), (2, "deleteOptions", Message(DELETE_OPTIONS))];

static OBJECT_META: &[Field] = &[
    (1, "name", Text),
    (2, "generateName", Text),
    (3, "namespace", Text),
    (4, "selfLink", Text),
    (5, "uid", Text),
    (6, "resourceVersion", Text),
    (7, "generation", Count),
    (8, "creationTimestamp", Time),
    (9, "deletionTimestamp", Time),
    (10, "deletionGracePeriodSeconds", Integer),
    (11, "labels", TEXT_MAP),
    (12, "annotations", TEXT_MAP),
    (13, "ownerReferences", List(&Message(OWNER_REFERENCE))),
    (14, "finalizers", TEXTS),
    (17, "managedFields", List(&Message(MANAGED_FIELDS))),
];

static OWNER_REFERENCE: &[Field] = &[
    (1, "kind", Text),
    (3, "name", Text),
    (4, "uid", Text),
    (5, "apiVersion", Text),
    (6, "controller", Flag),
    (7, "blockOwnerDeletion", Flag),
];

static MANAGED_FIELDS: &[Field] = &[
    (1, "manager", Text),
    (2, "operation", Text),
    (3, "apiVersion", Text),
    (4, "time", Time),
    (6, "fieldsType", Text),
    (7, "fieldsV1", Json),
    (8, "subresource", Text),
];

static DELETE_OPTIONS: &[Field] = &[
    (1, "gracePeriodSeconds", Integer),
    (2, "preconditions", Message(&[(1, "uid", Text), (2, "resourceVersion", Text)])),
    (3, "orphanDependents", Flag),
    (4, "propagationPolicy", Text),
    (5, "dryRun", TEXTS),
];

static CONFIG_MAP: &[Field] =
    &[(1, "metadata", META), (2, "data", TEXT_MAP), (3, "binaryData", Map(&Bytes)), (4, "immutable", Flag)];

static SECRET: &[Field] = &[
    (1, "metadata", META),
    (2, "data", Map(&Bytes)),
    (3, "type", Text),
    (4, "stringData", TEXT_MAP),
    (5, "immutable", Flag),
];

static NAMESPACE: &[Field] = &[
    (1, "metadata", META),
    (2, "spec", Message(&[(1, "finalizers", TEXTS)])),
    (3, "status", Message(&[(1, "phase", Text)])),
];

static SERVICE_ACCOUNT: &[Field] = &[
    (1, "metadata", META),
    (2, "secrets", List(&Message(OBJECT_REFERENCE))),
    (3, "imagePullSecrets", List(&Message(&[(1, "name", Text)]))),
    (4, "automountServiceAccountToken", Flag),
];

static OBJECT_REFERENCE: &[Field] = &[
    (1, "kind", Text),
    (2, "namespace", Text),
    (3, "name", Text),
    (4, "uid", Text),
    (5, "apiVersion", Text),
    (6, "resourceVersion", Text),
    (7, "fieldPath", Text),
];

static EVENT_SOURCE: &[Field] = &[(1, "component", Text), (2, "host", Text)];

static EVENT_SERIES: &[Field] = &[(1, "count", Count), (2, "lastObservedTime", MicroTime)];

static CORE_EVENT: &[Field] = &[
    (1, "metadata", META),
    (2, "involvedObject", Message(OBJECT_REFERENCE)),
    (3, "reason", Text),
    (4, "message", Text),
    (5, "source", Message(EVENT_SOURCE)),
    (6, "firstTimestamp", Time),
    (7, "lastTimestamp", Time),
    (8, "count", Count),
    (9, "type", Text),
    (10, "eventTime", MicroTime),
    (11, "series", Message(EVENT_SERIES)),
    (12, "action", Text),
    (13, "related", Message(OBJECT_REFERENCE)),
    (14, "reportingComponent", Text),
    (15, "reportingInstance", Text),
];

static EVENT: &[Field] = &[
    (1, "metadata", META),
    (2, "eventTime", MicroTime),
    (3, "series", Message(EVENT_SERIES)),
    (4, "reportingController", Text),
    (5, "reportingInstance", Text),
    (6, "action", Text),
    (7, "reason", Text),
    (8, "regarding", Message(OBJECT_REFERENCE)),
    (9, "related", Message(OBJECT_REFERENCE)),
    (10, "note", Text),
    (11, "type", Text),
    (12, "deprecatedSource", Message(EVENT_SOURCE)),
    (13, "deprecatedFirstTimestamp", Time),
    (14, "deprecatedLastTimestamp", Time),
    (15, "deprecatedCount", Count),
];

static LEASE: &[Field] = &[
    (1, "metadata", META),
    (
        2,
        "spec",
        Message(&[
            (1, "holderIdentity", Text),
            (2, "leaseDurationSeconds", Integer),
            (3, "acquireTime", MicroTime),
            (4, "renewTime", MicroTime),
            (5, "leaseTransitions", Integer),
            (6, "strategy", Text),
            (7, "preferredHolder", Text),
        ]),
    ),
];

static POLICY_RULE: &[Field] = &[
    (1, "verbs", TEXTS),
    (2, "apiGroups", TEXTS),
    (3, "resources", TEXTS),
    (4, "resourceNames", TEXTS),
    (5, "nonResourceURLs", TEXTS),
];

static LABEL_SELECTOR: &[Field] = &[
    (1, "matchLabels", TEXT_MAP),
    (2, "matchExpressions", List(&Message(&[(1, "key", Text), (2, "operator", Text), (3, "values", TEXTS)]))),
];

static ROLE: &[Field] = &[
    (1, "metadata", META),
    (2, "rules", List(&Message(POLICY_RULE))),
    (3, "aggregationRule", Message(&[(1, "clusterRoleSelectors", List(&Message(LABEL_SELECTOR)))])),
];

static ROLE_BINDING: &[Field] = &[
    (1, "metadata", META),
    (
        2,
        "subjects",
        List(&Message(&[
            (1, "kind", Text),
            (2, "apiGroup", Text),
            (3, "name", Text),
            (4, "namespace", Text),
        ])),
    ),
    (3, "roleRef", Message(&[(1, "apiGroup", Text), (2, "kind", Text), (3, "name", Text)])),
];

static TOKEN_REVIEW: &[Field] =
    &[(1, "metadata", META), (2, "spec", Message(&[(1, "token", Text), (2, "audiences", TEXTS)]))];

static TOKEN_REQUEST: &[Field] = &[
    (1, "metadata", META),
    (
        2,
        "spec",
        Message(&[
            (1, "audiences", TEXTS),
            (
                3,
                "boundObjectRef",
                Message(&[(1, "kind", Text), (2, "apiVersion", Text), (3, "name", Text), (4, "uid", Text)]),
            ),
            (4, "expirationSeconds", Integer),
        ]),
    ),
];

static RESOURCE_ATTRIBUTES: &[Field] = &[
    (1, "namespace", Text),
    (2, "verb", Text),
    (3, "group", Text),
    (4, "version", Text),
    (5, "resource", Text),
    (6, "subresource", Text),
    (7, "name", Text),
];

static PATH_ATTRIBUTES: &[Field] = &[(1, "path", Text), (2, "verb", Text)];

static ACCESS_REVIEW: &[Field] = &[
    (1, "metadata", META),
    (
        2,
        "spec",
        Message(&[
            (1, "resourceAttributes", Message(RESOURCE_ATTRIBUTES)),
            (2, "nonResourceAttributes", Message(PATH_ATTRIBUTES)),
            (3, "user", Text),
            (4, "groups", TEXTS),
            (6, "uid", Text),
        ]),
    ),
];

static SELF_ACCESS_REVIEW: &[Field] = &[
    (1, "metadata", META),
    (
        2,
        "spec",
        Message(&[
            (1, "resourceAttributes", Message(RESOURCE_ATTRIBUTES)),
            (2, "nonResourceAttributes", Message(PATH_ATTRIBUTES)),
        ]),
    ),
];

static RULES_REVIEW: &[Field] = &[(1, "metadata", META), (2, "spec", Message(&[(1, "namespace", Text)]))];
