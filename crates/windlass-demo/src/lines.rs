//! What happened between two moments, in lines for those who have no terminal.

use crate::frame::clock;
use crate::model::{Model, Phase, StepState};

/// What is new, one line each, in the order of the plan and of the calls.
pub fn lines(before: Option<&Model>, after: &Model) -> Vec<String> {
    let mut lines = Vec::new();
    let mut say = |text: String| lines.push(format!("{:>5}  {text}", clock(after.elapsed)));
    let phase = before.map(|before| before.phase);
    if phase != Some(after.phase) {
        say(match after.phase {
            Phase::Creating => format!("creating a cluster at {}", after.from),
            Phase::Upgrading => format!("upgrading {} -> {}", after.from, after.to),
            Phase::Done => format!("done: everything is at {}", after.to),
        });
    }
    let called = before.map_or(0, |before| before.hooks.len());
    for call in after.hooks.iter().skip(called) {
        let wait = if call.wait > 0 { format!(", asks to wait {} s", call.wait) } else { String::new() };
        say(format!("hook {} {}{wait}", call.hook, call.versions));
    }
    for (at, step) in after.steps.iter().enumerate() {
        let was = before.and_then(|before| before.steps.get(at)).map_or(StepState::Coming, |step| step.state);
        match (was, step.state) {
            (StepState::Coming, StepState::Running) => say(format!("begins {}", step.text)),
            (StepState::Coming | StepState::Running, StepState::Done) => {
                say(format!("done   {} (worst skew {})", step.text, after.worst_skew));
            }
            _ => {}
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::tests::model;

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
                " 1:05  hook BeforeClusterUpgrade v1.29.0 -> v1.31.0, asks to wait 2 s",
                " 1:05  done   control plane v1.29.0 -> v1.30.0 (worst skew 1)",
                " 1:05  begins control plane v1.30.0 -> v1.31.0",
            ]
        );
        assert_eq!(lines(None, &before)[0], " 1:05  upgrading v1.29.0 -> v1.31.0");
    }
}
