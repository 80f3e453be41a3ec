//! Conditions as the controllers state them.
