//! Pages, made of parts that are replaced one by one when they change.

mod cluster;
mod fleet;

use std::collections::BTreeMap;
use std::fmt::Write as _;

use jiff::Timestamp;
use serde::Serialize;
use windlass_engine::progress::Verdict;

pub(crate) use cluster::{cluster, frame as cluster_frame, what_if};
pub(crate) use fleet::{FRAME as FLEET, fleet};

use crate::html::escaped;

/// What a page shows at a moment: its parts by the ids of their elements.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Parts {
    /// What stands in each part.
    pub(crate) html: BTreeMap<String, String>,
    /// Rows of a table in their order, by their ids; empty for pages without.
    pub(crate) rows: Vec<String>,
}

/// What has changed since the last time, for the script.
#[derive(Debug, Serialize)]
pub(crate) struct Change<'a> {
    html: BTreeMap<&'a str, &'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    rows: Option<&'a [String]>,
}

impl Parts {
    /// What has changed, if anything has.
    pub(crate) fn since<'a>(&'a self, before: Option<&Self>) -> Option<Change<'a>> {
        let is_new = |(id, html): &(&'a String, &'a String)| {
            before.is_none_or(|before| before.html.get(*id) != Some(*html))
        };
        let html = self.html.iter().filter(is_new).map(|(id, html)| (id.as_str(), html.as_str()));
        let html: BTreeMap<&str, &str> = html.collect();
        let rows = before.is_none_or(|before| before.rows != self.rows).then_some(self.rows.as_slice());
        (!html.is_empty() || rows.is_some()).then_some(Change { html, rows })
    }

    /// Says what cannot be read.
    pub(crate) fn set_trouble(&mut self, trouble: Option<&str>) {
        let text = trouble.map(|trouble| format!("Cannot read {}", escaped(trouble)));
        self.set("trouble", text.unwrap_or_default());
    }

    fn set(&mut self, id: &str, html: String) {
        self.html.insert(id.to_owned(), html);
    }
}

/// A whole page around its parts.
pub(crate) fn document(title: &str, body: &str) -> String {
    let title = escaped(title);
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n<title>{title}</title>\n\
         <link rel=\"icon\" href=\"/assets/icon.svg\" type=\"image/svg+xml\">\n\
         <link rel=\"stylesheet\" href=\"/assets/style.css\">\n<script src=\"/assets/live.js\" defer></script>\n</head>\n<body>\n\
         {body}\n</body>\n</html>\n"
    )
}

/// The page of who is not logged in.
pub(crate) fn login(failed: bool) -> String {
    let mut body = "<main class=\"login\"><h1>Windlass</h1>\n".to_owned();
    if failed {
        body.push_str(
            "<p role=\"alert\" class=\"bad\">That was not the token, or the link was used before.</p>\n",
        );
    }
    body.push_str(
        "<p>Open the link that the program printed when it started. It works once. With a token \
         (<code>--web-token-file</code>), log in here:</p>\n<form method=\"post\" action=\"/login\"><label>Token \
         <input type=\"password\" name=\"token\" autocomplete=\"current-password\" required></label> \
         <button>Log in</button></form></main>",
    );
    document("Log in to Windlass", &body)
}

/// A page for what is not there.
pub(crate) fn problem(title: &str, what: &str) -> String {
    let body = format!(
        "<main><h1>{}</h1><p>{}</p><p><a href=\"/\">All clusters</a></p></main>",
        escaped(title),
        escaped(what)
    );
    document(title, &body)
}

fn verdict(verdict: Verdict) -> String {
    let class = match verdict {
        Verdict::UpToDate => "fine",
        Verdict::Progressing => "busy",
        Verdict::Waiting => "waiting",
        Verdict::Stalled => "stalled",
    };
    format!("<span class=\"verdict {class}\">{verdict}</span>")
}

/// How long ago something was: the script counts on.
fn age(since: Timestamp) -> String {
    // Whole seconds: nothing about it changes from one look to the next.
    let since = Timestamp::from_second(since.as_second()).unwrap_or(since);
    format!("<time datetime=\"{since}\" data-age>{since}</time>")
}

/// So many seconds, no more exact than a forecast is.
fn about(seconds: u64) -> String {
    match seconds.div_ceil(60) {
        0 | 1 => "under 1 min".to_owned(),
        minutes @ ..=90 => format!("{minutes} min"),
        minutes => format!("{} h {} min", minutes / 60, minutes % 60),
    }
}

/// The same in a sentence.
fn roughly(seconds: u64) -> String {
    match about(seconds) {
        short if seconds <= 60 => short,
        long => format!("about {long}"),
    }
}

/// A list of names and values.
fn tiles(tiles: &[(&str, String)]) -> String {
    let mut text = "<dl class=\"tiles\">".to_owned();
    for (name, value) in tiles {
        // Writing to a String does not fail.
        let _ = write!(text, "<div><dt>{name}</dt><dd>{value}</dd></div>");
    }
    text + "</dl>"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_has_changed_is_sent() {
        let mut before = Parts::default();
        before.set("a", "1".to_owned());
        before.set("b", "1".to_owned());
        before.rows = vec!["r".to_owned()];
        let mut after = before.clone();
        assert!(after.since(Some(&before)).is_none());
        after.set("b", "2".to_owned());
        let change = serde_json::to_string(&after.since(Some(&before)).unwrap()).unwrap();
        assert_eq!(change, r#"{"html":{"b":"2"}}"#);
        after.rows.clear();
        let change = serde_json::to_string(&after.since(Some(&before)).unwrap()).unwrap();
        assert_eq!(change, r#"{"html":{"b":"2"},"rows":[]}"#);
        assert!(after.since(None).is_some());
    }

    #[test]
    fn times_are_no_more_exact_than_a_forecast() {
        assert_eq!(
            [0, 59, 61, 5400, 5401].map(about),
            ["under 1 min", "under 1 min", "2 min", "90 min", "1 h 31 min"]
        );
    }
}
