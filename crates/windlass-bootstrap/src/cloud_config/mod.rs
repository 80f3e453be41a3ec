//! cloud-config: what cloud-init does on a machine before, for and after kubeadm.
//!
//! The first line makes cloud-init render the document as a Jinja template, so that node names, files and commands may use what
//! the machine knows of itself, such as `{{ ds.meta_data.local_hostname }}`.

mod disks;
mod files;
mod users;

pub use files::{Contents, FileError, SecretKey, WriteFile, secret_keys, write_files};
pub use users::UserError;

use std::fmt;

use serde::Deserialize;
use windlass_api::AnyObject;
use windlass_api::bootstrap::KubeadmConfigSpec;

use crate::kubeadm::{Document, file};
use crate::yaml::Yaml;

/// Where infrastructure providers look to see that a machine has come up.
pub const SENTINEL: &str = "/run/cluster-api/bootstrap-success.complete";
/// Written only so that the directory of [`SENTINEL`] is there.
const PLACEHOLDER: &str = "/run/cluster-api/placeholder";

/// What kubeadm does on the machine.
#[derive(Clone, Debug, PartialEq)]
pub enum Kubeadm {
    /// Initializes the cluster.
    Init {
        /// The cluster as a whole.
        cluster: Document,
        /// The machine.
        init: Document,
    },
    /// Joins the machine.
    Join(Document),
}

impl Kubeadm {
    const fn verb(&self) -> &'static str {
        match self {
            Self::Init { .. } => "init",
            Self::Join(_) => "join",
        }
    }

    const fn path(&self) -> &'static str {
        match self {
            Self::Init { .. } => "/run/kubeadm/kubeadm.yaml",
            Self::Join(_) => "/run/kubeadm/kubeadm-join-config.yaml",
        }
    }

    fn content(&self) -> String {
        match self {
            Self::Init { cluster, init } => file(&[cluster.clone(), init.clone()]),
            Self::Join(join) => file(std::slice::from_ref(join)),
        }
    }

    fn command(&self, verbosity: Option<i32>) -> String {
        let verbosity = verbosity.map(|level| format!(" --v {level}")).unwrap_or_default();
        format!("kubeadm {} --config {}{verbosity} && echo success > {SENTINEL}", self.verb(), self.path())
    }
}

/// What a machine boots from.
#[derive(Clone, Debug)]
pub struct CloudConfig<'a> {
    /// Commands, users and disks.
    pub spec: &'a KubeadmConfigSpec,
    /// Files that are written before kubeadm's configuration, in this order: certificates, then those of the spec.
    pub files: Vec<WriteFile>,
    /// Contents of Secrets, for the passwords of users.
    pub contents: &'a Contents,
    /// What kubeadm does.
    pub kubeadm: Kubeadm,
}

/// Why a part of the spec cannot be rendered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CloudConfigError {
    /// A user.
    #[error(transparent)]
    Users(#[from] UserError),
    /// A part does not have the shape that its schema demands: no API server has checked it.
    #[error("{field} cannot be read: {why}")]
    Shape {
        /// The part.
        field: &'static str,
        /// What is wrong.
        why: String,
    },
}

impl CloudConfig<'_> {
    /// The text of the document.
    ///
    /// # Errors
    ///
    /// If a part of the spec cannot be rendered.
    pub fn render(&self) -> Result<String, CloudConfigError> {
        let spec = self.spec;
        let kubeadm = WriteFile::of_root(self.kubeadm.path(), "0640", self.kubeadm.content());
        let placeholder =
            WriteFile::of_root(PLACEHOLDER, "0640", "Keeps the directory of the sentinel file.\n".to_owned());
        let files = self.files.iter().chain([&kubeadm, &placeholder]).map(WriteFile::yaml).collect();
        let command = self.kubeadm.command(spec.verbosity);
        let commands = spec.pre_kubeadm_commands.iter().chain([&command]).chain(&spec.post_kubeadm_commands);
        let some = |list: Yaml| match &list {
            Yaml::List(items) if items.is_empty() => None,
            Yaml::Map(entries) if entries.is_empty() => None,
            _ => Some(list),
        };
        let disks = disks::of(spec.disk_setup.as_ref())?;
        let mounts = spec.mounts.iter().map(Yaml::texts).collect();
        let document = Yaml::map([
            ("write_files", Some(Yaml::List(files))),
            ("bootcmd", some(Yaml::texts(&spec.boot_commands))),
            ("runcmd", Some(Yaml::texts(commands))),
            ("ntp", spec.ntp.as_ref().map(ntp).transpose()?.and_then(some)),
            ("users", some(users::of(&spec.users, self.contents)?)),
            ("disk_setup", some(disks.disk_setup)),
            ("fs_setup", some(disks.fs_setup)),
            ("mounts", some(Yaml::List(mounts))),
        ]);
        Ok(format!("{Header}{document}"))
    }
}

/// What cloud-init looks at first.
struct Header;

impl fmt::Display for Header {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("## template: jinja\n#cloud-config\n\n")
    }
}

/// Where the time comes from.
fn ntp(given: &AnyObject) -> Result<Yaml, CloudConfigError> {
    #[derive(Deserialize)]
    struct Ntp {
        #[serde(default)]
        servers: Vec<String>,
        enabled: Option<bool>,
    }

    let ntp: Ntp = part("spec.ntp", given)?;
    Ok(Yaml::map([
        ("enabled", ntp.enabled.map(Yaml::from)),
        ("servers", (!ntp.servers.is_empty()).then(|| Yaml::texts(&ntp.servers))),
    ]))
}

/// Reads a part of the spec that the API keeps as it came.
fn part<T: serde::de::DeserializeOwned>(
    field: &'static str,
    value: &AnyObject,
) -> Result<T, CloudConfigError> {
    serde_json::from_value(serde_json::Value::Object(value.0.clone()))
        .map_err(|error| CloudConfigError::Shape { field, why: error.to_string() })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::kubeadm::{
        ApiVersion, ClusterFacts, JoinRole, cluster_configuration, init_configuration, join_configuration,
    };

    fn spec(value: Value) -> KubeadmConfigSpec {
        serde_json::from_value(value).unwrap()
    }

    fn join() -> Kubeadm {
        let stored = serde_json::from_value(json!({})).unwrap();
        Kubeadm::Join(join_configuration(&stored, JoinRole::ControlPlane, ApiVersion::V1Beta4))
    }

    fn rendered(spec: &KubeadmConfigSpec, files: Vec<WriteFile>, kubeadm: Kubeadm) -> String {
        CloudConfig { spec, files, contents: &Contents::new(), kubeadm }.render().unwrap()
    }

    #[test]
    fn a_machine_that_joins_is_told_so_in_full() {
        let spec = spec(json!({
            "preKubeadmCommands": ["echo 'before'"], "postKubeadmCommands": ["echo after"], "bootCommands": ["sysctl -w a=1"],
            "verbosity": 5, "ntp": {"servers": ["time.test"], "enabled": true}, "users": [{"name": "admin"}],
            "diskSetup": {"partitions": [{"device": "/dev/sdb", "layout": true}],
                "filesystems": [{"device": "/dev/sdb", "filesystem": "ext4"}]},
            "mounts": [["LABEL=etcd_disk", "/var/lib/etcd"]],
        }));
        let files = vec![WriteFile::of_root("/etc/kubernetes/pki/ca.key", "0600", "KEY\n".to_owned())];
        let expected = "\
## template: jinja
#cloud-config

write_files:
  - path: /etc/kubernetes/pki/ca.key
    owner: 'root:root'
    permissions: '0600'
    content: |
      KEY
  - path: /run/kubeadm/kubeadm-join-config.yaml
    owner: 'root:root'
    permissions: '0640'
    content: |
      ---
      apiVersion: kubeadm.k8s.io/v1beta4
      kind: JoinConfiguration
      controlPlane: {}
  - path: /run/cluster-api/placeholder
    owner: 'root:root'
    permissions: '0640'
    content: |
      Keeps the directory of the sentinel file.
bootcmd:
  - 'sysctl -w a=1'
runcmd:
  - |-
    echo 'before'
  - 'kubeadm join --config /run/kubeadm/kubeadm-join-config.yaml --v 5 && echo success > /run/cluster-api/bootstrap-success.complete'
  - 'echo after'
ntp:
  enabled: true
  servers:
    - time.test
users:
  - name: admin
disk_setup:
  /dev/sdb:
    layout: true
fs_setup:
  - filesystem: ext4
    device: /dev/sdb
mounts:
  - - 'LABEL=etcd_disk'
    - /var/lib/etcd
";
        assert_eq!(rendered(&spec, files, join()), expected);
    }

    #[test]
    fn a_machine_that_initializes_has_both_documents_in_one_file() {
        let cluster =
            cluster_configuration(None, None, &ClusterFacts::default(), "v1.33.0", ApiVersion::V1Beta4);
        let kubeadm = Kubeadm::Init { cluster, init: init_configuration(None, ApiVersion::V1Beta4) };
        let text = rendered(&spec(json!({})), Vec::new(), kubeadm);
        let body: Value = serde_saphyr::from_str(&text).unwrap();
        assert_eq!(body["write_files"][0]["path"], "/run/kubeadm/kubeadm.yaml");
        assert_eq!(
            body["write_files"][0]["content"],
            "---\napiVersion: kubeadm.k8s.io/v1beta4\nkind: ClusterConfiguration\nclusterName: ''\nkubernetesVersion: v1.33.0\n\
             ---\napiVersion: kubeadm.k8s.io/v1beta4\nkind: InitConfiguration\n"
        );
        assert_eq!(
            body["runcmd"],
            json!([
                "kubeadm init --config /run/kubeadm/kubeadm.yaml && echo success > /run/cluster-api/bootstrap-success.complete"
            ])
        );
        let sections: Vec<&String> = body.as_object().unwrap().keys().collect();
        assert_eq!(sections, ["runcmd", "write_files"], "what is not said is not written");
    }

    #[test]
    fn expressions_of_jinja_reach_it_without_escapes() {
        let expression = r#"region={{ v1["region"] }} zone={{ v1['zone'] }}"#;
        let spec = spec(
            json!({"preKubeadmCommands": [expression], "files": [{"path": "/a", "content": expression}]}),
        );
        let files = write_files(&spec.files, &Contents::new(), None).unwrap();
        let text = rendered(&spec, files, join());
        assert_eq!(text.matches(expression).count(), 2, "{text}");
    }

    #[test]
    fn a_part_that_no_schema_has_checked_is_named() {
        let spec = spec(json!({"ntp": {"servers": "a"}}));
        let error =
            CloudConfig { spec: &spec, files: Vec::new(), contents: &Contents::new(), kubeadm: join() }
                .render();
        let error = error.unwrap_err().to_string();
        assert!(error.starts_with("spec.ntp cannot be read: invalid type"), "{error}");
    }
}
