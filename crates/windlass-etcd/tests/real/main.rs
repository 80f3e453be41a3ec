//! The client on a real etcd of three members with TLS. `cargo xtask real` builds it and runs these tests; `cargo test` leaves
//! them out.

#![expect(clippy::panic, clippy::unwrap_used, reason = "a failing helper fails the test")]
#![expect(clippy::print_stdout, reason = "figures are what the run is for")]

#[path = "../authority/mod.rs"]
mod authority;
mod cluster;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use windlass_etcd::{AlarmKind, ConnectionError, EtcdClient, EtcdError, MemberId, Refusal};

use authority::Authority;
use cluster::{Cluster, figure};

const NAMES: [&str; 3] = ["node-1", "node-2", "node-3"];
const PUT: &str = "/etcdserverpb.KV/Put";
const RANGE: &str = "/etcdserverpb.KV/Range";

/// Field 1 is the key, field 2 the value or, of a range, its end.
fn fields(key: &[u8], second: &[u8]) -> Vec<u8> {
    let mut message = Vec::new();
    for (tag, bytes) in [(0x0a, key), (0x12, second)] {
        message.push(tag);
        let mut length = bytes.len();
        while length >= 0x80 {
            message.push((length & 0x7f) as u8 | 0x80);
            length >>= 7;
        }
        message.push(length as u8);
        message.extend_from_slice(bytes);
    }
    message
}

/// What a writer found.
struct Load {
    acknowledged: u64,
    refused: u64,
    longest_pause: Duration,
}

/// Writes one key after the other, to any member that takes them, until it is told to stop.
async fn load(clients: Vec<EtcdClient>, stop: Arc<AtomicBool>) -> Load {
    let mut load = Load { acknowledged: 0, refused: 0, longest_pause: Duration::ZERO };
    let (mut turn, mut last) = (0, Instant::now());
    while !stop.load(Ordering::Relaxed) {
        let key = format!("load/{:08}", load.acknowledged);
        let client = clients[turn % clients.len()].clone().patience(Duration::from_secs(2));
        match client.unary(PUT, &fields(key.as_bytes(), b"value")).await {
            Ok(_) => {
                load.acknowledged += 1;
                load.longest_pause = load.longest_pause.max(last.elapsed());
                last = Instant::now();
            }
            Err(_) => {
                load.refused += 1;
                turn += 1;
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        }
    }
    load
}

/// How many keys there are: field 4 of the answer.
async fn written(client: &EtcdClient) -> u64 {
    let mut message = fields(b"load/", b"load0");
    message.extend([0x48, 1]); // count_only
    let answer = client.unary(RANGE, &message).await.unwrap();
    // The count is the last field of such an answer.
    let at = answer.iter().rposition(|byte| *byte == 0x20).unwrap();
    answer[at + 1..].iter().rev().fold(0, |count, byte| count << 7 | u64::from(byte & 0x7f))
}

#[tokio::test]
async fn members_are_replaced_under_load_and_no_acknowledged_write_is_lost() {
    let mut cluster = Cluster::start(&NAMES, &[]).await;
    // The last member stays, and takes the writes; the others are replaced one after the other, twice.
    let stays = NAMES[2];
    let stop = Arc::new(AtomicBool::new(false));
    let writer = tokio::spawn(load(vec![cluster.client(stays).await.unwrap()], Arc::clone(&stop)));
    let begun = Instant::now();
    let mut replaced = 0;
    for victim in [NAMES[0], NAMES[1], NAMES[0], NAMES[1]] {
        // Make the victim the leader, so that leadership has to be moved before it goes.
        let leader = cluster.until("a leader", async |cluster| {
            cluster
                .leader(stays)
                .await?
                .ok_or(EtcdError::TimedOut { method: "leader", after: Duration::ZERO })
        });
        let leader = leader.await;
        let before = cluster.id(victim, stays).await;
        if leader != victim {
            cluster.client(&leader).await.unwrap().move_leader(before).await.unwrap();
        }
        assert_eq!(cluster.leader(stays).await.unwrap().as_deref(), Some(victim));

        let next = cluster.id(stays, stays).await;
        let asked = cluster.client(stays).await.unwrap().move_leader(next).await.unwrap_err();
        assert_eq!(asked.refusal(), Some(&Refusal::NotLeader), "only the leader hands over");
        cluster.client(victim).await.unwrap().move_leader(next).await.unwrap();
        assert_eq!(cluster.leader(stays).await.unwrap().as_deref(), Some(stays));

        // A member that has just joined may not count as connected yet, and etcd then protects its quorum.
        cluster
            .until("it is removed", async |cluster| cluster.client(stays).await?.remove(before).await)
            .await;
        assert!(cluster.list(stays).await.iter().all(|member| member.id != before), "verified");
        let again = cluster.client(stays).await.unwrap().remove(before).await.unwrap_err();
        assert_eq!(again.refusal(), Some(&Refusal::MemberNotFound));
        cluster.ended(victim).await;

        let after = cluster.join(victim, stays).await;
        assert_ne!(before, after, "a member that comes back is another");
        let members = cluster.list(stays).await;
        assert_eq!(members.len(), 3);
        assert!(members.iter().all(|member| !member.is_learner && !member.client_urls.is_empty()));
        replaced += 1;
    }
    let took = begun.elapsed();
    stop.store(true, Ordering::Relaxed);
    let load = writer.await.unwrap();
    assert!(load.acknowledged > 0);
    for name in NAMES {
        let kept = cluster.until("all members are there", async |cluster| cluster.client(name).await).await;
        assert!(written(&kept).await >= load.acknowledged, "{name} has lost writes");
    }
    figure("etcd: members replaced under load", replaced);
    figure("etcd: seconds for that", format!("{:.1}", took.as_secs_f64()));
    figure("etcd: writes acknowledged meanwhile", load.acknowledged);
    figure("etcd: writes refused meanwhile", load.refused);
    figure("etcd: longest time without a write, ms", load.longest_pause.as_millis());
}

#[tokio::test]
async fn refusals_are_those_that_the_client_knows() {
    let mut cluster = Cluster::start(&NAMES, &[]).await;
    let [a, b, c] = NAMES;
    let client = cluster.client(a).await.unwrap();
    let status = client.status().await.unwrap();
    assert!(status.version.starts_with("3.") && !status.is_learner && status.db_size > 0, "{status:?}");
    assert_eq!(client.alarms().await.unwrap(), []);

    // etcd changes members only when all have been connected for a while.
    let adding = cluster.until("one is added", async |_| client.add_learner("https://127.0.0.1:1").await);
    let learner = adding.await;
    let refusal = async |error: Result<(), EtcdError>| match error {
        Err(EtcdError::Refused { refusal, .. }) => refusal,
        other => panic!("{other:?}"),
    };
    let second = client.add_learner("https://127.0.0.1:2").await.map(drop);
    assert_eq!(refusal(second).await, Refusal::TooManyLearners);
    let same = client.add_learner("https://127.0.0.1:1").await.map(drop);
    // The identifier comes from the address and the second.
    assert!(matches!(refusal(same).await, Refusal::PeerUrlExists | Refusal::MemberExists));
    assert_eq!(refusal(client.promote(learner.id).await).await, Refusal::LearnerNotReady);
    let votes = cluster.id(b, a).await;
    assert_eq!(refusal(client.promote(votes).await).await, Refusal::NotALearner);
    let leader = cluster.leader(a).await.unwrap().unwrap();
    let leading = cluster.client(&leader).await.unwrap();
    assert_eq!(refusal(leading.move_leader(learner.id).await).await, Refusal::BadLeaderTransferee);
    assert_eq!(refusal(leading.move_leader(MemberId(1)).await).await, Refusal::BadLeaderTransferee);
    let unnamed = cluster.list(a).await.into_iter().find(|member| member.id == learner.id).unwrap();
    assert_eq!((unnamed.name.as_str(), unnamed.is_learner), ("", true));
    client.remove(learner.id).await.unwrap();

    // One of three does not run: etcd protects the two that are left, and lets the dead one go.
    cluster.kill(c);
    let (dead, alive) = (cluster.id(c, a).await, cluster.id(b, a).await);
    let begun = Instant::now();
    loop {
        match cluster.client(a).await.unwrap().remove(alive).await {
            Err(error) if error.refusal() == Some(&Refusal::Unhealthy) => break,
            other => assert!(begun.elapsed() < Duration::from_secs(30), "{other:?}"),
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    // Without a majority a member says how it is, and nothing else.
    cluster.kill(b);
    let alone = cluster.client(a).await.unwrap();
    let begun = Instant::now();
    while alone.status().await.unwrap().leader.is_some() {
        assert!(begun.elapsed() < Duration::from_secs(30), "it still has a leader");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    assert!(alone.health().await.is_err());
    assert!(alone.members().await.is_err(), "a list that no majority agrees on is none");
    assert!(alone.remove(dead).await.is_err());
}

#[tokio::test]
async fn a_full_database_is_an_alarm() {
    let cluster = Cluster::start(&["node-1"], &["--quota-backend-bytes=1048576"]).await;
    let client = cluster.client("node-1").await.unwrap();
    let large = vec![b'x'; 400 << 10];
    let mut refused = None;
    for number in 0..20 {
        if let Err(error) = client.unary(PUT, &fields(format!("large/{number}").as_bytes(), &large)).await {
            refused = Some(error);
            break;
        }
    }
    assert!(refused.unwrap().to_string().contains("database space exceeded"));
    let alarms = client.alarms().await.unwrap();
    assert_eq!(alarms.iter().map(|alarm| alarm.kind).collect::<Vec<_>>(), [AlarmKind::NoSpace]);
    assert_eq!(alarms[0].member, client.status().await.unwrap().member);
    client.health().await.unwrap();
}

#[tokio::test]
async fn an_authority_that_is_not_the_clusters_is_refused_by_both_sides() {
    let cluster = Cluster::start(&["node-1"], &[]).await;
    let other = Authority::new();
    let error = cluster.connect("node-1", &other.credentials(&cluster.authority)).await.unwrap_err();
    assert!(matches!(&error, ConnectionError::Tls(_)), "{error}");
    // Since TLS 1.3 a server says only after the handshake that it does not take a certificate.
    let error = match cluster.connect("node-1", &cluster.authority.credentials(&other)).await {
        Err(error) => error.to_string(),
        Ok(channel) => EtcdClient::new(channel).status().await.unwrap_err().to_string(),
    };
    assert!(error.contains("certificate") || error.contains("broke"), "{error}");
}
