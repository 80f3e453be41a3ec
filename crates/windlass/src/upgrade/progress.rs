//! Follows an upgrade to its end, line by line.

use std::time::Duration;

use kube::Client;
use windlass_api::printable;
use windlass_controllers::describe::{DescribeError, describe_cluster};
use windlass_version::Version;

use crate::describe::line::line;
use crate::exit::Failure;
use crate::output;

/// How often the Cluster is read. An upgrade takes minutes to hours.
const EVERY: Duration = Duration::from_secs(2);

/// Prints a line for everything that changes, until the Cluster is at its version. Ends at once if another target is
/// set meanwhile.
pub(super) async fn follow(
    client: &Client,
    namespace: &str,
    name: &str,
    to: &Version,
) -> Result<(), Failure> {
    let mut said = String::new();
    loop {
        let described =
            describe_cluster(client, namespace, name, jiff::Timestamp::now()).await.map_err(|error| {
                match error {
                    DescribeError::NotFound { .. } => Failure::Failed(format!("Cluster {name} was deleted")),
                    other => Failure::Failed(other.to_string()),
                }
            })?;
        let target = described.version.clone().unwrap_or_default();
        if target != to.to_string() {
            return Err(Failure::Failed(format!("the target of Cluster {name} is {target} now")));
        }
        if described.has_arrived() {
            return output::print(&format!("Cluster {name} is at {to}.\n"));
        }
        let line = line(&described);
        if line != said {
            output::print(&format!("{}\n", printable(&line)))?;
            said = line;
        }
        tokio::time::sleep(EVERY).await;
    }
}
