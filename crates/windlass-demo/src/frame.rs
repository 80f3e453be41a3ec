//! A picture of a moment, for a terminal.

use std::fmt::Write as _;
use std::time::Duration;

use anstyle::{AnsiColor, Style};
use windlass_api::printable;
use windlass_engine::progress::{Lane, MachineState};

use crate::model::{Model, Phase, StepState};

/// Width of the column with the names of lanes.
const NAME: usize = 15;

/// Text in one style. Every character is one cell wide.
#[derive(Clone, Debug, PartialEq)]
pub struct Span {
    /// The style.
    pub style: Style,
    /// The text.
    pub text: String,
}

/// A line of spans.
pub type Line = Vec<Span>;

/// What is in a picture comes from objects and extensions: it is shown, and does nothing else.
fn span(style: Style, text: impl AsRef<str>) -> Span {
    Span { style, text: printable(text.as_ref()).into_owned() }
}

fn plain(text: impl AsRef<str>) -> Span {
    span(Style::new(), text)
}

fn colour(colour: AnsiColor) -> Style {
    Style::new().fg_color(Some(colour.into()))
}

const DIM: Style = Style::new().dimmed();
const BOLD: Style = Style::new().bold();

/// A picture of the model, of at most so many cells, with the escape sequences of a terminal for its colours.
pub fn frame(model: &Model, width: usize, height: usize) -> String {
    let mut text = String::new();
    for line in picture(model, width, height) {
        let mut left = width;
        for Span { style, text: words } in line {
            let words: String = words.chars().take(left).collect();
            left -= words.chars().count();
            // Writing to a String does not fail.
            let _ = write!(text, "{style}{words}{style:#}");
        }
        text.push('\n');
    }
    text
}

/// The lines of a picture.
pub(crate) fn picture(model: &Model, width: usize, height: usize) -> Vec<Line> {
    let mut lines = vec![title(model), Vec::new()];
    lines.extend(lanes(&model.versions, &model.lanes, width));
    lines.push(Vec::new());
    let tail = tail(model);
    let room = height.saturating_sub(lines.len() + tail.len() + 1);
    lines.extend(plan_and_hooks(model, width, room));
    lines.push(Vec::new());
    lines.extend(tail);
    lines.truncate(height);
    lines
}

fn title(model: &Model) -> Line {
    let (phase, style) = match model.phase {
        Phase::Creating => ("creating the cluster", colour(AnsiColor::Yellow)),
        Phase::Upgrading => ("upgrading", colour(AnsiColor::Cyan)),
        Phase::Done => ("done", colour(AnsiColor::Green)),
    };
    vec![
        span(BOLD, "windlass demo"),
        plain(format!("   {} -> {}   ", model.from, model.to)),
        span(style, phase),
        span(DIM, format!("   {}   {} x as fast", clock(model.elapsed), model.speed)),
    ]
}

/// Where machines are: a row for each lane, a column for each version. Too many machines for a cell are counted.
pub fn lanes(versions: &[String], lanes: &[Lane], width: usize) -> Vec<Line> {
    let columns = versions.len().max(1);
    let cell = (width.saturating_sub(NAME) / columns).clamp(8, 16);
    let mut head = vec![span(DIM, format!("{:<NAME$}", ""))];
    head.extend(versions.iter().map(|version| span(BOLD, format!("{version:<cell$}"))));
    let mut lines = vec![head];
    for lane in lanes {
        let mut line = vec![plain(format!("{:<NAME$.NAME$}", lane.name))];
        for version in versions {
            let here: Vec<MachineState> =
                lane.machines.iter().filter(|mark| mark.version == *version).map(|mark| mark.state).collect();
            // More than there is room for are counted.
            let shown = if here.len() > cell - 1 { cell.saturating_sub(4) } else { here.len() };
            line.extend(here.iter().take(shown).map(|state| glyph(*state)));
            let more = if here.len() > shown { format!("+{}", here.len() - shown) } else { String::new() };
            let used = shown + more.chars().count();
            if used == 0 {
                line.push(span(DIM, format!("{:<cell$}", "·")));
            } else {
                line.push(plain(format!("{more}{:1$}", "", cell.saturating_sub(used))));
            }
        }
        lines.push(line);
    }
    lines
}

/// What signs of machines mean.
pub fn legend() -> Line {
    vec![
        glyph(MachineState::Available),
        span(DIM, " available  "),
        glyph(MachineState::Starting),
        span(DIM, " starting  "),
        glyph(MachineState::Updating),
        span(DIM, " updating in place  "),
        glyph(MachineState::Deleting),
        span(DIM, " going"),
    ]
}

fn glyph(state: MachineState) -> Span {
    match state {
        MachineState::Available => span(colour(AnsiColor::Green), "●"),
        MachineState::Starting => span(colour(AnsiColor::Yellow), "◐"),
        MachineState::Updating => span(colour(AnsiColor::Cyan), "◆"),
        MachineState::Deleting => span(colour(AnsiColor::Red), "○"),
    }
}

/// The plan on the left, the hooks on the right; of either, what matters now if there is no room for all.
fn plan_and_hooks(model: &Model, width: usize, room: usize) -> Vec<Line> {
    let longest = model.steps.iter().map(|step| step.text.chars().count()).max().unwrap_or_default();
    // Behind the sign in front of a step, and two cells between the columns.
    let half = (longest + 4).min(width / 2).clamp(20, 46);
    let beside = width.saturating_sub(half);
    let rows = room.saturating_sub(1);
    let done = model.steps.iter().take_while(|step| step.state == StepState::Done).count();
    // The last that is done stays in sight.
    let first = done.saturating_sub(1).min(model.steps.len().saturating_sub(rows));
    let steps = model.steps.iter().skip(first).take(rows);
    let left: Vec<Line> = steps
        .map(|step| match step.state {
            StepState::Done => vec![span(colour(AnsiColor::Green), "✔ "), span(DIM, step.text.clone())],
            StepState::Running => vec![span(colour(AnsiColor::Cyan), "▶ "), span(BOLD, step.text.clone())],
            StepState::Coming => vec![plain(format!("· {}", step.text))],
        })
        .collect();
    let calls = model.hooks.iter().skip(model.hooks.len().saturating_sub(rows));
    let right: Vec<Line> = calls
        .map(|call| {
            let mut line = vec![span(DIM, format!("{} ", clock(call.at))), plain(call.hook.clone())];
            if call.wait > 0 {
                line.push(span(colour(AnsiColor::Yellow), format!(" wait {} s", call.wait)));
            }
            // Where to matters more than where from, and half a version nothing at all.
            let to = call.versions.rsplit_once(' ').map_or(call.versions.as_str(), |(_, to)| to);
            let room = beside.saturating_sub(cells(&line) + 1);
            let short = format!("-> {to}");
            let versions = [&call.versions, &short].into_iter().find(|text| text.chars().count() <= room);
            line.extend(versions.map(|text| span(DIM, format!(" {text}"))));
            line
        })
        .collect();
    let mut lines = vec![vec![span(BOLD, format!("{:<half$}", "PLAN")), span(BOLD, "HOOKS")]];
    for row in 0..left.len().max(right.len()).min(rows) {
        let mut line = left.get(row).cloned().unwrap_or_default();
        cut(&mut line, half.saturating_sub(1));
        line.push(plain(" ".repeat(half - cells(&line))));
        line.extend(right.get(row).cloned().unwrap_or_default());
        lines.push(line);
    }
    lines
}

fn cells(line: &Line) -> usize {
    line.iter().map(|span| span.text.chars().count()).sum()
}

fn cut(line: &mut Line, width: usize) {
    let mut left = width;
    for span in line.iter_mut() {
        span.text = span.text.chars().take(left).collect();
        left -= span.text.chars().count();
    }
}

fn tail(model: &Model) -> Vec<Line> {
    let skew = if model.worst_skew > 3 { colour(AnsiColor::Red) } else { Style::new() };
    let mut lines = vec![vec![
        span(skew, format!("skew {}, worst {} of 3", model.skew, model.worst_skew)),
        plain(format!(
            "   machines {} new, {} gone, {} updated   hooks {}",
            model.created,
            model.deleted,
            model.updated,
            model.hooks.len()
        )),
    ]];
    match (model.phase, model.waiting_on.as_slice()) {
        (Phase::Done, _) | (_, []) => lines.push(Vec::new()),
        (_, [first, rest @ ..]) => {
            let more = if rest.is_empty() { String::new() } else { format!(" (and {} more)", rest.len()) };
            lines.push(vec![span(DIM, "waiting on "), plain(format!("{first}{more}"))]);
        }
    }
    lines.push(legend());
    lines
}

/// What came of it, in a few lines.
pub fn summary(model: &Model, virtual_time: Option<Duration>) -> String {
    let done = model.steps.iter().filter(|step| step.state == StepState::Done).count();
    let replaced = model.created.min(model.deleted);
    let slow = match virtual_time {
        Some(time) => {
            format!(", {} of virtual time at the speed of real machines", span_of_time(time))
        }
        None => String::new(),
    };
    let hooks: std::collections::BTreeSet<&str> = model.hooks.iter().map(|call| call.hook.as_str()).collect();
    format!(
        "{} -> {}: {done} of {} operations\n\
         {replaced} machine{} replaced, {} updated in place\n\
         {} calls of {} hooks over HTTPS, worst skew {} of the 3 minors that are allowed\n\
         {} of wall time{slow}\n",
        model.from,
        model.to,
        model.steps.len(),
        if replaced == 1 { "" } else { "s" },
        model.updated,
        model.hooks.len(),
        hooks.len(),
        model.worst_skew,
        span_of_time(model.elapsed),
    )
}

fn span_of_time(time: Duration) -> String {
    match time.as_secs() {
        seconds @ 0..120 => format!("{seconds} s"),
        seconds => format!("{} min {} s", seconds / 60, seconds % 60),
    }
}

pub(crate) fn clock(time: Duration) -> String {
    format!("{}:{:02}", time.as_secs() / 60, time.as_secs() % 60)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use windlass_engine::progress::Mark;

    use crate::model::{HookLine, PlanStep};

    pub(crate) fn model() -> Model {
        let mark = |version: &str, state| Mark { name: String::new(), version: version.to_owned(), state };
        let lane = |name: &str, machines: Vec<Mark>| Lane { name: name.to_owned(), machines };
        let step = |text: &str, state| PlanStep { text: text.to_owned(), state };
        let call = |at, hook: &str, versions: &str, wait| HookLine {
            at: Duration::from_secs(at),
            hook: hook.to_owned(),
            versions: versions.to_owned(),
            wait,
        };
        use MachineState::{Available, Deleting, Starting, Updating};
        Model {
            phase: Phase::Upgrading,
            from: "v1.29.0".to_owned(),
            to: "v1.31.0".to_owned(),
            versions: ["v1.29.0", "v1.30.0", "v1.31.0"].map(str::to_owned).to_vec(),
            lanes: vec![
                lane(
                    "control plane",
                    vec![mark("v1.29.0", Deleting), mark("v1.30.0", Available), mark("v1.30.0", Starting)],
                ),
                lane("a", vec![mark("v1.29.0", Available), mark("v1.29.0", Updating)]),
                lane("b", vec![mark("v1.29.0", Available); 30]),
            ],
            steps: vec![
                step("control plane v1.29.0 -> v1.30.0", StepState::Running),
                step("control plane v1.30.0 -> v1.31.0", StepState::Coming),
                step("workers a v1.29.0 -> v1.31.0", StepState::Coming),
                step("workers b v1.29.0 -> v1.31.0", StepState::Coming),
            ],
            hooks: vec![
                call(0, "BeforeClusterUpgrade", "v1.29.0 -> v1.31.0", 2),
                call(2, "BeforeClusterUpgrade", "v1.29.0 -> v1.31.0", 0),
                call(2, "BeforeControlPlaneUpgrade", "v1.29.0 -> v1.30.0", 0),
            ],
            skew: 1,
            worst_skew: 1,
            waiting_on: vec!["KubeadmControlPlane c1 is upgrading to v1.30.0".to_owned(), "more".to_owned()],
            created: 2,
            deleted: 1,
            updated: 0,
            elapsed: Duration::from_secs(65),
            speed: 20.0,
        }
    }

    fn bare(model: &Model, width: usize, height: usize) -> Vec<String> {
        let lines = picture(model, width, height).into_iter();
        lines
            .map(|line| {
                let text: String = line.into_iter().map(|span| span.text).collect();
                text.chars().take(width).collect::<String>().trim_end().to_owned()
            })
            .collect()
    }

    #[test]
    fn a_moment_of_an_upgrade() {
        let expected = "\
windlass demo   v1.29.0 -> v1.31.0   upgrading   1:05   20 x as fast

               v1.29.0         v1.30.0         v1.31.0
control plane  ○               ●◐              ·
a              ●◆              ·               ·
b              ●●●●●●●●●●●●+18 ·               ·

PLAN                                HOOKS
▶ control plane v1.29.0 -> v1.30.0  0:00 BeforeClusterUpgrade wait 2 s
· control plane v1.30.0 -> v1.31.0  0:02 BeforeClusterUpgrade v1.29.0 -> v1.31.0
· workers a v1.29.0 -> v1.31.0      0:02 BeforeControlPlaneUpgrade -> v1.30.0
· workers b v1.29.0 -> v1.31.0

skew 1, worst 1 of 3   machines 2 new, 1 gone, 0 updated   hooks 3
waiting on KubeadmControlPlane c1 is upgrading to v1.30.0 (and 1 more)
● available  ◐ starting  ◆ updating in place  ○ going";
        assert_eq!(bare(&model(), 80, 24).join("\n"), expected);
    }

    #[test]
    fn no_picture_is_larger_than_the_terminal() {
        for (width, height) in [(80, 24), (120, 40), (40, 10), (20, 3), (1, 1), (0, 0), (300, 100)] {
            let lines = bare(&model(), width, height);
            assert!(lines.len() <= height, "{width}x{height}: {} lines", lines.len());
            assert!(lines.iter().all(|line| line.chars().count() <= width), "{width}x{height}: {lines:?}");
            assert_eq!(frame(&model(), width, height).lines().count(), lines.len());
        }
    }

    #[test]
    fn steps_that_are_done_make_room() {
        let mut model = model();
        model.steps = (0..30)
            .map(|number| PlanStep {
                text: format!("step {number}"),
                state: if number < 20 { StepState::Done } else { StepState::Coming },
            })
            .collect();
        let lines = bare(&model, 80, 20);
        assert!(lines.iter().any(|line| line.starts_with("✔ step 19")), "{lines:?}");
        assert!(lines.iter().any(|line| line.starts_with("· step 20")), "{lines:?}");
        assert!(!lines.iter().any(|line| line.starts_with("✔ step 18")), "{lines:?}");
    }

    #[test]
    fn the_summary_counts() {
        let mut model = model();
        model.steps[0].state = StepState::Done;
        assert_eq!(
            summary(&model, Some(Duration::from_secs(754))),
            "v1.29.0 -> v1.31.0: 1 of 4 operations\n\
             1 machine replaced, 0 updated in place\n\
             3 calls of 2 hooks over HTTPS, worst skew 1 of the 3 minors that are allowed\n\
             65 s of wall time, 12 min 34 s of virtual time at the speed of real machines\n"
        );
    }
}
