//! KubeadmControlPlanes.

use std::cmp::Ordering;

use windlass_version::{Distance, Version};

use super::{Verdict, strict_version};

/// Checks the version of a control plane: a version, not older than before, at most one minor newer.
pub fn validate_control_plane(version: &str, old: Option<&str>, replicas: Option<i32>) -> Verdict {
    const FIELD: &str = "spec.version";
    let mut verdict = Verdict::default();
    if replicas.is_some_and(|replicas| replicas < 0) {
        verdict.refuse("spec.replicas", "must not be negative");
    }
    let new = match strict_version(version) {
        Ok(new) => new,
        Err(error) => {
            verdict.refuse(FIELD, format!("{error}; a version such as v1.33.0 is accepted"));
            return verdict;
        }
    };
    // What was stored before may be anything; nothing can be said about the way from there.
    let Some(old) = old.and_then(|old| Version::parse(old).ok()) else { return verdict };
    match old.minor().distance_to(new.minor()) {
        Distance::OtherMajor => {
            verdict.refuse(FIELD, format!("{new} has another major than {old}, which no upgrade leads to"));
        }
        Distance::Forward(2..) => verdict.refuse(
            FIELD,
            format!("{new} skips minors after {old}, versions of {} are accepted next", old.minor().next()),
        ),
        _ if new.release_precedence(&old) == Ordering::Less => {
            verdict.refuse(FIELD, format!("{new} is older than {old}, {old} or newer is accepted"));
        }
        _ => {}
    }
    verdict
}
