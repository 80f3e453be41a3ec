//! Words and escapes of pages.

use std::time::Duration;

use windlass_engine::progress::OperationRecord;
use windlass_simulate::script::spoken;

/// What an operation does, for people.
pub fn heading(operation: &OperationRecord) -> String {
    let OperationRecord { from, to, .. } = operation;
    let title = match &operation.group {
        None => "control plane".to_owned(),
        Some(group) => format!("workers {group}"),
    };
    match (from == to, operation.under_way) {
        (true, _) => format!("{title} {from}, changed for another reason than the version"),
        (false, true) => format!("{title} {from} -> {to}, under way"),
        (false, false) => format!("{title} {from} -> {to}"),
    }
}

pub(crate) fn minors(count: u64) -> String {
    if count == 1 { "1 minor".to_owned() } else { format!("{count} minors") }
}

/// Seconds as people read them.
pub(crate) fn clock(seconds: u64) -> String {
    spoken(Duration::from_secs(seconds))
}

/// Text that is text in HTML too.
pub(crate) fn escaped(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            c => safe.push(c),
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_stays_text() {
        assert_eq!(
            escaped("<img src=x onerror='a(\"b\")'> & c"),
            "&lt;img src=x onerror=&#39;a(&quot;b&quot;)&#39;&gt; &amp; c"
        );
    }
}
