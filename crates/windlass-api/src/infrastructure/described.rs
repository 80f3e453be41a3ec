//! Schemas of what the provider for development takes and does not look at: containers.

use schemars::{Schema, SchemaGenerator};
use serde_json::json;

use crate::described::{any_text, atomic, flag, free_list, map, object, quantity, schema, text};

/// A cluster of containers.
pub(crate) fn docker_cluster(_: &mut SchemaGenerator) -> Schema {
    let domain = object(
        &["name"],
        [
            ("name", text(256, "Name of the failure domain.")),
            ("controlPlane", flag("Whether Machines of the control plane may be in it.")),
            ("attributes", map(json!({"type": "string"}), "What else is said about it.")),
        ],
        "A failure domain.",
    );
    let mut domains = free_list(domain, "Failure domains.");
    domains["minItems"] = 1.into();
    domains["maxItems"] = 100.into();
    domains["x-kubernetes-list-type"] = "map".into();
    domains["x-kubernetes-list-map-keys"] = json!(["name"]);
    let mut name = any_text("Name of the ConfigMap.");
    name["default"] = "".into();
    let load_balancer = object(
        &[],
        [
            ("imageRepository", any_text("Where its image comes from.")),
            ("imageTag", any_text("Tag of its image.")),
            (
                "customHAProxyConfigTemplateRef",
                atomic(object(&[], [("name", name)], "A ConfigMap with its configuration.")),
            ),
        ],
        "The load balancer before the API servers.",
    );
    schema(object(&[], [("failureDomains", domains), ("loadBalancer", load_balancer)], ""))
}

/// A Machine that is a container.
pub(crate) fn docker_machine(_: &mut SchemaGenerator) -> Schema {
    let mount = object(
        &[],
        [
            ("containerPath", any_text("Where it is mounted, in the container.")),
            ("hostPath", any_text("What is mounted, on the host.")),
            ("readOnly", flag("Whether it cannot be written.")),
        ],
        "A path of the host, mounted into the container.",
    );
    schema(object(
        &[],
        [
            ("customImage", any_text("The image.")),
            ("preLoadImages", free_list(json!({"type": "string"}), "Images that are loaded in advance.")),
            ("extraMounts", free_list(mount, "Paths of the host, mounted into the container.")),
            ("bootstrapTimeout", any_text("How long the bootstrap may take, such as `3m`.")),
        ],
        "",
    ))
}

/// What a Machine offers, by resource.
pub(crate) fn capacity(_: &mut SchemaGenerator) -> Schema {
    schema(map(quantity(), ""))
}
