//! Admission asked in the process, by the embedded API.

use futures_util::future::BoxFuture;
use serde_json::Value;
use windlass_apiserver::{Admission, Denial, Operation, Review};

use super::objects::ObjectLookUp;
use super::review::{Asked, Refused, Rules};

/// The resources that are looked at, as group and plural name.
pub const ADMITTED: [(&str, &str); 5] = Rules::<ObjectLookUp>::RESOURCES;

/// Has a say in what the embedded API stores.
pub struct ClusterAdmission {
    rules: Rules<ObjectLookUp>,
}

impl ClusterAdmission {
    /// With a look-up that is given its client once the API runs.
    pub fn new(look_up: ObjectLookUp) -> Self {
        Self { rules: Rules::new(look_up) }
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
