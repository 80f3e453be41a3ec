//! A short, deterministic run of the fuzz targets in `fuzz/` that ask the API.

#[path = "../../../fuzz/src/api.rs"]
#[expect(
    unreachable_pub,
    clippy::expect_used,
    reason = "public in the fuzz package, where a panic is the finding"
)]
mod api;
#[path = "../../../fuzz/src/api_path.rs"]
#[expect(unreachable_pub, reason = "public in the fuzz package, where a panic is the finding")]
mod api_path;
#[path = "../../../fuzz/src/api_request.rs"]
#[expect(unreachable_pub, reason = "public in the fuzz package, where a panic is the finding")]
mod api_request;
#[path = "../../../fuzz/src/patches.rs"]
#[expect(unreachable_pub, reason = "public in the fuzz package, where a panic is the finding")]
mod patches;
#[path = "../../../fuzz/src/protobuf_body.rs"]
#[expect(unreachable_pub, reason = "public in the fuzz package, where a panic is the finding")]
mod protobuf_body;
#[path = "../../../fuzz/src/selectors.rs"]
#[expect(unreachable_pub, reason = "public in the fuzz package, where a panic is the finding")]
mod selectors;
#[path = "../../../fuzz/src/yaml_body.rs"]
#[expect(unreachable_pub, reason = "public in the fuzz package, where a panic is the finding")]
mod yaml_body;

use windlass_random::Generator;

/// Up to so many of the pieces, one after the other.
fn text(random: &mut Generator, pieces: &[&[u8]], most: usize) -> Vec<u8> {
    (0..random.usize(..most)).flat_map(|_| pieces[random.usize(..pieces.len())].iter().copied()).collect()
}

/// Runs a target on texts made from pieces.
fn search(runs: usize, most: usize, pieces: &[&[u8]], target: impl Fn(&[u8])) {
    let mut series = Generator::with_seed(0x5eed);
    for _ in 0..runs {
        target(&text(&mut series, pieces, most));
    }
}

const PATHS: &[&[u8]] = &[
    b"/",
    b"/",
    b"api",
    b"apis",
    b"v1",
    b"namespaces",
    b"default",
    b"pods",
    b"configmaps",
    b"status",
    b"scale",
    b"watch",
    b"apps",
    b"deployments",
    b"..",
    b".",
    b"%2f",
    b"%00",
    b"%",
    b"%ff",
    b"\xc3\xa9",
    b" ",
    b"?",
    b"&",
    b"watch=1",
    b"limit=",
    b"-1",
    b"99999999999999999999",
    b"continue=",
    b"e30",
    b"labelSelector=",
    b"a in (b,c)",
    b"fieldSelector=",
    b"metadata.name=x",
    b"resourceVersion=",
    b"resourceVersionMatch=",
    b"Exact",
    b"openapi",
    b"v3",
    b"timeoutSeconds=1",
    b"dryRun=All",
    b"pretty=true",
    b"a=b=c",
    b"token",
    b"eviction",
    b"kube-system",
];

#[test]
fn any_path_is_answered() {
    search(1_500, 9, PATHS, api_path::run);
}

#[test]
fn any_request_is_answered() {
    const REST: &[&[u8]] = &[
        b"\n",
        b"\n",
        b"application/json",
        b"application/yaml",
        b"application/apply-patch+yaml",
        b"application/merge-patch+json",
        b"application/json-patch+json",
        b"application/strategic-merge-patch+json",
        b"application/vnd.kubernetes.protobuf",
        b"{",
        b"}",
        b"[",
        b"]",
        b":",
        b",",
        b"\"",
        b"\"metadata\":",
        b"\"name\":\"a\"",
        b"{\"metadata\":{\"name\":\"a\"}}",
        b"{\"kind\":\"ConfigMap\",\"apiVersion\":\"v1\"}",
        b"null",
        b"0",
        b"1e999",
        b"\xff",
        b"k8s\0",
        b"[{\"op\":\"add\",\"path\":\"/data\",\"value\":{}}]",
    ];
    let mut series = Generator::with_seed(0xfeed);
    for _ in 0..1_000 {
        let method = ["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS", "X"][series.usize(..8)];
        let path = [
            "/api/v1/namespaces/default/configmaps",
            "/api/v1/namespaces/default/configmaps/a",
            "/api/v1/namespaces",
        ][series.usize(..3)];
        let mut input = [method.as_bytes(), b" ", path.as_bytes()].concat();
        input.extend(text(&mut series, PATHS, 3));
        input.push(b'\n');
        input.extend(text(&mut series, &REST[2..9], 2));
        input.push(b'\n');
        input.extend(text(&mut series, REST, 12));
        api_request::run(&input);
    }
    // The server is in the same state of mind as before.
    assert_eq!(api::ask(api::request("GET", "/api/v1/namespaces/default"), b""), 200);
}

#[test]
fn any_protobuf_body_is_read_or_refused() {
    const PIECES: &[&[u8]] = &[
        b"\x0a",
        b"\x12",
        b"\x1a",
        b"\x22",
        b"\x00",
        b"\x01",
        b"\x02",
        b"\x0f",
        b"\x7f",
        b"\x80",
        b"\xff",
        b"\xff\xff\xff\xff\x0f",
        b"v1",
        b"ConfigMap",
        b"\x0a\x0f\x0a\x02v1\x12\x09ConfigMap",
        b"\x0a\x03\x0a\x01a",
        b"\x08",
        b"\x0d",
        b"\x09",
        b"\x0b",
    ];
    search(1_000, 14, PIECES, protobuf_body::run);
}

#[test]
fn any_yaml_body_is_read_or_refused() {
    const PIECES: &[&[u8]] = &[
        b"metadata",
        b"name",
        b"kind",
        b"apiVersion",
        b"v1",
        b"ConfigMap",
        b"data",
        b": ",
        b":",
        b"\n",
        b"\n",
        b"  ",
        b"- ",
        b"{",
        b"}",
        b"[",
        b"]",
        b",",
        b"&a",
        b"*a",
        b"<<",
        b"!!binary",
        b"!!str",
        b"|",
        b">",
        b"---",
        b"...",
        b"\t",
        b"#",
        b"'",
        b"\"",
        b"~",
        b"yes",
        b"0x1F",
        b".inf",
        b"1e5",
        b"2001-01-01",
        b"\xff",
        b"?",
        b"%YAML 1.1",
        b"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: fuzz}\n",
    ];
    search(1_000, 14, PIECES, yaml_body::run);
}

#[test]
fn any_patch_is_applied_or_refused() {
    const PIECES: &[&[u8]] = &[
        b"{",
        b"}",
        b"[",
        b"]",
        b":",
        b",",
        b"\"",
        b"\"a\":",
        b"\"spec\":",
        b"\"containers\":",
        b"\"name\":\"a\"",
        b"\"$patch\":\"delete\"",
        b"\"$patch\":\"replace\"",
        b"\"$retainKeys\":[\"a\"]",
        b"\"$setElementOrder/containers\":[{\"name\":\"a\"}]",
        b"\"$deleteFromPrimitiveList/finalizers\":[\"a\"]",
        b"null",
        b"1",
        b"{\"op\":\"add\",\"path\":\"/a/-\",\"value\":1}",
        b"{\"op\":\"move\",\"from\":\"/a\",\"path\":\"/a/b\"}",
        b"{\"op\":\"remove\",\"path\":\"\"}",
        b"~1",
        b"/",
    ];
    const DOCUMENTS: &[&str] = &[
        r#"{"a":[1,2],"spec":{"containers":[{"name":"a"},{"name":"b"}]},"metadata":{"finalizers":["a","b"]}}"#,
        "{}",
        "[]",
        "null",
        "\"a\"",
    ];
    let mut series = Generator::with_seed(0xbeef);
    for _ in 0..20_000 {
        let document = DOCUMENTS[series.usize(..DOCUMENTS.len())];
        patches::run(&[document.as_bytes(), b"\n", &text(&mut series, PIECES, 9)].concat());
    }
}

#[test]
fn any_selector_is_read_or_refused() {
    const PIECES: &[&[u8]] = &[
        b"a",
        b"a.b/c",
        b"=",
        b"==",
        b"!=",
        b"!",
        b" in ",
        b" notin ",
        b"(",
        b")",
        b",",
        b" ",
        b">",
        b"<",
        b"7",
        b"-",
        b"_",
        b"/",
        b"\\",
        b"metadata.name",
        b"metadata.namespace",
        b"\xc3\xa9",
        b"\"",
        b"99999999999999999999",
    ];
    search(50_000, 10, PIECES, selectors::run);
}
