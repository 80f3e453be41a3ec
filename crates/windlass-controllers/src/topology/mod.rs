//! Managed topologies.
