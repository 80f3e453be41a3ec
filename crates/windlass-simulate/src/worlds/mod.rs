//! Random worlds: tales that come from a seed, played with the real controllers and checked write by write.
//!
//! A [`Tale`] is a story in the words of [`script`](crate::script): a cluster of any shape, what its user does to it, what
//! goes wrong meanwhile, and how all of that ends. [`live`] plays it and checks the rules of upgrades after every write, and
//! at the end that everything is where the user wants it and that nothing is left to do. What was found is told with the
//! story, which [`minimise`] makes as short as it can, so that `windlass simulate script` shows it again.

mod draw;
mod end;
mod hooks;
mod minimise;
mod mutate;
mod preview;
mod rules;
mod run;
mod search;

pub use draw::{Freedoms, Line, Role, Tale};
pub use end::{End, token_renewals};
pub use hooks::{Hooks, pair_hooks};
pub use minimise::minimise;
pub use preview::{Foretold, Taken, difference, foretell, foretold, happen, untimed};
pub use run::{Finding, live, same_end};
pub use search::{Found, Search};
