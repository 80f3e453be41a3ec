//! The words of a line, read from left to right.

use std::time::Duration;

use windlass_api::GoDuration;
use windlass_api::hooks::{Hook, HookTag};
use windlass_version::Version;

use super::kinds::{KINDS, kind};
use super::statement::{Group, ObjectName, Part};

/// How alike two words must be for one to be taken for a misspelling of the other: one letter of three may be wrong.
const ALIKE: f64 = 0.6;

/// What a word may be on its way to be understood, in the words of an error.
pub(super) type Expected = String;

/// Words of a line that are still to be read.
pub(super) struct Words<'a> {
    words: Vec<Word<'a>>,
    next: usize,
}

#[derive(Clone, Copy)]
struct Word<'a> {
    text: &'a str,
    is_quoted: bool,
}

impl<'a> Words<'a> {
    /// Splits a line at spaces. What is between quotation marks is one word.
    pub(super) fn of(line: &'a str) -> Result<Self, Expected> {
        let mut words = Vec::new();
        let mut rest = line.trim();
        while !rest.is_empty() {
            let (word, after) = match rest.strip_prefix('"') {
                Some(quoted) => {
                    let Some(end) = quoted.find('"') else {
                        return Err("a quotation mark is not closed".to_owned());
                    };
                    (Word { text: &quoted[..end], is_quoted: true }, &quoted[end + 1..])
                }
                None => {
                    let is_end = |letter: char| letter.is_whitespace() || letter == '"';
                    let end = rest.find(is_end).unwrap_or(rest.len());
                    (Word { text: &rest[..end], is_quoted: false }, &rest[end..])
                }
            };
            words.push(word);
            rest = after.trim_start();
        }
        Ok(Self { words, next: 0 })
    }

    /// The next word, without taking it.
    pub(super) fn peek(&self) -> Option<&'a str> {
        self.words.get(self.next).map(|word| word.text)
    }

    /// The word after the next.
    pub(super) fn peek_second(&self) -> Option<&'a str> {
        self.words.get(self.next + 1).map(|word| word.text)
    }

    /// Takes the next word.
    pub(super) fn take(&mut self) -> Option<&'a str> {
        let word = self.peek()?;
        self.next += 1;
        Some(word)
    }

    /// Takes these words if they come next.
    pub(super) fn take_if(&mut self, phrase: &str) -> bool {
        let mut ahead = self.words[self.next..].iter();
        let words: Vec<&str> = phrase.split(' ').collect();
        let matches = words.iter().all(|word| ahead.next().is_some_and(|found| found.text == *word));
        if matches {
            self.next += words.len();
        }
        matches
    }

    /// Takes the next word, which must be something.
    pub(super) fn want(&mut self, what: &str) -> Result<&'a str, Expected> {
        self.take().ok_or_else(|| format!("expected {what}, found the end of the line"))
    }

    /// Takes one of these words or phrases, and says which.
    pub(super) fn one_of<'p>(&mut self, phrases: &[&'p str]) -> Result<&'p str, Expected> {
        if let Some(found) = phrases.iter().find(|phrase| self.take_if(phrase)) {
            return Ok(found);
        }
        let found = match self.peek() {
            None => return Err(format!("expected {}, found the end of the line", list(phrases))),
            Some(found) => found,
        };
        let first = |phrase: &&'p str| phrase.split(' ').next().unwrap_or_default();
        let known: Vec<&str> = phrases.iter().map(first).collect();
        Err(format!("expected {}, found {found:?}{}", list(phrases), did_you_mean(found, &known)))
    }

    /// Takes this word or phrase.
    pub(super) fn expect(&mut self, phrase: &str) -> Result<(), Expected> {
        self.one_of(&[phrase]).map(|_| ())
    }

    /// Takes what is between quotation marks, if that comes next.
    pub(super) fn quoted(&mut self) -> Option<&'a str> {
        let word = self.words.get(self.next).filter(|word| word.is_quoted)?;
        self.next += 1;
        Some(word.text)
    }

    /// Takes a message between quotation marks.
    pub(super) fn message(&mut self) -> Result<String, Expected> {
        match self.quoted() {
            Some(message) => Ok(message.to_owned()),
            None => {
                let found = self
                    .peek()
                    .map_or_else(|| "the end of the line".to_owned(), |found| format!("{found:?}"));
                Err(format!("expected a message in quotation marks, found {found}"))
            }
        }
    }

    /// Nothing may be left.
    pub(super) fn end(&self) -> Result<(), Expected> {
        match self.peek() {
            None => Ok(()),
            Some(found) => Err(format!("expected the end of the line, found {found:?}")),
        }
    }

    /// A whole number.
    pub(super) fn number(&mut self, what: &str) -> Result<u32, Expected> {
        let word = self.want(what)?;
        word.parse().map_err(|_| format!("expected {what}, found {word:?}"))
    }

    /// A time such as `90s`, `10m` or `1h30m`.
    pub(super) fn duration(&mut self) -> Result<Duration, Expected> {
        let word = self.want("a duration such as 10m")?;
        let wrong = || format!("expected a duration such as 90s, 10m or 1h30m, found {word:?}");
        let duration: GoDuration = word.parse().map_err(|_| wrong())?;
        duration.to_std().ok_or_else(wrong)
    }

    /// A Kubernetes version, as the user wrote it.
    pub(super) fn version(&mut self) -> Result<String, Expected> {
        let word = self.want("a Kubernetes version")?;
        match Version::parse(word) {
            Ok(version) => Ok(version.to_string()),
            Err(error) => {
                Err(format!("expected a Kubernetes version such as v1.33.0, found {word:?}: {error}"))
            }
        }
    }

    /// A lifecycle hook.
    pub(super) fn hook(&mut self) -> Result<Hook, Expected> {
        let word = self.want("a lifecycle hook")?;
        let hooks = Hook::ALL.into_iter().filter(|hook| hook.tag() == HookTag::Lifecycle);
        if let Some(hook) = hooks.clone().find(|hook| hook.name() == word) {
            return Ok(hook);
        }
        let names: Vec<&str> = hooks.map(Hook::name).collect();
        Err(format!("expected a lifecycle hook, found {word:?}{}", did_you_mean_or_list(word, &names)))
    }

    /// An object: `machinedeployment/NAME`.
    pub(super) fn object(&mut self) -> Result<ObjectName, Expected> {
        let word = self.want("an object such as cluster/NAME")?;
        object(word)
    }

    /// The name of a Cluster, with or without `cluster/` before it.
    pub(super) fn cluster(&mut self) -> Result<String, Expected> {
        let word = self.want("the name of a Cluster")?;
        match part(word)? {
            Part { cluster, group: None } => Ok(cluster),
            _ => Err(format!("expected the name of a Cluster, found {word:?}")),
        }
    }

    /// A Cluster or a part of it: `NAME`, `NAME/GROUP` or `NAME/control-plane`, with or without `cluster/` before it.
    pub(super) fn part(&mut self) -> Result<Part, Expected> {
        part(self.want("a Cluster or a part of it, such as NAME/GROUP")?)
    }
}

/// An object by its kind and name.
pub(super) fn object(word: &str) -> Result<ObjectName, Expected> {
    let Some((kind_word, name)) = word.split_once('/').filter(|(_, name)| !name.is_empty()) else {
        return Err(format!("expected an object such as cluster/NAME, found {word:?}"));
    };
    let Some(kind) = kind(kind_word) else {
        let known: Vec<&str> = KINDS.iter().filter_map(|kind| kind.words.first().copied()).collect();
        let hint = did_you_mean_or_list(kind_word, &known);
        return Err(format!("expected a kind, found {kind_word:?}{hint}"));
    };
    Ok(ObjectName { kind, name: name.to_owned() })
}

/// A Cluster or a part of it.
pub(super) fn part(word: &str) -> Result<Part, Expected> {
    let path = word.strip_prefix("cluster/").unwrap_or(word);
    let (cluster, group) = match path.split_once('/') {
        None => (path, None),
        Some((cluster, "control-plane")) => (cluster, Some(Group::ControlPlane)),
        Some((cluster, group)) => (cluster, Some(Group::Workers(group.to_owned()))),
    };
    let is_name = |name: &str| !name.is_empty() && !name.contains('/');
    let group_is_name = match &group {
        Some(Group::Workers(name)) => is_name(name),
        _ => true,
    };
    if !is_name(cluster) || !group_is_name {
        return Err(format!("expected a Cluster or a part of it, such as NAME/GROUP, found {word:?}"));
    }
    Ok(Part { cluster: cluster.to_owned(), group })
}

/// `; did you mean X?` if one of the known words is like it.
pub(super) fn did_you_mean(word: &str, known: &[&str]) -> String {
    match nearest(word, known) {
        Some(near) => format!("; did you mean {near}?"),
        None => String::new(),
    }
}

/// The same, and all known words if none is like it.
pub(super) fn did_you_mean_or_list(word: &str, known: &[&str]) -> String {
    match nearest(word, known) {
        Some(near) => format!("; did you mean {near}?"),
        None => format!("; there are {}", known.join(", ")),
    }
}

fn nearest<'k>(word: &str, known: &[&'k str]) -> Option<&'k str> {
    let likeness = |known: &str| {
        strsim::normalized_damerau_levenshtein(&word.to_ascii_lowercase(), &known.to_ascii_lowercase())
    };
    let best = known.iter().max_by(|a, b| likeness(a).total_cmp(&likeness(b))).copied();
    best.filter(|best| likeness(best) >= ALIKE)
}

/// `a`, `a or b`, `a, b or c`.
fn list(phrases: &[&str]) -> String {
    match phrases {
        [] => String::new(),
        [one] => format!("{one:?}"),
        [all @ .., last] => {
            let all: Vec<String> = all.iter().map(|phrase| format!("{phrase:?}")).collect();
            format!("{} or {last:?}", all.join(", "))
        }
    }
}
