//! An API that refuses one kind of write is not run into the ground, and when it no longer refuses, everything goes on.

#![expect(clippy::unwrap_used, reason = "a test ends where something is missing")]

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::future::BoxFuture;
use serde_json::{Value, json};
use windlass_api::cluster::Cluster;
use windlass_apiserver::{Admission, Denial, Review};
use windlass_simulate::{
    SimulatedExtension, Startup, TopologyManifests, World, WorldError, WorldOptions, is_at, key,
};
use windlass_version::Version;

/// Longer than anything here takes.
const LONG: Duration = Duration::from_secs(6 * 3600);
/// How long a kind of write is refused.
const REFUSED: Duration = Duration::from_secs(600);

/// How many writes there may be in the second half of that, of all controllers together. Without a refusal there are none; a
/// key that is tried once in a minute writes a few times each, and some refusals make several keys fail.
const MOST: u64 = 60;

/// A kind of write: what is done, to which kind, and to which part of it.
type What = (&'static str, String, String);

/// Refuses one kind of write, and counts all of them.
#[derive(Default)]
struct Refusal {
    refused: Mutex<Option<What>>,
    seen: Mutex<BTreeMap<What, u64>>,
}

impl Refusal {
    fn refuse(&self, what: Option<What>) {
        *self.refused.lock().unwrap() = what;
        self.seen.lock().unwrap().clear();
    }

    fn seen(&self) -> BTreeMap<What, u64> {
        self.seen.lock().unwrap().clone()
    }
}

impl Admission for Refusal {
    fn handles(&self, _group: &str, resource: &str) -> bool {
        resource != "events"
    }

    fn validate<'a>(
        &'a self,
        review: &'a Review<'a>,
        _object: &'a Value,
    ) -> BoxFuture<'a, Result<Vec<String>, Denial>> {
        let what = (review.operation.as_str(), review.kind.to_owned(), review.subresource.to_owned());
        let refused = self.refused.lock().unwrap().as_ref() == Some(&what);
        *self.seen.lock().unwrap().entry(what).or_default() += 1;
        let answer = if refused { Err(Denial::new("not today")) } else { Ok(Vec::new()) };
        Box::pin(std::future::ready(answer))
    }
}

struct Refusing {
    world: World,
    refusal: Arc<Refusal>,
}

impl Refusing {
    async fn begin() -> Self {
        let (extension, refusal) = (SimulatedExtension::new(), Arc::<Refusal>::default());
        let options = WorldOptions::extended_by(7, &extension);
        let options = WorldOptions { admission: vec![refusal.clone()], ..options };
        let world = World::begin(options).await.unwrap();
        extension.follow(&world);
        world.apply_object(&SimulatedExtension::config()).await.unwrap();
        Self { world, refusal }
    }

    /// Applies what makes a cluster: first all that it is made from, then, with something refused, the Cluster itself.
    async fn create(&self, refused: Option<What>) -> Result<(), WorldError> {
        let manifests = TopologyManifests::new("c1", "v1.31.0", 1)
            .machine_deployment("web", 1)
            .machine_pool("pool", 1)
            .versions(["v1.31.0", "v1.32.0"])
            .startup(Startup::default());
        let (clusters, others): (Vec<Value>, Vec<Value>) =
            manifests.objects().into_iter().partition(|object| object["kind"] == "Cluster");
        self.world.apply_objects(&others).await.unwrap();
        self.refusal.refuse(refused);
        self.world.apply_objects(&clusters).await
    }

    async fn upgrade(&self) -> Result<(), WorldError> {
        let patch = json!({"spec": {"topology": {"version": "v1.32.0"}}});
        self.world.patch::<Cluster>(&key("c1"), patch).await.map(|_| ())
    }

    async fn until_at(&mut self, version: &str) -> Result<(), WorldError> {
        let version = Version::parse(version).unwrap();
        self.world.run_until("the version", LONG, |world| is_at(world, &key("c1"), &version)).await
    }

    async fn pass(&mut self, time: Duration) {
        let error = self.world.run_until("never", time, |_| false).await.unwrap_err();
        assert!(matches!(error, WorldError::NotReached(_)), "{error}");
    }

    /// Lets a kind of write be refused for a while, and says how many writes there were in the second half of it.
    async fn endure(&mut self) -> u64 {
        self.pass(REFUSED / 2).await;
        let half = self.refusal.seen();
        self.pass(REFUSED / 2).await;
        let whole = self.refusal.seen();
        whole.values().sum::<u64>() - half.values().sum::<u64>()
    }
}

/// Every kind of write of a Cluster that is created and upgraded.
async fn occurring() -> BTreeSet<What> {
    let mut refusing = Refusing::begin().await;
    refusing.create(None).await.unwrap();
    refusing.until_at("v1.31.0").await.unwrap();
    refusing.upgrade().await.unwrap();
    refusing.until_at("v1.32.0").await.unwrap();
    refusing.refusal.seen().into_keys().collect()
}

#[tokio::test(start_paused = true)]
async fn a_refused_write_is_tried_ever_more_rarely_and_the_upgrade_goes_on_afterwards() {
    let all = occurring().await;
    assert!(all.len() > 30, "{all:?}");
    for what in all {
        let mut refusing = Refusing::begin().await;
        let created = refusing.create(Some(what.clone())).await.is_ok();
        let creating = refusing.endure().await;
        refusing.refusal.refuse(None);
        if !created {
            refusing.create(None).await.unwrap();
        }
        refusing.until_at("v1.31.0").await.unwrap_or_else(|error| panic!("{what:?}: {error}"));
        refusing.refusal.refuse(Some(what.clone()));
        let asked = refusing.upgrade().await.is_ok();
        let upgrading = refusing.endure().await;
        refusing.refusal.refuse(None);
        if !asked {
            refusing.upgrade().await.unwrap();
        }
        refusing.until_at("v1.32.0").await.unwrap_or_else(|error| panic!("{what:?}: {error}"));
        assert!(creating <= MOST && upgrading <= MOST, "{what:?}: {creating} and {upgrading} writes");
    }
}
