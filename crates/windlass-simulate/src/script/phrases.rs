//! Statements without a block: from words to what they do.

use std::time::Duration;

use windlass_runtime::{Trouble, UnknownTrouble};

use super::statement::{
    Action, CrashPoint, ExternalUpdaterOrder, Fate, Goal, HookAnswer, MachineChoice, Manifests, Target,
    TroubleOrder, UpdatedObject, UpdaterOrder,
};
use super::verbs;
use super::words::{Expected, Words, did_you_mean_or_list, object, part};

/// How long `until` waits if it does not say.
pub(super) const PATIENCE: Duration = Duration::from_secs(24 * 3600);

/// Statements without a block.
pub(super) fn simple(verb: &str, words: &mut Words<'_>) -> Result<Action, Expected> {
    Ok(match verb {
        "apply" => Action::Apply(Manifests::File(words.want("a file")?.to_owned())),
        "upgrade" => {
            let cluster = words.cluster()?;
            words.expect("to")?;
            Action::Upgrade { cluster, to: words.version()? }
        }
        "annotate" => {
            let object = target(words)?;
            let mut annotations = vec![annotation(words)?];
            while words.peek().is_some() {
                annotations.push(annotation(words)?);
            }
            Action::Annotate { object, annotations }
        }
        "scale" => {
            let object = target(words)?;
            words.expect("to")?;
            Action::Scale { object, replicas: words.number("a number of machines")? }
        }
        "delete" if matches!(words.peek(), Some("newest" | "oldest")) => {
            Action::DeleteMachine(machine_choice(words)?)
        }
        "delete" => Action::Delete(words.object()?),
        "advance" => Action::Advance(words.duration()?),
        "until" => {
            let goal = goal(words)?;
            let within = if words.take_if("within") { words.duration()? } else { PATIENCE };
            Action::Until { goal, within }
        }
        "crash" => Action::Crash(crash(words)?),
        "trouble" => Action::Trouble(trouble(words)?),
        "clock" => {
            let is_back = words.one_of(&["jumps", "is set back"])? == "is set back";
            Action::Clock { by: words.duration()?, is_back }
        }
        "hook" => Action::Hook { hook: words.hook()?, answer: hook_answer(words)? },
        "extension" => Action::Extension { is_up: words.one_of(&["is down", "is up"])? == "is up" },
        "updater" => {
            let name = words.want("the name of an updater")?.to_owned();
            Action::Updater { name, order: updater(words)? }
        }
        "external" => {
            words.expect("updater")?;
            let name = words.want("the name of an external updater")?.to_owned();
            Action::ExternalUpdater { name, order: external_updater(words)? }
        }
        "machine" => machine(words)?,
        "machines" => machines(words)?,
        "describe" => Action::Describe(words.cluster()?),
        "hooks" => Action::ListHooks,
        "plan" => {
            let cluster = words.cluster()?;
            words.expect("to")?;
            Action::Plan { cluster, to: words.version()? }
        }
        other => {
            let hint = did_you_mean_or_list(other, &verbs::names());
            return Err(format!("expected a verb, found {other:?}{hint}"));
        }
    })
}

fn target(words: &mut Words<'_>) -> Result<Target, Expected> {
    let word = words.want("an object such as cluster/NAME, or a part such as NAME/GROUP")?;
    let kind_is_known = word.split_once('/').is_some_and(|(kind, _)| super::kinds::kind(kind).is_some());
    match kind_is_known && word.matches('/').count() == 1 {
        true => Ok(Target::Object(object(word)?)),
        false => match part(word)? {
            found if found.group.is_some() => Ok(Target::Part(found)),
            found => Ok(Target::Object(object(&format!("cluster/{}", found.cluster))?)),
        },
    }
}

fn goal(words: &mut Words<'_>) -> Result<Goal, Expected> {
    if words.take_if("nothing is left to do") {
        return Ok(Goal::Idle);
    }
    if words.take_if("machines") {
        words.expect("=")?;
        return Ok(Goal::AllMachines { version: words.version()? });
    }
    if words.take_if("hook") {
        let hook = words.hook()?;
        words.expect("is called")?;
        let times = match words.peek().is_some_and(|word| word != "within") {
            true => {
                let times = words.number("how many times")?;
                words.one_of(&["times", "time"])?;
                usize::try_from(times).unwrap_or(usize::MAX)
            }
            false => 1,
        };
        return Ok(Goal::HookCalled { hook, times });
    }
    if matches!(words.peek_second(), Some("machine" | "machines")) {
        let count = usize::try_from(words.number("a number of machines")?).unwrap_or(usize::MAX);
        words.take();
        words.expect("of")?;
        let part = words.part()?;
        words.expect("at")?;
        return Ok(Goal::Machines { count, part, version: words.version()? });
    }
    let what = "PART is at VERSION, OBJECT CONDITION, or another goal";
    let word = words.want(what)?;
    if words.take_if("is at") {
        return Ok(Goal::IsAt { part: part(word)?, version: words.version()? });
    }
    let object = object(word)?;
    if words.take_if("is gone") {
        return Ok(Goal::Gone(object));
    }
    let condition = words.want("the type of a condition, \"is gone\" or \"is at\"")?.to_owned();
    let status = match words.take_if("is") {
        true => Some(words.one_of(&["True", "False", "Unknown"])?),
        false => None,
    };
    let says = if words.take_if("says") { Some(words.message()?) } else { None };
    let status = status.or_else(|| says.is_none().then_some("True")).map(str::to_owned);
    Ok(Goal::Condition { object, condition, status, says })
}

fn crash(words: &mut Words<'_>) -> Result<CrashPoint, Expected> {
    if words.peek().is_none() || words.take_if("now") {
        return Ok(CrashPoint::Now);
    }
    let is_before = words.one_of(&["before", "after"])? == "before";
    let number = match words.take_if("the next write") {
        true => 1,
        false => {
            words.expect("write")?;
            u64::from(words.number("the number of a write")?.max(1))
        }
    };
    let within = if words.take_if("within") { words.duration()? } else { PATIENCE };
    Ok(if is_before { CrashPoint::Before(number, within) } else { CrashPoint::After(number, within) })
}

/// How often trouble strikes if it does not say.
const OFTEN: u8 = 20;

fn trouble(words: &mut Words<'_>) -> Result<Option<TroubleOrder>, Expected> {
    if words.take_if("ends") {
        return Ok(None);
    }
    let kinds = Trouble::ALL.map(Trouble::words);
    let kind = words.one_of(&kinds)?;
    let trouble = kind.parse().map_err(|error: UnknownTrouble| error.to_string())?;
    let percent = match words.peek().and_then(|word| word.strip_suffix('%')) {
        None => OFTEN,
        Some(number) => {
            let percent = number.parse().ok().filter(|percent| *percent <= 100);
            let percent = percent.ok_or_else(|| format!("expected 0% to 100%, found {number:?}%"))?;
            words.take();
            percent
        }
    };
    let time = if words.take_if("for") { Some(words.duration()?) } else { None };
    Ok(Some(TroubleOrder { trouble, percent, time }))
}

fn hook_answer(words: &mut Words<'_>) -> Result<HookAnswer, Expected> {
    Ok(match words.one_of(&["answers success", "answers failure", "blocks"])? {
        "answers success" => HookAnswer::Success,
        "answers failure" => HookAnswer::Failure { message: words.message()? },
        _ => {
            let mut message = words.quoted();
            let time = match (message, words.peek()) {
                (None, Some(_)) => Some(words.duration()?),
                _ => None,
            };
            message = message.or_else(|| words.quoted());
            HookAnswer::Blocks { time, message: message.unwrap_or("not yet").to_owned() }
        }
    })
}

fn updater(words: &mut Words<'_>) -> Result<UpdaterOrder, Expected> {
    let orders = ["covers everything", "covers nothing", "covers", "takes", "fails", "recovers"];
    Ok(match words.one_of(&orders)? {
        "covers everything" => UpdaterOrder::CoversEverything,
        "covers nothing" => UpdaterOrder::Covers(Vec::new()),
        "covers" => {
            let mut fields = vec![field(words)?];
            while words.peek().is_some() {
                fields.push(field(words)?);
            }
            UpdaterOrder::Covers(fields)
        }
        "takes" => UpdaterOrder::Takes(words.duration()?),
        "fails" => UpdaterOrder::Fails(words.message()?),
        _ => UpdaterOrder::Recovers,
    })
}

fn field(words: &mut Words<'_>) -> Result<(UpdatedObject, String), Expected> {
    let word = words.want("a field such as machine.version")?;
    let parts = word.split_once('.').filter(|(_, name)| !name.is_empty());
    let object = match parts.map(|(object, _)| object) {
        Some("machine") => UpdatedObject::Machine,
        Some("infrastructure") => UpdatedObject::Infrastructure,
        Some("bootstrap") => UpdatedObject::Bootstrap,
        _ => {
            return Err(format!(
                "expected a field such as machine.version, infrastructure.NAME or bootstrap.NAME, found {word:?}"
            ));
        }
    };
    Ok((object, parts.map(|(_, name)| name.to_owned()).unwrap_or_default()))
}

fn external_updater(words: &mut Words<'_>) -> Result<ExternalUpdaterOrder, Expected> {
    Ok(match words.one_of(&["accepts", "refuses", "fails", "is silent", "updates"])? {
        "accepts" => ExternalUpdaterOrder::Accepts,
        "refuses" => ExternalUpdaterOrder::Refuses(words.message()?),
        "fails" => ExternalUpdaterOrder::Fails(words.message()?),
        "is silent" => ExternalUpdaterOrder::IsSilent,
        _ => {
            let count = match words.take_if("all") {
                true => None,
                false => Some(usize::try_from(words.number("a number, or all")?).unwrap_or(usize::MAX)),
            };
            words.one_of(&["machines", "machine"])?;
            ExternalUpdaterOrder::Updates(count)
        }
    })
}

fn machine_choice(words: &mut Words<'_>) -> Result<MachineChoice, Expected> {
    Ok(match words.want("the name of a machine, \"newest of PART\" or \"oldest of PART\"")? {
        choice @ ("newest" | "oldest") => {
            words.expect("of")?;
            let part = words.part()?;
            if choice == "newest" { MachineChoice::Newest(part) } else { MachineChoice::Oldest(part) }
        }
        name => MachineChoice::Name(name.to_owned()),
    })
}

fn machine(words: &mut Words<'_>) -> Result<Action, Expected> {
    let which = machine_choice(words)?;
    let why = |words: &mut Words<'_>| words.quoted().unwrap_or_default().to_owned();
    let fates = ["fails to provision", "is not ready", "does not drain", "takes", "recovers"];
    let fate = match words.one_of(&fates)? {
        "fails to provision" => Fate::FailsToProvision(why(words)),
        "is not ready" => Fate::IsNotReady(why(words)),
        "does not drain" => Fate::DoesNotDrain,
        "takes" => Fate::Takes(words.duration()?),
        _ => Fate::Recovers,
    };
    Ok(Action::Machine { which, fate })
}

fn machines(words: &mut Words<'_>) -> Result<Action, Expected> {
    if words.peek().is_none() {
        return Ok(Action::ListMachines(None));
    }
    words.expect("of")?;
    let part = words.part()?;
    if words.peek().is_none() {
        return Ok(Action::ListMachines(Some(part)));
    }
    if part.group.is_some() {
        return Err("expected a whole Cluster: only its machines together can be told to go wrong".to_owned());
    }
    let fate = match words.one_of(&["fail to provision", "have no image of", "recover"])? {
        "fail to provision" => Fate::FailsToProvision(words.quoted().unwrap_or_default().to_owned()),
        "have no image of" => Fate::HasNoImage(words.version()?),
        _ => Fate::Recovers,
    };
    Ok(Action::Machines { cluster: part.cluster, fate })
}

/// `KEY=VALUE` or `KEY-`.
pub(super) fn annotation(words: &mut Words<'_>) -> Result<(String, Option<String>), Expected> {
    let word = words.want("KEY=VALUE or KEY-")?;
    if let Some((key, value)) = word.split_once('=').filter(|(key, _)| !key.is_empty()) {
        // A value with spaces stands in quotation marks right behind the equals sign.
        let value = match value {
            "" => words.quoted().unwrap_or_default(),
            value => value,
        };
        return Ok((key.to_owned(), Some(value.to_owned())));
    }
    match word.strip_suffix('-').filter(|key| !key.is_empty()) {
        Some(key) => Ok((key.to_owned(), None)),
        None => Err(format!("expected KEY=VALUE or KEY-, found {word:?}")),
    }
}
