//! How long the parts of a machine take to start, and which of them have by now.
//!
//! Everything follows from one recorded time: when the machine began to start. So nothing but that has to survive a
//! restart, and a machine that was up before is up at once.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use windlass_api::GoDuration;
use windlass_api::infrastructure::{InMemoryMachineBackendSpec, InMemoryPart};
use windlass_random::{Generator, mix};

/// A part of a machine, in the order in which they start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    /// The virtual machine.
    Vm,
    /// The kubelet, which registers the Node.
    Node,
    /// The etcd member of a control plane machine.
    Etcd,
    /// The API server of a control plane machine, and the rest of its control plane.
    ApiServer,
}

impl Part {
    const ALL: [Self; 4] = [Self::Vm, Self::Node, Self::Etcd, Self::ApiServer];

    /// The condition of a DevMachine that says whether this part has started.
    pub fn condition(self) -> &'static str {
        match self {
            Self::Vm => "VMProvisioned",
            Self::Node => "NodeProvisioned",
            Self::Etcd => "EtcdProvisioned",
            Self::ApiServer => "APIServerProvisioned",
        }
    }

    /// The parts that a machine has.
    pub fn of_machine(control_plane: bool) -> impl Iterator<Item = Self> {
        Self::ALL.into_iter().filter(move |part| control_plane || *part <= Self::Node)
    }

    fn section(self, spec: &InMemoryMachineBackendSpec) -> Option<&InMemoryPart> {
        match self {
            Self::Vm => spec.vm.as_ref(),
            Self::Node => spec.node.as_ref(),
            Self::Etcd => spec.etcd.as_ref(),
            Self::ApiServer => spec.api_server.as_ref(),
        }
    }
}

/// When each part of a machine has started, or will have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Startup {
    times: Vec<(Part, Timestamp)>,
}

impl Startup {
    /// Draws the times of a machine. The same machine always draws the same, whatever the order of things.
    pub fn of(
        spec: &InMemoryMachineBackendSpec,
        control_plane: bool,
        began: Timestamp,
        draw: Draw<'_>,
    ) -> Self {
        let mut at = began;
        let times = Part::of_machine(control_plane).map(|part| {
            let wait = part.section(spec).map_or(Duration::ZERO, |section| draw.wait(part, section));
            at = at.checked_add(SignedDuration::try_from(wait).unwrap_or_default()).unwrap_or(Timestamp::MAX);
            (part, at)
        });
        Self { times: times.collect() }
    }

    /// A machine of which all parts have started after a time.
    pub fn taking(time: Duration, control_plane: bool, began: Timestamp) -> Self {
        let time = SignedDuration::try_from(time).unwrap_or(SignedDuration::MAX);
        let at = began.checked_add(time).unwrap_or(Timestamp::MAX);
        Self { times: Part::of_machine(control_plane).map(|part| (part, at)).collect() }
    }

    /// Whether a part has started.
    pub fn has(&self, part: Part, now: Timestamp) -> bool {
        self.times.iter().any(|(of, at)| *of == part && *at <= now)
    }

    /// When the next part starts, if one is left.
    pub fn next(&self, now: Timestamp) -> Option<Timestamp> {
        self.times.iter().map(|(_, at)| *at).find(|at| *at > now)
    }
}

/// What the chance of a machine depends on.
#[derive(Clone, Copy, Debug)]
pub struct Draw<'a> {
    /// The seed of the provider.
    pub seed: u64,
    /// The namespace of the machine.
    pub namespace: &'a str,
    /// The name of the machine.
    pub name: &'a str,
}

impl Draw<'_> {
    /// One of several values, the same whenever the same machine draws for the same purpose.
    pub(crate) fn one_of<'v, T>(self, values: &'v [T], purpose: &str) -> Option<&'v T> {
        if values.is_empty() {
            return None;
        }
        let seed = mix(self.seed, &[self.namespace, self.name, purpose], 0);
        values.get(Generator::with_seed(seed).usize(..values.len()))
    }

    /// Duration × (1 + U[0, jitter)).
    fn wait(self, part: Part, section: &InMemoryPart) -> Duration {
        let provisioning = &section.provisioning;
        // A part without a duration, or with a negative one, starts at once.
        let duration = provisioning.startup_duration.and_then(GoDuration::to_std).unwrap_or(Duration::ZERO);
        let jitter: f64 = provisioning.startup_jitter.parse().unwrap_or(0.0);
        let seed = mix(self.seed, &[self.namespace, self.name, part.condition()], 0);
        let chance = Generator::with_seed(seed).f64();
        let factor = 1.0 + chance * jitter.max(0.0);
        // Too long to be said is long enough as it is.
        Duration::try_from_secs_f64(duration.as_secs_f64() * factor).unwrap_or(duration)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn spec() -> InMemoryMachineBackendSpec {
        let part =
            |duration: &str| json!({"provisioning": {"startupDuration": duration, "startupJitter": "0.2"}});
        serde_json::from_value(json!({"vm": part("10s"), "node": part("2s"), "apiServer": part("2s")}))
            .unwrap()
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn parts_start_one_after_the_other_and_within_their_jitter() {
        for n in 0..200 {
            let name = format!("m{n}");
            let draw = Draw { seed: 1, namespace: "default", name: &name };
            let startup = Startup::of(&spec(), true, at(0), draw);
            let times: Vec<i64> = startup.times.iter().map(|(_, time)| time.as_millisecond()).collect();
            let [vm, node, etcd, api] = times[..] else { panic!("four parts: {times:?}") };
            assert!((10_000..12_000).contains(&vm), "{vm}");
            assert!((2_000..2_400).contains(&(node - vm)), "{}", node - vm);
            assert_eq!(etcd, node, "a part without a section takes no time");
            assert!((2_000..2_400).contains(&(api - etcd)));
            assert!(!startup.has(Part::Vm, at(9)) && startup.has(Part::Vm, at(12)));
            assert_eq!(startup, Startup::of(&spec(), true, at(0), draw), "the same every time");
        }
    }

    #[test]
    fn workers_have_no_control_plane_and_machines_differ() {
        let draw = |name| Startup::of(&spec(), false, at(0), Draw { seed: 1, namespace: "default", name });
        assert_eq!(draw("a").times.len(), 2);
        assert!(!draw("a").has(Part::ApiServer, at(1000)));
        assert_ne!(draw("a"), draw("b"));
        assert_eq!(draw("a").next(at(0)).map(|time| draw("a").has(Part::Vm, time)), Some(true));
        assert_eq!(draw("a").next(at(1000)), None);
    }
}
