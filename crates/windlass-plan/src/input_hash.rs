//! The identity of a plan: a hash of everything it was computed from.

use std::fmt;

use sha2::{Digest, Sha256};

use crate::request::{PlanRequest, Source};

/// SHA-256 over a [`PlanRequest`]. Two plans with the same hash are the same plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct InputHash([u8; 32]);

impl InputHash {
    /// The hash of a request.
    pub fn of(request: &PlanRequest) -> Self {
        let PlanRequest { control_plane, workers, target, source, hooks_passed, acknowledged_target } =
            request;
        // Changing what is fed here changes the identity of every plan: raise the number then.
        let mut input = Input(Vec::with_capacity(512));
        input.text("windlass-plan/1");
        input.text(&control_plane.to_string());
        input.text(&target.to_string());
        input.count(workers.len());
        for group in workers {
            input.text(group.name.as_str());
            input.text(&group.version.to_string());
            if group.pinned {
                input.text("pinned");
            }
        }
        match source {
            Source::OneMinor => input.text("oneMinor"),
            Source::Versions(versions) => {
                input.text("list");
                input.texts(versions);
            }
            Source::Given { control_plane, workers } => {
                input.text("extension");
                input.texts(control_plane);
                input.texts(workers);
            }
        }
        input.0.push(u8::from(hooks_passed.before_cluster_upgrade));
        input.0.push(u8::from(hooks_passed.before_workers_upgrade));
        if let Some(acknowledged) = acknowledged_target {
            input.text(&acknowledged.to_string());
        }
        Self(Sha256::digest(&input.0).into())
    }
}

impl fmt::Display for InputHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("sha256:")?;
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// Lengths before contents, so that no two different requests give the same bytes.
struct Input(Vec<u8>);

impl Input {
    fn count(&mut self, count: usize) {
        self.0.extend_from_slice(&(count as u64).to_be_bytes());
    }

    fn text(&mut self, text: &str) {
        self.count(text.len());
        self.0.extend_from_slice(text.as_bytes());
    }

    fn texts(&mut self, texts: &[String]) {
        self.count(texts.len());
        texts.iter().for_each(|text| self.text(text));
    }
}
