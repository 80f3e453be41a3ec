//! Whole clusters in virtual time: the real controllers, the embedded API, the in-memory provider.
