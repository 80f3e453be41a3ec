//! What `windlass serve` has acknowledged is there after `kill -9`, whenever it comes, and nothing is half there.

use std::sync::Arc;

use serde_json::{Value, json};
use tokio::sync::mpsc;

use crate::served::{CONFIG_MAPS, Connection, Server};

const WRITERS: usize = 8;
const KILLS: usize = 200;

/// The object of a writer after so many writes. After every fifth it is gone.
fn object(writer: usize, count: u64) -> Value {
    json!({
        "metadata": {"name": format!("w{writer}"), "labels": {"count": count.to_string()}},
        "data": {"text": format!("{count:020}").repeat(130), "count": count.to_string()},
    })
}

fn is_there_after(count: u64) -> bool {
    !count.is_multiple_of(5)
}

/// The `count`th write of a writer, if it is acknowledged.
async fn write(connection: &mut Connection, writer: usize, count: u64) -> Option<()> {
    let path = format!("{CONFIG_MAPS}/w{writer}");
    let (method, path, body) = match (is_there_after(count - 1) && count > 1, is_there_after(count)) {
        (false, true) => ("POST", CONFIG_MAPS, object(writer, count)),
        (true, true) => ("PUT", path.as_str(), object(writer, count)),
        (_, false) => ("DELETE", path.as_str(), json!({})),
    };
    let (code, said) = connection.ask(method, path, &body).await?;
    assert!(code == 200 || code == 201, "writer {writer}, {count}: {method} {path}: {said}");
    Some(())
}

/// How often a writer has written, given what is known to be acknowledged. Fails if that is lost, or more is there than
/// the one write that was under way.
fn written(found: Option<&Value>, writer: usize, acknowledged: u64) -> u64 {
    let Some(found) = found else {
        let (now, next) = (acknowledged, acknowledged + 1);
        return match (is_there_after(now) && now > 0, is_there_after(next)) {
            (false, _) => now,
            (true, false) => next,
            (true, true) => panic!("writer {writer}: write {now} was acknowledged and is lost"),
        };
    };
    let count: u64 = found["data"]["count"].as_str().unwrap().parse().unwrap();
    let whole = object(writer, count);
    assert_eq!(found["data"], whole["data"], "writer {writer}: half a write");
    assert_eq!(found["metadata"]["labels"], whole["metadata"]["labels"], "writer {writer}: half a write");
    assert!(
        count == acknowledged || count == acknowledged + 1,
        "writer {writer}: {acknowledged} acknowledged, {count} found"
    );
    count
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_acknowledged_is_lost_and_nothing_is_half_there_after_200_kills() {
    let directory = tempfile::tempdir().unwrap();
    let mut random = fastrand::Rng::with_seed(7);
    let mut counts = [0_u64; WRITERS];
    let mut revision = 0;
    for round in 0..KILLS {
        let mut server = Server::start(directory.path());
        let mut connection = Server::connect(&server.address, Arc::clone(&server.tls)).await.unwrap();
        let (code, list) = connection.ask("GET", CONFIG_MAPS, &Value::Null).await.unwrap();
        assert_eq!(code, 200, "{list}");
        let now: u64 = list["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap();
        assert!(now >= revision, "round {round}: the revision went back from {revision} to {now}");
        revision = now;
        let items = list["items"].as_array().unwrap();
        for (writer, count) in counts.iter_mut().enumerate() {
            let name = format!("w{writer}");
            *count = written(items.iter().find(|item| item["metadata"]["name"] == name), writer, *count);
        }

        let (acknowledge, mut acknowledged) = mpsc::unbounded_channel();
        for (writer, count) in counts.into_iter().enumerate() {
            let (acknowledge, address, tls) =
                (acknowledge.clone(), server.address.clone(), Arc::clone(&server.tls));
            tokio::spawn(async move {
                let Some(mut connection) = Server::connect(&address, tls).await else { return };
                for count in count + 1.. {
                    if write(&mut connection, writer, count).await.is_none() {
                        return;
                    }
                    let _ = acknowledge.send((writer, count));
                }
            });
        }
        drop(acknowledge);
        // Sometimes before the first write, sometimes in the middle of many.
        for _ in 0..random.usize(..60) {
            let (writer, count) = acknowledged.recv().await.expect("a writer failed");
            counts[writer] = count;
        }
        server.kill();
        // What was acknowledged until then, and the end of all writers.
        while let Some((writer, count)) = acknowledged.recv().await {
            counts[writer] = count;
        }
    }
    let total: u64 = counts.iter().sum();
    assert!(total > 3_000, "it hardly wrote: {total}");
}
