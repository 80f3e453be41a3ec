//! Cluster: references, conditions, versions, deletion of descendants.
