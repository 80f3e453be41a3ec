//! Paths with slashes. The functions for paths of the operating system are the same: controllers run on Linux.

use super::Type::Str;
use super::{Function, function};
use crate::value::Value;

pub(super) const FUNCTIONS: &[Function] = &[
    function("base", &[Str], |c| Ok(base(&c.str(0)?).into())),
    function("clean", &[Str], |c| Ok(clean(&c.str(0)?).into())),
    function("dir", &[Str], |c| Ok(dir(&c.str(0)?).into())),
    function("ext", &[Str], |c| Ok(ext(&c.str(0)?).into())),
    function("isAbs", &[Str], |c| Ok(Value::Bool(c.str(0)?.starts_with('/')))),
    function("osBase", &[Str], |c| Ok(base(&c.str(0)?).into())),
    function("osClean", &[Str], |c| Ok(clean(&c.str(0)?).into())),
    function("osDir", &[Str], |c| Ok(dir(&c.str(0)?).into())),
    function("osExt", &[Str], |c| Ok(ext(&c.str(0)?).into())),
    function("osIsAbs", &[Str], |c| Ok(Value::Bool(c.str(0)?.starts_with('/')))),
];

/// The last element of a path.
fn base(path: &str) -> &str {
    if path.is_empty() {
        return ".";
    }
    let trimmed = path.trim_end_matches('/');
    match trimmed.rsplit('/').next() {
        Some("") | None => "/",
        Some(name) => name,
    }
}

/// The shortest path that means the same.
fn clean(path: &str) -> String {
    let rooted = path.starts_with('/');
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => match parts.last() {
                Some(&last) if last != ".." => {
                    parts.pop();
                }
                _ if rooted => {}
                _ => parts.push(".."),
            },
            part => parts.push(part),
        }
    }
    match (rooted, parts.is_empty()) {
        (true, _) => format!("/{}", parts.join("/")),
        (false, true) => ".".to_owned(),
        (false, false) => parts.join("/"),
    }
}

fn dir(path: &str) -> String {
    clean(path.rfind('/').map_or("", |slash| &path[..=slash]))
}

fn ext(path: &str) -> &str {
    let name = &path[path.rfind('/').map_or(0, |slash| slash + 1)..];
    name.rfind('.').map_or("", |dot| &name[dot..])
}
