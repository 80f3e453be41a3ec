//! What happened between two moments, in lines for those who have no terminal.

use windlass_api::printable;

use crate::frame::clock;
use crate::model::{Model, Phase, StepState};

/// What is new, one line each: what ended, the calls that followed, what begins.
pub fn lines(before: Option<&Model>, after: &Model) -> Vec<String> {
    let mut lines = Vec::new();
    let mut say = |text: String| lines.push(format!("{:>5}  {}", clock(after.elapsed), printable(&text)));
    let phase = Some(after.phase).filter(|phase| before.map(|before| before.phase) != Some(*phase));
    match phase {
        Some(Phase::Creating) => say(format!("creating a cluster at {}", after.from)),
        Some(Phase::Upgrading) => say(format!("upgrading {} -> {}", after.from, after.to)),
        Some(Phase::Done) | None => {}
    }
    let was = |at: usize| {
        let before = before.and_then(|before| before.steps.get(at));
        before.map_or(StepState::Coming, |step| step.state)
    };
    let now_in = |state: StepState| {
        let steps = after.steps.iter().enumerate();
        steps.filter(move |(at, step)| step.state == state && was(*at) != state).map(|(_, step)| &step.text)
    };
    for step in now_in(StepState::Done) {
        say(format!("done   {step} (worst skew {})", after.worst_skew));
    }
    let called = before.map_or(0, |before| before.hooks.len());
    for call in after.hooks.iter().skip(called) {
        let wait = if call.wait > 0 { format!(", asks to wait {} s", call.wait) } else { String::new() };
        say(format!("hook {} {}{wait}", call.hook, call.versions));
    }
    for step in now_in(StepState::Running) {
        say(format!("begins {step}"));
    }
    if phase == Some(Phase::Done) {
        say(format!("done: everything is at {}", after.to));
    }
    lines
}

#[cfg(test)]
mod tests {
    use windlass_api::is_unprintable;

    use super::*;
    use crate::frame::tests::model;

    /// A picture without the escape sequences of its own styles.
    fn anstream_free(picture: &str) -> String {
        let mut parts = picture.split('\u{1b}');
        let first = parts.next().unwrap_or_default().to_owned();
        let after = |part: &str| {
            let styled = part.strip_prefix('[').and_then(|part| part.split_once('m'));
            match styled {
                Some((code, text)) if code.chars().all(|c| c.is_ascii_digit() || c == ';') => text.to_owned(),
                _ => format!("\u{1b}{part}"),
            }
        };
        first + &parts.map(after).collect::<String>()
    }

    #[test]
    fn what_extensions_and_objects_say_does_nothing_to_a_terminal() {
        let hostile = "x\u{1b}[2J\u{1b}[31m\r\n 9:99  done: forged\u{202e}\u{9b}\u{7}".to_owned();
        let before = model();
        let mut after = model();
        after.steps[0].text.clone_from(&hostile);
        after.steps[0].state = StepState::Done;
        after.lanes[0].name.clone_from(&hostile);
        after.waiting_on = vec![hostile.clone()];
        let mut call = before.hooks[0].clone();
        (call.hook, call.versions) = (hostile.clone(), hostile);
        after.hooks.push(call);
        let said = lines(Some(&before), &after);
        assert!(said.len() >= 2 && said.iter().all(|line| !line.contains(is_unprintable)), "{said:?}");
        let picture = crate::frame(&after, 200, 60);
        let (plain, same) = (anstream_free(&picture), crate::frame(&before, 200, 60).lines().count());
        assert!(!plain.contains(|c| c != '\n' && is_unprintable(c)), "{plain:?}");
        assert!(plain.lines().count() <= same + 1, "no line is made by others: {plain}");
        assert!(!crate::svg(&after, 200, 60).contains(|c| c != '\n' && is_unprintable(c)));
    }

    #[test]
    fn only_what_is_new_is_said() {
        let before = model();
        assert_eq!(lines(Some(&before), &before), Vec::<String>::new());
        let mut after = model();
        after.steps[0].state = StepState::Done;
        after.steps[1].state = StepState::Running;
        after.hooks.push(before.hooks[0].clone());
        assert_eq!(
            lines(Some(&before), &after),
            [
                " 1:05  done   control plane v1.29.0 -> v1.30.0 (worst skew 1)",
                " 1:05  hook BeforeClusterUpgrade v1.29.0 -> v1.31.0, asks to wait 2 s",
                " 1:05  begins control plane v1.30.0 -> v1.31.0",
            ]
        );
        assert_eq!(lines(None, &before)[0], " 1:05  upgrading v1.29.0 -> v1.31.0");
        after.phase = Phase::Done;
        assert_eq!(lines(Some(&before), &after)[3], " 1:05  done: everything is at v1.31.0");
    }
}
