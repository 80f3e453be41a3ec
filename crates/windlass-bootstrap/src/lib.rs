//! kubeadm bootstrap: KubeadmConfigs become cloud-configs that machines boot from.
//!
//! What a machine is told is a value: [`kubeadm`] makes the documents that kubeadm of a version takes, [`cloud_config`] the document
//! that cloud-init takes, with files, users, disks and commands around kubeadm, and [`data`] puts both together.
//!
//! What happens when is decided by functions, too: [`decision`] says whether a machine initializes its cluster, joins it or waits,
//! [`lock`] which of several machines initializes it, [`token`] when the token of a machine is extended or replaced, [`discovery`] how a
//! machine knows that it talks to the right control plane; [`status`] says how far it has come. [`certificates`] has the Secrets with the certificates of a cluster.
//!
//! ```
//! use windlass_bootstrap::decision::{Decision, Observed, Role, decide};
//!
//! let first = Observed {
//!     role: Role::ControlPlane,
//!     infrastructure_provisioned: true,
//!     control_plane_initialized: false,
//!     data_secret_created: false,
//!     secret_of_owner: None,
//! };
//! assert_eq!(decide(&first), Decision::Initialize);
//! ```

pub mod certificate_files;
pub mod certificates;
pub mod cloud_config;
pub mod data;
pub mod decision;
pub mod discovery;
pub mod kubeadm;
pub mod lock;
mod private_key;
pub mod status;
pub mod token;
pub mod yaml;
