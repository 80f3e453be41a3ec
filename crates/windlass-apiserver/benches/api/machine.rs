//! The objects of the benchmark, and the requests about them.

use std::sync::LazyLock;

use bytes::Bytes;
use http::Request;
use http::header::CONTENT_TYPE;
use http_body_util::Full;

use super::Verb;

/// Their definition.
pub(crate) const DEFINITION: &str = include_str!("machines.json");

const MACHINE: &str = include_str!("machine.json");
const STATUS: &str = include_str!("status.json");

/// Where they are.
pub(crate) const COLLECTION: &str = "/apis/bench.test/v1/namespaces/default/machines";

/// A request to do something to one object, as the `round`th change of it.
pub(crate) fn request(verb: Verb, number: usize, round: usize) -> Request<Full<Bytes>> {
    static COMPACT: LazyLock<[String; 2]> = LazyLock::new(|| [MACHINE, STATUS].map(compact));
    let [machine, status] = &*COMPACT;
    let name = format!("machine-{number:06}");
    let fill = |template: &str| template.replace("NAME", &name).replace("REVISION", &round.to_string());
    let object = format!("{COLLECTION}/{name}");
    let (method, uri, content, body) = match verb {
        Verb::Create => {
            ("POST", format!("{COLLECTION}?fieldManager=creator"), "application/json", fill(machine))
        }
        Verb::Get => ("GET", object, "", String::new()),
        Verb::PatchStatus => (
            "PATCH",
            format!("{object}/status?fieldManager=controller"),
            "application/merge-patch+json",
            fill(status),
        ),
        Verb::Apply => (
            "PATCH",
            format!("{object}?fieldManager=applier&force=true"),
            "application/apply-patch+yaml",
            fill(machine),
        ),
        Verb::Delete => ("DELETE", object, "", String::new()),
    };
    let mut request = Request::builder().method(method).uri(uri).header("host", "localhost");
    if !content.is_empty() {
        request = request.header(CONTENT_TYPE, content);
    }
    request.body(Full::new(body.into())).expect("a request")
}

/// Without the line breaks and indentation of the templates, which no client sends.
fn compact(text: &str) -> String {
    let lines = text.lines().map(str::trim_start);
    lines.collect()
}
