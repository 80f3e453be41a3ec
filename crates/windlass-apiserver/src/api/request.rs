//! Where a request goes: the path of a URL, typed.

use super::query::decode;

/// What a path stands for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Route {
    /// `/`
    Root,
    /// `/version`
    Version,
    /// `/healthz`, `/livez`, `/readyz` and what is below them.
    Health,
    /// `/api`
    CoreVersions,
    /// `/apis`
    Groups,
    /// `/apis/{group}`
    Group(String),
    /// `/api/v1` (with an empty group) or `/apis/{group}/{version}`
    GroupVersion {
        /// The group, empty for the core one.
        group: String,
        /// The version.
        version: String,
    },
    /// `/openapi/v2`
    OpenApiV2,
    /// `/openapi/v3`
    OpenApiV3,
    /// `/openapi/v3/{group version path}`
    OpenApiV3Group(String),
    /// A resource or an object of it.
    Resource(ResourcePath),
    /// Nothing that is served here.
    Unknown,
}

/// A path to a resource, an object, or a subresource of an object.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ResourcePath {
    /// The group, empty for the core one.
    pub group: String,
    /// The version.
    pub version: String,
    /// The namespace, if the path has one.
    pub namespace: Option<String>,
    /// The plural name of the resource.
    pub resource: String,
    /// The object, unless it is about all of them.
    pub name: Option<String>,
    /// The part of the object, if only one part is meant.
    pub subresource: Option<String>,
    /// Whether the old `/watch/` prefix asks for a watch.
    pub watch: bool,
}

/// A path with more parts than any that is served is not worth splitting.
const MAX_SEGMENTS: usize = 16;

impl Route {
    /// Reads the path of a URL, still percent-encoded. Everything can be read: what is not understood
    /// is [`Route::Unknown`].
    pub fn parse(path: &str) -> Self {
        let Some(path) = path.strip_prefix('/') else { return Self::Unknown };
        let path = path.strip_suffix('/').unwrap_or(path);
        let mut segments = Vec::new();
        if !path.is_empty() {
            for segment in path.split('/') {
                match decode(segment, false) {
                    Some(segment) if is_safe(&segment) && segments.len() < MAX_SEGMENTS => {
                        segments.push(segment)
                    }
                    _ => return Self::Unknown,
                }
            }
        }
        let words: Vec<&str> = segments.iter().map(String::as_str).collect();
        match words.as_slice() {
            [] => Self::Root,
            ["version"] => Self::Version,
            ["healthz" | "livez" | "readyz", ..] => Self::Health,
            ["openapi", "v2"] => Self::OpenApiV2,
            ["openapi", "v3"] => Self::OpenApiV3,
            ["openapi", "v3", rest @ ..] => Self::OpenApiV3Group(rest.join("/")),
            ["api"] => Self::CoreVersions,
            ["api", version] => Self::group_version("", version),
            ["api", version, rest @ ..] => Self::resource("", version, rest),
            ["apis"] => Self::Groups,
            ["apis", group] => Self::Group((*group).to_owned()),
            ["apis", group, version] => Self::group_version(group, version),
            ["apis", group, version, rest @ ..] => Self::resource(group, version, rest),
            _ => Self::Unknown,
        }
    }

    fn group_version(group: &str, version: &str) -> Self {
        Self::GroupVersion { group: group.to_owned(), version: version.to_owned() }
    }

    fn resource(group: &str, version: &str, words: &[&str]) -> Self {
        let (watch, words) = match words {
            ["watch", rest @ ..] => (true, rest),
            _ => (false, words),
        };
        // A namespace is an object too: what follows it is a part of it if it is one of these two, and
        // a resource inside of it otherwise.
        let (namespace, words) = match words {
            ["namespaces", _] | ["namespaces", _, "status" | "finalize"] => (None, words),
            ["namespaces", namespace, rest @ ..] => (Some((*namespace).to_owned()), rest),
            _ => (None, words),
        };
        let (resource, name, subresource) = match words {
            [resource] => (resource, None, None),
            [resource, name] => (resource, Some((*name).to_owned()), None),
            [resource, name, subresource] => {
                (resource, Some((*name).to_owned()), Some((*subresource).to_owned()))
            }
            _ => return Self::Unknown,
        };
        Self::Resource(ResourcePath {
            group: group.to_owned(),
            version: version.to_owned(),
            namespace,
            resource: (*resource).to_owned(),
            name,
            subresource,
            watch,
        })
    }
}

/// Names become parts of keys, where a NUL has a meaning; a slash would make two parts of one.
fn is_safe(segment: &str) -> bool {
    !segment.is_empty() && !segment.contains(['\0', '/']) && segment != "." && segment != ".."
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resource(
        (group, version): (&str, &str),
        namespace: Option<&str>,
        resource: &str,
        name: Option<&str>,
        subresource: Option<&str>,
    ) -> Route {
        Route::Resource(ResourcePath {
            group: group.to_owned(),
            version: version.to_owned(),
            namespace: namespace.map(str::to_owned),
            resource: resource.to_owned(),
            name: name.map(str::to_owned),
            subresource: subresource.map(str::to_owned),
            watch: false,
        })
    }

    #[test]
    fn each_kind_of_path_is_recognised() {
        let core = ("", "v1");
        let demo = ("demo.test", "v1");
        let cases = [
            ("/", Route::Root),
            ("/version/", Route::Version),
            ("/readyz/ping", Route::Health),
            ("/api", Route::CoreVersions),
            ("/apis/", Route::Groups),
            ("/apis/apps", Route::Group("apps".to_owned())),
            ("/openapi/v3/apis/apps/v1", Route::OpenApiV3Group("apis/apps/v1".to_owned())),
            ("/api/v1/nodes", resource(core, None, "nodes", None, None)),
            ("/api/v1/namespaces", resource(core, None, "namespaces", None, None)),
            ("/api/v1/namespaces/a", resource(core, None, "namespaces", Some("a"), None)),
            (
                "/api/v1/namespaces/a/finalize",
                resource(core, None, "namespaces", Some("a"), Some("finalize")),
            ),
            ("/api/v1/namespaces/a/pods", resource(core, Some("a"), "pods", None, None)),
            (
                "/api/v1/namespaces/a/pods/b/status",
                resource(core, Some("a"), "pods", Some("b"), Some("status")),
            ),
            (
                "/apis/demo.test/v1/namespaces/a/widgets/w%2D1",
                resource(demo, Some("a"), "widgets", Some("w-1"), None),
            ),
            ("/apis/demo.test/v1/widgets/w/scale", resource(demo, None, "widgets", Some("w"), Some("scale"))),
        ];
        for (path, route) in cases {
            assert_eq!(Route::parse(path), route, "{path}");
        }
        let Route::Resource(watch) = Route::parse("/apis/demo.test/v1/watch/namespaces/default/widgets")
        else {
            panic!("the old watch prefix leads to a resource");
        };
        assert!(watch.watch && watch.resource == "widgets" && watch.namespace.as_deref() == Some("default"));
    }

    #[test]
    fn strange_paths_lead_nowhere() {
        for path in [
            "",
            "x",
            "/x",
            "/api/v1/a/b/c/d",
            "/api/v1/pods/%00",
            "/api/v1/pods/a%2Fb",
            "/api//pods",
            "/api/v1/pods/..",
            "/api/v1/pods/%ff",
            "/api/v1/pods/%",
            &"/a".repeat(1000),
        ] {
            assert_eq!(Route::parse(path), Route::Unknown, "{path}");
        }
    }
}
