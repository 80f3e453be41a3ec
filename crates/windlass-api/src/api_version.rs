//! `apiVersion`: the group and the version of an object's kind, in one string.
//!
//! A version alone is one of the core group, whose name is empty. That is easily got wrong where the string is split by
//! hand, so it is split here and nowhere else.

use kube_core::GroupVersionKind;

/// The group and the version. Of the core group the first is empty.
///
/// ```
/// use windlass_api::api_version;
///
/// assert_eq!(api_version::split("cluster.x-k8s.io/v1beta2"), ("cluster.x-k8s.io", "v1beta2"));
/// assert_eq!(api_version::split("v1"), ("", "v1"));
/// ```
pub fn split(api_version: &str) -> (&str, &str) {
    api_version.split_once('/').unwrap_or(("", api_version))
}

/// The group, whatever the version. Empty for the core group, and for a string that is empty.
pub fn group(api_version: &str) -> &str {
    split(api_version).0
}

/// The `apiVersion` of a group and a version.
pub fn join(group: &str, version: &str) -> String {
    if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") }
}

/// A kind with its group and version, as clients want it.
pub fn kind(api_version: &str, kind: &str) -> GroupVersionKind {
    let (group, version) = split(api_version);
    GroupVersionKind::gvk(group, version, kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_alone_is_one_of_the_core_group() {
        for (api_version, group_name, version) in [
            ("cluster.x-k8s.io/v1beta2", "cluster.x-k8s.io", "v1beta2"),
            ("apps/v1", "apps", "v1"),
            ("v1", "", "v1"),
            ("", "", ""),
        ] {
            assert_eq!(split(api_version), (group_name, version), "{api_version:?}");
            assert_eq!(group(api_version), group_name, "{api_version:?}");
            assert_eq!(join(group_name, version), api_version);
            let kind = kind(api_version, "Thing");
            assert_eq!((kind.api_version().as_str(), kind.kind.as_str()), (api_version, "Thing"));
        }
        // What is no apiVersion is not mended: the part that is wrong stays where it can be seen.
        assert_eq!(split("a/b/c"), ("a", "b/c"));
    }
}
