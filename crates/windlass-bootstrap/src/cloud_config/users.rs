//! Users that are created on a machine.

use serde::Deserialize;
use serde_json::Value;
use windlass_api::AnyObject;

use super::files::{Contents, From, SecretKey};
use crate::yaml::Yaml;

/// A user to create.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct User {
    name: String,
    gecos: Option<String>,
    groups: Option<String>,
    primary_group: Option<String>,
    home_dir: Option<String>,
    shell: Option<String>,
    inactive: Option<bool>,
    passwd: Option<String>,
    passwd_from: Option<From>,
    lock_password: Option<bool>,
    sudo: Option<String>,
    #[serde(default)]
    ssh_authorized_keys: Vec<String>,
}

/// Why a user cannot be created.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UserError {
    /// The user does not have the shape that the schema demands.
    #[error("a user cannot be read: {why}")]
    Shape {
        /// What is wrong.
        why: String,
    },
    /// The password is not there.
    #[error("Secret {secret} has no key {key} with the password of user {user}")]
    NoPassword {
        /// The user.
        user: String,
        /// The Secret.
        secret: String,
        /// The key.
        key: String,
    },
}

fn read(user: &AnyObject) -> Result<User, UserError> {
    serde_json::from_value(Value::Object(user.0.clone()))
        .map_err(|error| UserError::Shape { why: error.to_string() })
}

/// The keys of Secrets with passwords.
pub(super) fn secret_keys(users: &[AnyObject]) -> impl Iterator<Item = SecretKey> + '_ {
    users.iter().filter_map(|user| Some(read(user).ok()?.passwd_from?.secret))
}

/// The users as cloud-init has them.
pub(super) fn of(users: &[AnyObject], contents: &Contents) -> Result<Yaml, UserError> {
    let users = users.iter().map(|user| yaml(&read(user)?, contents));
    users.collect::<Result<Vec<_>, _>>().map(Yaml::List)
}

fn yaml(user: &User, contents: &Contents) -> Result<Yaml, UserError> {
    let text = |text: &Option<String>| text.as_ref().filter(|text| !text.is_empty()).map(Yaml::from);
    let password = match &user.passwd_from {
        None => text(&user.passwd),
        Some(From { secret: SecretKey { name, key } }) => {
            let found = contents.get(name).and_then(|keys| keys.get(key));
            let found = found.and_then(|hash| std::str::from_utf8(hash).ok());
            Some(Yaml::from(found.ok_or_else(|| UserError::NoPassword {
                user: user.name.clone(),
                secret: name.clone(),
                key: key.clone(),
            })?))
        }
    };
    Ok(Yaml::map([
        ("name", Some(Yaml::from(&user.name))),
        ("passwd", password),
        ("gecos", text(&user.gecos)),
        ("groups", text(&user.groups)),
        ("homedir", text(&user.home_dir)),
        // cloud-init counts days after the password has expired, as a string; it ignores everything else.
        ("inactive", user.inactive.filter(|inactive| *inactive).map(|_| Yaml::from("0"))),
        ("lock_passwd", user.lock_password.map(Yaml::from)),
        ("shell", text(&user.shell)),
        ("primary_group", text(&user.primary_group)),
        ("sudo", text(&user.sudo)),
        (
            "ssh_authorized_keys",
            (!user.ssh_authorized_keys.is_empty()).then(|| Yaml::texts(&user.ssh_authorized_keys)),
        ),
    ]))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::json;

    use super::*;

    fn users(value: Value) -> Vec<AnyObject> {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn users_have_the_names_of_cloud_init() {
        let given = users(json!([{
            "name": "admin", "gecos": "The admin", "groups": "wheel,adm", "primaryGroup": "admin", "homeDir": "/home/admin",
            "shell": "/bin/bash", "inactive": true, "passwd": "$6$hash", "lockPassword": false,
            "sudo": "ALL=(ALL) NOPASSWD:ALL", "sshAuthorizedKeys": ["ssh-ed25519 AAAA a@b"],
        }, {"name": "bare", "inactive": false}]));
        assert_eq!(
            of(&given, &Contents::new()).unwrap().to_string(),
            "- name: admin\n  passwd: '$6$hash'\n  gecos: 'The admin'\n  groups: 'wheel,adm'\n  homedir: /home/admin\n  \
             inactive: '0'\n  lock_passwd: false\n  shell: /bin/bash\n  primary_group: admin\n  \
             sudo: 'ALL=(ALL) NOPASSWD:ALL'\n  ssh_authorized_keys:\n    - 'ssh-ed25519 AAAA a@b'\n- name: bare\n"
        );
    }

    #[test]
    fn a_password_comes_from_a_secret_or_the_user_is_named() {
        let given = users(json!([{"name": "u", "passwdFrom": {"secret": {"name": "s", "key": "hash"}}}]));
        let error = of(&given, &Contents::new()).unwrap_err().to_string();
        assert_eq!(error, "Secret s has no key hash with the password of user u");
        let contents =
            BTreeMap::from([("s".to_owned(), BTreeMap::from([("hash".to_owned(), b"$6$x".to_vec())]))]);
        assert_eq!(of(&given, &contents).unwrap().to_string(), "- name: u\n  passwd: '$6$x'\n");
    }
}
