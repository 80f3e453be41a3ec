//! `03-create.txt` and `06-ssa.txt`, request by request.

use serde_json::Value;

use crate::server::Server;
use crate::transcript;

/// Without what differs from run to run.
fn comparable(mut answer: Value) -> Value {
    if let Some(Value::Object(metadata)) = answer.get_mut("metadata") {
        for name in ["uid", "resourceVersion", "creationTimestamp"] {
            metadata.remove(name);
        }
    }
    answer
}

fn replay(name: &str) -> usize {
    let (exchanges, mut server) = (transcript::exchanges(name), Server::new());
    for (number, exchange) in exchanges.iter().enumerate() {
        let context = format!("{name} #{number}: {} {} {}", exchange.method, exchange.path, exchange.body);
        let ours = server.answer(exchange);
        assert_eq!(ours.status, exchange.status, "{context}: {}", ours.body);
        assert_eq!(comparable(ours.body), comparable(exchange.answer_json()), "{context}");
        assert_eq!(ours.warnings, exchange.warnings, "{context}");
    }
    exchanges.len()
}

#[test]
fn applies_answer_as_the_real_server_does() {
    let compared = replay("06-ssa.txt");
    assert!(compared >= 16, "only {compared} exchanges");
}

#[test]
fn creates_answer_as_the_real_server_does() {
    let compared = replay("03-create.txt");
    assert_eq!(compared, 2);
}
