//! The objects that an update in place is about.

use serde_json::{Map, Value, json};
use windlass_api::Object;
use windlass_api::hooks::{MachineObjects, MachineSetObjects};

/// Whether one machine is asked about or all machines of a MachineSet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// A Machine, its infrastructure and its bootstrap config.
    Machine,
    /// A MachineSet and its templates.
    MachineSet,
}

/// One of the three objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    /// The Machine or the MachineSet.
    Machine,
    /// The infrastructure machine or its template.
    Infrastructure,
    /// The bootstrap config or its template.
    Bootstrap,
}

impl Part {
    /// All three, in the order in which they are told.
    pub const ALL: [Self; 3] = [Self::Machine, Self::Infrastructure, Self::Bootstrap];
}

/// The three objects in one state.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Objects {
    /// The Machine or the MachineSet.
    pub machine: Object,
    /// The infrastructure machine or its template.
    pub infrastructure: Object,
    /// The bootstrap config or its template, if there is one.
    pub bootstrap: Option<Object>,
}

/// Two states that are not states of one thing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Incomparable {
    /// One has a bootstrap config and the other has none.
    #[error("only one side has a bootstrap config")]
    BootstrapOnOneSide,
    /// The kind of an object is to change.
    #[error("{from} cannot become {to}")]
    OtherKind {
        /// The kind that there is.
        from: String,
        /// The kind that is wanted.
        to: String,
    },
}

/// What of the specification of a Machine is not changed by an update in place: it is either kept in step without one, or
/// it says which objects belong together.
const NOT_UPDATED: [&str; 8] = [
    "clusterName",
    "bootstrap",
    "infrastructureRef",
    "providerID",
    "minReadySeconds",
    "readinessGates",
    "deletion",
    "taints",
];

impl Objects {
    /// Checks that an update can lead from this state to another.
    ///
    /// # Errors
    ///
    /// No update can.
    pub fn comparable(&self, other: &Self) -> Result<(), Incomparable> {
        if self.bootstrap.is_some() != other.bootstrap.is_some() {
            return Err(Incomparable::BootstrapOnOneSide);
        }
        for part in Part::ALL {
            let (from, to) = (self.kind(part), other.kind(part));
            if from != to {
                return Err(Incomparable::OtherKind { from: from.to_owned(), to: to.to_owned() });
            }
        }
        Ok(())
    }

    /// What a verdict follows from: which objects these are, and what counts of them. Sizes of MachineSets and marks of a
    /// rollout change while it goes on, and change nothing about what can be updated.
    pub fn content(&self, level: Level) -> Value {
        let of = |part: Part| {
            let object = self.get(part)?;
            let labels = object.pointer("/metadata/labels").cloned();
            Some(json!([object.kind(), object.name(), labels, object.pointer(level.pointer()).cloned()]))
        };
        Value::Array(Part::ALL.into_iter().map(|part| of(part).unwrap_or_default()).collect())
    }

    /// One of the three.
    pub fn get(&self, part: Part) -> Option<&Object> {
        match part {
            Part::Machine => Some(&self.machine),
            Part::Infrastructure => Some(&self.infrastructure),
            Part::Bootstrap => self.bootstrap.as_ref(),
        }
    }

    pub(super) fn put(&mut self, part: Part, object: Object) {
        match part {
            Part::Machine => self.machine = object,
            Part::Infrastructure => self.infrastructure = object,
            Part::Bootstrap => self.bootstrap = Some(object),
        }
    }

    pub(super) fn kind(&self, part: Part) -> &str {
        self.get(part).and_then(Object::kind).unwrap_or_default()
    }

    /// What counts of one of the three.
    pub(super) fn counted(&self, level: Level, part: Part) -> Option<Value> {
        let mut value = self.get(part)?.pointer(level.pointer()).cloned()?;
        if let (Part::Machine, Value::Object(spec)) = (part, &mut value) {
            spec.retain(|key, _| !NOT_UPDATED.contains(&key.as_str()));
        }
        Some(value)
    }
}

impl Level {
    /// Where in an object is what counts.
    pub(super) fn pointer(self) -> &'static str {
        match self {
            Self::Machine => "/spec",
            Self::MachineSet => "/spec/template/spec",
        }
    }

    /// The same as paths are written.
    pub(super) fn path(self) -> &'static str {
        match self {
            Self::Machine => "spec",
            Self::MachineSet => "spec.template.spec",
        }
    }

    /// Takes what counts out of an object. What is left is what no extension may claim.
    pub(super) fn rest_of(self, object: &Object) -> Value {
        let mut rest: Map<String, Value> = object.as_map().clone();
        let keys: Vec<&str> = self.pointer().split('/').filter(|key| !key.is_empty()).collect();
        remove(&mut rest, &keys);
        Value::Object(rest)
    }

    /// An object with what counts of another state of it.
    pub(super) fn taken_over(self, object: &Object, from: &Object) -> Object {
        let mut object = object.clone();
        if let Some(counts) = from.pointer(self.pointer()) {
            let keys: Vec<&str> = self.pointer().split('/').filter(|key| !key.is_empty()).collect();
            put(object.as_map_mut(), &keys, counts.clone());
        }
        object
    }

    /// Whether a JSON pointer leads neither into what counts nor to something that contains it.
    pub(super) fn is_elsewhere(self, pointer: &str) -> bool {
        let mut both = self.pointer().split('/').zip(pointer.split('/'));
        both.any(|(counts, given)| counts != given)
    }
}

fn put(map: &mut Map<String, Value>, keys: &[&str], value: Value) {
    match keys {
        [] => {}
        [last] => drop(map.insert((*last).to_owned(), value)),
        [first, rest @ ..] => {
            let inner = map.entry(*first).or_insert_with(|| json!({}));
            if let Value::Object(inner) = inner {
                put(inner, rest, value);
            }
        }
    }
}

fn remove(map: &mut Map<String, Value>, keys: &[&str]) {
    match keys {
        [] => {}
        [last] => drop(map.remove(*last)),
        [first, rest @ ..] => {
            if let Some(Value::Object(inner)) = map.get_mut(*first) {
                remove(inner, rest);
            }
        }
    }
}

impl From<Objects> for MachineObjects {
    fn from(objects: Objects) -> Self {
        Self {
            machine: objects.machine,
            infrastructure_machine: objects.infrastructure,
            bootstrap_config: objects.bootstrap,
        }
    }
}

impl From<Objects> for MachineSetObjects {
    fn from(objects: Objects) -> Self {
        Self {
            machine_set: objects.machine,
            infrastructure_machine_template: objects.infrastructure,
            bootstrap_config_template: objects.bootstrap,
        }
    }
}
