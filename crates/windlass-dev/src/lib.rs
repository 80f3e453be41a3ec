//! Infrastructure, bootstrap and Nodes that exist in this process only.
