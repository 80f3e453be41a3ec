//! Who may do what: administrators everything, others what roles say.

use std::sync::Arc;

use http::Method;
use serde_json::Value;

use crate::api::{Failure, Query, ResourcePath, Route, Subject};
use crate::identity::Identity;
use crate::registry::Resource;
use crate::server::Inner;
use crate::stored::parse;

/// The group of roles.
const RBAC: &str = "rbac.authorization.k8s.io";

/// What a user wants to do.
#[derive(Debug, Clone, Default)]
pub(crate) struct Wish<'a> {
    pub(crate) verb: &'a str,
    pub(crate) group: &'a str,
    pub(crate) resource: &'a str,
    pub(crate) subresource: &'a str,
    pub(crate) namespace: &'a str,
    pub(crate) name: &'a str,
    /// A path that is not about resources; empty if it is about one.
    pub(crate) path: &'a str,
}

/// Paths that every authenticated user may read: what there is.
fn is_discovery(route: &Route) -> bool {
    !matches!(route, Route::Resource(_) | Route::Unknown)
}

/// Checks requests that are not about resources.
pub(crate) fn path(
    server: &Arc<Inner>,
    identity: &Identity,
    method: &Method,
    route: &Route,
    path: &str,
) -> Result<(), Failure> {
    if matches!(route, Route::Health | Route::Version) || identity.is_admin() {
        return Ok(());
    }
    if !identity.is_known() {
        return Err(Failure::unauthorized());
    }
    let verb = method.as_str().to_lowercase();
    let wish = Wish { verb: &verb, path, ..Wish::default() };
    if matches!(route, Route::Resource(_)) || is_discovery(route) || allows(server, identity, &wish) {
        return Ok(());
    }
    let why = format!("User {:?} cannot {verb} path {path:?}", identity.username);
    Err(Failure::forbidden(Subject { group: "", kind: "", name: "" }, &why))
}

/// Checks requests about resources.
pub(crate) fn resource(
    server: &Arc<Inner>,
    identity: &Identity,
    method: &Method,
    path: &ResourcePath,
    query: &Query,
) -> Result<(), Failure> {
    if identity.is_admin() {
        return Ok(());
    }
    let verb = match (method.as_str(), path.name.is_some()) {
        ("GET" | "HEAD", false) if query.watch || path.watch => "watch",
        ("GET" | "HEAD", false) => "list",
        ("GET" | "HEAD", true) if path.watch => "watch",
        ("GET" | "HEAD", true) => "get",
        ("POST", _) => "create",
        ("PUT", _) => "update",
        ("PATCH", _) => "patch",
        ("DELETE", true) => "delete",
        ("DELETE", false) => "deletecollection",
        _ => return Err(Failure::method_not_allowed()),
    };
    let wish = Wish {
        verb,
        group: &path.group,
        resource: &path.resource,
        subresource: path.subresource.as_deref().unwrap_or_default(),
        namespace: path.namespace.as_deref().unwrap_or_default(),
        name: path.name.as_deref().unwrap_or_default(),
        path: "",
    };
    // Every user may ask what they are allowed to do.
    let is_question = matches!(path.group.as_str(), "authorization.k8s.io" | "authentication.k8s.io")
        && path.resource.starts_with("selfsubject");
    if is_question || allows(server, identity, &wish) {
        return Ok(());
    }
    Err(refusal(identity, &wish))
}

/// Checks that a write that turns out to create an object may do so. The verb of the request is another one: an
/// update or an apply.
pub(crate) fn creation(
    server: &Arc<Inner>,
    identity: &Identity,
    resource: &Resource,
    namespace: &str,
    name: &str,
) -> Result<(), Failure> {
    let wish = Wish {
        verb: "create",
        group: &resource.group,
        resource: &resource.plural,
        namespace,
        name,
        ..Wish::default()
    };
    if allows(server, identity, &wish) { Ok(()) } else { Err(refusal(identity, &wish)) }
}

/// The answer to a user that may not do something with a resource.
pub(crate) fn refusal(identity: &Identity, wish: &Wish<'_>) -> Failure {
    let place = match wish.namespace {
        "" => "at the cluster scope".to_owned(),
        namespace => format!("in the namespace {namespace:?}"),
    };
    let resource = match wish.subresource {
        "" => wish.resource.to_owned(),
        subresource => format!("{}/{subresource}", wish.resource),
    };
    let why = format!(
        "User {:?} cannot {} resource {resource:?} in API group {:?} {place}",
        identity.username, wish.verb, wish.group
    );
    Failure::forbidden(Subject { group: wish.group, kind: wish.resource, name: wish.name }, &why)
}

/// Keeps users from giving out rights: only administrators and those who may `escalate` write roles, only
/// those who may `bind` a role bind it. Stricter than Kubernetes, which lets users give what they have.
pub(crate) fn guard_roles(
    server: &Arc<Inner>,
    identity: &Identity,
    resource: &Resource,
    object: &Value,
) -> Result<(), Failure> {
    if resource.group != RBAC || identity.is_admin() {
        return Ok(());
    }
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let namespace = text(&object["metadata"]["namespace"]);
    let own = text(&object["metadata"]["name"]);
    let (verb, role, name) = match resource.kind.as_str() {
        "Role" => ("escalate", "roles", own.clone()),
        "ClusterRole" => ("escalate", "clusterroles", own.clone()),
        _ if object["roleRef"]["kind"] == "Role" => ("bind", "roles", text(&object["roleRef"]["name"])),
        _ => ("bind", "clusterroles", text(&object["roleRef"]["name"])),
    };
    let wish =
        Wish { verb, group: RBAC, resource: role, namespace: &namespace, name: &name, ..Wish::default() };
    if allows(server, identity, &wish) {
        return Ok(());
    }
    let why = format!("user {:?} may not {verb} {role} {name:?}", identity.username);
    Err(Failure::forbidden(resource.subject(&own), &why))
}

/// Whether the roles of a user allow something.
pub(crate) fn allows(server: &Arc<Inner>, identity: &Identity, wish: &Wish<'_>) -> bool {
    identity.is_admin() || rules(server, identity, wish.namespace).iter().any(|rule| permits(rule, wish))
}

/// All rules that apply to a user, in a namespace and everywhere.
pub(crate) fn rules(server: &Arc<Inner>, identity: &Identity, namespace: &str) -> Vec<Value> {
    let roles = Roles { server };
    let mut rules = Vec::new();
    for binding in roles.all("clusterrolebindings", None) {
        if binds(&binding, identity, "") {
            rules.extend(roles.rules(&binding, ""));
        }
    }
    if !namespace.is_empty() {
        for binding in roles.all("rolebindings", Some(namespace)) {
            if binds(&binding, identity, namespace) {
                rules.extend(roles.rules(&binding, namespace));
            }
        }
    }
    rules
}

struct Roles<'a> {
    server: &'a Arc<Inner>,
}

impl Roles<'_> {
    fn all(&self, plural: &str, namespace: Option<&str>) -> Vec<Value> {
        let registry = self.server.registry();
        let Some(resource) = registry.get(RBAC, "v1", plural) else {
            return Vec::new();
        };
        let snapshot = self.server.store.snapshot();
        snapshot.list(&resource.scope(namespace)).filter_map(|object| parse(object).ok()).collect()
    }

    /// The rules of the role that a binding refers to.
    fn rules(&self, binding: &Value, namespace: &str) -> Vec<Value> {
        let role = &binding["roleRef"];
        let (plural, namespace) = match role["kind"].as_str() {
            Some("ClusterRole") => ("clusterroles", ""),
            Some("Role") => ("roles", namespace),
            _ => return Vec::new(),
        };
        let registry = self.server.registry();
        let resource = registry.get(RBAC, "v1", plural);
        let key = resource.and_then(|resource| resource.key(namespace, role["name"].as_str()?).ok());
        let found = key.and_then(|key| self.server.store.get(&key));
        let role = found.and_then(|object| parse(&object).ok()).unwrap_or_default();
        role["rules"].as_array().cloned().unwrap_or_default()
    }
}

fn binds(binding: &Value, identity: &Identity, namespace: &str) -> bool {
    let subjects = binding["subjects"].as_array().into_iter().flatten();
    subjects.into_iter().any(|subject| {
        let name = subject["name"].as_str().unwrap_or_default();
        match subject["kind"].as_str() {
            Some("User") => identity.username == name,
            Some("Group") => identity.groups.iter().any(|group| group == name),
            Some("ServiceAccount") => {
                let namespace = subject["namespace"].as_str().unwrap_or(namespace);
                identity.username == format!("system:serviceaccount:{namespace}:{name}")
            }
            _ => false,
        }
    })
}

fn permits(rule: &Value, wish: &Wish<'_>) -> bool {
    let has = |field: &str, wanted: &str| {
        let values = rule[field].as_array().into_iter().flatten().filter_map(Value::as_str);
        values.into_iter().any(|value| value == "*" || value == wanted)
    };
    if !has("verbs", wish.verb) {
        return false;
    }
    if !wish.path.is_empty() {
        let paths = rule["nonResourceURLs"].as_array().into_iter().flatten().filter_map(Value::as_str);
        return paths.into_iter().any(|path| match path.strip_suffix('*') {
            Some(prefix) => wish.path.starts_with(prefix),
            None => path == wish.path,
        });
    }
    let resource = match wish.subresource {
        "" => wish.resource.to_owned(),
        subresource => format!("{}/{subresource}", wish.resource),
    };
    let every_subresource = format!("*/{}", wish.subresource);
    let names = rule["resourceNames"].as_array().map(Vec::as_slice).unwrap_or_default();
    has("apiGroups", wish.group)
        && (has("resources", &resource)
            || (!wish.subresource.is_empty() && has("resources", &every_subresource)))
        && (names.is_empty() || names.iter().any(|name| name == wish.name))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_rule_permits_what_it_names_and_nothing_else() {
        let rule =
            json!({"verbs": ["get", "list"], "apiGroups": ["apps"], "resources": ["deployments", "*/scale"]});
        let wish = Wish { verb: "get", group: "apps", resource: "deployments", ..Wish::default() };
        assert!(permits(&rule, &wish));
        assert!(!permits(&rule, &Wish { verb: "delete", ..wish.clone() }));
        assert!(!permits(&rule, &Wish { group: "", ..wish.clone() }));
        assert!(!permits(&rule, &Wish { resource: "daemonsets", ..wish.clone() }));
        assert!(!permits(&rule, &Wish { subresource: "status", ..wish.clone() }));
        assert!(permits(&rule, &Wish { subresource: "scale", ..wish.clone() }));

        let named = json!({"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "resourceNames": ["a"]});
        assert!(permits(&named, &Wish { name: "a", ..wish.clone() }));
        assert!(!permits(&named, &Wish { name: "b", ..wish }));

        let paths = json!({"verbs": ["get"], "nonResourceURLs": ["/metrics", "/debug/*"]});
        assert!(permits(&paths, &Wish { verb: "get", path: "/debug/x", ..Wish::default() }));
        assert!(!permits(&paths, &Wish { verb: "get", path: "/metrics/x", ..Wish::default() }));
    }
}
