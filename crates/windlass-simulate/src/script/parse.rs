//! From the lines of a story to its statements.

use std::fmt;

use serde_json::Value;

use super::phrases::{annotation, simple};
use super::statement::{Action, Manifests, Statement};
use super::verbs;
use super::words::{Expected, Words};
use crate::manifests::Startup;
use crate::topology::TopologyManifests;

/// A story: statements that are carried out one after the other.
#[derive(Debug, Clone, PartialEq)]
pub struct Script {
    /// The statements.
    pub statements: Vec<Statement>,
    /// Comments after the last statement.
    pub closing: Vec<String>,
}

/// A line that is not understood.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParseError {
    /// The line; the first is 1.
    pub line: usize,
    /// What was expected, and what is there.
    pub message: String,
    /// How the verb is written, if the line begins with one.
    pub forms: Vec<&'static str>,
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.message)?;
        self.forms.iter().try_for_each(|form| write!(f, "\n  usage: {form}"))
    }
}

impl std::error::Error for ParseError {}

impl Script {
    /// Reads a story.
    ///
    /// # Errors
    ///
    /// The first line that is not understood.
    pub fn parse(text: &str) -> Result<Self, ParseError> {
        let mut statements = Vec::new();
        let mut comments = Vec::new();
        let mut lines = text.lines().enumerate().map(|(index, line)| (index + 1, line)).peekable();
        while let Some((number, line)) = lines.next() {
            if line.trim().is_empty() {
                // Paragraphs of comments stay apart.
                if !comments.is_empty() {
                    comments.push(String::new());
                }
                continue;
            }
            if line.starts_with('#') {
                comments.push(line.trim_end().to_owned());
                continue;
            }
            if line.starts_with(char::is_whitespace) {
                let message =
                    "an indented line belongs to the statement above it, which has no block".to_owned();
                return Err(ParseError { line: number, message, forms: Vec::new() });
            }
            let mut block = Block { first: number + 1, lines: Vec::new() };
            let is_of_block = |line: &str| line.starts_with(char::is_whitespace) || line.trim().is_empty();
            while let Some((_, line)) = lines.next_if(|(_, line)| is_of_block(line)) {
                block.lines.push(line);
            }
            let blanks = block.lines.iter().rev().take_while(|line| line.trim().is_empty()).count();
            block.lines.truncate(block.lines.len() - blanks);
            statements.push(statement(number, line.trim_end(), &block, std::mem::take(&mut comments))?);
        }
        Ok(Self { statements, closing: comments })
    }
}

/// The indented lines below a statement.
struct Block<'a> {
    /// The number of the first line.
    first: usize,
    lines: Vec<&'a str>,
}

impl Block<'_> {
    /// The lines without the indentation that they have in common.
    fn text(&self) -> String {
        let indentation = |line: &&str| line.len() - line.trim_start().len();
        let filled = self.lines.iter().filter(|line| !line.trim().is_empty());
        let common = filled.map(indentation).min().unwrap_or_default();
        self.lines.iter().map(|line| line.get(common..).unwrap_or_default().to_owned() + "\n").collect()
    }

    fn yaml(&self) -> Result<Vec<Value>, ParseError> {
        let text = self.text();
        serde_saphyr::from_multiple(&text).map_err(|error| {
            let line =
                error.location().map_or(0, |at| usize::try_from(at.line()).unwrap_or(1).saturating_sub(1));
            let message = error.without_snippet().to_string();
            let message = message.lines().next().unwrap_or_default().trim().to_owned();
            ParseError {
                line: self.first + line,
                message: format!("not valid YAML: {message}"),
                forms: Vec::new(),
            }
        })
    }
}

fn statement(
    number: usize,
    line: &str,
    block: &Block<'_>,
    comments: Vec<String>,
) -> Result<Statement, ParseError> {
    let at = |message: Expected, verb: Option<&str>| {
        let forms = verb.map(verbs::forms).unwrap_or_default();
        ParseError { line: number, message, forms }
    };
    let mut words = Words::of(line).map_err(|message| at(message, None))?;
    let is_tried = words.take_if("try");
    let verb = words.want("a statement").map_err(|message| at(message, Some("try")))?;
    let takes_block = match verb {
        "create" | "edit" => true,
        "apply" => words.peek().is_none(),
        _ => false,
    };
    if !takes_block && !block.lines.is_empty() {
        return Err(ParseError {
            line: block.first,
            message: "an indented line belongs to the statement above it, which has no block".to_owned(),
            forms: verbs::forms(verb),
        });
    }
    let action = match verb {
        "create" => create(&mut words, block, &at)?,
        "apply" if takes_block => Action::Apply(Manifests::Inline(manifests(block, &at)?)),
        "edit" => edit(&mut words, block, &at)?,
        verb => simple(verb, &mut words).map_err(|message| at(message, Some(verb)))?,
    };
    words.end().map_err(|message| at(message, Some(verb)))?;
    let mut source = line.to_owned();
    for line in &block.lines {
        source.push('\n');
        source.push_str(line.trim_end());
    }
    Ok(Statement { line: number, source, comments, is_tried, action })
}

type At<'a> = &'a dyn Fn(Expected, Option<&str>) -> ParseError;

fn manifests(block: &Block<'_>, at: At<'_>) -> Result<Vec<Value>, ParseError> {
    let objects: Vec<Value> = block.yaml()?.into_iter().filter(|object| !object.is_null()).collect();
    match objects.is_empty() {
        true => Err(at("expected a file, or manifests in indented lines below".to_owned(), Some("apply"))),
        false => Ok(objects),
    }
}

fn edit(words: &mut Words<'_>, block: &Block<'_>, at: At<'_>) -> Result<Action, ParseError> {
    let object = words.object().map_err(|message| at(message, Some("edit")))?;
    match block.yaml()?.as_slice() {
        [patch @ Value::Object(_)] => Ok(Action::Edit { object, patch: patch.clone() }),
        _ => Err(at("expected one YAML mapping in indented lines below".to_owned(), Some("edit"))),
    }
}

fn create(words: &mut Words<'_>, block: &Block<'_>, at: At<'_>) -> Result<Action, ParseError> {
    let mut head = || {
        words.expect("cluster")?;
        let name = words.want("the name of a Cluster")?;
        Ok((name, words.version()?))
    };
    let (name, version) = head().map_err(|message| at(message, Some("create")))?;
    let mut cluster = TopologyManifests::new(name, &version, 1);
    for (index, line) in block.lines.iter().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let setting = Words::of(line).and_then(|mut words| {
            let set = setting(cluster.clone(), &mut words)?;
            words.end().map(|()| set)
        });
        cluster = setting.map_err(|message| ParseError {
            line: block.first + index,
            message,
            forms: verbs::forms("create"),
        })?;
    }
    Ok(Action::Create(Box::new(cluster)))
}

/// One line below `create cluster`.
fn setting(cluster: TopologyManifests, words: &mut Words<'_>) -> Result<TopologyManifests, Expected> {
    let settings =
        ["control plane", "workers", "pool", "versions", "plan by extension", "machines take", "annotation"];
    Ok(match words.one_of(&settings)? {
        "control plane" => cluster.control_plane(words.number("a number of machines")?),
        "workers" => {
            let name = words.want("the name of a group")?;
            cluster.machine_deployment(name, words.number("a number of machines")?)
        }
        "pool" => {
            let name = words.want("the name of a group")?;
            cluster.machine_pool(name, words.number("a number of machines")?)
        }
        "versions" => {
            let mut versions = vec![words.version()?];
            while words.peek().is_some() {
                versions.push(words.version()?);
            }
            cluster.versions(versions)
        }
        "plan by extension" => cluster.plan_extension(crate::extension::PLAN_HANDLER),
        "machines take" => {
            let vm = words.duration()?.as_secs_f64();
            cluster.startup(Startup { vm, ..Startup::default() })
        }
        _ => match annotation(words)? {
            (key, Some(value)) if cluster.has_workers() => cluster.worker_annotation(&key, &value),
            (key, Some(value)) => cluster.annotation(&key, &value),
            (key, None) => return Err(format!("expected KEY=VALUE, found \"{key}-\"")),
        },
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use windlass_runtime::Trouble;

    use super::super::phrases::PATIENCE;
    use super::super::statement::{
        CrashPoint, ExternalUpdaterOrder, Fate, Goal, Group, HookAnswer, MachineChoice, Part, Target,
        TroubleOrder, UpdatedObject, UpdaterOrder,
    };
    use super::super::words::object;
    use super::*;

    fn action(line: &str) -> Action {
        let script = Script::parse(line).unwrap_or_else(|error| panic!("{line}: {error}"));
        assert_eq!(script.statements.len(), 1, "{line}");
        script.statements[0].action.clone()
    }

    fn whole(cluster: &str) -> Part {
        Part { cluster: cluster.to_owned(), group: None }
    }

    fn workers(cluster: &str, group: &str) -> Part {
        Part { cluster: cluster.to_owned(), group: Some(Group::Workers(group.to_owned())) }
    }

    #[test]
    fn statements_are_read() {
        let minutes = |minutes: u64| Duration::from_secs(60 * minutes);
        let object = |word: &str| object(word).unwrap();
        let version = || "v1.31.0".to_owned();
        let hook = windlass_api::hooks::Hook::BeforeClusterUpgrade;
        for (line, expected) in [
            ("apply a/cluster.yaml", Action::Apply(Manifests::File("a/cluster.yaml".to_owned()))),
            ("upgrade prod to 1.31.0", Action::Upgrade { cluster: "prod".to_owned(), to: version() }),
            (
                "upgrade cluster/prod to v1.31.0",
                Action::Upgrade { cluster: "prod".to_owned(), to: version() },
            ),
            (
                "annotate cluster/prod a.b/c=d e=\"two words\" f-",
                Action::Annotate {
                    object: Target::Object(object("cluster/prod")),
                    annotations: vec![
                        ("a.b/c".to_owned(), Some("d".to_owned())),
                        ("e".to_owned(), Some("two words".to_owned())),
                        ("f".to_owned(), None),
                    ],
                },
            ),
            (
                "scale prod/web to 5",
                Action::Scale { object: Target::Part(workers("prod", "web")), replicas: 5 },
            ),
            ("scale md/web to 0", Action::Scale { object: Target::Object(object("md/web")), replicas: 0 }),
            ("delete Cluster/prod", Action::Delete(object("cluster/prod"))),
            (
                "delete oldest of prod/web",
                Action::DeleteMachine(MachineChoice::Oldest(workers("prod", "web"))),
            ),
            ("advance 1h30m", Action::Advance(minutes(90))),
            (
                "until prod is at v1.31.0",
                Action::Until {
                    goal: Goal::IsAt { part: whole("prod"), version: version() },
                    within: PATIENCE,
                },
            ),
            (
                "until 2 machines of prod/web at v1.31.0 within 10m",
                Action::Until {
                    goal: Goal::Machines { count: 2, part: workers("prod", "web"), version: version() },
                    within: minutes(10),
                },
            ),
            (
                "until machines = v1.31.0",
                Action::Until { goal: Goal::AllMachines { version: version() }, within: PATIENCE },
            ),
            (
                "until cluster/prod TopologyReconciled is False within 1m",
                Action::Until {
                    goal: Goal::Condition {
                        object: object("cluster/prod"),
                        condition: "TopologyReconciled".to_owned(),
                        status: Some("False".to_owned()),
                        says: None,
                    },
                    within: minutes(1),
                },
            ),
            (
                "until cluster/prod TopologyReconciled says \"not yet\"",
                Action::Until {
                    goal: Goal::Condition {
                        object: object("cluster/prod"),
                        condition: "TopologyReconciled".to_owned(),
                        status: None,
                        says: Some("not yet".to_owned()),
                    },
                    within: PATIENCE,
                },
            ),
            (
                "until cluster/prod is gone",
                Action::Until { goal: Goal::Gone(object("cluster/prod")), within: PATIENCE },
            ),
            (
                "until hook BeforeClusterUpgrade is called 3 times within 1h",
                Action::Until { goal: Goal::HookCalled { hook, times: 3 }, within: minutes(60) },
            ),
            ("until nothing is left to do", Action::Until { goal: Goal::Idle, within: PATIENCE }),
            ("crash", Action::Crash(CrashPoint::Now)),
            ("crash after write 7 within 5m", Action::Crash(CrashPoint::After(7, Duration::from_secs(300)))),
            ("trouble ends", Action::Trouble(None)),
            (
                "trouble late events",
                Action::Trouble(Some(TroubleOrder { trouble: Trouble::LateEvents, percent: 20, time: None })),
            ),
            (
                "trouble failed writes 100% for 5m",
                Action::Trouble(Some(TroubleOrder {
                    trouble: Trouble::FailedWrites,
                    percent: 100,
                    time: Some(Duration::from_secs(300)),
                })),
            ),
            ("clock jumps 1h", Action::Clock { by: Duration::from_secs(3600), is_back: false }),
            ("clock is set back 90s", Action::Clock { by: Duration::from_secs(90), is_back: true }),
            ("crash before the next write", Action::Crash(CrashPoint::Before(1, PATIENCE))),
            ("crash after write 7", Action::Crash(CrashPoint::After(7, PATIENCE))),
            ("hook BeforeClusterUpgrade answers success", Action::Hook { hook, answer: HookAnswer::Success }),
            (
                "hook BeforeClusterUpgrade blocks 10m \"no window\"",
                Action::Hook {
                    hook,
                    answer: HookAnswer::Blocks { time: Some(minutes(10)), message: "no window".to_owned() },
                },
            ),
            (
                "hook BeforeClusterUpgrade blocks",
                Action::Hook {
                    hook,
                    answer: HookAnswer::Blocks { time: None, message: "not yet".to_owned() },
                },
            ),
            ("extension is down", Action::Extension { is_up: false }),
            (
                "updater night covers machine.version bootstrap.files",
                Action::Updater {
                    name: "night".to_owned(),
                    order: UpdaterOrder::Covers(vec![
                        (UpdatedObject::Machine, "version".to_owned()),
                        (UpdatedObject::Bootstrap, "files".to_owned()),
                    ]),
                },
            ),
            (
                "external updater night updates all machines",
                Action::ExternalUpdater {
                    name: "night".to_owned(),
                    order: ExternalUpdaterOrder::Updates(None),
                },
            ),
            (
                "machine newest of prod/web is not ready \"disk\"",
                Action::Machine {
                    which: MachineChoice::Newest(workers("prod", "web")),
                    fate: Fate::IsNotReady("disk".to_owned()),
                },
            ),
            (
                "machines of prod have no image of v1.31.0",
                Action::Machines { cluster: "prod".to_owned(), fate: Fate::HasNoImage(version()) },
            ),
            ("machines", Action::ListMachines(None)),
            (
                "machines of prod/control-plane",
                Action::ListMachines(Some(Part {
                    cluster: "prod".to_owned(),
                    group: Some(Group::ControlPlane),
                })),
            ),
            ("plan prod to v1.31.0", Action::Plan { cluster: "prod".to_owned(), to: version() }),
        ] {
            assert_eq!(action(line), expected, "{line}");
        }
    }

    #[test]
    fn blocks_and_comments_belong_to_their_statements() {
        let script = Script::parse(
            "# What it shows.\n\n# More.\ncreate cluster prod v1.30.0\n  control plane 3\n\n  workers web 2\n\ntry edit cluster/prod\n\
             \x20   spec:\n\x20     paused: true\n# The end.\n",
        )
        .unwrap();
        let lines: Vec<(usize, bool)> =
            script.statements.iter().map(|found| (found.line, found.is_tried)).collect();
        assert_eq!(lines, [(4, false), (9, true)]);
        assert_eq!(script.statements[0].comments, ["# What it shows.", "", "# More."]);
        assert_eq!(
            script.statements[0].action,
            Action::Create(Box::new(
                TopologyManifests::new("prod", "v1.30.0", 1).control_plane(3).machine_deployment("web", 2)
            ))
        );
        let patch = serde_json::json!({"spec": {"paused": true}});
        assert_eq!(
            script.statements[1].action,
            Action::Edit { object: object("cluster/prod").unwrap(), patch }
        );
        assert_eq!(script.statements[1].source, "try edit cluster/prod\n    spec:\n      paused: true");
        assert_eq!(script.closing, ["# The end."]);
    }

    #[test]
    fn what_is_wrong_is_said_with_the_line_and_what_was_expected() {
        for (text, expected) in [
            ("describ prod", "line 1: expected a verb, found \"describ\"; did you mean describe?"),
            ("frobnicate", "line 1: expected a verb, found \"frobnicate\"; there are advance, annotate, "),
            (
                "# a\n\nupgrade prod v1.31.0",
                "line 3: expected \"to\", found \"v1.31.0\"\n  usage: upgrade CLUSTER to VERSION",
            ),
            (
                "upgrade prod to banana",
                "line 1: expected a Kubernetes version such as v1.33.0, found \"banana\": ",
            ),
            ("advance 5 minutes", "line 1: expected a duration such as 90s, 10m or 1h30m, found \"5\""),
            ("advance -5m", "line 1: expected a duration such as 90s, 10m or 1h30m, found \"-5m\""),
            ("advance", "line 1: expected a duration such as 10m, found the end of the line"),
            ("delete clutser/prod", "line 1: expected a kind, found \"clutser\"; did you mean cluster?"),
            (
                "hook BeforeUpgrade blocks",
                "line 1: expected a lifecycle hook, found \"BeforeUpgrade\"; did you mean Before",
            ),
            (
                "hook GeneratePatches blocks",
                "line 1: expected a lifecycle hook, found \"GeneratePatches\"; there are ",
            ),
            (
                "hook BeforeClusterUpgrade answer success",
                "line 1: expected \"answers success\", \"answers failure\" or \"blocks\", found \"answer\"; did you mean answers?",
            ),
            (
                "hook BeforeClusterUpgrade answers failure no",
                "line 1: expected a message in quotation marks, found \"no\"",
            ),
            ("hook BeforeClusterUpgrade blocks \"x", "line 1: a quotation mark is not closed"),
            ("until prod is at v1.31.0 soon", "line 1: expected the end of the line, found \"soon\""),
            (
                "until prod TopologyReconciled",
                "line 1: expected an object such as cluster/NAME, found \"prod\"",
            ),
            (
                "advance 5m\n  spec: {}",
                "line 2: an indented line belongs to the statement above it, which has no block",
            ),
            (
                "  advance 5m",
                "line 1: an indented line belongs to the statement above it, which has no block",
            ),
            ("apply", "line 1: expected a file, or manifests in indented lines below"),
            ("apply\n  a: [", "line 2: not valid YAML: "),
            ("edit cluster/prod\n  a: 1\n  b: : 2", "line 3: not valid YAML: "),
            ("edit cluster/prod", "line 1: expected one YAML mapping in indented lines below"),
            (
                "create cluster prod v1.30.0\n  control plane 3\n  worker web 2",
                "line 3: expected \"control plane\", \"workers\", \"pool\", \"versions\", \"plan by extension\", \
                 \"machines take\" or \"annotation\", found \"worker\"; did you mean workers?",
            ),
            ("annotate cluster/prod abc", "line 1: expected KEY=VALUE or KEY-, found \"abc\""),
            (
                "scale prod/web/a to 1",
                "line 1: expected a Cluster or a part of it, such as NAME/GROUP, found ",
            ),
            ("updater x covers version", "line 1: expected a field such as machine.version, "),
            ("machines of prod/web recover", "line 1: expected a whole Cluster: "),
            ("try", "line 1: expected a statement, found the end of the line\n  usage: try STATEMENT"),
        ] {
            let error = Script::parse(text).unwrap_err().to_string();
            assert!(error.starts_with(expected), "{text}:\n{error}\nshould begin with\n{expected}");
        }
    }

    #[test]
    fn every_verb_that_is_listed_is_known() {
        for verb in verbs::names().into_iter().filter(|verb| *verb != "try") {
            let outcome = Script::parse(&format!("{verb} /"));
            let error = outcome.map(|_| String::new()).unwrap_or_else(|error| error.to_string());
            assert!(!error.contains("expected a verb"), "{verb}: {error}");
        }
    }
}
