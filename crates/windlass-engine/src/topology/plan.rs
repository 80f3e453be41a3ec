//! The upgrade plan, computed anew from live state whenever something is decided.

use std::fmt;

use windlass_plan::{GroupName, PlanRequest, Refusal, Source, UpgradePlan, plan};
use windlass_version::Version;

use super::observed::{Observed, PlanSource, WorkerGroup};

/// What remains to be done, or why nothing can be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Plan {
    /// There is no control plane yet, or everything is at the target.
    NotNeeded,
    /// The steps that remain.
    Steps(Box<UpgradePlan>),
    /// There is no safe way.
    None(NoPath),
}

/// Why there is no way to the target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoPath {
    /// The planner refused.
    Refused(Refusal),
    /// The source of versions is not known.
    SourceUnavailable(String),
}

impl fmt::Display for NoPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(refusal) => write!(f, "no upgrade path: {refusal}"),
            Self::SourceUnavailable(reason) => write!(f, "no upgrade plan: {reason}"),
        }
    }
}

/// What an extension that plans is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlanQuery {
    /// Version of the control plane.
    pub control_plane: Version,
    /// Oldest version of the workers, if there are any.
    pub workers: Option<Version>,
    /// Where everything shall go.
    pub target: Version,
}

impl PlanQuery {
    /// The question, if an answer is needed at all.
    pub fn of(observed: &Observed) -> Option<Self> {
        let control_plane = &observed.control_plane.as_ref()?.version;
        let at_target = control_plane == &observed.version
            && observed.workers.iter().filter_map(WorkerGroup::version).all(|at| at == &observed.version);
        (!at_target).then(|| Self {
            control_plane: control_plane.clone(),
            workers: observed.oldest_workers().cloned(),
            target: observed.version.clone(),
        })
    }
}

impl Plan {
    /// Plans from what is observed.
    pub fn compute(observed: &Observed) -> Self {
        let Some(query) = PlanQuery::of(observed) else {
            return Self::NotNeeded;
        };
        match &observed.source {
            PlanSource::Unavailable(reason) => Self::None(NoPath::SourceUnavailable(reason.clone())),
            PlanSource::Known(source) => match plan(&request(observed, &query, source.clone())) {
                Ok(steps) => Self::Steps(Box::new(steps)),
                Err(refusal) => Self::None(NoPath::Refused(refusal)),
            },
        }
    }

    /// Whether a plan from elsewhere can be followed from here. For callers that remember only good answers.
    pub fn check(observed: &Observed, source: Source) -> Result<(), Refusal> {
        match PlanQuery::of(observed) {
            Some(query) => plan(&request(observed, &query, source)).map(|_| ()),
            None => Ok(()),
        }
    }

    /// Versions that the control plane still goes through.
    pub fn control_plane(&self) -> &[Version] {
        match self {
            Self::Steps(steps) => &steps.control_plane,
            Self::NotNeeded | Self::None(_) => &[],
        }
    }

    /// Versions that any group still goes through, in order.
    pub fn workers(&self) -> Vec<Version> {
        match self {
            Self::Steps(steps) => steps.workers_union(),
            Self::NotNeeded | Self::None(_) => Vec::new(),
        }
    }

    /// The next version of a group.
    pub fn next_stop(&self, group: &WorkerGroup) -> Option<&Version> {
        self.stops(group).first()
    }

    /// The versions that a group still goes through.
    pub fn stops(&self, group: &WorkerGroup) -> &[Version] {
        let Self::Steps(steps) = self else { return &[] };
        let name = group_name(group);
        steps.workers.iter().find(|row| row.group == name).map_or(&[], |row| &row.stops)
    }

    /// Why there is no way, if so.
    pub const fn no_path(&self) -> Option<&NoPath> {
        match self {
            Self::None(no_path) => Some(no_path),
            Self::NotNeeded | Self::Steps(_) => None,
        }
    }
}

fn request(observed: &Observed, query: &PlanQuery, source: Source) -> PlanRequest {
    let groups = observed.workers.iter().filter_map(|group| {
        Some(windlass_plan::WorkerGroup::new(group_name(group), group.version()?.clone()))
    });
    PlanRequest::new(query.control_plane.clone(), query.target.clone())
        .with_workers(groups)
        .with_source(source)
}

/// Unique over both kinds.
fn group_name(group: &WorkerGroup) -> GroupName {
    group.id().to_string().into()
}
