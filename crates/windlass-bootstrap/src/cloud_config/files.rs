//! Files that are written to a machine, and where their contents come from.

use std::collections::{BTreeMap, BTreeSet};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde_json::{Value, json};
use windlass_api::bootstrap::{File, FileContentFormat, FileEncoding, KubeadmConfigSpec};
use windlass_gotemplate::{MissingKey, Template};

use super::users;
use crate::yaml::Yaml;

/// A file as cloud-init writes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WriteFile {
    /// Where it goes.
    pub path: String,
    /// How the content is encoded.
    pub encoding: Option<FileEncoding>,
    /// Whose it is.
    pub owner: Option<String>,
    /// Its mode.
    pub permissions: Option<String>,
    /// Whether it is added to what is there.
    pub append: Option<bool>,
    /// What is in it.
    pub content: String,
}

impl WriteFile {
    /// A file that belongs to root.
    pub fn of_root(path: &str, permissions: &str, content: String) -> Self {
        Self {
            path: path.to_owned(),
            encoding: None,
            owner: Some("root:root".to_owned()),
            permissions: Some(permissions.to_owned()),
            append: None,
            content,
        }
    }

    pub(super) fn yaml(&self) -> Yaml {
        Yaml::map([
            ("path", Some(Yaml::from(&self.path))),
            ("encoding", self.encoding.as_ref().map(|encoding| Yaml::from(encoding.as_str()))),
            ("owner", self.owner.as_ref().map(Yaml::from)),
            ("permissions", self.permissions.as_ref().map(Yaml::from)),
            ("append", self.append.map(Yaml::from)),
            ("content", Some(Yaml::from(&self.content))),
        ])
    }
}

/// A key of a Secret in the namespace of a KubeadmConfig.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
pub struct SecretKey {
    /// The Secret.
    pub name: String,
    /// The key.
    pub key: String,
}

/// Where a value comes from, if it is not said.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct From {
    pub(super) secret: SecretKey,
}

/// The contents of Secrets that a spec names, by Secret and key. A Secret that is not there has no entry.
pub type Contents = BTreeMap<String, BTreeMap<String, Vec<u8>>>;

/// Why a file cannot be written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FileError {
    /// There is no such Secret.
    #[error("Secret {secret} does not exist (content of {path})")]
    NoSecret {
        /// The file.
        path: String,
        /// The Secret.
        secret: String,
    },
    /// The Secret has no such key.
    #[error("Secret {secret} has no key {key} (content of {path})")]
    NoKey {
        /// The file.
        path: String,
        /// The Secret.
        secret: String,
        /// The key.
        key: String,
    },
    /// It is not said where the content comes from.
    #[error("contentFrom of {path} cannot be read: {why}")]
    Source {
        /// The file.
        path: String,
        /// What is wrong.
        why: String,
    },
    /// The content has bytes that no document can have.
    #[error("content of {path} is not UTF-8, as its encoding demands")]
    NotUtf8 {
        /// The file.
        path: String,
    },
    /// The content is a template that cannot be filled in.
    #[error("template of {path}: {why}")]
    Template {
        /// The file.
        path: String,
        /// What is wrong.
        why: String,
    },
}

/// The keys of Secrets that a spec names.
pub fn secret_keys(spec: &KubeadmConfigSpec) -> BTreeSet<SecretKey> {
    let files = spec.files.iter().filter_map(|file| source(file).ok().flatten());
    files.chain(users::secret_keys(&spec.users)).collect()
}

/// The files of a spec. Templates are filled in with the version of the control plane, if that is known.
///
/// # Errors
///
/// If the content of a file cannot be made.
pub fn write_files(
    files: &[File],
    contents: &Contents,
    control_plane_version: Option<&str>,
) -> Result<Vec<WriteFile>, FileError> {
    files.iter().map(|file| write_file(file, contents, control_plane_version)).collect()
}

fn write_file(file: &File, contents: &Contents, version: Option<&str>) -> Result<WriteFile, FileError> {
    let path = || file.path.clone();
    let mut encoding = file.encoding.clone();
    let mut content = match source(file)? {
        None => file.content.clone(),
        Some(SecretKey { name, key }) => {
            let secret = contents
                .get(&name)
                .ok_or_else(|| FileError::NoSecret { path: path(), secret: name.clone() })?;
            let bytes =
                secret.get(&key).ok_or_else(|| FileError::NoKey { path: path(), secret: name, key })?;
            match String::from_utf8(bytes.clone()) {
                Ok(text) => text,
                // A document is text. What is not comes in base64, which the machine takes off again.
                Err(_) => {
                    encoding = Some(match encoding {
                        None => FileEncoding::Base64,
                        Some(FileEncoding::Gzip) => FileEncoding::GzipBase64,
                        Some(_) => return Err(FileError::NotUtf8 { path: path() }),
                    });
                    STANDARD.encode(bytes)
                }
            }
        }
    };
    if file.content_format == Some(FileContentFormat::Template) {
        let data = version.map_or_else(|| json!({}), |version| json!({"controlPlane": {"version": version}}));
        let rendered =
            Template::parse(&content).and_then(|template| template.render(&data, MissingKey::NoValue));
        content = rendered.map_err(|error| FileError::Template { path: path(), why: error.to_string() })?;
    }
    let given = |text: &String| (!text.is_empty()).then(|| text.clone());
    Ok(WriteFile {
        path: path(),
        encoding,
        owner: given(&file.owner),
        permissions: given(&file.permissions),
        append: file.append,
        content,
    })
}

/// Where the content of a file comes from, if not from the spec.
fn source(file: &File) -> Result<Option<SecretKey>, FileError> {
    let Some(from) = file.content_from.as_ref().filter(|from| **from != Value::Null) else { return Ok(None) };
    match serde_json::from_value::<From>(from.clone()) {
        Ok(from) => Ok(Some(from.secret)),
        Err(error) => Err(FileError::Source { path: file.path.clone(), why: error.to_string() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(value: Value) -> File {
        serde_json::from_value(value).unwrap()
    }

    fn contents() -> Contents {
        let keys = BTreeMap::from([
            ("text".to_owned(), b"hello\n".to_vec()),
            ("bytes".to_owned(), vec![0x1f, 0x8b, 0xff]),
        ]);
        BTreeMap::from([("s".to_owned(), keys)])
    }

    fn from(key: &str) -> Value {
        json!({"secret": {"name": "s", "key": key}})
    }

    #[test]
    fn contents_come_from_the_spec_or_from_secrets() {
        for (given, encoding, content) in [
            (json!({"path": "/a", "content": "x"}), None, "x"),
            (json!({"path": "/a", "contentFrom": from("text")}), None, "hello\n"),
            (
                json!({"path": "/a", "contentFrom": from("text"), "encoding": "base64"}),
                Some(FileEncoding::Base64),
                "hello\n",
            ),
            (json!({"path": "/a", "contentFrom": from("bytes")}), Some(FileEncoding::Base64), "H4v/"),
            (
                json!({"path": "/a", "contentFrom": from("bytes"), "encoding": "gzip"}),
                Some(FileEncoding::GzipBase64),
                "H4v/",
            ),
            (
                json!({"path": "/a", "contentFormat": "Template", "content": "v={{ .controlPlane.version }}"}),
                None,
                "v=v1.33.0",
            ),
        ] {
            let written = write_file(&file(given.clone()), &contents(), Some("v1.33.0")).unwrap();
            assert_eq!((written.encoding, written.content.as_str()), (encoding, content), "{given}");
        }
        let template = file(json!({"path": "/a", "contentFormat": "Template",
            "content": "{{ if .controlPlane }}known{{ else }}unknown{{ end }}"}));
        assert_eq!(write_file(&template, &contents(), None).unwrap().content, "unknown");
    }

    #[test]
    fn what_is_missing_is_named_with_its_file() {
        for (given, says) in [
            (
                json!({"path": "/a", "contentFrom": {"secret": {"name": "t", "key": "k"}}}),
                "Secret t does not exist (content of /a)",
            ),
            (json!({"path": "/a", "contentFrom": from("k")}), "Secret s has no key k (content of /a)"),
            (
                json!({"path": "/a", "contentFrom": from("bytes"), "encoding": "base64"}),
                "content of /a is not UTF-8",
            ),
            (
                json!({"path": "/a", "contentFrom": {"configMap": {}}}),
                "contentFrom of /a cannot be read: missing field `secret`",
            ),
            (json!({"path": "/a", "contentFormat": "Template", "content": "{{ .x"}), "template of /a: "),
        ] {
            let error = write_file(&file(given), &contents(), None).unwrap_err().to_string();
            assert!(error.starts_with(says), "{error}");
        }
    }

    #[test]
    fn every_secret_is_read_once() {
        let spec: KubeadmConfigSpec = serde_json::from_value(json!({
            "files": [{"path": "/a", "contentFrom": from("text")}, {"path": "/b", "contentFrom": from("text")}, {"path": "/c"}],
            "users": [{"name": "u", "passwdFrom": from("hash")}, {"name": "v"}],
        }))
        .unwrap();
        let keys: Vec<String> =
            secret_keys(&spec).into_iter().map(|key| format!("{}/{}", key.name, key.key)).collect();
        assert_eq!(keys, ["s/hash", "s/text"]);
    }
}
