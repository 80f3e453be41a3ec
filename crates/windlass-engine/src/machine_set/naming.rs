//! Names of machines.

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
    /// `{{ .machineSet.name }}`.
    pub machine_set: &'a str,
    /// `{{ .random }}`.
    pub random: &'a str,
}

/// Why no name comes out of a template.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NamingError {
    /// Braces that are opened and not closed.
    #[error("machine naming template {0:?} has an unclosed {{{{")]
    Unclosed(String),
    /// Something that a template cannot refer to.
    #[error(
        "machine naming template refers to {0:?}; .cluster.name, .machineSet.name and .random can be used"
    )]
    Unknown(String),
    /// Every machine would get the same name.
    #[error("machine naming template {0:?} does not contain {{{{ .random }}}}")]
    NotRandom(String),
    /// The result is no name of an object.
    #[error("machine naming template makes {0:?}, which is not a DNS subdomain")]
    NotAName(String),
}

/// The name of a machine, by the template of the user or as `<MachineSet>-<random>`. Too long a name loses the end of
/// what stands before the random part.
///
/// # Errors
///
/// The template cannot be used.
pub fn machine_name(template: Option<&str>, parts: NameParts<'_>) -> Result<String, NamingError> {
    let template = template.filter(|template| !template.is_empty());
    let Some(template) = template else {
        return checked(format!("{}-{}", cut(parts.machine_set, parts.random.len() + 1), parts.random));
    };
    let mut name = String::new();
    let mut rest = template;
    let mut random = false;
    while let Some((before, after)) = rest.split_once("{{") {
        name.push_str(before);
        let (inside, after) =
            after.split_once("}}").ok_or_else(|| NamingError::Unclosed(template.to_owned()))?;
        name.push_str(match inside.trim_matches(|c: char| c.is_whitespace() || c == '-') {
            ".cluster.name" => parts.cluster,
            ".machineSet.name" => parts.machine_set,
            ".random" => {
                random = true;
                parts.random
            }
            other => return Err(NamingError::Unknown(other.to_owned())),
        });
        rest = after;
    }
    name.push_str(rest);
    if !random {
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
