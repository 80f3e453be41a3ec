//! Names of machines.

use serde_json::json;
use windlass_gotemplate::{MissingKey, TemplateError};

/// How long a generated name may be: a Machine's name becomes a label value and a host name.
const MAX_NAME: usize = 63;
/// How many characters of a name are random.
pub const RANDOM_LENGTH: usize = 5;
/// The characters of random parts: no vowels, so that no words come out, and none that are easily mixed up.
pub const RANDOM_ALPHABET: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";

/// What a template for names may refer to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NameParts<'a> {
    /// `{{ .cluster.name }}`.
    pub cluster: &'a str,
    /// What the machine belongs to.
    pub owner: NamedOwner<'a>,
    /// `{{ .random }}`.
    pub random: &'a str,
}

/// The owner of a machine, by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NamedOwner<'a> {
    /// `{{ .machineSet.name }}`.
    MachineSet(&'a str),
    /// `{{ .kubeadmControlPlane.name }}`.
    KubeadmControlPlane(&'a str),
}

/// Why no name comes out of a template.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NamingError {
    /// It cannot be read, or refers to something that is not there.
    #[error("machine naming {0}; .cluster.name, .{1}.name and .random can be used")]
    Template(TemplateError, &'static str),
    /// Every machine would get the same name.
    #[error("machine naming template {0:?} does not contain {{{{ .random }}}}")]
    NotRandom(String),
    /// The result is no name of an object.
    #[error("machine naming template makes {0:?}, which is not a DNS subdomain")]
    NotAName(String),
}

/// Checks a template on names as they are; an empty one is none.
///
/// # Errors
///
/// The template cannot be used.
pub fn check_machine_naming(template: &str, owner: NamedOwner<'_>) -> Result<(), NamingError> {
    machine_name(Some(template), NameParts { cluster: "cluster", owner, random: "x7z2q" }).map(|_| ())
}

/// The name of a machine, by the template of the user or as `<owner>-<random>`. Too long a name loses the end of
/// what stands before the random part.
///
/// # Errors
///
/// The template cannot be used.
pub fn machine_name(template: Option<&str>, parts: NameParts<'_>) -> Result<String, NamingError> {
    let (kind, owner) = match parts.owner {
        NamedOwner::MachineSet(name) => ("machineSet", name),
        NamedOwner::KubeadmControlPlane(name) => ("kubeadmControlPlane", name),
    };
    let template = template.filter(|template| !template.is_empty());
    let Some(template) = template else {
        return checked(format!("{}-{}", cut(owner, parts.random.len() + 1), parts.random));
    };
    let rendered = |random: &str| {
        let data = json!({"cluster": {"name": parts.cluster}, kind: {"name": owner}, "random": random});
        windlass_gotemplate::render(template, &data, MissingKey::Refuse)
            .map_err(|error| NamingError::Template(error, kind))
    };
    let mut name = rendered(parts.random)?;
    // With another random part it must be another name.
    let other: String = parts.random.chars().map(|c| if c == 'b' { 'c' } else { 'b' }).collect();
    if rendered(&other)? == name {
        return Err(NamingError::NotRandom(template.to_owned()));
    }
    if name.len() > MAX_NAME {
        // The random part must survive, wherever it stood.
        name = format!("{}{}", cut(&name, parts.random.len()), parts.random);
    }
    checked(name)
}

fn cut(text: &str, room: usize) -> &str {
    let end = MAX_NAME.saturating_sub(room).min(text.len());
    text.get(..end).unwrap_or(text)
}

fn checked(name: String) -> Result<String, NamingError> {
    let inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    let part = |part: &str| {
        part.starts_with(inner) && part.ends_with(inner) && part.chars().all(|c| inner(c) || c == '-')
    };
    if name.split('.').all(part) { Ok(name) } else { Err(NamingError::NotAName(name)) }
}
