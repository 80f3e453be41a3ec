//! What happens to a cluster over time: operations, machines, versions, skew. Simulations feed it write by write, live views
//! look by look; both print the same.

use std::collections::BTreeMap;

use super::machines::{Machines, Part, Seen, outdated};
use super::records::{LanePoint, LaneRecord, MachineCounts, MachineRecord, OperationRecord, SkewRecord};

/// What was seen of a cluster since a beginning. Times are seconds after it.
#[derive(Clone, Debug, Default)]
pub struct Record {
    /// The version of each part.
    versions: BTreeMap<Part, String>,
    machines: Machines,
    operations: Vec<(Part, OperationRecord)>,
    counts: MachineCounts,
    lanes: BTreeMap<Part, Vec<LanePoint>>,
    skew: Vec<SkewRecord>,
}

impl Record {
    /// Begins with parts and machines as they are.
    pub fn begin(
        versions: BTreeMap<Part, String>,
        machines: impl IntoIterator<Item = (String, Seen)>,
    ) -> Self {
        let mut record = Self { versions, ..Self::default() };
        for (name, seen) in machines {
            record.machines.insert(name, seen);
        }
        let skew = record.machines.skew().unwrap_or_else(|_| record.machines.shown_skew());
        record.run(skew, 0);
        record
    }

    /// Looks at all parts and machines of a live cluster. Those that are not there any more are gone. A broken skew is
    /// shown as it is: it is there, whatever the rules say.
    pub fn look_at(&mut self, versions: BTreeMap<Part, String>, machines: BTreeMap<String, Seen>, at: u64) {
        for (part, version) in versions {
            self.version(part, version, at);
        }
        let is_gone = |name: &&String| !machines.contains_key(*name);
        let gone: Vec<String> = self.machines.all.keys().filter(is_gone).cloned().collect();
        for name in gone {
            let Some(seen) = self.machines.all.get(&name).cloned() else { continue };
            if !seen.deleting {
                self.begins(&seen.part, &name, "delete", at);
            }
            self.seen(name, seen, true, at);
        }
        for (name, seen) in machines {
            self.seen(name, seen, false, at);
        }
        if self.machines.take_changed() {
            self.run(self.machines.shown_skew(), at);
        }
    }

    /// The operations in the order in which they began.
    pub fn operations(&self) -> impl Iterator<Item = (&Part, &OperationRecord)> {
        self.operations.iter().map(|(part, operation)| (part, operation))
    }

    /// The same at a moment, with what still goes on drawn up to it.
    pub fn operations_until(&self, now: u64) -> Vec<OperationRecord> {
        let mut operations: Vec<OperationRecord> =
            self.operations.iter().map(|(_, operation)| operation.clone()).collect();
        for operation in &mut operations {
            for machine in &mut operation.machines {
                let seen = self.machines.all.get(&machine.name);
                let goes_on = seen.is_some_and(|seen| match machine.action {
                    "create" => !seen.available && !seen.deleting,
                    "delete" => seen.deleting,
                    _ => seen.updating,
                });
                if goes_on {
                    machine.end_seconds = now.max(machine.start_seconds);
                    operation.end_seconds = operation.end_seconds.max(now);
                }
            }
        }
        operations
    }

    /// The versions that ran in each part.
    pub fn lanes(&self) -> Vec<LaneRecord> {
        let lane = |(part, points): (&Part, &Vec<LanePoint>)| LaneRecord {
            kind: part.kind(),
            group: part.group().cloned(),
            points: points.clone(),
        };
        self.lanes.iter().map(lane).collect()
    }

    /// How far kubelets were behind.
    pub fn skew(&self) -> &[SkewRecord] {
        &self.skew
    }

    /// How far kubelets were behind at worst.
    pub fn worst_skew(&self) -> u64 {
        self.skew.iter().map(|record| record.minors).max().unwrap_or_default()
    }

    /// How many machines came, went and were changed.
    pub fn counts(&self) -> MachineCounts {
        self.counts
    }

    /// The machines of a part, as they were seen last.
    pub fn machines_of(&self, part: &Part) -> impl Iterator<Item = (String, Seen)> {
        self.machines.of(part)
    }

    /// Notes that a part had other versions before this record began: its operations, and a rough line of them. `changes`
    /// are times, versions before and versions after, in their order.
    pub(super) fn recall(&mut self, part: &Part, changes: &[(u64, String, String)], now: u64) {
        let Some((_, first, _)) = changes.first() else { return };
        let mut points = vec![LanePoint { at_seconds: 0, oldest: first.clone(), newest: first.clone() }];
        for (place, (at, from, to)) in changes.iter().enumerate() {
            let (oldest, newest) = (from.clone(), to.clone());
            points.retain(|point| point.at_seconds != *at);
            points.push(LanePoint { at_seconds: *at, oldest, newest });
            self.operate(part.clone(), from.clone(), to.clone(), *at);
            // Before the next step of a part, the one before it was done.
            if let Some((next, _, _)) = changes.get(place + 1) {
                if let Some(operation) = self.operation(part) {
                    operation.end_seconds = *next;
                }
                points.push(LanePoint { at_seconds: *next, oldest: to.clone(), newest: to.clone() });
            }
        }
        if let Some((oldest, newest)) = self.machines.range(part) {
            points.retain(|point| point.at_seconds != now);
            points.push(LanePoint { at_seconds: now, oldest, newest });
        }
        self.operations.sort_by_key(|(_, operation)| operation.start_seconds);
        self.lanes.insert(part.clone(), points);
    }

    /// Notes that a machine came before this record began.
    pub(super) fn recall_machine(&mut self, part: &Part, name: &str, created: u64, available: Option<u64>) {
        self.counts.created += 1;
        let operations = self.operations.iter_mut().rev();
        let mut operations =
            operations.filter(|(of, operation)| of == part && operation.start_seconds <= created);
        if let Some((_, operation)) = operations.next() {
            let end = available.unwrap_or(created);
            operation.end_seconds = operation.end_seconds.max(end);
            let (name, action) = (name.to_owned(), "create");
            let record =
                MachineRecord { name, action, reason: None, start_seconds: created, end_seconds: end };
            operation.machines.push(record);
        }
    }

    /// Goes on with what was begun before: parts that have machines of another version than their own.
    pub fn go_on(&mut self) {
        for (part, to) in self.versions.clone() {
            let machines: Vec<(String, Seen)> = self.machines.of(&part).collect();
            let Some(from) = outdated(&machines, &to) else { continue };
            self.operate(part.clone(), from, to, 0);
            if let Some(operation) = self.operation(&part) {
                operation.under_way = true;
            }
            for (name, seen) in machines {
                if seen.deleting {
                    self.begins(&part, &name, "delete", 0);
                } else if seen.updating {
                    self.begins(&part, &name, "update", 0);
                } else if !seen.available {
                    self.begins(&part, &name, "create", 0);
                }
            }
        }
    }

    /// Notes what runs, if that has changed.
    ///
    /// # Errors
    ///
    /// When a kubelet and an API server are further apart than allowed, with their names.
    pub fn look(&mut self, at: u64) -> Result<(), String> {
        let skew = self.machines.skew()?;
        if self.machines.take_changed() {
            self.run(skew, at);
        }
        Ok(())
    }

    /// Notes what runs.
    fn run(&mut self, minors: u64, at: u64) {
        if self.skew.last().is_none_or(|last| last.minors != minors) {
            self.skew.push(SkewRecord { at_seconds: at, minors });
        }
        for part in self.versions.keys() {
            let Some((oldest, newest)) = self.machines.range(part) else { continue };
            let points = self.lanes.entry(part.clone()).or_default();
            let is_same = |last: &LanePoint| last.oldest == oldest && last.newest == newest;
            if !points.last().is_some_and(is_same) {
                // Within one second, what is last counts.
                points.retain(|point| point.at_seconds != at);
                points.push(LanePoint { at_seconds: at, oldest, newest });
            }
        }
    }

    /// A part has a version: if it had another, that is an operation.
    pub fn version(&mut self, part: Part, version: String, at: u64) {
        let before = self.versions.insert(part.clone(), version.clone());
        if let Some(before) = before.filter(|before| *before != version) {
            self.operate(part, before, version, at);
        }
    }

    fn operate(&mut self, part: Part, from: String, to: String, at: u64) {
        let operation = OperationRecord {
            kind: part.kind(),
            group: part.group().cloned(),
            from,
            to,
            under_way: false,
            start_seconds: at,
            end_seconds: at,
            machines: Vec::new(),
        };
        self.operations.push((part, operation));
    }

    fn operation(&mut self, part: &Part) -> Option<&mut OperationRecord> {
        let operations = self.operations.iter_mut().rev();
        operations.into_iter().find(|(of, _)| of == part).map(|(_, operation)| operation)
    }

    /// A machine is as it is now, or gone.
    pub fn seen(&mut self, name: String, now: Seen, gone: bool, at: u64) {
        let before =
            if gone { self.machines.remove(&name) } else { self.machines.insert(name.clone(), now.clone()) };
        match &before {
            None if !gone => {
                self.counts.created += 1;
                self.begins(&now.part, &name, "create", at);
            }
            Some(before) => {
                if now.available && !before.available {
                    self.ends(&now.part, &name, "create", at);
                }
                if now.deleting && !before.deleting {
                    self.begins(&now.part, &name, "delete", at);
                }
                if now.updating && !before.updating {
                    self.begins(&now.part, &name, "update", at);
                }
                if !now.updating && before.updating && !gone {
                    self.counts.updated_in_place += 1;
                    self.ends(&now.part, &name, "update", at);
                }
            }
            None => {}
        }
        if gone {
            self.counts.deleted += 1;
            self.ends(&now.part, &name, "delete", at);
        }
    }

    /// Something begins to happen to a machine.
    pub fn begins(&mut self, part: &Part, name: &str, action: &'static str, at: u64) {
        // Machines that come and go without another version do so for another reason.
        if self.operation(part).is_none()
            && let Some(version) = self.versions.get(part).cloned()
        {
            self.operate(part.clone(), version.clone(), version, at);
        }
        let seen = self.machines.all.get(name).filter(|_| action != "create");
        let reason = seen.and_then(|seen| seen.outdated.clone());
        if let Some(operation) = self.operation(part) {
            let name = name.to_owned();
            let record = MachineRecord { name, action, reason, start_seconds: at, end_seconds: at };
            operation.machines.push(record);
            operation.end_seconds = at;
        }
    }

    fn ends(&mut self, part: &Part, name: &str, action: &'static str, at: u64) {
        if let Some(operation) = self.operation(part) {
            let open = operation.machines.iter_mut().rev();
            if let Some(record) =
                open.into_iter().find(|record| record.name == name && record.action == action)
            {
                record.end_seconds = at;
                operation.end_seconds = at;
            }
        }
    }
}
