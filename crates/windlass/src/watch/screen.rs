//! The terminal, and what is drawn on it.

use std::fmt::Write as _;
use std::io::{self, Write as _};

use jiff::Timestamp;
use ratatui_core::buffer::{Buffer, Cell};
use ratatui_core::layout::Rect;
use ratatui_core::style::{Color, Modifier, Style};
use ratatui_core::text::{Line, Span};
use ratatui_core::widgets::Widget as _;
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcsetattr};
use windlass_api::printable;
use windlass_engine::progress::Verdict;

use super::state::State;
use super::{cluster, fleet};

pub(super) const DIM: Style = Style::new().add_modifier(Modifier::DIM);
pub(super) const BOLD: Style = Style::new().add_modifier(Modifier::BOLD);

/// The terminal in the state that pictures need; it is as it was before when this is dropped.
pub(super) struct Screen {
    before: Termios,
    shown: Option<Buffer>,
    has_colours: bool,
}

impl Screen {
    pub(super) fn enter() -> io::Result<Self> {
        let before = tcgetattr(io::stdin())?;
        let mut raw = before.clone();
        raw.make_raw();
        tcsetattr(io::stdin(), OptionalActions::Now, &raw)?;
        let has_colours = anstream::AutoStream::choice(&io::stdout()) != anstream::ColorChoice::Never;
        let screen = Self { before, shown: None, has_colours };
        // A screen of its own, without a cursor.
        write("\x1b[?1049h\x1b[?25l")?;
        Ok(screen)
    }

    /// Draws what has changed.
    pub(super) fn draw(&mut self, state: &State, now: Timestamp) -> io::Result<()> {
        let (width, height) =
            terminal_size::terminal_size().map_or((80, 24), |(width, height)| (width.0, height.0));
        let next = picture(state, width, height, now);
        let mut text = String::new();
        let before = self.shown.take().filter(|shown| shown.area == next.area).unwrap_or_else(|| {
            text.push_str("\x1b[0m\x1b[2J");
            Buffer::empty(next.area)
        });
        let mut at = None;
        for (x, y, cell) in before.diff(&next) {
            if at != Some((x, y)) {
                // Writing to a String does not fail.
                let _ = write!(text, "\x1b[{};{}H", y + 1, x + 1);
            }
            text.push_str(&sequence(cell, self.has_colours));
            text.push_str(cell.symbol());
            at = Some((x + 1, y));
        }
        self.shown = Some(next);
        write(&(text + "\x1b[0m"))
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // A terminal that is gone needs nothing.
        let _ = write("\x1b[0m\x1b[?25h\x1b[?1049l");
        let _ = tcsetattr(io::stdin(), OptionalActions::Now, &self.before);
    }
}

fn write(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes()).and_then(|()| out.flush())
}

/// The escape sequence for the style of a cell.
fn sequence(cell: &Cell, has_colours: bool) -> String {
    let mut codes = vec!["0"];
    for (modifier, code) in [(Modifier::BOLD, "1"), (Modifier::DIM, "2"), (Modifier::REVERSED, "7")] {
        if cell.modifier.contains(modifier) {
            codes.push(code);
        }
    }
    let colour = match cell.fg {
        Color::Red => Some("31"),
        Color::Green => Some("32"),
        Color::Yellow => Some("33"),
        Color::Cyan => Some("36"),
        _ => None,
    };
    codes.extend(colour.filter(|_| has_colours));
    format!("\x1b[{}m", codes.join(";"))
}

/// A picture of everything. Nothing but its arguments matters.
pub(super) fn picture(state: &State, width: u16, height: u16, now: Timestamp) -> Buffer {
    let mut buffer = Buffer::empty(Rect::new(0, 0, width, height));
    let (cells, body) = (usize::from(width), usize::from(height.saturating_sub(1)));
    let (mut lines, keys) = match (state.has_help, state.open()) {
        (true, _) => (help(), "any key goes back"),
        (false, Some((key, view))) => {
            (cluster::lines(key, view, cells, body, now), "esc back  up/down other clusters  q end  ? keys")
        }
        (false, None) => (fleet::lines(state, cells, body, now), "enter lanes  / filter  q end  ? keys"),
    };
    lines.truncate(body);
    lines.resize(body, Line::default());
    lines.push(Line::styled(keys, DIM));
    for (y, line) in (0..height).zip(lines) {
        line.render(Rect::new(0, y, width, 1), &mut buffer);
    }
    buffer
}

fn help() -> Vec<Line<'static>> {
    let keys = [
        ("up, k", "the row above, or the cluster before"),
        ("down, j", "the row below, or the next cluster"),
        ("page up, page down", "ten rows"),
        ("enter, right", "the lanes of the cluster"),
        ("esc, left", "back to all clusters; takes the filter away"),
        ("/", "filter by name, namespace, class, version, verdict or what is waited on"),
        ("?", "these keys"),
        ("q, ctrl-c", "end"),
    ];
    let row = |(key, what): (&str, &str)| Line::from(format!("  {key:<20}{what}"));
    let mut lines = vec![Line::styled("Keys", BOLD), Line::default()];
    lines.extend(keys.map(row));
    lines.push(Line::default());
    lines.push(Line::from("Verdicts"));
    lines.extend(
        [
            ("progressing", "machines are being replaced or updated"),
            ("waiting", "something else is waited on: a hook, an approval, a path"),
            ("stalled", "nothing has happened for longer than 19 of 20 machines take"),
        ]
        .map(row),
    );
    lines
}

/// Text from objects and extensions: it is shown, and does nothing else.
pub(super) fn text(words: impl AsRef<str>) -> Span<'static> {
    Span::raw(printable(words.as_ref()).into_owned())
}

pub(super) fn styled(words: impl AsRef<str>, style: Style) -> Span<'static> {
    Span::styled(printable(words.as_ref()).into_owned(), style)
}

pub(super) fn verdict_style(verdict: Verdict) -> Style {
    match verdict {
        Verdict::UpToDate => DIM,
        Verdict::Progressing => Style::new().fg(Color::Green),
        Verdict::Waiting => Style::new().fg(Color::Yellow),
        Verdict::Stalled => Style::new().fg(Color::Red).add_modifier(Modifier::BOLD),
    }
}

/// So many cells of a text, with an ellipsis where something is left out, and spaces where there is room.
pub(super) fn fitted(text: &str, width: usize) -> String {
    let text = printable(text);
    match text.chars().count() {
        length if length <= width => format!("{text}{:1$}", "", width - length),
        _ if width == 0 => String::new(),
        _ => text.chars().take(width - 1).chain(['…']).collect(),
    }
}
