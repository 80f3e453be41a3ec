//! Who asks.

/// The group whose members may do everything.
pub(crate) const ADMINS: &str = "system:masters";

/// The group of all authenticated users.
const AUTHENTICATED: &str = "system:authenticated";

/// Who makes a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// The name.
    pub username: String,
    /// What tells two users of the same name apart, if anything does.
    pub uid: String,
    /// The groups, including the one of all known users.
    pub groups: Vec<String>,
}

impl Identity {
    /// A known user.
    pub fn user(username: &str, groups: impl IntoIterator<Item = String>) -> Self {
        let mut groups: Vec<String> = groups.into_iter().collect();
        if !groups.iter().any(|group| group == AUTHENTICATED) {
            groups.push(AUTHENTICATED.to_owned());
        }
        Self { username: username.to_owned(), uid: String::new(), groups }
    }

    /// Who may do everything: clients inside the process.
    pub fn admin() -> Self {
        let mut admin = Self::user("admin", [ADMINS.to_owned()]);
        admin.uid = "admin".to_owned();
        admin
    }

    /// An anonymous user.
    pub fn anonymous() -> Self {
        let groups = vec!["system:unauthenticated".to_owned()];
        Self { username: "system:anonymous".to_owned(), uid: String::new(), groups }
    }

    /// Whether everything is allowed.
    pub fn is_admin(&self) -> bool {
        self.groups.iter().any(|group| group == ADMINS)
    }

    /// Whether it is known who it is.
    pub fn is_known(&self) -> bool {
        self.groups.iter().any(|group| group == AUTHENTICATED)
    }
}
