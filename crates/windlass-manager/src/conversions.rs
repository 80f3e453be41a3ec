//! Older versions of Cluster API's kinds on the embedded API, converted in the process.

use std::sync::Arc;

use serde_json::Value;
use windlass_apiserver::{ConvertFn, Options, crd_labels};
use windlass_controllers::external::plural;
use windlass_conversion::{convert, kinds};
use windlass_engine::contract::Contract;
use windlass_store::Store;

/// Lets an API on a store convert between the versions of every kind that has more than one, whatever the CRDs say of
/// conversion. Which version a reference is to is in the labels of the CRDs of that store.
pub fn convert_in_process(options: Options, store: &Store) -> Options {
    let store = store.clone();
    let function: ConvertFn = Arc::new(move |object: &mut Value, _from: &str, to: &str| {
        let contracts = |group: &str, kind: &str| {
            let labels = crd_labels(&store, &format!("{}.{group}", plural(kind)))?;
            Contract::of_crd(&labels).map(|(_, version)| version)
        };
        *object = convert(object.take(), to, &contracts).map_err(|error| error.to_string())?;
        Ok(())
    });
    kinds().fold(options, |options, (group, kind)| options.conversion(group, kind, Arc::clone(&function)))
}
