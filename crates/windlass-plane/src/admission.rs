//! Admission of Cluster API's kinds in the embedded API.

use std::sync::Arc;

use kube::Client;
use windlass_apiserver::Options;
use windlass_controllers::admission::{ClusterAdmission, ObjectLookUp};

/// Defaults and checks what the embedded API stores. Rules look at other objects, so it needs a client of the API that
/// it is given to: [`connect`](Self::connect) it as soon as there is one.
#[derive(Clone, Default)]
pub struct EmbeddedAdmission {
    look_up: ObjectLookUp,
}

impl EmbeddedAdmission {
    /// Not connected yet: until then, what needs a look at other objects is refused.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds it to the options of an API.
    pub fn add_to(&self, options: Options) -> Options {
        options.admission(Arc::new(ClusterAdmission::new(self.look_up.clone())))
    }

    /// Lets it look at the objects of the API.
    pub fn connect(&self, client: Client) {
        self.look_up.connect(client);
    }
}
