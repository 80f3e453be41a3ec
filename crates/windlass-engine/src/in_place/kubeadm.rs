//! Bootstrap configurations of control planes, as extensions get to see them.

use windlass_api::Object;

use crate::control_plane::kubeadm_config::{Form, normalised};

/// Two KubeadmConfigs of control plane machines in the form in which they are compared: an extension must not see a
/// difference where a rollout would see none, and gets no token to join with.
pub fn comparable_configs(current: &Object, desired: &Object) -> (Object, Object) {
    let spec = |object: &Object| object.spec().cloned().unwrap_or_default();
    let (one, other) = normalised(&spec(current), &spec(desired), Form::Join);
    let with = |object: &Object, spec| {
        let mut object = object.clone();
        object.as_map_mut().insert("spec".to_owned(), spec);
        object
    };
    (with(current, one), with(desired, other))
}
