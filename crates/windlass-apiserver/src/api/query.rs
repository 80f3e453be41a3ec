//! The parameters of a request, typed.

use super::status::Failure;
use crate::machinery::Cause;

/// Everything that a query string can say. Unknown parameters are ignored, as the API server does.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Query {
    /// Whether a list is to be followed by its changes.
    pub watch: bool,
    /// How long a watch may last.
    pub timeout_seconds: Option<u64>,
    /// The revision asked for; empty means none.
    pub resource_version: String,
    /// How `resource_version` is meant.
    pub version_match: Option<VersionMatch>,
    /// Whether a watch starts with what is there.
    pub send_initial_events: Option<bool>,
    /// Whether the client understands bookmarks.
    pub allow_watch_bookmarks: bool,
    /// Which labels.
    pub label_selector: String,
    /// Which values of fields.
    pub field_selector: String,
    /// How many objects at most; 0 means all.
    pub limit: usize,
    /// Where the page before ended.
    pub continue_token: String,
    /// Who is to own what is written.
    pub field_manager: String,
    /// Whether an apply takes fields from others.
    pub force: Option<bool>,
    /// What to do about unknown and duplicate fields.
    pub field_validation: FieldValidation,
    /// Whether everything is to be done except writing.
    pub dry_run: bool,
    /// What happens to what the deleted object owns.
    pub propagation: Option<Propagation>,
    /// How long an object may take to go.
    pub grace_period_seconds: Option<i64>,
    /// How much of each object a table carries: `None`, `Metadata` or `Object`.
    pub include_object: String,
    /// Whether to add line breaks for people.
    pub pretty: Option<bool>,
}

/// What a resource version in a list or watch stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VersionMatch {
    /// That very revision.
    Exact,
    /// That revision or any later one.
    NotOlderThan,
}

/// What to do about fields that the schema does not know, and about fields given twice.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum FieldValidation {
    /// Drop them silently.
    Ignore,
    /// Drop them and say so in a header.
    #[default]
    Warn,
    /// Refuse the request.
    Strict,
}

/// What happens to the objects that a deleted object owns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Propagation {
    /// They are deleted after it.
    Background,
    /// They are deleted before it.
    Foreground,
    /// They stay, without their owner.
    Orphan,
}

impl Propagation {
    /// Reads the name that clients send.
    pub fn parse(name: &str) -> Option<Self> {
        match name {
            "Background" => Some(Self::Background),
            "Foreground" => Some(Self::Foreground),
            "Orphan" => Some(Self::Orphan),
            _ => None,
        }
    }
}

impl Query {
    /// Reads a query string, without its question mark.
    pub fn parse(text: &str) -> Result<Self, Failure> {
        let mut query = Self::default();
        for pair in text.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let name = decode(name, true).ok_or_else(|| malformed(pair))?;
            let value = decode(value, true).ok_or_else(|| malformed(pair))?;
            query.set(&name, value)?;
        }
        query.check()?;
        Ok(query)
    }

    fn set(&mut self, name: &str, value: String) -> Result<(), Failure> {
        match name {
            "watch" => self.watch = flag(&value),
            "timeoutSeconds" => self.timeout_seconds = number(name, &value)?,
            "resourceVersion" => self.resource_version = value,
            "resourceVersionMatch" => self.version_match = version_match(&value)?,
            "sendInitialEvents" => self.send_initial_events = Some(flag(&value)),
            "allowWatchBookmarks" => self.allow_watch_bookmarks = flag(&value),
            "labelSelector" => self.label_selector = value,
            "fieldSelector" => self.field_selector = value,
            "limit" => self.limit = number(name, &value)?.unwrap_or_default(),
            "continue" => self.continue_token = value,
            "fieldManager" => self.field_manager = value,
            "force" => self.force = Some(flag(&value)),
            "fieldValidation" => self.field_validation = field_validation(&value)?,
            "dryRun" => self.dry_run = dry_run(&value)?,
            "propagationPolicy" => self.propagation = Some(propagation(&value)?),
            "orphanDependents" if flag(&value) => self.propagation = Some(Propagation::Orphan),
            "gracePeriodSeconds" => self.grace_period_seconds = number(name, &value)?,
            "includeObject" => self.include_object = value,
            "pretty" => self.pretty = Some(flag(&value)),
            _ => {}
        }
        Ok(())
    }

    /// The combinations that lists and watches refuse.
    fn check(&self) -> Result<(), Failure> {
        let forbidden = |detail: &str| {
            Failure::invalid(
                "meta.k8s.io",
                "ListOptions",
                "",
                &[Cause::forbidden("resourceVersionMatch", detail)],
            )
        };
        if self.send_initial_events.is_some() {
            if self.version_match != Some(VersionMatch::NotOlderThan) {
                return Err(forbidden(
                    "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan",
                ));
            }
        } else if self.version_match.is_some() {
            if self.watch {
                return Err(forbidden(
                    "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided",
                ));
            }
            if self.resource_version.is_empty() {
                return Err(forbidden(
                    "resourceVersionMatch is forbidden unless resourceVersion is provided",
                ));
            }
        }
        Ok(())
    }

    /// The revision asked for: `None` if there was none or if it is `0`, which means any.
    pub fn revision(&self) -> Result<Option<u64>, Failure> {
        match self.resource_version.as_str() {
            "" | "0" => Ok(None),
            text => match text.parse() {
                Ok(revision) => Ok(Some(revision)),
                Err(_) => Err(Failure::bad_request(format!(
                    "invalid resource version: resourceVersion: Invalid value: {text:?}: strconv.ParseUint: \
                     parsing {text:?}: invalid syntax"
                ))),
            },
        }
    }
}

fn malformed(pair: &str) -> Failure {
    Failure::bad_request(format!("invalid URL escape in query parameter {pair:?}"))
}

fn flag(value: &str) -> bool {
    // A parameter without a value means yes: `?watch`.
    !matches!(value, "0" | "false" | "False" | "FALSE" | "f" | "F")
}

fn number<N: std::str::FromStr>(name: &str, value: &str) -> Result<Option<N>, Failure> {
    if value.is_empty() {
        return Ok(None);
    }
    let parsed = value.parse().map_err(|_| {
        Failure::bad_request(format!(
            "query parameter {name}: {value:?} is not a number that can be used here"
        ))
    });
    parsed.map(Some)
}

fn version_match(value: &str) -> Result<Option<VersionMatch>, Failure> {
    match value {
        "" => Ok(None),
        "Exact" => Ok(Some(VersionMatch::Exact)),
        "NotOlderThan" => Ok(Some(VersionMatch::NotOlderThan)),
        _ => {
            let supported = ["Exact", "NotOlderThan", ""];
            let cause = Cause::not_supported("resourceVersionMatch", &value.into(), &supported);
            Err(Failure::invalid("meta.k8s.io", "ListOptions", "", &[cause]))
        }
    }
}

fn field_validation(value: &str) -> Result<FieldValidation, Failure> {
    match value {
        "" | "Warn" => Ok(FieldValidation::Warn),
        "Ignore" => Ok(FieldValidation::Ignore),
        "Strict" => Ok(FieldValidation::Strict),
        _ => {
            let supported = ["Ignore", "Strict", "Warn"];
            let cause = Cause::not_supported("fieldValidation", &value.into(), &supported);
            Err(Failure::invalid("meta.k8s.io", "CreateOptions", "", &[cause]))
        }
    }
}

fn dry_run(value: &str) -> Result<bool, Failure> {
    match value {
        "" => Ok(false),
        "All" => Ok(true),
        _ => {
            let cause = Cause::not_supported("dryRun", &vec![value].into(), &["All"]);
            Err(Failure::invalid("meta.k8s.io", "CreateOptions", "", &[cause]))
        }
    }
}

fn propagation(value: &str) -> Result<Propagation, Failure> {
    Propagation::parse(value).ok_or_else(|| {
        let supported = ["Background", "Foreground", "Orphan"];
        let cause = Cause::not_supported("propagationPolicy", &value.into(), &supported);
        Failure::invalid("meta.k8s.io", "DeleteOptions", "", &[cause])
    })
}

/// Undoes percent-encoding; `None` if it is broken or not UTF-8.
pub(super) fn decode(text: &str, plus_is_space: bool) -> Option<String> {
    let has_escapes = text.contains('%') || plus_is_space && text.contains('+');
    if !has_escapes {
        return Some(text.to_owned());
    }
    let mut decoded = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        decoded.push(match byte {
            b'%' => {
                let high = char::from(bytes.next()?).to_digit(16)?;
                let low = char::from(bytes.next()?).to_digit(16)?;
                u8::try_from(high * 16 + low).ok()?
            }
            b'+' if plus_is_space => b' ',
            byte => byte,
        });
    }
    String::from_utf8(decoded).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_parameter_is_read() {
        let query = Query::parse(
            "watch=true&timeoutSeconds=4&allowWatchBookmarks=1&labelSelector=a%20in%20%28b%2Cc%29&limit=500\
             &fieldSelector=metadata.name%3Dx&dryRun=All&force=false&propagationPolicy=Orphan&unknown=1",
        )
        .unwrap();
        assert!(query.watch && query.allow_watch_bookmarks && query.dry_run);
        assert_eq!(query.timeout_seconds, Some(4));
        assert_eq!(query.label_selector, "a in (b,c)");
        assert_eq!(query.field_selector, "metadata.name=x");
        assert_eq!((query.limit, query.force), (500, Some(false)));
        assert_eq!(query.propagation, Some(Propagation::Orphan));
    }

    #[test]
    fn combinations_that_make_no_sense_are_refused() {
        for (text, code) in [
            ("sendInitialEvents=true", 422),
            ("resourceVersionMatch=Exact", 422),
            ("resourceVersionMatch=Exact&resourceVersion=1&watch=1", 422),
            ("resourceVersionMatch=Sometimes", 422),
            ("fieldValidation=Never", 422),
            ("dryRun=Some", 422),
            ("propagationPolicy=Sideways", 422),
            ("limit=-1", 400),
            ("timeoutSeconds=soon", 400),
            ("labelSelector=%zz", 400),
            ("labelSelector=%ff", 400),
        ] {
            assert_eq!(Query::parse(text).unwrap_err().code(), code, "{text}");
        }
        assert_eq!(Query::parse("resourceVersion=abc").unwrap().revision().unwrap_err().code(), 400);
    }
}
