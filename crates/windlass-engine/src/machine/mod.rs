//! One machine: what it becomes, and how it goes.
