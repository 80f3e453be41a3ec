//! Coming up, scaling, going away.

use kube::ResourceExt;
use kube::api::{DeleteParams, PostParams};
use serde_json::json;
use windlass_api::bootstrap::KubeadmConfig;
use windlass_api::control_plane::KubeadmControlPlane;
use windlass_api::infrastructure::DevMachine;
use windlass_controllers::certificates::{Pair, Purpose, secret};

use windlass_testkit::NAMESPACE;

use crate::world::World;

#[tokio::test(start_paused = true)]
async fn machines_come_up_one_after_the_other() {
    let world = World::new().await;
    world.faults.keep_journal();
    let _running = world.start();
    world.create(json!({})).await;
    world.settled(3).await;

    let configs: Vec<KubeadmConfig> = world.list().await;
    let join = configs.iter().filter(|config| {
        config.spec.join_configuration.as_ref().is_some_and(|join| join.control_plane.is_some())
    });
    assert_eq!((configs.len(), join.count()), (3, 2), "one starts the cluster, the others join");
    let infrastructure: Vec<DevMachine> = world.list().await;
    assert_eq!(infrastructure.len(), 3);

    let mut domains: Vec<String> =
        world.machines().await.into_iter().map(|machine| machine.spec.failure_domain).collect();
    domains.sort();
    assert_eq!(domains, ["a", "b", "c"]);

    let status = world.control_plane().await.status;
    assert_eq!(status.initialization.control_plane_initialized, Some(true));
    assert_eq!((status.replicas, status.available_replicas), (Some(3), Some(3)));
    assert_eq!(status.version, "v1.32.0");
    assert_eq!(
        status.selector,
        "cluster.x-k8s.io/cluster-name=c1,cluster.x-k8s.io/control-plane=,\
         cluster.x-k8s.io/control-plane-name=cp"
    );
    for (type_, expected) in [
        ("Available", "True Available"),
        ("Initialized", "True Initialized"),
        ("CertificatesAvailable", "True Available"),
        ("EtcdClusterHealthy", "True Healthy"),
        ("ControlPlaneComponentsHealthy", "True Healthy"),
        ("MachinesReady", "True Ready"),
        ("RollingOut", "False NotRollingOut"),
        ("ScalingUp", "False NotScalingUp"),
        ("Paused", "False NotPaused"),
    ] {
        assert_eq!(world.condition(type_).await, expected, "{type_}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_secrets_of_the_cluster_are_made_and_those_of_the_user_are_kept() {
    let world = World::new().await;
    let _running = world.start();
    let ours = Purpose::ClusterAuthority.generate(jiff::Timestamp::UNIX_EPOCH).unwrap();
    let owner = Default::default();
    let mut given = secret(NAMESPACE, "c1-ca", "c1", owner, ours.clone().data());
    given.metadata.owner_references = None;
    world.api().create(&PostParams::default(), &given).await.unwrap();
    world.create(json!({"replicas": 1})).await;
    world.settled(1).await;

    let authority = world.secret("c1-ca").await.unwrap();
    assert_eq!(Pair::of_secret(&authority).unwrap(), ours);
    for name in ["c1-etcd", "c1-proxy", "c1-sa", "c1-kubeconfig"] {
        let secret = world.secret(name).await.unwrap();
        assert_eq!(secret.owner_references()[0].name, "cp", "{name}");
    }
    let kubeconfig = world.secret("c1-kubeconfig").await.unwrap().data.unwrap().remove("value").unwrap();
    let kubeconfig = String::from_utf8(kubeconfig.0).unwrap();
    assert!(kubeconfig.contains("server: https://10.0.0.1:6443"), "{kubeconfig}");
}

#[tokio::test(start_paused = true)]
async fn scaling_goes_one_machine_at_a_time_in_both_directions() {
    let world = World::new().await;
    let _running = world.start();
    world.create(json!({"replicas": 1})).await;
    world.settled(1).await;
    world.patch(json!({"spec": {"replicas": 3}})).await;
    world.settled(3).await;
    let oldest = world.machines().await;
    world.patch(json!({"spec": {"replicas": 1}})).await;
    world.settled(1).await;
    let left = world.names().await;
    let youngest = oldest.iter().max_by_key(|machine| machine.creation_timestamp().map(|time| time.0));
    assert_eq!(left, [youngest.unwrap().name_any()]);
    let configs: Vec<KubeadmConfig> = world.list().await;
    assert_eq!(configs.len(), 1, "what belonged to the others is gone");
}

#[tokio::test(start_paused = true)]
async fn a_deleted_control_plane_takes_its_machines_along() {
    let world = World::new().await;
    let _running = world.start();
    world.create(json!({})).await;
    world.settled(3).await;
    world.api::<KubeadmControlPlane>().delete("cp", &DeleteParams::default()).await.unwrap();
    world
        .until("it goes", async || world.api::<KubeadmControlPlane>().get_opt("cp").await.unwrap().is_none())
        .await;
    assert_eq!(world.names().await, [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn nothing_happens_while_it_is_paused() {
    let world = World::new().await;
    let _running = world.start();
    world.create_cluster().await;
    world.create_template("t1").await;
    let patch = json!({"metadata": {"annotations": {"cluster.x-k8s.io/paused": ""}}});
    world.create_control_plane(json!({"replicas": 1})).await;
    world.patch(patch).await;
    let paused = "True Paused KubeadmControlPlane has the cluster.x-k8s.io/paused annotation";
    world.until("it says so", async || world.condition("Paused").await == paused).await;
    world.patch(json!({"metadata": {"annotations": {"cluster.x-k8s.io/paused": null}}})).await;
    world.settled(1).await;
    assert_eq!(world.condition("Paused").await, "False NotPaused");
}

#[tokio::test(start_paused = true)]
async fn machines_are_named_by_the_template_of_names() {
    let world = World::new().await;
    let _running = world.start();
    let template = "{{ .cluster.name }}-x-{{ .random }}";
    world.create(json!({"replicas": 1, "machineNaming": {"template": template}})).await;
    world.settled(1).await;
    let name = world.names().await.remove(0);
    assert!(name.starts_with("c1-x-") && name.len() == 10, "{name}");
}
