//! One Machine: how it comes up, what is said about it, how it is updated and how it goes.

pub mod deletion;
pub mod drain;
pub mod in_place;
