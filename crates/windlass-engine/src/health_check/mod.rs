//! Which machines are unhealthy, and whether they may be remediated.
