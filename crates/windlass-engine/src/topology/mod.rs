//! Managed topologies: the objects of a cluster, and the order of its upgrade.
