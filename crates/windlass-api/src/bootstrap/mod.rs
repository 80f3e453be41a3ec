//! `bootstrap.cluster.x-k8s.io/v1beta2`: KubeadmConfig.
