//! What a check, a rule and a finding are. The table of all of them is in [`crate::catalogue`].

use std::fmt;

use serde::Serialize;

pub use crate::catalogue::{CheckId, Rule};

/// How bad a finding is. Ordered: the last is the worst.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// Worth knowing.
    Info,
    /// A guideline is broken: it works today and hurts one day.
    Warning,
    /// Cluster API or Windlass fails with it.
    Error,
}

impl Level {
    /// The level in lower case, as reports print it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Info => "info",
            Self::Warning => "warning",
            Self::Error => "error",
        }
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// What a check is about. Reports are ordered by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Group {
    /// TLS, HTTP and tolerance of bodies.
    Transport,
    /// The list of handlers.
    Discovery,
    /// Every call of a handler.
    Calls,
    /// The same question gets the same answer.
    Determinism,
    /// Hooks that make the caller wait.
    Blocking,
    /// External patches of a ClusterClass.
    Patches,
    /// Upgrade plans.
    UpgradePlan,
    /// Updates of Machines without replacement.
    InPlace,
    /// Load, replicas, restarts.
    Availability,
    /// Manifests, offline.
    Lint,
}

impl Group {
    /// Every group, in the order of reports.
    pub const ALL: [Self; 10] = [
        Self::Transport,
        Self::Discovery,
        Self::Calls,
        Self::Determinism,
        Self::Blocking,
        Self::Patches,
        Self::UpgradePlan,
        Self::InPlace,
        Self::Availability,
        Self::Lint,
    ];

    /// The name as reports print it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Transport => "transport",
            Self::Discovery => "discovery",
            Self::Calls => "calls",
            Self::Determinism => "determinism",
            Self::Blocking => "blocking",
            Self::Patches => "patches",
            Self::UpgradePlan => "upgrade-plan",
            Self::InPlace => "in-place",
            Self::Availability => "availability",
            Self::Lint => "lint",
        }
    }
}

impl fmt::Display for Group {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// A rule that was found broken, with the evidence.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Finding {
    /// The rule. Its check, level, consequence and fix come with it.
    pub rule: Rule,
    /// What it was found on: a handler with its hook, an endpoint, a field of a manifest.
    pub subject: String,
    /// What was observed, with the values that were seen.
    pub observed: String,
}

impl Finding {
    /// A broken rule on a subject.
    pub fn new(rule: Rule, subject: impl Into<String>, observed: impl Into<String>) -> Self {
        Self { rule, subject: subject.into(), observed: observed.into() }
    }

    /// The check that the rule belongs to.
    pub const fn check(&self) -> CheckId {
        self.rule.check()
    }

    /// How bad it is.
    pub const fn level(&self) -> Level {
        self.rule.level()
    }

    /// What Cluster API or Windlass does with it.
    pub const fn consequence(&self) -> &'static str {
        self.rule.consequence()
    }

    /// How to repair it.
    pub const fn fix(&self) -> &'static str {
        self.rule.fix()
    }
}

/// Declares all checks with their rules, so that neither can exist without its texts.
///
/// `ID Group "title" { Rule Level "consequence" "fix"; ... }`
macro_rules! checks {
    ($(
        $Check:ident $Group:ident $title:literal {
            $( $Rule:ident $Level:ident $consequence:literal $fix:literal; )+
        }
    )+) => {
        /// A check of the contract, named as in its list of checks.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize)]
        pub enum CheckId {
            $( #[doc = $title] $Check, )+
        }

        impl CheckId {
            /// Every check, in the order of reports.
            pub const ALL: &'static [Self] = &[$( Self::$Check, )+];

            /// The name, for example `T1`.
            pub const fn as_str(self) -> &'static str {
                match self { $( Self::$Check => stringify!($Check), )+ }
            }

            /// What is checked, as a statement that should be true.
            pub const fn title(self) -> &'static str {
                match self { $( Self::$Check => $title, )+ }
            }

            /// What the check is about.
            pub const fn group(self) -> crate::check::Group {
                match self { $( Self::$Check => crate::check::Group::$Group, )+ }
            }

            /// The ways in which the check can fail.
            pub const fn rules(self) -> &'static [Rule] {
                match self { $( Self::$Check => &[$( Rule::$Rule, )+], )+ }
            }
        }

        /// One way in which a check can fail.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize)]
        pub enum Rule {
            $($(
                #[doc = concat!("Found by check ", stringify!($Check), "; [`Rule::consequence`] says what it means.")]
                $Rule,
            )+)+
        }

        impl Rule {
            /// Every rule, in the order of reports.
            pub const ALL: &'static [Self] = &[$($( Self::$Rule, )+)+];

            /// The name, stable across releases.
            pub const fn as_str(self) -> &'static str {
                match self { $($( Self::$Rule => stringify!($Rule), )+)+ }
            }

            /// The check that it belongs to.
            pub const fn check(self) -> CheckId {
                match self { $($( Self::$Rule => CheckId::$Check, )+)+ }
            }

            /// How bad it is.
            pub const fn level(self) -> crate::check::Level {
                match self { $($( Self::$Rule => crate::check::Level::$Level, )+)+ }
            }

            /// What Cluster API or Windlass does with it.
            pub const fn consequence(self) -> &'static str {
                match self { $($( Self::$Rule => $consequence, )+)+ }
            }

            /// How to repair it.
            pub const fn fix(self) -> &'static str {
                match self { $($( Self::$Rule => $fix, )+)+ }
            }
        }

        impl std::fmt::Display for CheckId {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(self.as_str())
            }
        }

        impl std::fmt::Display for Rule {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(self.as_str())
            }
        }
    };
}
pub(crate) use checks;

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_check_of_the_contract_exists() {
        let expected: Vec<String> = [
            ('T', 11),
            ('D', 12),
            ('C', 8),
            ('I', 7),
            ('B', 3),
            ('P', 6),
            ('U', 3),
            // N1 to N6 are the contract's; N7 is about the hook of strategy External.
            ('N', 7),
            ('A', 5),
            // L1 to L9 are the contract's; the others are about the file itself.
            ('L', 14),
        ]
        .into_iter()
        .flat_map(|(letter, count)| (1..=count).map(move |number| format!("{letter}{number}")))
        .collect();
        let ours: Vec<&str> = CheckId::ALL.iter().map(|check| check.as_str()).collect();
        assert_eq!(ours, expected);
    }

    #[test]
    fn rules_belong_to_the_check_that_lists_them_and_say_something() {
        let mut texts = BTreeSet::new();
        for &check in CheckId::ALL {
            assert!(!check.rules().is_empty());
            assert!(Group::ALL.contains(&check.group()));
            for &rule in check.rules() {
                assert_eq!(rule.check(), check);
                for text in [rule.consequence(), rule.fix()] {
                    assert!(text.len() > 20 && !text.ends_with('.'), "{rule}: {text}");
                }
                assert!(texts.insert(rule.consequence()), "{rule} repeats the consequence of another rule");
            }
        }
        assert_eq!(CheckId::ALL.iter().map(|check| check.rules().len()).sum::<usize>(), Rule::ALL.len());
    }
}
