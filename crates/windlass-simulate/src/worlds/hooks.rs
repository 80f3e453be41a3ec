//! Whether hooks come in pairs and in order.

use std::collections::BTreeSet;

use windlass_version::{Comparison, Version};

/// What the hooks of a story say.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Hooks {
    /// The versions with which AfterClusterUpgrade was called, in order.
    pub ended: Vec<String>,
    /// The versions with which BeforeClusterUpgrade was called, in order.
    pub began: Vec<String>,
}

/// Pairs the hooks of a [story](crate::Chronicle::story): every hook before a step of the control plane or of the workers has
/// the one after it, about the same version, and no step of either begins within another of its own. No step begins before
/// BeforeClusterUpgrade has passed, and AfterClusterUpgrade comes when no step is under way. A step of the control plane that
/// is redirected to a later patch of its minor is one step, with the hook after its last version.
///
/// # Errors
///
/// The first hook that has no other half, in words.
pub fn pair_hooks(story: &[String]) -> Result<Hooks, String> {
    let mut hooks = Hooks::default();
    let mut open: BTreeSet<(&str, &str)> = BTreeSet::new();
    for entry in story {
        let words: Vec<&str> = entry.split(' ').collect();
        match words.as_slice() {
            ["BeforeClusterUpgrade", _, "->", version] => hooks.began.push((*version).to_owned()),
            [before @ ("BeforeControlPlaneUpgrade" | "BeforeWorkersUpgrade"), from, "->", version] => {
                let part = before.trim_start_matches("Before");
                if hooks.began.is_empty() {
                    return Err(format!("{entry} before BeforeClusterUpgrade"));
                }
                if let Some((_, other)) = open.iter().find(|(known, _)| *known == part).copied() {
                    if !(part == "ControlPlaneUpgrade" && other == *from && is_later_patch(from, version)) {
                        return Err(format!("{entry} while the step to {other} has not ended"));
                    }
                    open.remove(&(part, other));
                }
                open.insert((part, version));
            }
            [after @ ("AfterControlPlaneUpgrade" | "AfterWorkersUpgrade"), version] => {
                let part = after.trim_start_matches("After");
                if !open.remove(&(part, version)) {
                    return Err(format!("{entry} without Before{part} to {version}"));
                }
            }
            ["AfterClusterUpgrade", version] => {
                if let Some((part, other)) = open.first() {
                    return Err(format!("{entry} before After{part} to {other}"));
                }
                hooks.ended.push((*version).to_owned());
            }
            _ => {}
        }
    }
    match open.first() {
        None => Ok(hooks),
        Some((part, version)) => Err(format!("Before{part} to {version} without After{part}")),
    }
}

fn is_later_patch(from: &str, to: &str) -> bool {
    match (Version::parse(from), Version::parse(to)) {
        (Ok(from), Ok(to)) => from.minor() == to.minor() && from.compare(&to) == Comparison::Less,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair(story: &[&str]) -> Result<Hooks, String> {
        pair_hooks(&story.iter().map(|entry| (*entry).to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn hooks_come_in_pairs() {
        let whole = [
            "BeforeClusterUpgrade v1.30.0 -> v1.31.0",
            "BeforeControlPlaneUpgrade v1.30.0 -> v1.31.0",
            "cp v1.30.0 -> v1.31.0",
            "AfterControlPlaneUpgrade v1.31.0",
            "BeforeWorkersUpgrade v1.30.0 -> v1.31.0",
            "AfterWorkersUpgrade v1.31.0",
            "AfterClusterUpgrade v1.31.0",
        ];
        let versions = || vec!["v1.31.0".to_owned()];
        assert_eq!(pair(&whole), Ok(Hooks { ended: versions(), began: versions() }));
        assert!(pair(&whole[..3]).unwrap_err().contains("without AfterControlPlaneUpgrade"));
        assert!(pair(&whole[3..]).unwrap_err().contains("without BeforeControlPlaneUpgrade"));
        assert!(pair(&whole[1..]).unwrap_err().contains("before BeforeClusterUpgrade"));
        let early = [whole[0], whole[1], whole[6]];
        assert!(pair(&early).unwrap_err().contains("before AfterControlPlaneUpgrade"));
        let twice = [whole[0], whole[1], "BeforeControlPlaneUpgrade v1.31.0 -> v1.32.0"];
        assert!(pair(&twice).unwrap_err().contains("has not ended"));
        let redirected = [
            whole[0],
            whole[1],
            "BeforeControlPlaneUpgrade v1.31.0 -> v1.31.7",
            "AfterControlPlaneUpgrade v1.31.7",
        ];
        assert!(pair(&redirected).is_ok());
        assert!(pair(&redirected[..3]).unwrap_err().contains("to v1.31.7 without After"));
    }
}
