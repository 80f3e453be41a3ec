//! The authorities and kubeconfig of a control plane.
