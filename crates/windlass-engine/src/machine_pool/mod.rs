//! Machine pools: replicas and versions by contract.
