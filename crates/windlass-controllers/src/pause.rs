//! What is written to an object that is paused: the condition `Paused`, and nothing else.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::Resource;
use serde_json::json;
use windlass_engine::condition;
use windlass_engine::pause::Pause;
use windlass_runtime::{Context, Kind, Outcome, WriteError};

use crate::references::ignore_gone;

/// Says that an object is paused, if its conditions do not say it yet.
pub(crate) async fn say<K: Kind + Resource<DynamicType = ()>>(
    context: &Context,
    object: &K,
    conditions: &[Condition],
    pause: Pause,
) -> Result<Outcome, WriteError> {
    let mut after = conditions.to_vec();
    let finding = pause.finding(&K::kind(&()));
    if condition::set(&mut after, finding, object.meta().generation, context.now()) {
        let patch = json!({"status": {"conditions": after}});
        ignore_gone(context.writer::<K>().patch_status(object, patch).await)?;
    }
    Ok(Outcome::done())
}
