//! Runs controllers against a Kubernetes API, in real or in virtual time.
