//! Answers GenerateUpgradePlan from a catalogue: a text file with one version per line, old to new.
//!
//! ```text
//! printf 'v1.31.4\nv1.32.5\nv1.33.1\n' > /tmp/versions
//! cargo run -p windlass-extension --example upgrade-plan -- --catalogue /tmp/versions
//! ```

#[path = "../shared/serving.rs"]
mod serving;

use std::error::Error;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Parser;
use windlass_extension::hooks::{GenerateUpgradePlan, GenerateUpgradePlanResponse};
use windlass_extension::{Extension, Handler, upgrade_plan};

use crate::serving::Serving;

/// Plans upgrades from a catalogue of versions.
///
/// Prints an ExtensionConfig for kubectl and serves until it is told to end. The catalogue has one version per
/// line, old to new; what follows a '#' is a comment. It is read for every plan, so a change counts at once.
#[derive(Parser)]
#[command(name = "upgrade-plan")]
struct Arguments {
    /// File with the versions that may be used
    #[arg(long, value_name = "FILE")]
    catalogue: PathBuf,
    #[command(flatten)]
    serving: Serving,
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let Arguments { catalogue, serving } = Arguments::parse();
    // A file that cannot be read is better noticed now than at the first upgrade.
    read(&catalogue)?;
    let catalogue: Arc<Path> = catalogue.into();
    let extension = Extension::new("upgrade-plan")
        .on(GenerateUpgradePlan, Handler::named("upgrade-plan").timeout_seconds(5), move |_, request| {
            let catalogue = Arc::clone(&catalogue);
            async move {
                let versions = read(&catalogue)?;
                Ok::<GenerateUpgradePlanResponse, String>(upgrade_plan::from_list(&request, versions))
            }
        })
        .build()?;
    serving.serve(extension).await
}

fn read(catalogue: &Path) -> Result<Vec<String>, String> {
    let text = std::fs::read_to_string(catalogue)
        .map_err(|error| format!("cannot read the catalogue {}: {error}", catalogue.display()))?;
    let versions = text.lines().filter_map(|line| line.split('#').next()).map(str::trim);
    Ok(versions.filter(|version| !version.is_empty()).map(str::to_owned).collect())
}
