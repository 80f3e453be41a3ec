//! The two pictures of the page: versions over time, and machines over time.

use std::fmt::Write as _;

use windlass_simulate::{LaneRecord, UpgradeReport};
use windlass_version::Version;

use super::{clock, escaped, heading};

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

/// A scale of time.
struct Scale {
    seconds: f64,
}

impl Scale {
    fn of(report: &UpgradeReport) -> Self {
        Self { seconds: (report.virtual_seconds.max(1)) as f64 }
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
pub(super) fn lanes(report: &UpgradeReport) -> String {
    let all = report.lanes.iter().flat_map(|lane| &lane.points);
    let minors: Vec<u64> =
        all.flat_map(|point| [minor(&point.oldest), minor(&point.newest)]).flatten().collect();
    let (Some(low), Some(high)) = (minors.iter().min().copied(), minors.iter().max().copied()) else {
        return "<p>Nothing runs.</p>".to_owned();
    };
    let low = low.min(high.saturating_sub(1));
    let top = 20.0;
    let bottom = top + MINOR * ((high - low) as f64 + 0.6);
    let y = |minor: u64| bottom - MINOR * 0.3 - MINOR * (minor.max(low) - low) as f64;
    let scale = Scale::of(report);
    let mut picture = format!(
        "<svg viewBox=\"0 0 {WIDTH} {:.0}\" role=\"img\" aria-label=\"Kubernetes minors of the control plane and of every \
         worker group over time\">",
        bottom + 24.0
    );
    let ceiling = report.lanes.iter().find(|lane| lane.group.is_none());
    for stretch in ceiling.into_iter().flat_map(|lane| stretches(lane, report.virtual_seconds)) {
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
    for call in &report.hooks {
        let x = scale.x(call.at_seconds);
        let _ = write!(
            picture,
            "<line class=\"hook\" x1=\"{x:.1}\" y1=\"{top}\" x2=\"{x:.1}\" y2=\"{:.1}\"><title>{} {}</title></line>",
            top - 10.0,
            clock(call.at_seconds),
            escaped(&call.to_string())
        );
    }
    let mut legend = String::new();
    for (number, lane) in report.lanes.iter().enumerate() {
        let (class, name) = match &lane.group {
            None => ("cp".to_owned(), "control plane".to_owned()),
            Some(group) => (format!("g{}", number.wrapping_sub(1) % COLOURS), group.clone()),
        };
        // Lines of several groups at one minor lie beside each other.
        let shift = if lane.group.is_none() { 0.0 } else { 3.0 * ((number % COLOURS) as f64) };
        for (extra, of) in [("", false), (" newest", true)] {
            let path = path(lane, report.virtual_seconds, &scale, |minor| y(minor) + shift, of);
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
    let stretch = |(point, to): (&windlass_simulate::LanePoint, u64)| {
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
pub(super) fn gantt(report: &UpgradeReport) -> String {
    let bars: usize = report.operations.iter().map(|operation| operation.machines.len()).sum();
    if bars == 0 {
        return "<p>No machine is touched.</p>".to_owned();
    }
    let is_readable = bars <= READABLE;
    let row = if is_readable { 16.0 } else { 4.0 };
    let scale = Scale::of(report);
    let left_of_bars = 6.0;
    let mut rows = String::new();
    let mut at = 22.0;
    for operation in report.operations.iter().filter(|operation| !operation.machines.is_empty()) {
        let _ = write!(
            rows,
            "<text class=\"head\" x=\"4\" y=\"{:.1}\">{}</text>",
            at + 12.0,
            escaped(&heading(operation))
        );
        at += 18.0;
        for machine in &operation.machines {
            let (from, to) = (scale.x(machine.start_seconds), scale.x(machine.end_seconds));
            let width = (to - from).max(2.0);
            let (start, end) = (clock(machine.start_seconds), clock(machine.end_seconds));
            let (action, name) = (machine.action, escaped(&machine.name));
            let _ = write!(
                rows,
                "<rect class=\"{action}\" x=\"{from:.1}\" y=\"{:.1}\" width=\"{width:.1}\" height=\"{:.1}\" rx=\"2\">\
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
