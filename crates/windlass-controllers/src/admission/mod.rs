//! Defaulting and validation of what users write.
