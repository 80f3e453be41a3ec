//! `04-errors.txt`: the refusals that are about the object, its schema, a patch or a selector.

use serde_json::{Value, json};
use windlass_api::label_selector::Selector;
use windlass_apimachinery::selector::FieldSelector;

use crate::server::Server;
use crate::transcript::{self, Exchange};

/// The real server walks a map, so its causes come in any order; sorted, they can be compared.
fn comparable(mut status: Value) -> Value {
    if let Some(causes) = status.pointer_mut("/details/causes").and_then(Value::as_array_mut) {
        causes.sort_by_key(ToString::to_string);
        if let Some(message) = status["message"].as_str() {
            let (head, list) = message.split_once("is invalid: ").unwrap_or((message, ""));
            let inner = list.trim_start_matches('[').trim_end_matches(']');
            let mut parts: Vec<&str> =
                inner.split(", spec.").map(|part| part.trim_start_matches("spec.")).collect();
            parts.sort_unstable();
            status["message"] = json!([head, parts]);
        }
    }
    if let Some(Value::Object(metadata)) = status.get_mut("metadata") {
        for name in ["uid", "resourceVersion", "creationTimestamp"] {
            metadata.remove(name);
        }
    }
    status
}

fn find<'a>(exchanges: &'a [Exchange], method: &str, status: u16, part: &str) -> &'a Exchange {
    let matches = |exchange: &&Exchange| {
        exchange.method == method && exchange.status == status && exchange.body.contains(part)
    };
    exchanges.iter().find(matches).unwrap_or_else(|| panic!("no {method} answered {status} with {part}"))
}

#[test]
fn refusals_of_objects_and_patches_are_worded_as_the_real_server_words_them() {
    let (errors, creates) = (transcript::exchanges("04-errors.txt"), transcript::exchanges("03-create.txt"));
    let mut server = Server::new();
    // The object that the patches are about.
    server.answer(find(&creates, "POST", 201, "\"w1\""));
    let compared = [
        find(&errors, "POST", 422, "purple"),
        find(&errors, "POST", 422, "\"spec\":{}}"),
        find(&errors, "POST", 400, "unknownField"),
        find(&errors, "POST", 201, "unknownField"),
        find(&errors, "PATCH", 422, "\"op\":\"test\""),
        find(&errors, "PATCH", 422, "\"op\":\"remove\""),
        find(&errors, "PATCH", 200, "\"op\":\"test\""),
    ];
    for exchange in compared {
        let ours = server.answer(exchange);
        assert_eq!(ours.status, exchange.status, "{}: {}", exchange.body, ours.body);
        assert_eq!(comparable(ours.body), comparable(exchange.answer_json()), "{}", exchange.body);
        assert_eq!(ours.warnings, exchange.warnings, "{}", exchange.body);
    }
}

#[test]
fn refusals_of_selectors_are_worded_as_the_real_server_words_them() {
    let errors = transcript::exchanges("04-errors.txt");
    let selectable = |field: &str| matches!(field, "metadata.name" | "metadata.namespace" | "spec.color");
    let mut compared = 0;
    for exchange in errors.iter().filter(|exchange| exchange.method == "GET") {
        let ours = match (exchange.query("labelSelector"), exchange.query("fieldSelector")) {
            (Some(labels), _) => Selector::parse(labels).unwrap_err().to_string(),
            (_, Some(fields)) => FieldSelector::parse(fields, selectable).unwrap_err().to_string(),
            _ => continue,
        };
        assert_eq!(exchange.answer_json()["message"], ours);
        compared += 1;
    }
    assert_eq!(compared, 2);
}
