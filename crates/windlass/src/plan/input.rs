//! From arguments to a plan request, with every mistake named.

use clap::Args;
use windlass_plan::{PlanRequest, Source, ViolationDocument, WorkerGroup};
use windlass_version::Version;

/// The ends of an upgrade.
#[derive(Args)]
pub(super) struct Ends {
    /// Version of the control plane now
    #[arg(long, value_name = "V")]
    from: String,
    /// Version of the workers now, for all or per group; left out, they are where the control plane is
    #[arg(long, value_name = "V|NAME=V,...", conflicts_with = "no_workers")]
    workers: Option<String>,
    /// Worker groups that are kept at their version, by name
    #[arg(long, value_name = "NAME,...", conflicts_with = "no_workers")]
    pin: Option<String>,
    /// The cluster has no workers
    #[arg(long)]
    no_workers: bool,
    /// Version that everything shall reach
    #[arg(long, value_name = "V")]
    to: String,
}

/// Name of the worker group where no names are given.
pub(super) const ONLY_GROUP: &str = "workers";

impl Ends {
    /// The request for these ends, or everything that is wrong with them.
    pub(super) fn request(&self, source: Source) -> Result<PlanRequest, Vec<ViolationDocument>> {
        let mut errors = Vec::new();
        let from = version("--from", &self.from, &mut errors);
        let to = version("--to", &self.to, &mut errors);
        let mut workers = match (&self.workers, self.no_workers) {
            (_, true) => Vec::new(),
            (Some(text), _) => worker_groups(text, &mut errors),
            (None, _) => from.iter().map(|from| WorkerGroup::new(ONLY_GROUP, from.clone())).collect(),
        };
        for name in items(self.pin.as_deref().unwrap_or_default()) {
            match workers.iter_mut().find(|group| group.name.as_str() == name) {
                Some(group) => group.pinned = true,
                None => {
                    let message =
                        format!("--pin: there is no worker group {:?}, name one of --workers", short(&name));
                    errors.push(wrong("UnknownGroup", message, None));
                }
            }
        }
        match (from, to) {
            (Some(from), Some(to)) if errors.is_empty() => {
                Ok(PlanRequest::new(from, to).with_workers(workers).with_source(source))
            }
            _ => Err(errors),
        }
    }
}

fn version(flag: &str, text: &str, errors: &mut Vec<ViolationDocument>) -> Option<Version> {
    Version::parse(text)
        .map_err(|error| {
            let message = format!("{flag}: {error}");
            errors.push(wrong("NotAVersion", message, Some(error.input)));
        })
        .ok()
}

/// Reads `v1.29.0`, or `name=v1.29.0,other=v1.30.2`.
fn worker_groups(text: &str, errors: &mut Vec<ViolationDocument>) -> Vec<WorkerGroup> {
    let mut groups: Vec<WorkerGroup> = Vec::new();
    let items: Vec<&str> = text.split(',').collect();
    for (index, item) in items.iter().enumerate() {
        let (name, text) = match item.split_once('=') {
            Some((name, text)) => (name.trim(), text),
            None if items.len() == 1 => (ONLY_GROUP, *item),
            None => {
                let message = format!(
                    "--workers: item {}: {:?}: several groups need names, as in md-0=v1.29.0",
                    index + 1,
                    short(item)
                );
                errors.push(wrong("GroupWithoutName", message, None));
                continue;
            }
        };
        if name.is_empty() {
            let message = format!("--workers: item {}: the name before '=' is empty", index + 1);
            errors.push(wrong("GroupWithoutName", message, None));
            continue;
        }
        if groups.iter().any(|group| group.name.as_str() == name) {
            let message = format!("--workers: item {}: group {:?} is given twice", index + 1, short(name));
            errors.push(wrong("GroupRepeated", message, None));
        }
        if let Some(version) = version(&format!("--workers: item {}", index + 1), text, errors) {
            groups.push(WorkerGroup::new(name, version));
        }
    }
    groups
}

/// An error that is not about an item of a plan.
pub(super) fn wrong(code: &str, message: String, version: Option<String>) -> ViolationDocument {
    ViolationDocument { code: code.to_owned(), message, plan: None, index: None, version }
}

/// A piece of input short enough to be repeated in an error.
fn short(text: &str) -> &str {
    &text[..text.floor_char_boundary(64)]
}

/// The source for `--versions`, if it is given.
pub(super) fn listed(versions: Option<&str>) -> Source {
    versions.map_or(Source::OneMinor, |text| Source::Versions(items(text)))
}

/// The source for `--control-plane-upgrades` and `--workers-upgrades`.
pub(super) fn given(control_plane: Option<&str>, workers: Option<&str>) -> Source {
    Source::Given {
        control_plane: control_plane.map(items).unwrap_or_default(),
        workers: workers.map(items).unwrap_or_default(),
    }
}

/// An empty text is an empty list; an empty item in a list is kept, so that it is reported.
fn items(text: &str) -> Vec<String> {
    if text.trim().is_empty() {
        return Vec::new();
    }
    text.split(',').map(|item| item.trim().to_owned()).collect()
}
