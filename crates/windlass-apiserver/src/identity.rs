//! Who asks.

use std::collections::BTreeMap;

use serde_json::{Value, json};

/// The group whose members may do everything.
pub(crate) const ADMINS: &str = "system:masters";

/// The group of all authenticated users.
const AUTHENTICATED: &str = "system:authenticated";

/// The group and the name of users that are not known.
pub(crate) const UNAUTHENTICATED: &str = "system:unauthenticated";
pub(crate) const ANONYMOUS: &str = "system:anonymous";

/// How names of service accounts begin as users; namespace and name follow.
pub(crate) const SERVICE_ACCOUNT: &str = "system:serviceaccount:";

/// Who makes a request.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Identity {
    /// The name.
    pub username: String,
    /// What tells two users of the same name apart, if anything does.
    pub uid: String,
    /// The groups, including the one of all known users.
    pub groups: Vec<String>,
    /// What else is known of the user, by name; only an impersonating client says something here.
    pub extra: BTreeMap<String, Vec<String>>,
}

impl Identity {
    /// A known user.
    pub fn user(username: &str, groups: impl IntoIterator<Item = String>) -> Self {
        let mut groups: Vec<String> = groups.into_iter().collect();
        if !groups.iter().any(|group| group == AUTHENTICATED) {
            groups.push(AUTHENTICATED.to_owned());
        }
        Self { username: username.to_owned(), groups, ..Self::default() }
    }

    /// Who may do everything: clients inside the process.
    pub fn admin() -> Self {
        let mut admin = Self::user("admin", [ADMINS.to_owned()]);
        admin.uid = "admin".to_owned();
        admin
    }

    /// An anonymous user.
    pub fn anonymous() -> Self {
        let groups = vec![UNAUTHENTICATED.to_owned()];
        Self { username: ANONYMOUS.to_owned(), groups, ..Self::default() }
    }

    /// Whether everything is allowed.
    pub fn is_admin(&self) -> bool {
        self.groups.iter().any(|group| group == ADMINS)
    }

    /// Whether it is known who it is.
    pub fn is_known(&self) -> bool {
        self.groups.iter().any(|group| group == AUTHENTICATED)
    }

    /// The namespace and the name of the service account that a user name stands for.
    pub(crate) fn service_account(username: &str) -> Option<(&str, &str)> {
        let (namespace, name) = username.strip_prefix(SERVICE_ACCOUNT)?.split_once(':')?;
        (!namespace.is_empty() && !name.is_empty() && !name.contains(':')).then_some((namespace, name))
    }

    /// The groups that every service account of a namespace is in.
    pub(crate) fn groups_of_service_accounts(namespace: &str) -> [String; 2] {
        ["system:serviceaccounts".to_owned(), format!("system:serviceaccounts:{namespace}")]
    }

    /// As reviews show a user: what is empty is left out.
    pub(crate) fn user_info(&self) -> Value {
        let mut info = json!({"username": self.username, "groups": self.groups});
        if !self.uid.is_empty() {
            info["uid"] = self.uid.as_str().into();
        }
        if !self.extra.is_empty() {
            info["extra"] = json!(self.extra);
        }
        info
    }
}
