//! Idempotence and determinism: I1, I4, I5 and I7. I2 and I3 are with the patches they are about, I6 with the
//! replicas and restarts it needs.

use std::sync::LazyLock;

use regex::Regex;
use serde_json::Value;

use crate::answer::Reply;
use crate::calls::Conversation;
use crate::check::{CheckId, Finding, Rule};
use crate::patches::ReadPatch;
use crate::report::Ledger;
use crate::session::Session;
use crate::synthetic::CLUSTER_UID;

/// Compares the answers that handlers gave to the same request.
pub(crate) async fn check(session: &mut Session<'_>, conversations: &[Conversation]) {
    for conversation in conversations {
        let subject = conversation.handler.subject();
        for reply in &conversation.replies {
            scan_message(&mut session.ledger, &subject, &reply.message, &[CLUSTER_UID]);
        }
        for check in [CheckId::I1, CheckId::I7] {
            session.ledger.looked_at(check, &subject);
        }
        for finding in compare(&subject, &conversation.replies) {
            session.ledger.found(finding);
        }
    }
}

/// What differs between answers to the same request.
pub(crate) fn compare(subject: &str, replies: &[Reply]) -> Vec<Finding> {
    let mut found = Vec::new();
    let Some((first, others)) = replies.split_first() else { return found };
    for other in others {
        if other.success != first.success {
            let observed = "status is Success and Failure for the same request";
            found.push(Finding::new(Rule::StatusUnstable, subject, observed));
            if first.success {
                let observed = format!("succeeded first, then failed: {:?}", other.message);
                found.push(Finding::new(Rule::FailsWhenRepeated, subject, observed));
            }
            continue;
        }
        // A wait that ends between two calls is what is hoped for: only like is compared with like.
        if other.is_blocking() != first.is_blocking() {
            continue;
        }
        if other.message != first.message {
            let observed = format!("messages {:?} and {:?}", first.message, other.message);
            found.push(Finding::new(Rule::MessageUnstable, subject, observed));
        }
        if in_any_order(first.payload()) != in_any_order(other.payload()) {
            let observed = "the same request gets different data";
            found.push(Finding::new(Rule::PayloadUnstable, subject, observed));
        }
    }
    found
}

/// Patches and variables may come in any order, and so may operations of a patch that do not depend on each other; the
/// steps of a plan may not.
pub(crate) fn in_any_order(mut payload: Value) -> Value {
    order_operations(&mut payload);
    for list in ["items", "variables"] {
        if let Some(Value::Array(entries)) = payload.get_mut(list) {
            entries.sort_by_key(ToString::to_string);
        }
    }
    payload
}

/// Puts every patch, of templates or of machines, into an order that does not depend on the one in which it came. What
/// cannot be read as a patch stays as it is: it has a rule of its own.
fn order_operations(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            if let Ok(patch) = ReadPatch::read(fields.get("patchType"), fields.get("patch")) {
                fields.insert("patch".to_owned(), patch.in_any_order());
                return;
            }
            fields.values_mut().for_each(order_operations);
        }
        Value::Array(entries) => entries.iter_mut().for_each(order_operations),
        _ => {}
    }
}

/// Notes what a message should not contain. Texts that the request itself contains are no surprise.
pub(crate) fn scan_message(ledger: &mut Ledger, subject: &str, message: &str, expected: &[&str]) {
    ledger.looked_at(CheckId::I4, subject);
    ledger.looked_at(CheckId::I5, subject);
    let message = expected.iter().fold(message.to_owned(), |text, known| text.replace(known, ""));
    // A text that contains a secret must not be quoted, not even for its timestamp.
    if let Some(what) = first_match(&SECRETS, &message) {
        ledger.found(Finding::new(Rule::SecretInMessage, subject, format!("the message contains {what}")));
        return;
    }
    if let Some(what) = first_match(&VOLATILE, &message) {
        let observed = format!("the message contains {what}: {message:?}");
        ledger.found(Finding::new(Rule::VolatileMessage, subject, observed));
    }
}

type Patterns = LazyLock<Vec<(&'static str, Regex)>>;

fn first_match(patterns: &Patterns, message: &str) -> Option<&'static str> {
    patterns.iter().find(|(_, pattern)| pattern.is_match(message)).map(|(what, _)| *what)
}

fn compiled(patterns: &[(&'static str, &str)]) -> Vec<(&'static str, Regex)> {
    // All of them are constants, and a test compiles them.
    patterns.iter().filter_map(|(what, pattern)| Some((*what, Regex::new(pattern).ok()?))).collect()
}

const VOLATILE_PATTERNS: [(&str, &str); 7] = [
    ("a timestamp", r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d|\b\d\d:\d\d:\d\d\b|\b1[6-9]\d{8}(\d{3})?\b"),
    ("a UUID", r"(?i)\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b"),
    ("a request id", r"(?i)\b(request|trace|correlation|span)[-_ ]?id\b\W{0,3}\w"),
    // 32768 and above is where Linux takes ports of outgoing connections from.
    ("an ephemeral port", r"[\d\]]:(3276[89]|327[7-9]\d|32[89]\d\d|3[3-9]\d{3}|[45]\d{4}|6[0-5]\d{3})\b"),
    ("a pointer", r"\b0x[0-9a-fA-F]{6,16}\b"),
    ("a duration", r"\b\d+(\.\d+)?(ns|us|µs|ms)\b|\b\d+\.\d+ ?(s|sec|seconds)\b"),
    ("a goroutine or thread id", r"(?i)\b(goroutine|thread) ?\(?(id)?\)? ?\d+"),
];

const SECRET_PATTERNS: [(&str, &str); 6] = [
    ("a bearer token", r"(?i)\bbearer\s+[A-Za-z0-9._~+/=-]{8,}"),
    ("a JSON web token", r"\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\."),
    ("a PEM block", r"-----BEGIN [A-Z ]+-----"),
    ("a password", r"(?i)\b(password|passwd|pwd|secret|token|api[-_]?key)\s*[=:]\s*[^\s,;]{3,}"),
    ("a part of a kubeconfig", r"(client-key-data|client-certificate-data|certificate-authority-data)"),
    ("an AWS key", r"\b(AKIA|ASIA)[0-9A-Z]{16}\b"),
];

static VOLATILE: Patterns = LazyLock::new(|| compiled(&VOLATILE_PATTERNS));
static SECRETS: Patterns = LazyLock::new(|| compiled(&SECRET_PATTERNS));

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::json;

    use super::*;

    fn reply(value: Value) -> Reply {
        Reply {
            success: value["status"] == "Success",
            message: value["message"].as_str().unwrap_or_default().to_owned(),
            retry: value["retryAfterSeconds"].as_i64().unwrap_or(0),
            value,
            elapsed: Duration::ZERO,
        }
    }

    #[test]
    fn all_patterns_compile() {
        assert_eq!((VOLATILE.len(), SECRETS.len()), (VOLATILE_PATTERNS.len(), SECRET_PATTERNS.len()));
    }

    #[test]
    fn messages_are_scanned() {
        for (message, expected) in [
            ("waiting for cni 1.2", None),
            ("backup of c1 is at 30%, next look in 30s", None),
            ("connection to 10.0.0.1:6443 refused", None),
            ("quota of 512 exceeded since v1.33.1", None),
            ("failed at 2026-01-02T03:04:05Z", Some("a timestamp")),
            ("failed at 03:04:05", Some("a timestamp")),
            ("job 3f0c1d1e-1111-4000-8000-000000000001 failed", Some("a UUID")),
            ("failed (request id: x17)", Some("a request id")),
            ("read tcp 10.0.0.1:54321: reset", Some("an ephemeral port")),
            ("panic at 0xc000123456", Some("a pointer")),
            ("gave up after 1.52s", Some("a duration")),
            ("gave up after 150ms", Some("a duration")),
            ("goroutine 17 crashed", Some("a goroutine or thread id")),
            ("401 for Bearer abcdefgh12345", Some("a bearer token")),
            ("cannot log in with password=hunter2", Some("a password")),
            ("-----BEGIN RSA PRIVATE KEY-----", Some("a PEM block")),
            ("user: client-key-data: LS0t", Some("a part of a kubeconfig")),
            ("denied for AKIAABCDEFGHIJKLMNOP", Some("an AWS key")),
        ] {
            let found = first_match(&SECRETS, message).or_else(|| first_match(&VOLATILE, message));
            assert_eq!(found, expected, "{message}");
        }
    }

    #[test]
    fn secrets_are_not_quoted_and_known_uids_are_fine() {
        let mut ledger = Ledger::default();
        scan_message(&mut ledger, "a", "password=hunter2", &[]);
        scan_message(&mut ledger, "b", &format!("no {CLUSTER_UID}"), &[CLUSTER_UID]);
        let results = ledger.into_results([CheckId::I4, CheckId::I5], "");
        assert!(results[0].findings.is_empty());
        assert_eq!(results[1].findings.len(), 1);
        assert!(!results[1].findings[0].observed.contains("hunter2"));
    }

    #[test]
    fn answers_are_compared_modulo_order_and_progress() {
        let success = || reply(json!({"status": "Success"}));
        let blocking =
            |message: &str| reply(json!({"status": "Success", "retryAfterSeconds": 5, "message": message}));
        let failure = || reply(json!({"status": "Failure", "message": "no"}));
        let items = |uids: [&str; 2]| {
            reply(json!({"status": "Success", "items": [{"uid": uids[0]}, {"uid": uids[1]}]}))
        };
        let plan = |version: &str| {
            reply(json!({"status": "Success", "controlPlaneUpgrades": [{"version": version}]}))
        };
        let patch = |operations: Value| {
            use base64::Engine;
            let patch = base64::engine::general_purpose::STANDARD.encode(operations.to_string());
            let patch = json!({"patchType": "JSONPatch", "patch": patch});
            reply(json!({"status": "Success", "items": [patch.clone()], "machinePatch": patch}))
        };
        let add = |path: &str, value: u8| json!({"op": "add", "path": path, "value": value});
        for (replies, expected) in [
            (
                vec![patch(json!([add("/a", 1), add("/b", 2)])), patch(json!([add("/b", 2), add("/a", 1)]))],
                vec![],
            ),
            (
                vec![patch(json!([add("/a", 1), add("/a", 2)])), patch(json!([add("/a", 2), add("/a", 1)]))],
                vec![Rule::PayloadUnstable],
            ),
            (vec![], vec![]),
            (vec![success(), success()], vec![]),
            (vec![blocking("a"), success()], vec![]),
            (vec![items(["a", "b"]), items(["b", "a"])], vec![]),
            (vec![success(), failure()], vec![Rule::StatusUnstable, Rule::FailsWhenRepeated]),
            (vec![failure(), success()], vec![Rule::StatusUnstable]),
            (vec![blocking("a"), blocking("b")], vec![Rule::MessageUnstable]),
            (vec![items(["a", "b"]), items(["a", "c"])], vec![Rule::PayloadUnstable]),
            (vec![plan("v1.31.0"), plan("v1.32.0")], vec![Rule::PayloadUnstable]),
        ] {
            let rules: Vec<Rule> = compare("s", &replies).iter().map(|finding| finding.rule).collect();
            assert_eq!(rules, expected, "{replies:?}");
        }
    }
}
