//! Any request is answered, and whatever it did, the server can still be asked for everything it has.

use crate::api;

/// One input: a line with the method and path, a line with the content type, and the body.
pub fn run(data: &[u8]) {
    let mut parts = data.splitn(3, |byte| *byte == b'\n');
    let mut line = || parts.next().and_then(|line| std::str::from_utf8(line).ok()).unwrap_or_default();
    let (head, content_type) = (line(), line());
    let body = parts.next().unwrap_or_default();
    let (method, path) = head.split_once(' ').unwrap_or(("GET", head));
    if !path.starts_with('/') {
        return;
    }
    api::ask(api::request(method, path).header("content-type", content_type), body);
    let code = api::ask(api::request("GET", "/api/v1/namespaces/default/configmaps"), b"");
    assert_eq!(code, 200);
}
