//! Load, replicas and restarts.

use std::time::Duration;

use windlass_api::Hook::BeforeClusterUpgrade;
use windlass_conformance::Rule;

use super::Case;
use crate::support::Reply;
use crate::support::behaviour::failure;

pub(crate) fn all() -> Vec<Case> {
    let case = |expected: &'static [Rule]| Case::new(expected, &[BeforeClusterUpgrade]);
    let controlled = |expected: &'static [Rule]| {
        case(expected).adjust(|extension, _, options| options.operations = Some(extension.operations()))
    };
    vec![
        case(&[Rule::TooFewReplicas]).adjust(|extension, _, options| {
            options.replicas = vec![extension.address, "127.0.0.1:9".parse().unwrap()];
        }),
        case(&[Rule::ReadinessBroken]).adjust(|extension, _, options| {
            options.readiness_url = Some(format!("https://{}/nothing", extension.address));
        }),
        case(&[Rule::ReadinessBroken])
            .options(|options| options.readiness_url = Some("http://127.0.0.1:9/readyz".to_owned())),
        case(&[Rule::FailsUnderLoad])
            // Long enough for calls to overlap, whatever the machine does meanwhile.
            .discovery(|ask, reply| if ask.in_flight > 1 { Reply::status(503) } else { reply.after(50) }),
        controlled(&[Rule::DependsOnSiblings]).below(|below| below.depends_on_siblings = true),
        controlled(&[Rule::ShutdownCutsCalls]).below(|below| below.abrupt = true),
        controlled(&[Rule::SlowColdStart])
            .below(|below| below.stays_down = true)
            .options(|options| options.timing.cold_start = Duration::from_millis(50)),
        controlled(&[Rule::ReplicasDisagree])
            .calls(|ask, reply| if ask.restarts > 0 { failure("who are you?") } else { reply }),
    ]
}
