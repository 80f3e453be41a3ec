//! KubeadmControlPlane.
