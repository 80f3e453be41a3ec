//! The hook of strategy `External`: an extension takes over the whole update.

use super::wire::{hook_request, hook_response, hook_types, wire_struct};
use super::{HookResponse, MachineObjects};
use crate::object::Object;

hook_types! {
    /// Take over the update of the Machines of one owner.
    ExternalUpdate(ExternalUpdateRequest) -> ExternalUpdateResponse;
}

hook_request! {
    /// Asks to take over an update. An extension that accepts brings the Machines up to date, and says so in the objects:
    /// the caller watches them. It may be sent again, so an extension must recognise what it has accepted.
    pub struct ExternalUpdateRequest for ExternalUpdate {
        /// The Cluster.
        ///
        /// Reduced by [`Object::for_hook_request`].
        pub cluster: Object,
        /// Who owns the Machines and asks for the update.
        pub owner: UpdateOwner,
        /// The Machines that are not up to date, as they are.
        ///
        /// Each is reduced by [`Object::in_place_view`].
        pub machines: Vec<Object>,
        /// What each of them and its objects shall be. They have no names: it is the same for all of them. The
        /// annotations of the infrastructure say which template it is from, and are to be written too.
        pub desired: MachineObjects,
    }
}

wire_struct! {
    /// The MachineDeployment or the control plane that an update is for.
    #[derive(Default, Eq)]
    pub struct UpdateOwner {
        /// Group and version of the object.
        pub api_version: String,
        /// Kind of the object.
        pub kind: String,
        /// Namespace of the object.
        pub namespace: String,
        /// Name of the object.
        pub name: String,
    }
}

hook_response! {
    /// Whether the extension takes over. A failure is neither: the caller asks again.
    pub struct ExternalUpdateResponse for ExternalUpdate, may block {
        /// Whether it does. Absent means that it does not.
        pub accepted: bool,
        /// Why not, or what it is doing; shown to people.
        #[serde(skip_serializing_if = "String::is_empty")]
        pub reason: String,
    }
}

impl ExternalUpdateResponse {
    /// The extension takes over, and is not asked again.
    pub fn accept(reason: impl Into<String>) -> Self {
        Self { accepted: true, reason: reason.into(), ..Self::success() }
    }

    /// The extension takes over, and wants to be asked again after so many seconds.
    pub fn accept_for(reason: impl Into<String>, seconds: i32) -> Self {
        Self { retry_after_seconds: seconds, ..Self::accept(reason) }
    }

    /// The extension does not take over, or no longer.
    pub fn refuse(reason: impl Into<String>) -> Self {
        Self { reason: reason.into(), ..Self::success() }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::hooks::ResponseStatus;

    #[test]
    fn acceptance_and_refusal_are_success_and_silence_is_a_refusal() {
        for (response, wire) in [
            (
                ExternalUpdateResponse::accept("on it"),
                json!({"status": "Success", "retryAfterSeconds": 0, "accepted": true, "reason": "on it"}),
            ),
            (
                ExternalUpdateResponse::accept_for("", 30),
                json!({"status": "Success", "retryAfterSeconds": 30, "accepted": true}),
            ),
            (
                ExternalUpdateResponse::refuse("not mine"),
                json!({"status": "Success", "retryAfterSeconds": 0, "accepted": false, "reason": "not mine"}),
            ),
        ] {
            let mut written = serde_json::to_value(&response).unwrap();
            let fields = written.as_object_mut().unwrap();
            assert_eq!(fields.remove("kind"), Some(json!("ExternalUpdateResponse")));
            assert!(fields.remove("apiVersion").is_some());
            assert_eq!(written, wire);
        }
        let silent: ExternalUpdateResponse =
            serde_json::from_value(json!({"status": "Success", "accepted": null, "reason": null})).unwrap();
        assert_eq!((silent.status, silent.accepted), (ResponseStatus::Success, false));
    }

    #[test]
    fn a_request_has_the_fields_of_the_contract_in_order() {
        let request = ExternalUpdateRequest {
            owner: UpdateOwner { kind: "MachineDeployment".to_owned(), ..UpdateOwner::default() },
            ..ExternalUpdateRequest::default()
        };
        let wire = serde_json::to_string(&request).unwrap();
        let at = |field: &str| wire.find(&format!("\"{field}\"")).unwrap();
        let order = ["kind", "apiVersion", "cluster", "owner", "machines", "desired"].map(at);
        assert!(order.is_sorted(), "{wire}");
        assert_eq!(serde_json::from_str::<ExternalUpdateRequest>(&wire).unwrap(), request);
    }
}
