//! Bootstrap data: everything that a machine is told, from everything that was read.

use windlass_api::bootstrap::{BootstrapFormat, JoinConfiguration, KubeadmConfigSpec};
use windlass_version::Version;

use crate::certificate_files::{ClusterCertificates, certificate_files};
use crate::cloud_config::{CloudConfig, Contents, Kubeadm, WriteFile, write_files};
use crate::decision::Trouble;
use crate::discovery::kubeconfig_file;
use crate::kubeadm::{
    ApiVersion, ClusterFacts, JoinRole, cluster_configuration, init_configuration, join_configuration,
};

/// Key of the data in their Secret.
pub const VALUE: &str = "value";
/// Key of the format of the data.
pub const FORMAT: &str = "format";
/// What a Secret holds, in bytes: a limit of Kubernetes.
const MOST: usize = 1024 * 1024;

/// What was read before data are made.
#[derive(Clone, Debug)]
pub struct Inputs<'a> {
    /// The KubeadmConfig.
    pub spec: &'a KubeadmConfigSpec,
    /// The Cluster.
    pub cluster: &'a ClusterFacts,
    /// Kubernetes version of the machine.
    pub version: &'a str,
    /// Kubernetes version of the control plane, for files that are templates.
    pub control_plane_version: Option<&'a str>,
    /// Certificates of the cluster, for control plane machines.
    pub certificates: &'a ClusterCertificates,
    /// What is in the Secrets that the spec names.
    pub contents: &'a Contents,
}

/// Refuses what cannot be rendered, before anything is written for it.
///
/// # Errors
///
/// If the format or the version is not supported.
pub fn check(spec: &KubeadmConfigSpec, version: &str) -> Result<ApiVersion, Trouble> {
    match &spec.format {
        None | Some(BootstrapFormat::CloudConfig) => {}
        Some(BootstrapFormat::Unknown(format)) if format.is_empty() => {}
        Some(format) => return Err(Trouble::Format(format.to_string())),
    }
    let parsed = Version::parse(version)
        .map_err(|error| Trouble::Version { version: version.to_owned(), why: error.to_string() })?;
    Ok(ApiVersion::of(&parsed)?)
}

/// Data with which a machine initializes its cluster.
///
/// # Errors
///
/// If the KubeadmConfig cannot be rendered.
pub fn init_data(inputs: &Inputs<'_>) -> Result<String, Trouble> {
    let api = check(inputs.spec, inputs.version)?;
    let (configuration, init) =
        (inputs.spec.cluster_configuration.as_ref(), inputs.spec.init_configuration.as_ref());
    let kubeadm = Kubeadm::Init {
        cluster: cluster_configuration(configuration, init, inputs.cluster, inputs.version, api),
        init: init_configuration(init, api),
    };
    render(inputs, certificate_files(configuration, inputs.certificates), None, kubeadm)
}

/// Data with which a machine joins. Nothing may be missing in the discovery of the JoinConfiguration.
///
/// # Errors
///
/// If the KubeadmConfig cannot be rendered.
pub fn join_data(inputs: &Inputs<'_>, join: &JoinConfiguration, role: JoinRole) -> Result<String, Trouble> {
    let api = check(inputs.spec, inputs.version)?;
    let certificates = match role {
        JoinRole::ControlPlane => {
            certificate_files(inputs.spec.cluster_configuration.as_ref(), inputs.certificates)
        }
        JoinRole::Worker if join.control_plane.is_some() => return Err(Trouble::ControlPlaneOfWorker),
        JoinRole::Worker => Vec::new(),
    };
    let kubeconfig = kubeconfig_file(join).map_err(Trouble::Kubeconfig)?;
    render(inputs, certificates, kubeconfig, Kubeadm::Join(join_configuration(join, role, api)))
}

fn render(
    inputs: &Inputs<'_>,
    mut files: Vec<WriteFile>,
    kubeconfig: Option<WriteFile>,
    kubeadm: Kubeadm,
) -> Result<String, Trouble> {
    files.extend(write_files(&inputs.spec.files, inputs.contents, inputs.control_plane_version)?);
    files.extend(kubeconfig);
    let text = CloudConfig { spec: inputs.spec, files, contents: inputs.contents, kubeadm }.render()?;
    match text.len() {
        bytes if bytes > MOST => Err(Trouble::TooLarge { bytes, most: MOST }),
        _ => Ok(text),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn made(spec: Value, version: &str, join: Option<JoinRole>) -> Result<String, String> {
        let spec: KubeadmConfigSpec = serde_json::from_value(spec).unwrap();
        let facts = ClusterFacts { name: "c1".to_owned(), ..ClusterFacts::default() };
        let (certificates, contents) = (ClusterCertificates::new(), Contents::new());
        let inputs = Inputs {
            spec: &spec,
            cluster: &facts,
            version,
            control_plane_version: None,
            certificates: &certificates,
            contents: &contents,
        };
        let made = match join {
            None => init_data(&inputs),
            Some(role) => join_data(&inputs, &spec.join_configuration.clone().unwrap_or_default(), role),
        };
        made.map_err(|trouble| trouble.to_string())
    }

    #[test]
    fn what_cannot_be_rendered_is_refused_and_said() {
        let control_plane = json!({"joinConfiguration": {"controlPlane": {}}});
        let large = json!({"files": [{"path": "/a", "content": "x".repeat(MOST)}]});
        for (spec, version, join, says) in [
            (
                json!({"format": "ignition"}),
                "v1.33.0",
                None,
                "format ignition is not supported: only cloud-config is",
            ),
            (json!({}), "", None, "version \"\" of the machine cannot be used: "),
            (json!({}), "v1.21.0", None, "kubeadm of Kubernetes v1.21.0 is not supported"),
            (
                control_plane.clone(),
                "v1.33.0",
                Some(JoinRole::Worker),
                "spec.joinConfiguration.controlPlane is set, but",
            ),
            (large, "v1.33.0", None, "the bootstrap data have 10"),
        ] {
            let error = made(spec, version, join).unwrap_err();
            assert!(error.starts_with(says), "{error}");
        }
        assert!(made(control_plane, "v1.33.0", Some(JoinRole::ControlPlane)).is_ok());
        assert!(made(json!({"format": "cloud-config"}), "v1.33.0", None).is_ok());
    }

    #[test]
    fn a_worker_uses_the_api_of_its_own_version() {
        let older = made(json!({}), "v1.30.4", Some(JoinRole::Worker)).unwrap();
        assert!(older.contains("apiVersion: kubeadm.k8s.io/v1beta3\n"), "{older}");
        let newer = made(json!({}), "v1.31.0", Some(JoinRole::Worker)).unwrap();
        assert!(newer.contains("apiVersion: kubeadm.k8s.io/v1beta4\n"), "{newer}");
    }
}
