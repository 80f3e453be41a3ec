//! `cluster.x-k8s.io/v1beta2`: clusters, classes, machines and their groups.
