//! Which machines belong to a MachineSet.

/// A Machine that might belong to a MachineSet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate<'a> {
    /// The name of the Machine.
    pub name: &'a str,
    /// Whether the selector of the MachineSet selects it.
    pub selected: bool,
    /// Its controller, if it has one.
    pub controller: Option<Controller<'a>>,
    /// Whether it is being deleted.
    pub deleting: bool,
}

/// The controller of a Machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Controller<'a> {
    /// Its uid, which tells it from an object of the same name that is gone.
    pub uid: &'a str,
    /// The kind of the controller.
    pub kind: &'a str,
    /// The name of the controller.
    pub name: &'a str,
}

/// Machines by whom they belong to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Belonging {
    /// Those that the MachineSet controls.
    pub owned: Vec<String>,
    /// Those that it selects and that have no controller: they are adopted.
    pub orphans: Vec<String>,
    /// Those that it selects and that have another controller: they are never touched.
    pub foreign: Vec<Foreign>,
}

/// A machine that matches the selector and belongs to another owner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Foreign {
    /// The name of the Machine.
    pub machine: String,
    /// `<kind> <name>` of its controller.
    pub controller: String,
}

/// Sorts machines by whom they belong to, for the MachineSet with that uid. A machine on its way out is not adopted.
pub fn belonging<'a>(uid: &str, machines: impl IntoIterator<Item = Candidate<'a>>) -> Belonging {
    let mut belonging = Belonging::default();
    for Candidate { name, selected, controller, deleting } in machines {
        match controller {
            Some(controller) if controller.uid == uid => belonging.owned.push(name.to_owned()),
            Some(Controller { kind, name: other, .. }) if selected => {
                let controller = format!("{kind} {other}");
                belonging.foreign.push(Foreign { machine: name.to_owned(), controller });
            }
            None if selected && !deleting => belonging.orphans.push(name.to_owned()),
            _ => {}
        }
    }
    belonging.owned.sort();
    belonging.orphans.sort();
    belonging.foreign.sort_by(|a, b| a.machine.cmp(&b.machine));
    belonging
}

impl std::fmt::Display for Foreign {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { machine, controller } = self;
        write!(f, "Machine {machine} matches the selector but belongs to {controller}, it is left alone")
    }
}
