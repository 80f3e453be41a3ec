//! What a control plane does with the members of an etcd, on the one in this process.

#![expect(clippy::unwrap_used, reason = "a failing helper fails the test")]

use windlass_etcd::{Alarm, AlarmKind, ConnectionError, EtcdClient, EtcdError, MemoryEtcd, Refusal};

fn three() -> MemoryEtcd {
    let etcd = MemoryEtcd::new();
    for name in ["a", "b", "c"] {
        etcd.join(name).unwrap();
    }
    etcd
}

fn client(etcd: &MemoryEtcd, name: &str) -> EtcdClient {
    EtcdClient::new(etcd.channel(name))
}

fn id(etcd: &MemoryEtcd, name: &str) -> windlass_etcd::MemberId {
    etcd.members().iter().find(|member| member.name == name).unwrap().id
}

#[tokio::test]
async fn a_leader_hands_over_before_it_is_removed() {
    let etcd = three();
    let (a, b) = (id(&etcd, "a"), id(&etcd, "b"));
    let other = client(&etcd, "b").move_leader(b).await.unwrap_err();
    assert_eq!(other.refusal(), Some(&Refusal::NotLeader), "only the leader does that");
    client(&etcd, "a").move_leader(b).await.unwrap();
    assert_eq!(client(&etcd, "c").status().await.unwrap().leader, Some(b));
    client(&etcd, "b").remove(a).await.unwrap();
    let left = client(&etcd, "c").members().await.unwrap();
    assert_eq!(left.iter().map(|member| member.name.as_str()).collect::<Vec<_>>(), ["b", "c"]);
    let gone = client(&etcd, "a").status().await.unwrap_err();
    assert_eq!(
        gone,
        EtcdError::Connection {
            method: "/etcdserverpb.Maintenance/Status",
            why: ConnectionError::Refused("etcd member a".to_owned())
        }
    );
}

#[tokio::test]
async fn a_learner_is_added_without_a_name_and_promoted_when_it_runs() {
    let etcd = three();
    let leader = client(&etcd, "a");
    let added = leader.add_learner("https://d:2380").await.unwrap();
    assert_eq!((added.name.as_str(), added.is_learner), ("", true));
    assert_eq!(added.peer_urls, ["https://d:2380"]);
    let early = leader.promote(added.id).await.unwrap_err();
    assert_eq!(early.refusal(), Some(&Refusal::LearnerNotReady));
    leader.remove(added.id).await.unwrap();
    assert_eq!(leader.members().await.unwrap().len(), 3);
}

#[tokio::test]
async fn without_a_majority_nothing_is_certain_and_members_still_say_how_they_are() {
    let etcd = three();
    etcd.stop("b");
    client(&etcd, "a").health().await.unwrap();
    etcd.stop("c");
    let alone = client(&etcd, "a");
    for error in [
        alone.health().await.unwrap_err(),
        alone.members().await.map(drop).unwrap_err(),
        alone.alarms().await.map(drop).unwrap_err(),
        alone.remove(id(&etcd, "b")).await.unwrap_err(),
    ] {
        assert_eq!(error.refusal(), Some(&Refusal::TimedOut), "{error}");
    }
    let status = alone.status().await.unwrap();
    assert_eq!((status.leader, status.errors), (None, vec!["etcdserver: no leader".to_owned()]));
}

#[tokio::test]
async fn alarms_name_their_members() {
    let etcd = three();
    etcd.raise("b", AlarmKind::NoSpace);
    let alarms = client(&etcd, "a").alarms().await.unwrap();
    assert_eq!(alarms, [Alarm { member: id(&etcd, "b"), kind: AlarmKind::NoSpace }]);
    etcd.disarm("b", AlarmKind::NoSpace);
    assert_eq!(client(&etcd, "a").alarms().await.unwrap(), []);
}

#[tokio::test]
async fn calls_that_do_not_exist_are_refused() {
    let error = client(&three(), "a").unary("/etcdserverpb.KV/Nothing", &[]).await.unwrap_err();
    assert_eq!(error.refusal(), Some(&Refusal::Unimplemented));
    let error = client(&three(), "a").unary("/etcdserverpb.Cluster/MemberRemove", &[0x0a]).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "/etcdserverpb.Cluster/MemberRemove: the message ends in the middle of a field"
    );
}
