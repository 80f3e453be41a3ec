//! Which versions a group's machines are at.
