//! Tables for people.

use anstyle::Style;

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

    pub(crate) fn row(&mut self, row: [(String, Style); COLUMNS]) {
        self.rows.push(row);
    }

    pub(crate) fn render(&self) -> String {
        let widths: [usize; COLUMNS] = std::array::from_fn(|column| {
            let cells = self.rows.iter().map(|row| row[column].0.chars().count());
            cells.chain([self.head[column].len()]).max().unwrap_or(0)
        });
        let mut text = String::new();
        let mut line = |cells: [(&str, Style); COLUMNS]| {
            for (column, (cell, style)) in cells.into_iter().enumerate() {
                let separator = if column == 0 { "" } else { "  " };
                // The last column is not padded: trailing spaces wrap lines on narrow terminals.
                let padding = if column + 1 == COLUMNS { 0 } else { widths[column] - cell.chars().count() };
                text.push_str(&format!("{separator}{style}{cell}{style:#}{:padding$}", ""));
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
