//! `windlass serve` as a process that runs out of something: descriptors, room on its disk.

use std::io::{ErrorKind, Read};
use std::net::TcpStream;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rustix::process::{Pid, Resource, Rlimit, getrlimit, prlimit, setrlimit};
use serde_json::{Value, json};

use crate::served::{CONFIG_MAPS, Connection, Server};

async fn connected(server: &Server) -> Connection {
    Server::connect(&server.address, Arc::clone(&server.tls))
        .await
        .expect("there is room for those who are known")
}

fn map(name: &str, bytes: usize) -> Value {
    json!({"metadata": {"name": name}, "data": {"text": "x".repeat(bytes)}})
}

fn log(directory: &Path) -> String {
    std::fs::read_to_string(directory.join("log")).unwrap()
}

/// Whether the server ends a connection, much later than it promises at the latest.
fn is_ended(mut stream: TcpStream) -> bool {
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let mut said = [0; 64];
    loop {
        match stream.read(&mut said) {
            Ok(0) => return true,
            Ok(_) => {}
            Err(error) => return error.kind() == ErrorKind::ConnectionReset,
        }
    }
}

/// More connections than the process may have files open, all of clients that say nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_crowd_that_says_nothing_keeps_nobody_out() {
    const CROWD: usize = 1_100;
    let own = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: own.maximum, maximum: own.maximum }).unwrap();
    let directory = tempfile::tempdir().unwrap();
    // Both limits, so that it cannot be raised.
    let server = Server::start_after("ulimit -n 1024", directory.path());
    let mut early = connected(&server).await;

    let crowd: Vec<TcpStream> = (0..CROWD).map(|_| TcpStream::connect(&server.address).unwrap()).collect();
    let (code, _) =
        early.ask("GET", CONFIG_MAPS, &Value::Null).await.expect("the connection from before is kept");
    assert_eq!(code, 200);
    for number in 0..20 {
        let mut late = connected(&server).await;
        let (code, said) = late.ask("POST", CONFIG_MAPS, &map(&format!("m{number}"), 1)).await.unwrap();
        assert_eq!(code, 201, "{said}");
    }
    let (code, _) = connected(&server).await.ask("GET", "/readyz", &Value::Null).await.unwrap();
    assert_eq!(code, 200);
    for stream in crowd {
        assert!(is_ended(stream), "a connection that asks for nothing ends by itself");
    }
    let log = log(directory.path());
    assert!(log.contains("more connections of clients that have not authenticated themselves"), "{log}");
    assert!(log.contains("fewer connections are accepted than intended"), "{log}");
}

/// The file cannot grow any more, and then it can: what a full disk does to it, without a disk to fill.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_disk_is_said_and_ends_without_a_restart() {
    let directory = tempfile::tempdir().unwrap();
    // A process that writes beyond its limit is killed unless it ignores the signal; then the write fails.
    let mut server = Server::start_after("trap '' XFSZ", directory.path());
    let pid = Pid::from_raw(i32::try_from(server.child.id()).unwrap());
    let limit = |bytes: Option<u64>| {
        prlimit(pid, Resource::Fsize, Rlimit { current: bytes, maximum: None }).unwrap();
    };
    let mut connection = connected(&server).await;
    limit(Some(8 << 20));
    let mut acknowledged = Vec::new();
    let mut refused = None;
    for number in 0..200 {
        let name = format!("m{number}");
        let answer = connection.ask("POST", CONFIG_MAPS, &map(&name, 200_000)).await;
        match answer.unwrap_or_else(|| panic!("it is gone after {number}: {}", log(directory.path()))) {
            (201, _) => acknowledged.push(name),
            (code, said) => {
                refused = Some((code, said));
                break;
            }
        }
    }
    let (code, said) = refused.expect("40 MB do not fit into 8 MiB");
    assert!(matches!(code, 500 | 503), "{said}");
    assert!(said["message"].as_str().unwrap().contains("the store cannot write"), "{said}");
    assert!(!acknowledged.is_empty());
    let (code, _) = connection.ask("GET", "/readyz", &Value::Null).await.unwrap();
    assert!(matches!(code, 500 | 503), "it is not ready while it cannot write");
    let (code, list) = connection.ask("GET", CONFIG_MAPS, &Value::Null).await.unwrap();
    assert_eq!(code, 200, "what is there can be read");
    assert!(list["items"].as_array().unwrap().len() >= acknowledged.len());
    assert!(log(directory.path()).contains("the store cannot write"), "{}", log(directory.path()));

    limit(None);
    let mut written = false;
    for _ in 0..100 {
        let (code, _) = connection.ask("POST", CONFIG_MAPS, &map("after", 200_000)).await.unwrap();
        if matches!(code, 201 | 409) {
            written = true;
            break;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert!(written, "it writes again when there is room: {}", log(directory.path()));
    let (code, _) = connection.ask("GET", "/readyz", &Value::Null).await.unwrap();
    assert_eq!(code, 200);

    server.kill();
    let server = Server::start(directory.path());
    let (_, list) = connected(&server).await.ask("GET", CONFIG_MAPS, &Value::Null).await.unwrap();
    let names: Vec<&str> = list["items"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|item| item["metadata"]["name"].as_str())
        .collect();
    for name in acknowledged.iter().map(String::as_str).chain(["after"]) {
        assert!(names.contains(&name), "{name} was acknowledged and is lost");
    }
}
