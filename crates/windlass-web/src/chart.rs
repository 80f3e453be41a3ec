//! The two pictures of the page: versions over time, and machines over time.

use std::fmt::Write as _;

use windlass_engine::progress::{LanePoint, LaneRecord, OperationRecord};
use windlass_simulate::UpgradeReport;
use windlass_version::Version;

use crate::html::{clock, escaped, heading};

/// Width of both pictures, in units of their own.
const WIDTH: f64 = 1000.0;
/// Where time begins: labels are left of it.
const LEFT: f64 = 90.0;
/// Where it ends.
const RIGHT: f64 = 970.0;
/// Distance of two minors.
const MINOR: f64 = 46.0;
/// How many minors a kubelet may be behind.
const BAND: u64 = 3;
/// Colours for worker groups; more groups begin again.
const COLOURS: usize = 6;
/// More rows than these are too many to be read one by one.
const READABLE: usize = 240;

/// What pictures are made of: what happened, and what is foretold from there on.
pub(crate) struct Timeline<'a> {
    /// Which versions ran.
    pub(crate) lanes: &'a [LaneRecord],
    /// What was done.
    pub(crate) operations: &'a [OperationRecord],
    /// Until when that is known, in seconds.
    pub(crate) until: u64,
    /// When hooks were called, and what is said about each.
    pub(crate) hooks: Vec<(u64, String)>,
    /// What comes after that; its times count from there.
    pub(crate) forecast: Option<&'a UpgradeReport>,
}

impl<'a> Timeline<'a> {
    /// A whole upgrade.
    pub(crate) fn of(report: &'a UpgradeReport) -> Self {
        Self {
            lanes: &report.lanes,
            operations: &report.operations,
            until: report.virtual_seconds,
            hooks: report.hooks.iter().map(|call| (call.at_seconds, call.to_string())).collect(),
            forecast: None,
        }
    }

    fn end(&self) -> u64 {
        self.until + self.forecast.map_or(0, |forecast| forecast.virtual_seconds)
    }

    /// The lane of a part as it is foretold, at the times of this picture.
    fn foretold(&self, lane: &LaneRecord) -> Option<LaneRecord> {
        let lanes = &self.forecast?.lanes;
        let same = lanes.iter().find(|other| (other.kind, &other.group) == (lane.kind, &lane.group))?;
        let points = same
            .points
            .iter()
            .map(|point| LanePoint { at_seconds: point.at_seconds + self.until, ..point.clone() });
        Some(LaneRecord { points: points.collect(), ..same.clone() })
    }
}

/// A scale of time.
struct Scale {
    seconds: f64,
}

impl Scale {
    fn of(timeline: &Timeline<'_>) -> Self {
        Self { seconds: (timeline.end().max(1)) as f64 }
    }

    fn x(&self, seconds: u64) -> f64 {
        LEFT + (RIGHT - LEFT) * (seconds as f64 / self.seconds).min(1.0)
    }

    /// Lines and labels of time, from one height to another.
    fn axis(&self, top: f64, bottom: f64) -> String {
        let steps: [u32; 17] =
            [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14_400, 43_200, 86_400];
        let step = steps.into_iter().find(|step| self.seconds / f64::from(*step) <= 9.0).unwrap_or(604_800);
        let mut text = String::new();
        let mut at = 0_u64;
        while (at as f64) <= self.seconds {
            let x = self.x(at);
            let _ = write!(
                text,
                "<line class=\"grid\" x1=\"{x:.1}\" y1=\"{top}\" x2=\"{x:.1}\" y2=\"{bottom}\"/>\
                 <text x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
                bottom + 14.0,
                clock(at)
            );
            at += u64::from(step);
        }
        text
    }
}

fn minor(version: &str) -> Option<u64> {
    Version::parse(version).ok().map(|version| version.minor().minor)
}

/// Minors over time: the control plane as ceiling, the allowed band, a line per worker group, and where hooks are called.
pub(crate) fn lanes(timeline: &Timeline<'_>) -> String {
    let foretold: Vec<Option<LaneRecord>> =
        timeline.lanes.iter().map(|lane| timeline.foretold(lane)).collect();
    let all = timeline.lanes.iter().chain(foretold.iter().flatten()).flat_map(|lane| &lane.points);
    let minors: Vec<u64> =
        all.flat_map(|point| [minor(&point.oldest), minor(&point.newest)]).flatten().collect();
    let (Some(low), Some(high)) = (minors.iter().min().copied(), minors.iter().max().copied()) else {
        return "<p>Nothing runs.</p>".to_owned();
    };
    let low = low.min(high.saturating_sub(1));
    let top = 20.0;
    let bottom = top + MINOR * ((high - low) as f64 + 0.6);
    let y = |minor: u64| bottom - MINOR * 0.3 - MINOR * (minor.max(low) - low) as f64;
    let scale = Scale::of(timeline);
    let mut picture = format!(
        "<svg viewBox=\"0 0 {WIDTH} {:.0}\" role=\"img\" aria-label=\"Kubernetes minors of the control plane and of every \
         worker group over time\">",
        bottom + 24.0
    );
    let ceiling = timeline.lanes.iter().zip(&foretold).find(|(lane, _)| lane.group.is_none());
    let band = ceiling.into_iter().flat_map(|(lane, foretold)| {
        let later = foretold.iter().flat_map(|foretold| stretches(foretold, timeline.end()));
        stretches(lane, timeline.until).into_iter().chain(later).collect::<Vec<_>>()
    });
    for stretch in band {
        let (from, to) = (scale.x(stretch.from), scale.x(stretch.to));
        let (upper, lower) = (y(stretch.oldest), y(stretch.newest.saturating_sub(BAND)));
        let _ = write!(
            picture,
            "<rect class=\"band\" x=\"{from:.1}\" y=\"{upper:.1}\" width=\"{:.1}\" height=\"{:.1}\"/>",
            to - from,
            (lower - upper).max(1.0)
        );
    }
    picture.push_str(&scale.axis(top, bottom));
    for minor in low..=high {
        let at = y(minor);
        let _ = write!(
            picture,
            "<line class=\"grid\" x1=\"{LEFT}\" y1=\"{at:.1}\" x2=\"{RIGHT}\" y2=\"{at:.1}\"/>\
             <text x=\"{:.0}\" y=\"{:.1}\" text-anchor=\"end\">v1.{minor}</text>",
            LEFT - 8.0,
            at + 4.0
        );
    }
    if timeline.forecast.is_some() {
        let x = scale.x(timeline.until);
        let _ = write!(
            picture,
            "<line class=\"now\" x1=\"{x:.1}\" y1=\"{:.1}\" x2=\"{x:.1}\" y2=\"{bottom}\"/>\
             <text class=\"now\" x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\">now</text>",
            top - 6.0,
            top - 8.0
        );
    }
    for (at, call) in &timeline.hooks {
        let x = scale.x(*at);
        let _ = write!(
            picture,
            "<line class=\"hook\" x1=\"{x:.1}\" y1=\"{top}\" x2=\"{x:.1}\" y2=\"{:.1}\"><title>{} {}</title></line>",
            top - 10.0,
            clock(*at),
            escaped(call)
        );
    }
    let mut legend = String::new();
    for (number, (lane, foretold)) in timeline.lanes.iter().zip(&foretold).enumerate() {
        let (class, name) = match &lane.group {
            None => ("cp".to_owned(), "control plane".to_owned()),
            Some(group) => (format!("g{}", number.wrapping_sub(1) % COLOURS), group.clone()),
        };
        // Lines of several groups at one minor lie beside each other.
        let shift = if lane.group.is_none() { 0.0 } else { 3.0 * ((number % COLOURS) as f64) };
        let past =
            [("", false), (" newest", true)].map(|(extra, of)| (extra, of, Some(lane), timeline.until));
        for (extra, of, lane, until) in
            past.into_iter().chain([(" future", false, foretold.as_ref(), timeline.end())])
        {
            let Some(lane) = lane else { continue };
            let path = path(lane, until, &scale, |minor| y(minor) + shift, of);
            let _ = write!(
                picture,
                "<path class=\"lane {class}{extra}\" d=\"{path}\"><title>{}</title></path>",
                escaped(&name)
            );
        }
        let _ = write!(
            legend,
            "<li><svg viewBox=\"0 0 26 10\" aria-hidden=\"true\"><path class=\"lane {class}\" d=\"M0 5H26\"/></svg>{}</li>",
            escaped(&name)
        );
    }
    format!("{picture}</svg><ul class=\"legend\">{legend}</ul>")
}

/// A time in which nothing changes.
struct Stretch {
    from: u64,
    to: u64,
    oldest: u64,
    newest: u64,
}

fn stretches(lane: &LaneRecord, end: u64) -> Vec<Stretch> {
    let ends = lane.points.iter().skip(1).map(|point| point.at_seconds).chain([end]);
    let pairs = lane.points.iter().zip(ends);
    let stretch = |(point, to): (&LanePoint, u64)| {
        Some(Stretch {
            from: point.at_seconds,
            to: to.max(point.at_seconds),
            oldest: minor(&point.oldest)?,
            newest: minor(&point.newest)?,
        })
    };
    pairs.filter_map(stretch).collect()
}

fn path(lane: &LaneRecord, end: u64, scale: &Scale, y: impl Fn(u64) -> f64, of_newest: bool) -> String {
    let mut path = String::new();
    for (number, stretch) in stretches(lane, end).into_iter().enumerate() {
        let minor = if of_newest { stretch.newest } else { stretch.oldest };
        let (from, to, at) = (scale.x(stretch.from), scale.x(stretch.to), y(minor));
        let verb = if number == 0 { 'M' } else { 'L' };
        let _ = write!(path, "{verb}{from:.1} {at:.1}H{to:.1}");
    }
    path
}

/// A bar for everything that happens to a machine.
pub(crate) fn gantt(timeline: &Timeline<'_>) -> String {
    let past = timeline.operations.iter().map(|operation| (operation, 0, ""));
    let operations = timeline.forecast.map(|forecast| forecast.operations.as_slice()).unwrap_or_default();
    let later = operations.iter().map(|operation| (operation, timeline.until, " future"));
    let all: Vec<(&OperationRecord, u64, &str)> =
        past.chain(later).filter(|(operation, ..)| !operation.machines.is_empty()).collect();
    let bars: usize = all.iter().map(|(operation, ..)| operation.machines.len()).sum();
    if bars == 0 {
        return "<p>No machine is touched.</p>".to_owned();
    }
    let is_readable = bars <= READABLE;
    let row = if is_readable { 16.0 } else { 4.0 };
    let scale = Scale::of(timeline);
    let left_of_bars = 6.0;
    let mut rows = String::new();
    let mut at = 22.0;
    for (operation, offset, class) in all {
        let _ = write!(
            rows,
            "<text class=\"head\" x=\"4\" y=\"{:.1}\">{}</text>",
            at + 12.0,
            escaped(&heading(operation))
        );
        at += 18.0;
        for machine in &operation.machines {
            let (start, end) = (machine.start_seconds + offset, machine.end_seconds + offset);
            let (from, to) = (scale.x(start), scale.x(end));
            let width = (to - from).max(2.0);
            let (start, end) = (clock(start), clock(end));
            let (action, name) = (machine.action, escaped(&machine.name));
            let _ = write!(
                rows,
                "<rect class=\"{action}{class}\" x=\"{from:.1}\" y=\"{:.1}\" width=\"{width:.1}\" height=\"{:.1}\" rx=\"2\">\
                 <title>{action} {name} {start} - {end}</title></rect>",
                at + row * 0.2,
                row * 0.6
            );
            if is_readable {
                // On the side where there is room.
                let (x, anchor) = match from + width + 8.0 * name.len() as f64 > RIGHT {
                    true => (from - left_of_bars, "end"),
                    false => (from + width + left_of_bars, "start"),
                };
                let _ = write!(
                    rows,
                    "<text x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"{anchor}\">{action} {name}</text>",
                    at + row * 0.75
                );
            }
            at += row;
        }
    }
    format!(
        "<svg viewBox=\"0 0 {WIDTH} {:.0}\" role=\"img\" aria-label=\"Every machine that comes, goes or is updated, over time\">\
         {}{rows}</svg>",
        at + 24.0,
        scale.axis(16.0, at)
    )
}
