//! A picture of a moment, for a page.

use std::fmt::Write as _;

use anstyle::{AnsiColor, Color, Effects};

use crate::frame::{Span, picture};
use crate::model::Model;

/// Size of a character cell.
const CELL: (f64, f64) = (8.4, 18.0);
/// Space around the text.
const MARGIN: f64 = 16.0;

/// The picture of a terminal of so many cells, as SVG.
pub fn svg(model: &Model, width: usize, height: usize) -> String {
    let lines = picture(model, width, height);
    let (wide, high) = (width as f64 * CELL.0 + 2.0 * MARGIN, lines.len() as f64 * CELL.1 + 2.0 * MARGIN);
    let mut text = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{wide:.0}\" height=\"{high:.0}\" \
         viewBox=\"0 0 {wide:.0} {high:.0}\" font-family=\"ui-monospace, Menlo, Consolas, monospace\" \
         font-size=\"14\">\n<rect width=\"100%\" height=\"100%\" rx=\"8\" fill=\"#0d1117\"/>\n"
    );
    for (row, line) in lines.iter().enumerate() {
        let y = MARGIN + (row as f64 + 0.75) * CELL.1;
        let mut column = 0;
        for span in line {
            let cells = span.text.chars().count();
            let words: String = span.text.chars().take(width.saturating_sub(column)).collect();
            if !words.trim().is_empty() {
                let x = MARGIN + column as f64 * CELL.0;
                let length = words.chars().count() as f64 * CELL.0;
                // Writing to a String does not fail.
                let _ = writeln!(
                    text,
                    "<text x=\"{x:.1}\" y=\"{y:.1}\" textLength=\"{length:.1}\" xml:space=\"preserve\"{}>{}</text>",
                    look(span),
                    escape(&words)
                );
            }
            column += cells;
        }
    }
    text + "</svg>\n"
}

fn look(span: &Span) -> String {
    let effects = span.style.get_effects();
    let fill = match span.style.get_fg_color() {
        Some(Color::Ansi(AnsiColor::Green)) => "#3fb950",
        Some(Color::Ansi(AnsiColor::Yellow)) => "#d29922",
        Some(Color::Ansi(AnsiColor::Cyan)) => "#39c5cf",
        Some(Color::Ansi(AnsiColor::Red)) => "#f85149",
        _ if effects.contains(Effects::DIMMED) => "#8b949e",
        _ => "#e6edf3",
    };
    let weight = if effects.contains(Effects::BOLD) { " font-weight=\"bold\"" } else { "" };
    format!(" fill=\"{fill}\"{weight}")
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::tests::model;

    #[test]
    fn a_picture_has_its_words_and_is_well_formed() {
        let picture = svg(&model(), 80, 24);
        assert!(picture.contains(">windlass demo</text>"), "{picture}");
        assert!(picture.contains("v1.29.0 -&gt; v1.31.0"), "{picture}");
        assert_eq!(picture.matches("<text ").count(), picture.matches("</text>").count());
        assert!(picture.starts_with("<svg ") && picture.ends_with("</svg>\n"));
    }
}
