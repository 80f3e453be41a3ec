//! Names of generated objects.

use serde_json::{Value, json};

use windlass_gotemplate::{MissingKey, TemplateError};

use crate::topology::observed::WorkerKind;

/// Longest name: that of a label value, which names of objects are used as.
const MAX_LENGTH: usize = 63;
/// Length of the random end of a name.
const SUFFIX_LENGTH: usize = 5;

/// Where the random ends of names come from.
pub trait NameSource {
    /// Five characters for the end of a name of a part of the topology: empty for the cluster's own objects, else the kind and
    /// name of the entry.
    fn suffix(&mut self, part: &str) -> String;
}

impl<F: FnMut(&str) -> String> NameSource for F {
    fn suffix(&mut self, part: &str) -> String {
        self(part)
    }
}

/// A name that cannot be made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("naming template {template:?}: {error}")]
pub struct NameError {
    /// The template.
    pub template: String,
    /// What is wrong with it.
    pub error: TemplateError,
}

/// Makes names for one Cluster.
pub struct Names<'a> {
    cluster: &'a str,
    source: &'a mut dyn NameSource,
}

impl<'a> Names<'a> {
    /// Names of the objects of a Cluster.
    pub fn new(cluster: &'a str, source: &'a mut dyn NameSource) -> Self {
        Self { cluster, source }
    }

    /// The name that is there, or a new one of the cluster and a random end.
    pub fn of_cluster(&mut self, current: Option<&String>, template: &str) -> Result<String, NameError> {
        self.named(current, template, "{{ .cluster.name }}-{{ .random }}", ("", Value::Null))
    }

    /// The name that is there, or a new one of the cluster, the entry of the topology and a random end.
    pub fn of_group(
        &mut self,
        current: Option<&String>,
        template: &str,
        kind: WorkerKind,
        topology_name: &str,
    ) -> Result<String, NameError> {
        let kind = kind.field();
        let default = format!("{{{{ .cluster.name }}}}-{{{{ .{kind}.topologyName }}}}-{{{{ .random }}}}");
        let part = format!("{kind}/{topology_name}");
        self.named(current, template, &default, (&part, json!({kind: {"topologyName": topology_name}})))
    }

    fn named(
        &mut self,
        current: Option<&String>,
        template: &str,
        default: &str,
        (part, extra): (&str, Value),
    ) -> Result<String, NameError> {
        if let Some(name) = current {
            return Ok(name.clone());
        }
        let template = if template.is_empty() { default } else { template };
        let mut data = json!({"cluster": {"name": self.cluster}, "random": self.source.suffix(part)});
        if let (Some(data), Value::Object(extra)) = (data.as_object_mut(), extra) {
            data.extend(extra);
        }
        let name = windlass_gotemplate::render(template, &data, MissingKey::Refuse)
            .map_err(|error| NameError { template: template.to_owned(), error })?;
        Ok(if name.len() <= MAX_LENGTH { name } else { self.shortened(part, &name) })
    }

    /// A name that is too long keeps its beginning and gets a new random end.
    fn shortened(&mut self, part: &str, name: &str) -> String {
        let kept: String = name.chars().take(MAX_LENGTH - SUFFIX_LENGTH).collect();
        kept + &self.source.suffix(part)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_kept_made_by_template_and_cut() {
        let mut count = 0;
        let mut source = |_: &str| {
            count += 1;
            format!("rnd{count:02}")
        };
        let mut names = Names::new("c1", &mut source);
        assert_eq!(names.of_cluster(Some(&"kept".to_owned()), "").unwrap(), "kept");
        assert_eq!(names.of_cluster(None, "").unwrap(), "c1-rnd01");
        assert_eq!(names.of_group(None, "", WorkerKind::MachineDeployment, "web").unwrap(), "c1-web-rnd02");
        let template = "{{ .machinePool.topologyName }}-of-{{ .cluster.name }}";
        assert_eq!(names.of_group(None, template, WorkerKind::MachinePool, "web").unwrap(), "web-of-c1");
        let long = names.of_group(None, "", WorkerKind::MachineDeployment, &"x".repeat(60)).unwrap();
        assert_eq!((long.len(), long.ends_with("rnd05")), (63, true), "{long}");
        let error = names.of_cluster(None, "{{ .cluster.nme }}").unwrap_err();
        assert_eq!(
            error.to_string(),
            "naming template \"{{ .cluster.nme }}\": template, line 1: there is no key \"nme\""
        );
    }
}
