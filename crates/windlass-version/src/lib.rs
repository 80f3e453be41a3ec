//! Kubernetes versions as upgrade tools see them.
//!
//! A version is semantic, but the ecosystem writes it in more ways than semver allows (`v1.31`,
//! ` 1.31.0`), ships several builds of one release (`v1.31.4+vendor.2`), and has a skew policy that
//! speaks of minors. This crate holds exactly that: parsing, comparing, counting minors, and the
//! policy. It does no I/O.
//!
//! ```
//! use windlass_version::{Comparison, Version, kubelet_skew};
//!
//! let control_plane: Version = "v1.32.1".parse()?;
//! let kubelet: Version = "1.29".parse()?;
//! assert_eq!(kubelet.to_string(), "v1.29.0");
//! assert_eq!(kubelet_skew(&control_plane, &kubelet), Ok(3));
//!
//! let (a, b): (Version, Version) = ("v1.32.1+a".parse()?, "v1.32.1+b".parse()?);
//! assert_eq!(a.compare(&b), Comparison::DifferentBuild);
//! # Ok::<(), windlass_version::ParseError>(())
//! ```
//!
//! Three notions of "same version" exist around Cluster API; keep them apart. `==` on [`Version`]
//! means *rendered the same* (pre-release and build included); [`Version::compare`] answering
//! [`Comparison::Equal`] means the same, also where a build number is written with leading zeros;
//! and equality of the raw text is the caller's business.

mod compare;
mod minor;
mod parse;
mod skew;
mod version;

pub use compare::Comparison;
pub use minor::{Distance, Minor};
pub use parse::{MAX_LENGTH, ParseError, ParseErrorKind};
pub use skew::{
    MAX_KUBELET_MINORS_BEHIND, SkewViolation, StepViolation, check_control_plane_step, kubelet_skew,
};
pub use version::Version;
