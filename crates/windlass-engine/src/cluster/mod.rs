//! The cluster itself: its state, and its deletion in order.
