//! Schemas of the parts of kubeadm's configuration that no code here looks at.

use schemars::{Schema, SchemaGenerator};
use serde_json::{Value, json};

use crate::described::{
    any_text, atomic, flag, list, map, number_within, object, quantity, schema, some, text, time, word,
};

/// The API server.
pub(crate) fn api_server(_: &mut SchemaGenerator) -> Schema {
    let mut described = component();
    described["properties"]["certSANs"] = list(
        100,
        text(253, "A name or an address."),
        "Further names and addresses in the certificate of the API server.",
    );
    schema(described)
}

/// The controller manager, or the scheduler.
pub(crate) fn control_plane_component(_: &mut SchemaGenerator) -> Schema {
    schema(component())
}

fn component() -> Value {
    let volume = object(
        &["name", "hostPath", "mountPath"],
        [
            ("name", text(512, "Name of the volume.")),
            ("hostPath", text(512, "What is mounted, on the host.")),
            ("mountPath", text(512, "Where it is mounted, in the Pod.")),
            ("readOnly", flag("Whether it cannot be written.")),
            ("pathType", any_text("What is expected on the host, such as DirectoryOrCreate.")),
        ],
        "A path of the host, mounted into the Pod.",
    );
    some(
        [
            ("extraArgs", extra_arguments("Further arguments.")),
            ("extraVolumes", list(100, volume, "Paths of the host, mounted into the Pod.")),
            ("extraEnvs", list(100, environment(), "Further environment variables.")),
        ],
        "A component of the control plane.",
    )
}

/// Arguments of the kubelet.
pub(crate) fn kubelet_extra_args(_: &mut SchemaGenerator) -> Schema {
    schema(extra_arguments(""))
}

/// Arguments of a program. Two writers share them by name and value, so that an argument can be given twice; each name may
/// be there once all the same.
fn extra_arguments(description: &str) -> Value {
    let argument = object(
        &["name", "value"],
        [
            ("name", text(256, "Name of the argument, without dashes.")),
            ("value", json!({"type": "string", "maxLength": 1024, "description": "Its value."})),
        ],
        "An argument.",
    );
    let mut arguments = list(100, argument, description);
    arguments["x-kubernetes-list-type"] = "map".into();
    arguments["x-kubernetes-list-map-keys"] = json!(["name", "value"]);
    arguments["x-kubernetes-validations"] = json!([{
        "rule": "self.all(x, self.exists_one(y, x.name == y.name))",
        "message": "every argument may be there once",
    }]);
    arguments
}

/// An environment variable, as Pods have it.
fn environment() -> Value {
    let key_of = |what: &str| {
        let mut name = any_text("Name of the object.");
        name["default"] = "".into();
        atomic(object(
            &["key"],
            [
                ("name", name),
                ("key", any_text("The key in it.")),
                ("optional", flag("Whether it may be absent.")),
            ],
            what,
        ))
    };
    let mut optional = flag("Whether the file or the key may be absent.");
    optional["default"] = false.into();
    let file_key = atomic(object(
        &["key", "path", "volumeName"],
        [
            ("volumeName", any_text("The volume that the file is in.")),
            ("path", any_text("Path of the file in the volume.")),
            ("key", any_text("The key in the file.")),
            ("optional", optional),
        ],
        "A key of a file.",
    ));
    let field = atomic(object(
        &["fieldPath"],
        [
            ("apiVersion", any_text("Version of the schema that the path is written for.")),
            ("fieldPath", any_text("Path of the field.")),
        ],
        "A field of the Pod.",
    ));
    let mut divisor = quantity();
    divisor["description"] = "Unit of the value.".into();
    let resource = atomic(object(
        &["resource"],
        [
            ("containerName", any_text("The container.")),
            ("resource", any_text("The resource.")),
            ("divisor", divisor),
        ],
        "A resource of a container.",
    ));
    object(
        &["name"],
        [
            ("name", any_text("Name of the variable.")),
            ("value", any_text("Its value.")),
            (
                "valueFrom",
                object(
                    &[],
                    [
                        ("configMapKeyRef", key_of("A key of a ConfigMap.")),
                        ("secretKeyRef", key_of("A key of a Secret.")),
                        ("fileKeyRef", file_key),
                        ("fieldRef", field),
                        ("resourceFieldRef", resource),
                    ],
                    "Where its value comes from, if it is not said here.",
                ),
            ),
        ],
        "An environment variable.",
    )
}

/// What a ClusterConfiguration has besides.
pub(crate) fn more_of_the_cluster(_: &mut SchemaGenerator) -> Schema {
    schema(object(
        &[],
        [
            ("certificatesDir", text(512, "Where certificates lie on the host.")),
            (
                "certificateValidityPeriodDays",
                number_within(1, Some(1095), "How long certificates are valid."),
            ),
            (
                "caCertificateValidityPeriodDays",
                number_within(1, Some(36500), "How long certificates of authorities are valid."),
            ),
            (
                "encryptionAlgorithm",
                word(
                    &["ECDSA-P256", "ECDSA-P384", "RSA-2048", "RSA-3072", "RSA-4096"],
                    "Algorithm of the keys that kubeadm makes.",
                ),
            ),
        ],
        "",
    ))
}

/// etcd on the Machines of the control plane.
pub(crate) fn local_etcd(_: &mut SchemaGenerator) -> Schema {
    let names = |description: &str| list(100, text(253, "A name or an address."), description);
    schema(some(
        [
            ("imageRepository", text(512, "Where the image comes from.")),
            ("imageTag", text(256, "Tag of the image.")),
            ("dataDir", text(512, "Where the data lie on the host.")),
            ("extraArgs", extra_arguments("Further arguments.")),
            ("extraEnvs", list(100, environment(), "Further environment variables.")),
            ("serverCertSANs", names("Further names and addresses in the certificate for clients.")),
            ("peerCertSANs", names("Further names and addresses in the certificate for other members.")),
        ],
        "",
    ))
}

/// An image.
pub(crate) fn image(_: &mut SchemaGenerator) -> Schema {
    schema(some(
        [
            ("imageRepository", text(512, "Where the image comes from.")),
            ("imageTag", text(256, "Tag of the image.")),
        ],
        "",
    ))
}

/// What an external etcd has besides.
pub(crate) fn more_of_external_etcd(_: &mut SchemaGenerator) -> Schema {
    schema(object(
        &[],
        [
            ("caFile", text(512, "Certificate of the authority, on the host.")),
            ("certFile", text(512, "Certificate for the API server, on the host.")),
            ("keyFile", text(512, "Its key, on the host.")),
        ],
        "",
    ))
}

/// What an InitConfiguration has besides.
pub(crate) fn more_of_init(_: &mut SchemaGenerator) -> Schema {
    let words = |description: &str| list(100, text(256, "One of them."), description);
    let token = object(
        &["token"],
        [
            ("token", text(23, "The token itself, `id.secret`.")),
            ("description", text(512, "What it is for.")),
            ("ttlSeconds", number_within(0, None, "How long it is valid.")),
            ("expires", time("Until when it is valid.")),
            ("usages", words("What it may be used for.")),
            ("groups", words("Groups that its users belong to.")),
        ],
        "A token with which Nodes join.",
    );
    schema(object(&[], [("bootstrapTokens", list(100, token, "Tokens with which Nodes join."))], ""))
}

/// Nothing: every field is described.
pub(crate) fn nothing_more(_: &mut SchemaGenerator) -> Schema {
    schema(object(&[], [], ""))
}

/// Where an API server listens.
pub(crate) fn local_api_endpoint(_: &mut SchemaGenerator) -> Schema {
    schema(api_endpoint())
}

fn api_endpoint() -> Value {
    some(
        [("advertiseAddress", text(39, "Its address.")), ("bindPort", number_within(1, None, "Its port."))],
        "Where this API server listens.",
    )
}

/// How a Machine becomes part of the control plane. It may be empty: that it is there says so.
pub(crate) fn join_control_plane(_: &mut SchemaGenerator) -> Schema {
    schema(object(&[], [("localAPIEndpoint", api_endpoint())], ""))
}

/// Patches of kubeadm.
pub(crate) fn patches(_: &mut SchemaGenerator) -> Schema {
    schema(some([("directory", text(512, "Where they lie on the host."))], ""))
}

/// How long steps of kubeadm may take.
pub(crate) fn timeouts(_: &mut SchemaGenerator) -> Schema {
    let seconds = |description: &str| number_within(0, None, description);
    schema(some(
        [
            (
                "controlPlaneComponentHealthCheckSeconds",
                seconds("How long a component of the control plane may take to become healthy."),
            ),
            ("kubeletHealthCheckSeconds", seconds("How long the kubelet may take to become healthy.")),
            ("kubernetesAPICallSeconds", seconds("How long calls of the API server are repeated.")),
            ("etcdAPICallSeconds", seconds("How long calls of etcd are repeated.")),
            ("tlsBootstrapSeconds", seconds("How long the kubelet may take to get its certificate.")),
            ("discoverySeconds", seconds("How long finding the control plane may take.")),
        ],
        "",
    ))
}

/// How the control plane is found.
pub(crate) fn discovery(_: &mut SchemaGenerator) -> Schema {
    let by_token = some(
        [
            ("token", text(512, "The token.")),
            ("apiServerEndpoint", text(512, "Where the API server is.")),
            ("caCertHashes", list(100, text(512, "A hash."), "Hashes of certificates of the authority.")),
            ("unsafeSkipCAVerification", flag("Whether any authority is trusted.")),
        ],
        "By a token.",
    );
    let mut authority = text(51200, "Certificates of the authority, in base64.");
    authority["format"] = "byte".into();
    let cluster = some(
        [
            ("server", text(512, "Where the API server is.")),
            ("tlsServerName", text(512, "The name that its certificate must have.")),
            ("insecureSkipTLSVerify", flag("Whether any certificate is trusted.")),
            ("certificateAuthorityData", authority),
            ("proxyURL", text(512, "A proxy on the way.")),
        ],
        "How the cluster is reached.",
    );
    let variable = object(
        &["name", "value"],
        [("name", text(512, "Name of the variable.")), ("value", text(512, "Its value."))],
        "An environment variable.",
    );
    let exec = object(
        &["command"],
        [
            ("apiVersion", text(512, "Version of the protocol.")),
            ("command", text(1024, "The program.")),
            ("args", list(100, text(512, "An argument."), "Its arguments.")),
            ("env", list(100, variable, "Its environment.")),
            ("provideClusterInfo", flag("Whether it is told about the cluster.")),
        ],
        "A program that gives credentials.",
    );
    let auth_provider = object(
        &["name"],
        [
            ("name", text(256, "Name of the provider.")),
            ("config", map(json!({"type": "string"}), "Its settings.")),
        ],
        "A provider of credentials.",
    );
    let kubeconfig = object(
        &["user"],
        [
            ("cluster", cluster),
            ("user", some([("authProvider", auth_provider), ("exec", exec)], "Who joins.")),
        ],
        "A kubeconfig to write there.",
    );
    let by_file = object(
        &["kubeConfigPath"],
        [("kubeConfigPath", text(512, "Where it lies on the host.")), ("kubeConfig", kubeconfig)],
        "By a kubeconfig.",
    );
    schema(some(
        [
            ("bootstrapToken", by_token),
            ("file", by_file),
            ("tlsBootstrapToken", text(512, "The token with which the kubelet gets its certificate.")),
        ],
        "",
    ))
}

/// What the registration of a Node has besides.
pub(crate) fn more_of_registration(_: &mut SchemaGenerator) -> Schema {
    schema(object(
        &[],
        [
            (
                "ignorePreflightErrors",
                list(50, text(512, "A check."), "Checks of kubeadm whose errors are warnings."),
            ),
            ("imagePullPolicy", word(&["Always", "IfNotPresent", "Never"], "When images are pulled.")),
            ("imagePullSerial", flag("Whether images are pulled one after the other.")),
        ],
        "",
    ))
}

/// Disks to partition and format.
pub(crate) fn disk_setup(_: &mut SchemaGenerator) -> Schema {
    let file_system = object(
        &["device", "filesystem"],
        [
            ("device", text(256, "The device.")),
            ("filesystem", text(128, "Type of the file system.")),
            ("label", text(512, "Its label.")),
            ("partition", text(128, "The partition: a number, auto, any or none.")),
            ("overwrite", flag("Whether a file system that is there is overwritten.")),
            ("replaceFS", text(128, "Replaces a file system of this type.")),
            ("extraOpts", up_to(100, text(256, "An option."), "Further options of mkfs.")),
        ],
        "A file system to make.",
    );
    let mut type_ = text(36, "What is in it: a word such as Linux, or a GUID.");
    type_["x-kubernetes-validations"] = json!([{
        "rule": concat!(
            "self.matches('^(Linux|LinuxSwap|LinuxRAID|LVM|Fat32|NTFS|LinuxExtended|",
            "[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12})$')"
        ),
        "message": "must be Linux, LinuxSwap, LinuxRAID, LVM, Fat32, NTFS, LinuxExtended or a GUID",
    }]);
    let part = object(
        &["percentage"],
        [
            ("percentage", number_within(1, Some(100), "How much of the device it takes.")),
            ("partitionType", type_),
        ],
        "A partition.",
    );
    let mut partition = object(
        &["device"],
        [
            ("device", text(256, "The device.")),
            ("layout", flag("Whether one partition takes the whole device.")),
            ("diskLayout", list(100, part, "Its partitions, if there is more than one.")),
            ("overwrite", flag("Whether partitions that are there are overwritten.")),
            ("tableType", word(&["mbr", "gpt"], "Type of the partition table.")),
        ],
        "A device to partition.",
    );
    partition["x-kubernetes-validations"] = json!([{
        "rule": "[has(self.layout),has(self.diskLayout)].filter(x,x==true).size() == 1",
        "message": "exactly one of layout and diskLayout must be set",
    }]);
    schema(some(
        [
            ("partitions", up_to(100, partition, "Devices to partition.")),
            ("filesystems", up_to(100, file_system, "File systems to make.")),
        ],
        "",
    ))
}

/// A list that is replaced as a whole, with up to `max` items.
fn up_to(max: u32, items: Value, description: &str) -> Value {
    let mut described = list(max, items, description);
    if let Some(fields) = described.as_object_mut() {
        fields.remove("minItems");
    }
    described
}

/// Users to create.
pub(crate) fn users(_: &mut SchemaGenerator) -> Schema {
    let user = object(
        &["name"],
        [
            ("name", text(256, "Name of the user.")),
            ("gecos", text(256, "Who it is.")),
            ("groups", text(256, "Further groups, separated by commas.")),
            ("primaryGroup", text(256, "The group.")),
            ("homeDir", text(256, "The home directory.")),
            ("shell", text(256, "The shell.")),
            ("inactive", flag("Whether the user cannot log in.")),
            ("passwd", text(256, "Hash of the password.")),
            ("passwdFrom", from_secret("Where the hash of the password comes from, if it is not said here.")),
            ("lockPassword", flag("Whether the password cannot be used.")),
            ("sudo", text(256, "A line for sudoers.")),
            ("sshAuthorizedKeys", up_to(100, text(2048, "A key."), "Keys that log in over SSH.")),
        ],
        "A user to create.",
    );
    schema(list(100, user, ""))
}

/// Where the content of a file comes from.
pub(crate) fn content_from(_: &mut SchemaGenerator) -> Schema {
    schema(from_secret(""))
}

fn from_secret(description: &str) -> Value {
    let secret = object(
        &["key", "name"],
        [("name", text(253, "Name of the Secret.")), ("key", text(256, "The key in it."))],
        "A key of a Secret in the same namespace.",
    );
    object(&["secret"], [("secret", secret)], description)
}

/// Where the time comes from.
pub(crate) fn ntp(_: &mut SchemaGenerator) -> Schema {
    schema(some(
        [
            ("servers", up_to(100, text(512, "A server."), "Servers to ask.")),
            ("enabled", flag("Whether they are asked.")),
        ],
        "",
    ))
}

/// Settings of the Ignition format.
pub(crate) fn ignition(_: &mut SchemaGenerator) -> Schema {
    let config = some(
        [
            ("additionalConfig", text(32768, "Configuration that is merged in.")),
            ("strict", flag("Whether warnings are errors.")),
        ],
        "Container Linux configuration.",
    );
    schema(some([("containerLinuxConfig", config)], ""))
}
