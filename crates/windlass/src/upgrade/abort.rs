//! `windlass upgrade abort --unborn`: the way back from a version that no machine came up with.

use windlass_controllers::steer::steer;
use windlass_engine::steer::Verb;
use windlass_version::Version;

use super::show::Shown;
use super::{Named, Proceed, change, confirm, failure, progress, read, warn_of_upstream};
use crate::exit::Failure;
use crate::output::Format;

/// Sets a lower target without the check of admission, and lets admission check again. What was checked here is checked
/// again by the topology controller before the control plane goes back.
pub(super) async fn run(named: Named, to: Option<Version>, proceed: &Proceed) -> Result<(), Failure> {
    let (client, live) = read(&named).await?;
    let to = live.state.check_abort(to.as_ref()).map_err(Failure::Refused)?;
    let (change, recheck) = (change(&Verb::Abort(to.clone()), &live)?, change(&Verb::Recheck, &live)?);
    let shown = |is_done| Shown { then: Some(&recheck), ..Shown::of_change(&change, is_done) };
    warn_of_upstream(&client).await;
    steer(&client, &live.cluster, &change, true).await.map_err(failure)?;
    if named.dry_run {
        return shown(false).print(named.output);
    }
    if !proceed.yes {
        shown(false).print(Format::Table)?;
        confirm(&named.cluster.name, &to)?;
    }
    let changed = steer(&client, &live.cluster, &change, false).await;
    // Also if the change failed: it may have been made all the same.
    let checked = steer(&client, &live.cluster, &recheck, false).await;
    changed.map_err(failure)?;
    checked.map_err(failure)?;
    if proceed.yes || named.output != Format::Table {
        shown(true).print(named.output)?;
    }
    if proceed.wait {
        let namespace = live.cluster.metadata.namespace.clone().unwrap_or_default();
        progress::follow(&client, &namespace, &named.cluster.name, &to).await?;
    }
    Ok(())
}
