//! `infrastructure.cluster.x-k8s.io/v1beta2`: the objects of the in-memory provider.
