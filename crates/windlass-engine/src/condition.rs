//! Conditions: how they are set, summed up over one object, and aggregated over many.
//!
//! A controller says what holds with a [`Finding`]; [`set`] writes it into a list of conditions. The time of a
//! transition moves only when the status does, so that "Ready for five minutes" can be read from it, and the
//! order of a list is the same whatever the order in which conditions were set.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use windlass_api::conditions::ConditionStatus;

use crate::condition_order::place;

/// What a controller found out about one aspect of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Which aspect: the type of the condition.
    pub type_: String,
    /// Whether it holds.
    pub status: ConditionStatus,
    /// A word for programs.
    pub reason: String,
    /// Sentences for people; may be empty.
    pub message: String,
}

impl Finding {
    /// It holds.
    pub fn yes(type_: &str, reason: &str) -> Self {
        Self::new(type_, ConditionStatus::True, reason)
    }

    /// It does not hold.
    pub fn no(type_: &str, reason: &str) -> Self {
        Self::new(type_, ConditionStatus::False, reason)
    }

    /// Unknown.
    pub fn unknown(type_: &str, reason: &str) -> Self {
        Self::new(type_, ConditionStatus::Unknown, reason)
    }

    /// It is as `status` says.
    pub fn new(type_: &str, status: ConditionStatus, reason: &str) -> Self {
        Self { type_: type_.to_owned(), status, reason: reason.to_owned(), message: String::new() }
    }

    /// The same with a message for people.
    #[must_use]
    pub fn because(mut self, message: impl ToString) -> Self {
        self.message = message.to_string();
        self
    }
}

/// Writes a finding into the conditions of an object; true if that changed anything.
///
/// The time of the transition is `now` if the status changed or the condition is new, else what it was.
pub fn set(
    conditions: &mut Vec<Condition>,
    finding: Finding,
    generation: Option<i64>,
    now: Timestamp,
) -> bool {
    let Finding { type_, status, reason, message } = finding;
    let before = conditions.iter_mut().find(|condition| condition.type_ == type_);
    let status = word(status);
    let since = match &before {
        Some(before) if before.status == status => before.last_transition_time.clone(),
        _ => Time(to_the_second(now)),
    };
    let after = Condition {
        type_,
        status: status.to_owned(),
        observed_generation: generation,
        last_transition_time: since,
        reason,
        message,
    };
    match before {
        Some(before) if *before == after => return false,
        Some(before) => *before = after,
        None => conditions.push(after),
    }
    sort(conditions);
    true
}

/// Brings conditions into the order in which Cluster API keeps them. Programs go through a list and stop at the first
/// condition that tells them something, so the order is part of what is said.
pub fn sort(conditions: &mut [Condition]) {
    conditions.sort_by(|a, b| place(&a.type_).cmp(&place(&b.type_)));
}

/// Drops a condition that no longer applies; true if it was there.
pub fn remove(conditions: &mut Vec<Condition>, type_: &str) -> bool {
    let before = conditions.len();
    conditions.retain(|condition| condition.type_ != type_);
    conditions.len() != before
}

/// The condition of a type, if it was ever set.
pub fn find<'a>(conditions: &'a [Condition], type_: &str) -> Option<&'a Condition> {
    conditions.iter().find(|condition| condition.type_ == type_)
}

/// The status of a condition. Absent and `Unknown` are different answers.
pub fn status(conditions: &[Condition], type_: &str) -> Option<ConditionStatus> {
    find(conditions, type_).map(status_of)
}

/// The status of one condition. A word that is no status counts as `Unknown`.
pub fn status_of(condition: &Condition) -> ConditionStatus {
    match condition.status.as_str() {
        "True" => ConditionStatus::True,
        "False" => ConditionStatus::False,
        _ => ConditionStatus::Unknown,
    }
}

/// Whether a condition is there and `True`.
pub fn is_true(conditions: &[Condition], type_: &str) -> bool {
    status(conditions, type_) == Some(ConditionStatus::True)
}

/// Whether a condition is there and `False`.
pub fn is_false(conditions: &[Condition], type_: &str) -> bool {
    status(conditions, type_) == Some(ConditionStatus::False)
}

/// When a condition got the status it has.
pub fn since(condition: &Condition) -> Timestamp {
    condition.last_transition_time.0
}

/// How long a condition has been `True` at `now`; nothing if it is not.
pub fn true_for(conditions: &[Condition], type_: &str, now: Timestamp) -> Option<SignedDuration> {
    let condition =
        find(conditions, type_).filter(|condition| status_of(condition) == ConditionStatus::True)?;
    Some(now.duration_since(since(condition)))
}

/// Which status of a condition is good news.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Polarity {
    /// `True` is.
    Positive,
    /// `False` is, as with `Deleting`.
    Negative,
}

impl Polarity {
    /// What a status means for those that depend on the condition.
    pub fn verdict(self, status: ConditionStatus) -> Verdict {
        match (self, status) {
            (_, ConditionStatus::Unknown) => Verdict::Unknown,
            (Self::Positive, ConditionStatus::True) | (Self::Negative, ConditionStatus::False) => {
                Verdict::Good
            }
            _ => Verdict::Issue,
        }
    }
}

/// What a condition means, its polarity considered. The worst one decides: an issue before the unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    /// Something is wrong.
    Issue,
    /// Unknown.
    Unknown,
    /// All is well.
    Good,
}

/// A condition that a summary looks at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part<'a> {
    /// The type of the condition, by which it is found among others.
    pub type_: &'a str,
    /// Which status is good news.
    pub polarity: Polarity,
    /// Whether its absence is unknown; otherwise it then does not count.
    pub required: bool,
}

impl<'a> Part<'a> {
    /// A condition that must be there and `True`.
    pub fn required(type_: &'a str) -> Self {
        Self { type_, polarity: Polarity::Positive, required: true }
    }

    /// A condition that must be `True` if it is there.
    pub fn optional(type_: &'a str) -> Self {
        Self { type_, polarity: Polarity::Positive, required: false }
    }

    /// A condition that must be there and `False`.
    pub fn negative(type_: &'a str) -> Self {
        Self { type_, polarity: Polarity::Negative, required: true }
    }
}

/// The reason for each outcome of a summary or an aggregate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reasons<'a> {
    /// If all is well.
    pub good: &'a str,
    /// If something is wrong.
    pub issue: &'a str,
    /// If nothing is wrong but something unknown.
    pub unknown: &'a str,
}

/// Sums up several conditions of one object: any issue makes it `False`, else anything unknown `Unknown`.
///
/// The message has one line for each part that is not well, the issues first.
pub fn summary(type_: &str, conditions: &[Condition], parts: &[Part<'_>], reasons: Reasons<'_>) -> Finding {
    let mut lines: Vec<(Verdict, String)> = Vec::new();
    for part in parts {
        let (verdict, text) = match find(conditions, part.type_) {
            Some(condition) => (part.polarity.verdict(status_of(condition)), text(condition)),
            None if part.required => (Verdict::Unknown, "not yet reported".to_owned()),
            None => continue,
        };
        if verdict != Verdict::Good {
            lines.push((verdict, line(part.type_, &text)));
        }
    }
    lines.sort_by_key(|(verdict, _)| *verdict);
    let worst = lines.first().map_or(Verdict::Good, |(verdict, _)| *verdict);
    let lines: Vec<String> = lines.into_iter().map(|(_, line)| line).collect();
    concluded(type_, worst, reasons).because(lines.join("\n"))
}

/// One object whose condition goes into an aggregate.
#[derive(Clone, Copy, Debug)]
pub struct Source<'a> {
    /// The name of the object, by which messages refer to it.
    pub name: &'a str,
    /// All conditions of the object.
    pub conditions: &'a [Condition],
}

/// What is aggregated over many objects.
#[derive(Clone, Copy, Debug)]
pub struct Aggregate<'a> {
    /// The type of the condition that is made.
    pub type_: &'a str,
    /// The kind of the objects, for people.
    pub kind: &'a str,
    /// The type of the condition that is looked at.
    pub of: &'a str,
    /// Which status of that condition is good news.
    pub polarity: Polarity,
    /// The reasons.
    pub reasons: Reasons<'a>,
    /// The reason if there is no object at all; the aggregate is then `True`.
    pub none: &'a str,
}

/// How many objects a line of an aggregate names: enough to start looking, few enough to read.
const NAMES_PER_LINE: usize = 3;
/// How many different messages an aggregate has.
const LINES: usize = 4;

/// Aggregates a condition of many objects: any issue makes it `False`, else anything unknown `Unknown`.
///
/// Objects with the same message share a line. An object without the condition is unknown.
pub fn aggregate(aggregate: &Aggregate<'_>, sources: &[Source<'_>]) -> Finding {
    if sources.is_empty() {
        return Finding::yes(aggregate.type_, aggregate.none);
    }
    let mut groups: BTreeMap<(Verdict, String), Vec<&str>> = BTreeMap::new();
    for source in sources {
        let (verdict, text) = match find(source.conditions, aggregate.of) {
            Some(condition) => (aggregate.polarity.verdict(status_of(condition)), text(condition)),
            None => (Verdict::Unknown, format!("{} not yet reported", aggregate.of)),
        };
        if verdict != Verdict::Good {
            groups.entry((verdict, text)).or_default().push(source.name);
        }
    }
    let worst = groups.first_key_value().map_or(Verdict::Good, |((verdict, _), _)| *verdict);
    // Within a verdict, what concerns most objects comes first.
    let mut groups: Vec<_> = groups.into_iter().collect();
    groups.sort_by_key(|((verdict, _), names)| (*verdict, std::cmp::Reverse(names.len())));
    let more: usize = groups.iter().skip(LINES).map(|(_, names)| names.len()).sum();
    let lines = groups.into_iter().take(LINES);
    let mut lines: Vec<String> =
        lines.map(|((_, text), names)| line(&named(aggregate.kind, names), &text)).collect();
    if more > 0 {
        lines.push(format!("* {more} more {}s with other messages", aggregate.kind));
    }
    concluded(aggregate.type_, worst, aggregate.reasons).because(lines.join("\n"))
}

fn concluded(type_: &str, worst: Verdict, reasons: Reasons<'_>) -> Finding {
    match worst {
        Verdict::Good => Finding::yes(type_, reasons.good),
        Verdict::Issue => Finding::no(type_, reasons.issue),
        Verdict::Unknown => Finding::unknown(type_, reasons.unknown),
    }
}

/// The message of a condition, or its reason if it has none.
fn text(condition: &Condition) -> String {
    if condition.message.is_empty() { condition.reason.clone() } else { condition.message.clone() }
}

/// A line of a message; what has several lines itself is indented below. A list of one is no list.
fn line(about: &str, text: &str) -> String {
    if text.lines().count() > 1 {
        format!("* {about}:\n  {}", text.replace('\n', "\n  "))
    } else {
        format!("* {about}: {}", text.trim_start_matches("* "))
    }
}

fn named(kind: &str, mut names: Vec<&str>) -> String {
    names.sort_unstable();
    let more = names.len().saturating_sub(NAMES_PER_LINE);
    let plural = if names.len() > 1 { "s" } else { "" };
    names.truncate(NAMES_PER_LINE);
    let mut text = format!("{kind}{plural} {}", names.join(", "));
    if more > 0 {
        // Writing to a string does not fail.
        let _ = write!(text, " and {more} more");
    }
    text
}

/// A status as it is written.
pub(crate) fn word(status: ConditionStatus) -> &'static str {
    match status {
        ConditionStatus::True => "True",
        ConditionStatus::False => "False",
        ConditionStatus::Unknown => "Unknown",
    }
}

/// A time as the API keeps it. What is more exact would look like a change after it was read back.
pub fn to_the_second(time: Timestamp) -> Timestamp {
    Timestamp::from_second(time.as_second()).unwrap_or(time)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn conditions(findings: Vec<Finding>) -> Vec<Condition> {
        let mut conditions = Vec::new();
        for finding in findings {
            set(&mut conditions, finding, None, at(0));
        }
        conditions
    }

    const REASONS: Reasons<'static> = Reasons { good: "Ready", issue: "NotReady", unknown: "ReadyUnknown" };

    #[test]
    fn the_time_of_a_transition_moves_only_with_the_status() {
        let mut list = conditions(vec![Finding::no("Ready", "A")]);
        assert!(set(&mut list, Finding::no("Ready", "B").because("why"), Some(2), at(60)));
        let ready = find(&list, "Ready").unwrap();
        assert_eq!((ready.reason.as_str(), since(ready)), ("B", at(0)));
        assert!(!set(&mut list, Finding::no("Ready", "B").because("why"), Some(2), at(61)));
        assert!(set(&mut list, Finding::yes("Ready", "Ready"), Some(2), at(62)));
        assert_eq!(since(&list[0]), at(62));
        assert_eq!(true_for(&list, "Ready", at(72)), Some(SignedDuration::from_secs(10)));
    }

    #[test]
    fn the_order_does_not_depend_on_who_was_set_first() {
        let types = ["Paused", "NodeHealthy", "Ready", "Available", "Deleting"];
        let forwards = conditions(types.iter().map(|type_| Finding::yes(type_, "R")).collect());
        let backwards = conditions(types.iter().rev().map(|type_| Finding::yes(type_, "R")).collect());
        assert_eq!(forwards, backwards);
        let order: Vec<&str> = forwards.iter().map(|condition| condition.type_.as_str()).collect();
        assert_eq!(order, ["Available", "Ready", "NodeHealthy", "Paused", "Deleting"]);
    }

    #[test]
    fn a_summary_is_as_bad_as_its_worst_part() {
        let parts = [Part::negative("Deleting"), Part::required("Infra"), Part::optional("Check")];
        let cases: Vec<(Vec<Finding>, ConditionStatus, &str)> = vec![
            (vec![], ConditionStatus::Unknown, "* Deleting: not yet reported\n* Infra: not yet reported"),
            (vec![Finding::no("Deleting", "No"), Finding::yes("Infra", "R")], ConditionStatus::True, ""),
            (
                vec![Finding::unknown("Deleting", "No"), Finding::no("Infra", "NotReady").because("no disk")],
                ConditionStatus::False,
                "* Infra: no disk\n* Deleting: No",
            ),
            (
                vec![Finding::yes("Deleting", "Drain").because("a\nb"), Finding::yes("Infra", "R")],
                ConditionStatus::False,
                "* Deleting:\n  a\n  b",
            ),
            (
                vec![Finding::no("Deleting", "No"), Finding::yes("Infra", "R"), Finding::no("Check", "C")],
                ConditionStatus::False,
                "* Check: C",
            ),
        ];
        for (findings, status, message) in cases {
            let summary = summary("Ready", &conditions(findings), &parts, REASONS);
            assert_eq!((summary.status, summary.message.as_str()), (status, message));
        }
    }

    const MACHINES_READY: Aggregate<'static> = Aggregate {
        type_: "MachinesReady",
        kind: "Machine",
        of: "Ready",
        polarity: Polarity::Positive,
        reasons: REASONS,
        none: "NoReplicas",
    };

    #[test]
    fn an_aggregate_groups_objects_by_message_and_counts_the_rest() {
        assert_eq!(aggregate(&MACHINES_READY, &[]), Finding::yes("MachinesReady", "NoReplicas"));

        let (well, sick) = (
            conditions(vec![Finding::yes("Ready", "Ready")]),
            conditions(vec![Finding::no("Ready", "NotReady").because("* Infra: no disk")]),
        );
        let new = conditions(vec![]);
        let mut sources: Vec<Source<'_>> =
            ["m5", "m4", "m3", "m2"].map(|name| Source { name, conditions: &sick }).to_vec();
        sources.push(Source { name: "m1", conditions: &well });
        sources.push(Source { name: "m6", conditions: &new });
        let finding = aggregate(&MACHINES_READY, &sources);
        assert_eq!(finding.status, ConditionStatus::False);
        assert_eq!(
            finding.message,
            "* Machines m2, m3, m4 and 1 more: Infra: no disk\n* Machine m6: Ready not yet reported"
        );
        assert_eq!(aggregate(&MACHINES_READY, &sources[4..5]), Finding::yes("MachinesReady", "Ready"));
        assert_eq!(aggregate(&MACHINES_READY, &sources[5..]).status, ConditionStatus::Unknown);
    }

    #[test]
    fn an_aggregate_stays_short_with_many_different_messages() {
        let all: Vec<(String, Vec<Condition>)> = (0..50)
            .map(|n| {
                (format!("m{n}"), conditions(vec![Finding::no("Ready", "R").because(format!("disk {n}"))]))
            })
            .collect();
        let sources: Vec<Source<'_>> =
            all.iter().map(|(name, conditions)| Source { name, conditions }).collect();
        let finding = aggregate(&MACHINES_READY, &sources);
        assert_eq!(finding.message.lines().count(), 5);
        assert!(finding.message.ends_with("* 46 more Machines with other messages"), "{}", finding.message);
    }
}
