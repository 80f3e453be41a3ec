//! Compares the CustomResourceDefinitions of `windlass crds` with others, such as those of a release of Cluster API.
//!
//! Those are not part of this repository, so this is no test: it is run when a release comes out, or a type changes, and by
//! `cargo xtask real` with the definitions of the release that it downloads.

mod compare;
mod deviations;

use std::path::Path;

use compare::{Difference, definitions};
use serde_json::Value;

use crate::acceptance;
use crate::run::{Task, say};

/// The version whose schemas are compared: the one that is stored.
const VERSION: &str = "v1beta2";

/// Prints what objects written for the definitions in a directory would miss here. Fails if something is left that is not
/// among the justified deviations. `looser` prints the other direction instead: what is taken here and refused there.
pub(crate) fn compare(directory: &str, looser: bool) -> Task {
    let theirs = read(Path::new(directory))?;
    let output = std::process::Command::new(acceptance::windlass()?)
        .arg("crds")
        .output()
        .map_err(|error| format!("windlass crds: {error}"))?;
    let ours =
        parse(&String::from_utf8_lossy(&output.stdout)).map_err(|error| format!("windlass crds: {error}"))?;
    if looser {
        for difference in definitions(&theirs, &ours, VERSION) {
            say(&difference.to_string());
        }
        return Ok(());
    }
    let (justified, left): (Vec<Difference>, Vec<Difference>) =
        definitions(&ours, &theirs, VERSION).into_iter().partition(|one| deviations::why(one).is_some());
    for difference in &left {
        say(&difference.to_string());
    }
    say(&format!(
        "xtask: {} definitions compared, {} deviations on purpose, {} differences left",
        theirs.len(),
        justified.len(),
        left.len()
    ));
    if left.is_empty() { Ok(()) } else { Err("the definitions are no superset".to_owned()) }
}

/// All definitions in the YAML files of a directory, by their names.
fn read(directory: &Path) -> Result<Vec<Value>, String> {
    let failed = |error: std::io::Error| format!("{}: {error}", directory.display());
    let mut definitions = Vec::new();
    for entry in std::fs::read_dir(directory).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        if path.extension().is_some_and(|extension| extension == "yaml" || extension == "yml") {
            let text = std::fs::read_to_string(&path).map_err(failed)?;
            definitions.extend(parse(&text).map_err(|error| format!("{}: {error}", path.display()))?);
        }
    }
    definitions.retain(|definition| definition["kind"] == "CustomResourceDefinition");
    definitions.sort_by_key(|definition| definition["metadata"]["name"].as_str().map(str::to_owned));
    match definitions.is_empty() {
        true => Err(format!("{} has no CustomResourceDefinitions", directory.display())),
        false => Ok(definitions),
    }
}

fn parse(text: &str) -> Result<Vec<Value>, String> {
    serde_saphyr::from_multiple(text).map_err(|error| error.to_string())
}
