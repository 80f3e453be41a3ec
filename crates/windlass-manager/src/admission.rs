//! Admission of Cluster API's kinds in the embedded API.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use kube::Client;
use serde_json::Value;
use windlass_apiserver::{Admission, Denial, Operation, Options, Review};
use windlass_controllers::admission::{ADMITTED, Asked, ObjectLookUp, Refused, Rules};
use windlass_engine::features::Features;

/// Defaults and checks what the embedded API stores. Rules look at other objects, so it needs a client of the API that
/// it is given to: [`connect`](Self::connect) it as soon as there is one.
#[derive(Clone, Default)]
pub struct EmbeddedAdmission {
    look_up: ObjectLookUp,
    features: Features,
}

impl EmbeddedAdmission {
    /// Not connected yet: until then, what needs a look at other objects is refused.
    pub fn new() -> Self {
        Self::default()
    }

    /// The same with features of the caller's choice.
    pub fn with_features(features: Features) -> Self {
        Self { features, ..Self::default() }
    }

    /// Adds it to the options of an API.
    pub fn add_to(&self, options: Options) -> Options {
        options.admission(Arc::new(ClusterAdmission::new(self.look_up.clone(), self.features)))
    }

    /// Lets it look at the objects of the API.
    pub fn connect(&self, client: Client) {
        self.look_up.connect(client);
    }
}

/// Has a say in what the embedded API stores.
struct ClusterAdmission {
    rules: Rules<ObjectLookUp>,
}

impl ClusterAdmission {
    /// With a look-up that is given its client once the API runs.
    fn new(look_up: ObjectLookUp, features: Features) -> Self {
        Self { rules: Rules::new(look_up).with_features(features) }
    }
}

fn asked<'a>(review: &'a Review<'a>) -> Asked<'a> {
    Asked {
        group: review.group,
        resource: review.resource,
        subresource: review.subresource,
        namespace: review.namespace,
        name: review.name,
        old: review.old,
        is_deletion: review.operation == Operation::Delete,
    }
}

fn denial(refused: Refused) -> Denial {
    Denial { message: refused.to_string(), fields: refused.fields }
}

impl Admission for ClusterAdmission {
    fn handles(&self, group: &str, resource: &str) -> bool {
        ADMITTED.contains(&(group, resource))
    }

    fn mutate<'a>(
        &'a self,
        review: &'a Review<'a>,
        object: &'a mut Value,
    ) -> BoxFuture<'a, Result<(), Denial>> {
        Box::pin(async move { self.rules.mutate(&asked(review), object).await.map_err(denial) })
    }

    fn validate<'a>(
        &'a self,
        review: &'a Review<'a>,
        object: &'a Value,
    ) -> BoxFuture<'a, Result<Vec<String>, Denial>> {
        Box::pin(async move { self.rules.validate(&asked(review), object).await.map_err(denial) })
    }
}
