//! The templates of a topology between the class and the objects: here patches change them.
//!
//! Some patches are made by extensions, which are asked about all templates at once, and nothing here calls extensions. So
//! a topology is built in two passes. The first finds out which templates there are and what patches need to know about
//! them, names included; the caller has them patched; the second makes the objects, with the same names.

use serde_json::{Map, Value};
use windlass_api::cluster::{ClusterClass, ClusterClassPatch, ClusterVariable};
use windlass_api::hooks::{HolderReference, Variable};

use super::names::{NameSource, Names};
use crate::topology::observed::WorkerKind;
use crate::topology::patches::{PatchError, TemplateRole, apply_inline_patch, values_for};

/// All templates of a topology, in an order that depends on the class and the topology alone.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Templates {
    items: Vec<TemplateItem>,
    /// The random ends of the names of the first pass.
    suffixes: Vec<String>,
}

/// A template, and what patches need to know about it.
#[derive(Clone, Debug, PartialEq)]
pub struct TemplateItem {
    part: Part,
    /// The object that refers to the template, or to what is made from it.
    pub holder: HolderReference,
    /// The template, with all patches up to now.
    pub template: Value,
    overrides: Vec<ClusterVariable>,
    builtin: Value,
}

/// Which part of a topology a template is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Part {
    InfrastructureCluster,
    ControlPlane,
    /// A class of workers.
    Workers(WorkerKind, String),
}

impl Part {
    fn role(&self) -> TemplateRole<'_> {
        match self {
            Self::InfrastructureCluster => TemplateRole::InfrastructureCluster,
            Self::ControlPlane => TemplateRole::ControlPlane,
            Self::Workers(WorkerKind::MachineDeployment, class) => TemplateRole::MachineDeployment { class },
            Self::Workers(WorkerKind::MachinePool, class) => TemplateRole::MachinePool { class },
        }
    }
}

impl Templates {
    /// The templates.
    pub fn items(&self) -> &[TemplateItem] {
        &self.items
    }

    /// Applies an inline patch to the templates that it is for.
    ///
    /// # Errors
    ///
    /// When it cannot be evaluated or applied.
    pub fn patch_inline(
        &mut self,
        class: &ClusterClass,
        variables: &[ClusterVariable],
        patch: &ClusterClassPatch,
    ) -> Result<(), Box<PatchError>> {
        for item in &mut self.items {
            let values = values_for(class, variables, &item.overrides, item.builtin.clone());
            item.template = apply_inline_patch(patch, item.part.role(), &item.template, &values)?;
        }
        Ok(())
    }

    /// Takes a patched template. Of what extensions made of it, `spec`, labels and annotations count.
    pub fn replace(&mut self, index: usize, patched: &Value) {
        let Some(item) = self.items.get_mut(index) else { return };
        let mut take = |path: &[&str]| {
            let (Some(field), parents) = (path.last(), &path[..path.len() - 1]) else { return };
            let found = path.iter().try_fold(patched, |value, part| value.get(part)).cloned();
            let mut target = &mut item.template;
            for parent in parents {
                target = &mut target[*parent];
            }
            match (found, target.as_object_mut()) {
                (Some(value), Some(fields)) => {
                    fields.insert((*field).to_owned(), value);
                }
                (None, Some(fields)) => {
                    fields.remove(*field);
                }
                _ => {}
            }
        };
        take(&["spec"]);
        take(&["metadata", "labels"]);
        take(&["metadata", "annotations"]);
    }

    /// The variables that an external patch sees for every template.
    pub fn variables_of_all(&self, sees: &PatchVariables<'_>, given: &[ClusterVariable]) -> Vec<Variable> {
        let cluster = self.items.first().map(|item| item.builtin["cluster"].clone()).unwrap_or_default();
        let builtin = Value::Object(Map::from_iter([("cluster".to_owned(), cluster)]));
        sees.select(given).chain([builtin_variable(builtin)]).collect()
    }
}

impl TemplateItem {
    /// The variables that an external patch sees for this template only.
    pub fn variables(&self, sees: &PatchVariables<'_>) -> Vec<Variable> {
        let mut builtin = self.builtin.clone();
        if let Some(fields) = builtin.as_object_mut() {
            fields.remove("cluster");
        }
        let own = builtin.as_object().is_some_and(|fields| !fields.is_empty());
        sees.select(&self.overrides).chain(own.then(|| builtin_variable(builtin))).collect()
    }
}

fn builtin_variable(value: Value) -> Variable {
    Variable { name: "builtin".to_owned(), value }
}

/// Which variables an external patch sees: those that its extension defines, or those of the class if it defines none.
#[derive(Clone, Copy, Debug)]
pub struct PatchVariables<'a> {
    class: &'a ClusterClass,
    from: &'a str,
}

impl<'a> PatchVariables<'a> {
    /// For a patch of a class.
    pub fn of(class: &'a ClusterClass, patch: &'a ClusterClassPatch) -> Self {
        let discovers =
            patch.external.as_ref().is_some_and(|external| !external.discover_variables_extension.is_empty());
        Self { class, from: if discovers { &patch.name } else { "inline" } }
    }

    fn select(self, given: &[ClusterVariable]) -> impl Iterator<Item = Variable> {
        let defined = move |name: &str| {
            let found = self.class.status.variables.iter().find(|variable| variable.name == name);
            found.is_some_and(|found| found.definitions.iter().any(|definition| definition.from == self.from))
        };
        given
            .iter()
            .filter(move |variable| defined(&variable.name))
            .map(|variable| Variable { name: variable.name.clone(), value: variable.value.clone() })
    }
}

/// What the parts of a topology are built from in one pass: names, and templates.
pub(super) struct Pass<'a> {
    pub(super) names: Names<'a>,
    templates: Source,
}

enum Source {
    /// The first pass: templates of the class, which are collected.
    Class(Vec<TemplateItem>),
    /// The second: the same ones, patched.
    Patched(std::vec::IntoIter<TemplateItem>),
}

/// A template that a part asks for.
pub(super) struct Asked<'a> {
    pub(super) part: Part,
    pub(super) holder: HolderReference,
    pub(super) template: &'a Value,
    pub(super) overrides: &'a [ClusterVariable],
    pub(super) builtin: &'a Value,
}

impl Pass<'_> {
    /// The template of the class, or what patches made of it.
    pub(super) fn template(&mut self, asked: Asked<'_>) -> Value {
        match &mut self.templates {
            Source::Class(items) => {
                items.push(TemplateItem {
                    part: asked.part,
                    holder: asked.holder,
                    template: asked.template.clone(),
                    overrides: asked.overrides.to_vec(),
                    builtin: asked.builtin.clone(),
                });
                asked.template.clone()
            }
            // Both passes ask in the same order.
            Source::Patched(items) => {
                items.next().map_or_else(|| asked.template.clone(), |item| item.template)
            }
        }
    }
}

/// The first pass of something: what it makes of the templates as they are in the class, and the templates.
pub(super) fn collect<T, E>(
    cluster: &str,
    source: &mut dyn NameSource,
    build: impl FnOnce(&mut Pass<'_>) -> Result<T, E>,
) -> Result<(T, Templates), E> {
    let mut suffixes = Vec::new();
    let mut recording = |part: &str| {
        let suffix = source.suffix(part);
        suffixes.push(suffix.clone());
        suffix
    };
    let mut pass = Pass { names: Names::new(cluster, &mut recording), templates: Source::Class(Vec::new()) };
    let built = build(&mut pass)?;
    let items = match pass.templates {
        Source::Class(items) => items,
        Source::Patched(_) => Vec::new(),
    };
    Ok((built, Templates { items, suffixes }))
}

/// The second pass.
pub(super) fn with_templates<T>(
    cluster: &str,
    templates: Templates,
    build: impl FnOnce(&mut Pass<'_>) -> T,
) -> T {
    let mut suffixes = templates.suffixes.into_iter();
    let mut replay = |_: &str| suffixes.next().unwrap_or_default();
    let names = Names::new(cluster, &mut replay);
    build(&mut Pass { names, templates: Source::Patched(templates.items.into_iter()) })
}
