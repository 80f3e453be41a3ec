//! How controllers reach the clusters they make.
