//! Stories: what happens to clusters, told in plain lines and played with the real controllers in virtual time.
//!
//! ```text
//! create cluster prod v1.30.0
//!   workers web 2
//! until prod is at v1.30.0
//! upgrade prod to v1.31.0
//! crash before write 5
//! until prod is at v1.31.0 within 1h
//! ```
//!
//! [`Script::parse`] turns lines into typed [`Statement`]s, and knows nothing of worlds. [`play`] carries them out, and
//! hands over an [`Outcome`] for each.

mod change;
mod goals;
mod happenings;
mod kinds;
mod parse;
mod phrases;
mod play;
mod statement;
mod verbs;
mod view;
mod words;

pub(crate) use change::obey;
pub use happenings::{Happening, Repeated, answer};
pub use parse::{ParseError, Script};
pub(crate) use play::Play;
pub use play::{Outcome, PlayError, PlayFailure, PlayOptions, play, spoken};
pub use statement::*;
pub use verbs::{GOALS, Usage, VERBS};
pub use view::{MachineRow, Shown, SteeredPlan};
