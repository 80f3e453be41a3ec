//! Conversion between the versions of Cluster API's kinds over HTTP: ConversionReview v1, for a kube-apiserver.
//!
//! Every read, write and watch of a kind in an older version depends on it, so it answers whether or not this process leads,
//! and needs nothing of the API but the labels of CRDs, which it remembers for a while.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, PartialObjectMeta};
use kube::{Client, ResourceExt};
use serde_json::{Value, json};
use tokio::time::Instant;
use windlass_engine::contract::Contract;
use windlass_runtime::GroupKind;

use crate::external::plural;

/// Where objects are converted.
pub const PATH_CONVERT: &str = "/convert";

/// How long the labels of a CRD count. A provider is upgraded while we run, but rarely.
const CRD_TTL: Duration = Duration::from_secs(60);

/// The version that keeps the newest contract, and until when that counts.
type Learnt = (Instant, Option<String>);

/// Answers ConversionReviews. Cheap to clone; all clones share what they know about CRDs.
#[derive(Clone)]
pub struct ConversionWebhook {
    client: Client,
    known: Arc<Mutex<BTreeMap<GroupKind, Learnt>>>,
}

impl ConversionWebhook {
    /// Reads CRDs with a client.
    pub fn new(client: Client) -> Self {
        Self { client, known: Arc::default() }
    }

    /// Answers a review. An object that cannot be converted makes an answer that says why.
    ///
    /// # Errors
    ///
    /// When the body is no ConversionReview.
    pub async fn review(&self, body: &[u8]) -> Result<Value, String> {
        let review: Value = serde_json::from_slice(body).map_err(|error| error.to_string())?;
        let unknown = self.unknown_kinds(&review)?;
        for unknown in unknown {
            let GroupKind { group, kind } = &unknown;
            match self.read(group, kind).await {
                Ok(version) => {
                    self.known().insert(unknown, (Instant::now() + CRD_TTL, version));
                }
                Err(error) => {
                    let message = format!("cannot read the CRD of {kind} in group {group}: {error}");
                    return Ok(failed(&review, &message));
                }
            }
        }
        // All that is needed is known by now, even if some of it will not count for the next review.
        let known = |group: &str, kind: &str| self.learnt(group, kind)?.1;
        windlass_conversion::review(&review, &known).map_err(|error| error.to_string())
    }

    /// The kinds that objects refer to and of which nothing is known, found by converting as if all of them were there.
    fn unknown_kinds(&self, review: &Value) -> Result<BTreeSet<GroupKind>, String> {
        let unknown: Mutex<BTreeSet<GroupKind>> = Mutex::default();
        let look_up = |group: &str, kind: &str| {
            if self.learnt(group, kind).is_none_or(|(until, _)| until <= Instant::now()) {
                let mut unknown = unknown.lock().unwrap_or_else(PoisonError::into_inner);
                unknown.insert(GroupKind::new(group, kind));
            }
            Some("v1".to_owned())
        };
        windlass_conversion::review(review, &look_up).map_err(|error| error.to_string())?;
        Ok(unknown.into_inner().unwrap_or_else(PoisonError::into_inner))
    }

    fn learnt(&self, group: &str, kind: &str) -> Option<Learnt> {
        self.known().get(&GroupKind::new(group, kind)).cloned()
    }

    fn known(&self) -> std::sync::MutexGuard<'_, BTreeMap<GroupKind, Learnt>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn read(&self, group: &str, kind: &str) -> Result<Option<String>, kube::Error> {
        let crds: Api<PartialObjectMeta<CustomResourceDefinition>> = Api::all(self.client.clone());
        let found = crds.get_metadata_opt(&format!("{}.{group}", plural(kind))).await?;
        Ok(found.and_then(|found| Contract::of_crd(found.labels())).map(|(_, version)| version))
    }
}

fn failed(review: &Value, message: &str) -> Value {
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview", "response": {
        "uid": review["request"]["uid"], "convertedObjects": [],
        "result": {"status": "Failure", "message": message}}})
}
