//! A cluster in memory, upgraded live, and what there is to see of it.
//!
//! - [`run`] starts a management plane, an extension on real HTTPS and a cluster, and upgrades it
//! - [`Model`] is what there is to see at a moment, [`frame`] a picture of it for a terminal, [`svg`] one for a page,
//!   [`lines`] what happened between two of them
//!
//! Everything is real but the machines: their delays are divided by the speed.

mod extension;
mod frame;
mod journal;
mod lines;
mod model;
mod run;
mod svg;

pub use frame::{Line, Span, frame, lanes, legend, summary};
pub use lines::lines;
pub use model::{HookLine, Model, Phase, PlanStep, StepState};
pub use run::{DemoError, DemoOptions, Kept, Outcome, run};
pub use svg::svg;
pub use windlass_engine::progress::{Lane, MachineState, Mark};
