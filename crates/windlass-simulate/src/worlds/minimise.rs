//! Makes a tale as short as it can be and still be wrong.

use super::draw::{Line, Role, Tale};
use super::run::{Finding, same_end};

/// Leaves out what is not needed for a finding: first long stretches, then single lines, as often as it helps. At most so many
/// tales are tried.
pub fn minimise(tale: &Tale, finding: Finding, mut tries: usize) -> (Tale, Finding) {
    let (mut shortest, mut found) = (tale.clone(), finding);
    let mut stretch = shortest.lines.len() / 2;
    while stretch > 0 && tries > 0 {
        let mut at = 0;
        let mut helped = false;
        while at < shortest.lines.len() && tries > 0 {
            let lines = without(&shortest.lines, at, stretch);
            if lines.len() < shortest.lines.len() {
                tries -= 1;
                let candidate = Tale { lines, ..shortest.clone() };
                if let Err(finding) = same_end(&candidate) {
                    (shortest, found, helped) = (candidate, finding, true);
                    continue;
                }
            }
            at += stretch;
        }
        if !helped || stretch > 1 {
            stretch /= 2;
        }
    }
    (shortest, found)
}

/// The lines without those of a stretch that can be left out.
fn without(lines: &[Line], at: usize, stretch: usize) -> Vec<Line> {
    let is_kept = |(index, line): &(usize, &Line)| {
        !(at..at + stretch).contains(index) || matches!(line.role, Role::Setting | Role::Mending)
    };
    lines.iter().enumerate().filter(is_kept).map(|(_, line)| line.clone()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_and_mending_stay() {
        let line = |text: &str, role| Line { text: text.to_owned(), role };
        let lines = [
            line("create", Role::Setting),
            line("upgrade", Role::Act),
            line("crash", Role::Fault),
            line("trouble ends", Role::Mending),
        ];
        let left = |at, stretch| -> Vec<String> {
            without(&lines, at, stretch).into_iter().map(|line| line.text).collect()
        };
        assert_eq!(left(0, 4), ["create", "trouble ends"]);
        assert_eq!(left(2, 1), ["create", "upgrade", "trouble ends"]);
    }
}
