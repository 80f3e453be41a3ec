//! Others who write while clusters are upgraded, and what must be there of it afterwards.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, ListParams, Patch, PatchParams, PostParams};
use kube::{Client, ResourceExt};
use serde_json::json;
use tokio::task::JoinHandle;
use windlass_api::cluster::Cluster;

/// Between two writes, so that there is a processor left for those who are tested.
const PAUSE: Duration = Duration::from_millis(25);

/// Writes numbers, one after the other.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Writer {
    /// Into one ConfigMap, over and over.
    Counter,
    /// Each as a ConfigMap of its own.
    Maps,
    /// As a label onto one Cluster after the other.
    Labels { clusters: u64 },
}

impl Writer {
    pub(crate) fn all(clusters: usize) -> [Self; 3] {
        [Self::Counter, Self::Maps, Self::Labels { clusters: clusters as u64 }]
    }

    async fn write(self, client: &Client, number: u64) -> Result<(), kube::Error> {
        let maps: Api<ConfigMap> = Api::default_namespaced(client.clone());
        let parameters = PatchParams::apply("load").force();
        match self {
            Self::Counter => {
                let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "counter"},
                    "data": {"count": number.to_string()}});
                maps.patch("counter", &parameters, &Patch::Apply(map)).await.map(drop)
            }
            Self::Maps => {
                let map = json!({"metadata": {"name": format!("map-{number}"), "labels": {"load": "maps"}}});
                let map = serde_json::from_value(map).unwrap();
                maps.create(&PostParams::default(), &map).await.map(drop)
            }
            Self::Labels { clusters } => {
                let api: Api<Cluster> = Api::default_namespaced(client.clone());
                let patch = json!({"metadata": {"labels": {"load": number.to_string()}}});
                let name = format!("c{}", number % clusters);
                api.patch(&name, &PatchParams::default(), &Patch::Merge(patch)).await.map(drop)
            }
        }
    }

    /// The last number that is there; all before it must be there too.
    pub(crate) async fn found(self, client: &Client) -> u64 {
        let maps: Api<ConfigMap> = Api::default_namespaced(client.clone());
        match self {
            Self::Counter => {
                let counter = maps.get_opt("counter").await.unwrap();
                counter.map_or(0, |map| map.data.unwrap()["count"].parse().unwrap())
            }
            Self::Maps => {
                let found = maps.list_metadata(&ListParams::default().labels("load=maps")).await.unwrap();
                let numbers: BTreeSet<u64> =
                    found.iter().map(|map| map.name_any()["map-".len()..].parse().unwrap()).collect();
                let last = numbers.last().copied().unwrap_or_default();
                assert_eq!(numbers.len() as u64, last, "ConfigMaps are missing: {numbers:?}");
                last
            }
            Self::Labels { clusters } => {
                let api: Api<Cluster> = Api::default_namespaced(client.clone());
                let found = api.list_metadata(&ListParams::default()).await.unwrap();
                let label = |cluster: u64| {
                    let named = found.iter().find(|it| it.name_any() == format!("c{cluster}")).unwrap();
                    named.labels().get("load").map_or(0, |value| value.parse::<u64>().unwrap())
                };
                let last = (0..clusters).map(label).max().unwrap();
                for number in last.saturating_sub(clusters - 1).max(1)..=last {
                    assert_eq!(label(number % clusters), number, "a label is an old one");
                }
                last
            }
        }
    }

    /// Writes until the server is gone. The task returns the last number that was acknowledged.
    pub(crate) fn start(self, client: Client, from: u64, writes: Arc<AtomicU64>) -> JoinHandle<u64> {
        tokio::spawn(async move {
            let mut last = from;
            loop {
                match self.write(&client, last + 1).await {
                    Ok(()) => {
                        last += 1;
                        writes.fetch_add(1, Ordering::Relaxed);
                    }
                    Err(kube::Error::Api(status)) => panic!("{self:?} was refused: {status:?}"),
                    Err(_) => return last,
                }
                tokio::time::sleep(PAUSE).await;
            }
        })
    }
}
