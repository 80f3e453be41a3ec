//! Any bytes that say they are protobuf are an object or are refused.

use crate::api;

/// One input: what follows the magic number of Kubernetes' protobuf.
pub fn run(data: &[u8]) {
    let body = [b"k8s\0", data].concat();
    for path in [
        "/api/v1/namespaces/default/configmaps",
        "/api/v1/namespaces/default/pods",
        "/api/v1/namespaces/default/events",
        "/apis/coordination.k8s.io/v1/namespaces/default/leases",
    ] {
        let request = api::request("POST", &format!("{path}?dryRun=All"));
        api::ask(request.header("content-type", "application/vnd.kubernetes.protobuf"), &body);
    }
}
