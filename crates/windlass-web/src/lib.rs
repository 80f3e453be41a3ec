//! Pages: clusters and their upgrades in a browser, live and read-only, and one page for a change ticket.
//!
//! - [`Web`] listens, lets in who has the link, and sends what changes by server-sent events
//! - [`Ticket`] is the page of `windlass simulate upgrade -o html`
//!
//! Everything that is shown is a value of `windlass_engine::progress` or of a simulation; this crate draws it. Pages are made here
//! and not in the browser: a script only puts parts that have changed in their places. All assets are in the program.

mod chart;
mod forecast;
mod html;
mod page;
mod report;
mod server;
mod session;

pub use html::heading;
pub use report::Ticket;
pub use server::{Web, WebOptions};

/// The style of all pages.
const STYLE: &str = include_str!("assets/style.css");
/// What live pages have besides.
const LIVE_STYLE: &str = include_str!("assets/live.css");
/// Puts what has changed in its place.
const SCRIPT: &str = include_str!("assets/live.js");
