//! Any path and query is answered: with what is there, or with what is wrong.

use crate::api;

/// One input: the path, and after a question mark the query.
pub fn run(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let path = if text.starts_with('/') { text.to_owned() } else { format!("/{text}") };
    api::ask(api::request("GET", &path), b"");
    api::ask(api::request("DELETE", &path), b"");
}
