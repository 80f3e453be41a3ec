//! Tables for people.

use anstyle::Style;
use windlass_api::printable;

/// Style of headings.
pub(crate) const HEAD: Style = Style::new().bold();

/// Columns as wide as their widest cell, two spaces apart.
pub(crate) struct Table<const COLUMNS: usize> {
    head: [&'static str; COLUMNS],
    rows: Vec<[(String, Style); COLUMNS]>,
}

impl<const COLUMNS: usize> Table<COLUMNS> {
    pub(crate) fn new(head: [&'static str; COLUMNS]) -> Self {
        Self { head, rows: Vec::new() }
    }

    /// Adds a row. What is in its cells may come from anywhere: it is shown, and does nothing else.
    pub(crate) fn row(&mut self, row: [(String, Style); COLUMNS]) {
        self.rows.push(row.map(|(cell, style)| (printable(&cell).into_owned(), style)));
    }

    pub(crate) fn render(&self) -> String {
        self.render_within(None, &[])
    }

    /// Fits a width, if that is possible: leaves out columns that can be done without, one after the other, and then cuts
    /// what stands in the last one, and in the first.
    pub(crate) fn render_within(&self, width: Option<usize>, expendable: &[usize]) -> String {
        let mut widths: [usize; COLUMNS] = std::array::from_fn(|column| {
            let cells = self.rows.iter().map(|row| row[column].0.chars().count());
            cells.chain([self.head[column].len()]).max().unwrap_or(0)
        });
        let mut shown: Vec<usize> = (0..COLUMNS).collect();
        let wanted = widths;
        let all =
            |shown: &[usize]| shown.iter().map(|column| wanted[*column] + 2).sum::<usize>().saturating_sub(2);
        let mut expendable = expendable.iter();
        while width.is_some_and(|width| all(&shown) > width)
            && let Some(column) = expendable.next()
        {
            shown.retain(|other| other != column);
        }
        let last = shown.last().copied().unwrap_or_default();
        // A message of a few letters says nothing, and neither does such a name; then the line is as long as it is.
        const SHORTEST: usize = 12;
        const SHORTEST_NAME: usize = 24;
        let room = width.map(|width| width.saturating_sub(all(&shown) - widths[last]).max(SHORTEST));
        let too_much = room
            .zip(width)
            .map(|(room, width)| (all(&shown) - widths[last] + room.min(widths[last])).saturating_sub(width));
        if let (Some(first), Some(too_much)) =
            (shown.first().copied().filter(|first| *first != last), too_much)
        {
            widths[first] = widths[first].saturating_sub(too_much).max(SHORTEST_NAME.min(widths[first]));
        }
        let mut text = String::new();
        let mut line = |cells: [(&str, Style); COLUMNS]| {
            for (place, column) in shown.iter().enumerate() {
                let (cell, style) = cells[*column];
                let separator = if place == 0 { "" } else { "  " };
                let length = cell.chars().count();
                let cut = match *column == last {
                    true => room.filter(|room| length > *room),
                    false => Some(widths[*column]).filter(|width| length > *width),
                };
                // The last column is not padded: trailing spaces wrap lines on narrow terminals.
                let padding = if *column == last { 0 } else { widths[*column].saturating_sub(length) };
                match cut {
                    None => text.push_str(&format!("{separator}{style}{cell}{style:#}{:padding$}", "")),
                    Some(room) => {
                        let beginning: String = cell.chars().take(room - 1).collect();
                        text.push_str(&format!("{separator}{style}{beginning}…{style:#}"));
                    }
                }
            }
            text.push('\n');
        };
        line(self.head.map(|head| (head, HEAD)));
        for row in &self.rows {
            line(std::array::from_fn(|column| (row[column].0.as_str(), row[column].1)));
        }
        text
    }
}

/// Breaks a line that is longer than a width between words; `indent` stands before what follows.
pub(crate) fn wrapped(line: &str, width: Option<usize>, indent: &str) -> String {
    let Some(width) = width.filter(|width| line.chars().count() > *width) else { return line.to_owned() };
    let start = line.len() - line.trim_start().len();
    let mut text = line[..start].to_owned();
    let (mut used, mut is_first) = (start, true);
    for word in line[start..].split(' ') {
        let length = word.chars().count();
        if !is_first && used + 1 + length > width {
            text.push_str(&format!("\n{indent}"));
            used = indent.chars().count();
        } else if !is_first {
            text.push(' ');
            used += 1;
        }
        text.push_str(word);
        used += length;
        is_first = false;
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_fits_where_it_can() {
        let mut table = Table::new(["NAME", "COUNT", "MESSAGE"]);
        for row in [["a", "1", "short"], ["bb", "22", "a message that is longer"]] {
            table.row(row.map(|cell| (cell.to_owned(), Style::new())));
        }
        let lines = |width| -> Vec<String> {
            let text = anstream::adapter::strip_str(&table.render_within(width, &[1])).to_string();
            text.lines().map(str::to_owned).collect()
        };
        assert_eq!(lines(None)[2], "bb    22     a message that is longer");
        assert_eq!(lines(Some(37)), lines(None), "all of it fits");
        assert_eq!(lines(Some(30)), ["NAME  MESSAGE", "a     short", "bb    a message that is longer"]);
        assert_eq!(lines(Some(20))[2], "bb    a message tha…");
        assert_eq!(lines(Some(3))[2], "bb    a message t…", "not less than a few words");

        let mut table = Table::new(["NAME", "MESSAGE"]);
        table.row(
            ["a name that is much longer than a terminal is wide", "short"]
                .map(|cell| (cell.to_owned(), Style::new())),
        );
        let text = anstream::adapter::strip_str(&table.render_within(Some(40), &[])).to_string();
        assert_eq!(text.lines().last(), Some("a name that is much longer tha…  short"));
    }

    #[test]
    fn lines_are_broken_between_words_where_there_are_any() {
        assert_eq!(wrapped("one two three", Some(9), "  "), "one two\n  three");
        assert_eq!(wrapped("one two three", None, "  "), "one two three");
        assert_eq!(wrapped("  indented word", Some(12), "    "), "  indented\n    word");
        assert_eq!(wrapped("averyveryverylongword b", Some(10), " "), "averyveryverylongword\n b");
    }
}
