//! Constraints on versions, as classes write them: `>= 1.31.0`, `>= 1.30, < 1.33`, `~1.31.2`, `^1.2 || 2.0`.

use std::cmp::Ordering;

use windlass_version::Version;

use super::{TemplateError, evaluation};

/// Whether a version satisfies a constraint. As in Go's library, a pre-release satisfies only what names one.
pub(super) fn satisfies(constraint: &str, version: &str) -> Result<bool, TemplateError> {
    let version = read(version)?;
    for alternative in constraint.split("||") {
        let mut all = true;
        for part in parts(alternative) {
            all &= satisfies_one(&part, &version)?;
        }
        if all {
            return Ok(true);
        }
    }
    Ok(false)
}

pub(super) fn read(text: &str) -> Result<Version, TemplateError> {
    Version::parse(text).or_else(|error| evaluation(format!("semver: {error}")))
}

/// `>= 1.2 <2` and `>=1.2, <2` are the same: an operator may stand apart from its version.
fn parts(alternative: &str) -> Vec<String> {
    let mut parts: Vec<String> = Vec::new();
    let mut operator_open = false;
    for word in alternative.split([',', ' ']).filter(|word| !word.is_empty()) {
        match parts.last_mut() {
            Some(last) if operator_open => last.push_str(word),
            _ => parts.push(word.to_owned()),
        }
        operator_open = word.chars().all(|c| "<>=!~^".contains(c));
    }
    parts
}

fn satisfies_one(part: &str, version: &Version) -> Result<bool, TemplateError> {
    let bound_at = part.find(|c: char| !"<>=!~^".contains(c)).unwrap_or(part.len());
    let (operator, text) = part.split_at(bound_at);
    if matches!(text, "*" | "x" | "X") {
        return Ok(true);
    }
    let bare = text.strip_prefix('v').unwrap_or(text);
    let given: Vec<&str> = bare
        .split(['-', '+'])
        .next()
        .unwrap_or_default()
        .split('.')
        .take_while(|part| !matches!(*part, "x" | "X" | "*"))
        .collect();
    let wild = given.len() < bare.split(['-', '+']).next().unwrap_or_default().split('.').count();
    let bound = read(&if wild { given.join(".") } else { text.to_owned() })?;
    if !version.pre_release().is_empty() && bound.pre_release().is_empty() {
        return Ok(false);
    }
    let order = version.precedence(&bound);
    let (here, there) = (version.minor(), bound.minor());
    Ok(match operator {
        "" | "=" | "==" => match given.len() {
            1 => here.major == there.major,
            2 => here == there,
            _ => order == Ordering::Equal,
        },
        "!=" => order != Ordering::Equal,
        ">" => order == Ordering::Greater && (given.len() > 2 || here != there),
        ">=" | "=>" => order != Ordering::Less,
        "<" => order == Ordering::Less,
        "<=" | "=<" => order != Ordering::Greater || (given.len() == 2 && here == there),
        "~" | "~>" => {
            order != Ordering::Less && here.major == there.major && (given.len() < 2 || here == there)
        }
        "^" => order != Ordering::Less && here.major == there.major && (there.major > 0 || here == there),
        _ => return evaluation(format!("semver: {operator:?} is not an operator")),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn constraints() {
        for (constraint, version, expected) in [
            (">= 1.31.0", "v1.31.0", true),
            (">=1.31.0", "v1.30.9", false),
            (">= 1.30, < 1.33", "v1.32.9", true),
            (">= 1.30 < 1.33", "v1.33.0", false),
            ("~1.31.2", "1.31.9", true),
            ("~1.31.2", "1.32.0", false),
            ("~1.31", "1.31.0", true),
            ("^1.2", "1.9.0", true),
            ("^1.2", "2.0.0", false),
            ("^1.2 || 2.0", "2.0.5", true),
            ("1.31.x", "v1.31.7", true),
            ("1.31", "v1.32.0", false),
            ("*", "v1.0.0", true),
            ("!= 1.31.0", "1.31.1", true),
            ("> 1.31", "1.31.5", false),
            ("> 1.31", "1.32.0", true),
            ("<= 1.31", "1.31.5", true),
            (">= 1.31.0", "1.32.0-rc.1", false),
            (">= 1.31.0-0", "1.32.0-rc.1", true),
            (">= 1.31.0", "1.31.0+vendor.1", true),
        ] {
            assert_eq!(satisfies(constraint, version), Ok(expected), "{version} {constraint}");
        }
        assert!(satisfies(">> 1.0", "1.0.0").is_err());
        assert!(satisfies("> one", "1.0.0").is_err());
    }
}
