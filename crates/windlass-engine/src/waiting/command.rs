//! What the owner of a Cluster types to let it go on.

use windlass_api::cluster::Cluster;

use super::{Wait, identity};
use crate::topology::upgrade_holds;

impl Wait {
    /// The command that ends this wait of a Cluster, where that is for its owner to do.
    ///
    /// Annotations of entries of the topology are removed where the entries are written: there is no command for them.
    pub fn command(&self, cluster: &Cluster) -> Option<String> {
        let name = cluster.metadata.name.as_deref()?;
        let namespace = cluster.metadata.namespace.as_deref();
        let of = namespace.map_or_else(|| name.to_owned(), |namespace| format!("-n {namespace} {name}"));
        match (self.reason.as_str(), &self.step, &self.hook) {
            (identity::APPROVAL_NEEDED, Some(step), _) => {
                Some(format!("windlass upgrade approve {of} {step}"))
            }
            (identity::UPGRADE_HELD, _, Some(_)) => {
                let keys: Vec<String> =
                    upgrade_holds(&cluster.metadata).map(|key| format!("{key}-")).collect();
                (!keys.is_empty()).then(|| format!("kubectl annotate cluster {of} {}", keys.join(" ")))
            }
            (identity::UPGRADE_HELD | identity::UPGRADE_HELD_AT, ..) => {
                Some(format!("windlass upgrade resume {of}"))
            }
            _ => None,
        }
    }
}
