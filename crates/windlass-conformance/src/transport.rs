//! Transport: T1 to T11.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use hyper::StatusCode;
use rustls::pki_types::ServerName;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use windlass_api::Hook;
use windlass_api::hooks::DiscoveryResponse;
use windlass_hooks::tls::TlsProblem;

use crate::certificate::Certificate;
use crate::check::{CheckId, Finding, Rule};
use crate::discovery::{self, NOT_JSON, handler_set};
use crate::endpoint::{Call, MAX_BODY, Protocol, TransportError};
use crate::progress::Progress;
use crate::session::Session;
use crate::tls_probe::{self, OldTls};

/// How long a probe of an old TLS version waits. Servers that refuse usually say so at once.
const OLD_TLS_PATIENCE: Duration = Duration::from_secs(2);

/// T1 and T2. Whether there is a connection to go on with.
pub(crate) async fn check_tls(session: &mut Session<'_>) -> bool {
    let subject = session.whole();
    session.ledger.looked_at(CheckId::T1, &subject);
    let limit = session.options.timing.discovery;
    let handshake = timeout(limit, handshake(session)).await;
    let (connected, presented) = match handshake {
        Ok(outcome) => outcome,
        Err(_) => (Err(TransportError::Timeout(limit)), None),
    };

    if let Some(certificate) = &presented.as_ref().and_then(|seen| Certificate::parse(&seen.leaf)) {
        session.ledger.looked_at(CheckId::T2, &subject);
        let days = certificate.days_left(SystemTime::now());
        if days < i64::from(session.options.certificate_warning_days) {
            let observed =
                if days < 0 { "has expired".to_owned() } else { format!("expires in {days} days") };
            session.ledger.found(Finding::new(Rule::CertificateExpiring, &subject, observed));
        }
    }
    if let Err(error) = connected {
        let refused = presented.as_ref().and_then(|seen| Some((seen, seen.refused.as_ref()?)));
        let (rule, observed) = match (refused, &error) {
            (Some((seen, refused)), _) => {
                let names = Certificate::parse(&seen.leaf).map(|certificate| certificate.names_text());
                explain_refusal(
                    refused,
                    &session.endpoint.server_name,
                    names.as_deref().unwrap_or("no names"),
                )
            }
            (None, TransportError::Resolve { .. } | TransportError::Connect(_)) => {
                (Rule::Unreachable, error.to_string())
            }
            (None, _) => (Rule::HandshakeFailed, error.to_string()),
        };
        session.ledger.found(Finding::new(rule, subject, observed));
        return false;
    }
    if !session.ledger.leaves_out(CheckId::T2) {
        check_old_tls(session).await;
    }
    true
}

async fn handshake(session: &Session<'_>) -> (Result<(), TransportError>, Option<crate::trust::Presented>) {
    let endpoint = &session.endpoint;
    let stream = match endpoint.dial(None).await {
        Ok(stream) => stream,
        Err(error) => return (Err(error), None),
    };
    let (config, recorder) = endpoint.trust.recording();
    let connected = TlsConnector::from(Arc::new(config)).connect(endpoint.server_name.clone(), stream).await;
    let connected = connected.map(drop).map_err(|error| TransportError::handshake(&error));
    (connected, recorder.presented())
}

fn explain_refusal(problem: &TlsProblem, name: &ServerName<'_>, names: &str) -> (Rule, String) {
    match problem {
        TlsProblem::WrongName { .. } => {
            (Rule::NameNotCovered, format!("asked for {}, the certificate covers {names}", name.to_str()))
        }
        problem => (Rule::CertificateRejected, problem.to_string()),
    }
}

async fn check_old_tls(session: &mut Session<'_>) {
    let subject = session.whole();
    session.ledger.looked_at(CheckId::T2, &subject);
    let name = match &session.endpoint.server_name {
        ServerName::DnsName(name) => Some(name.as_ref().to_owned()),
        _ => None,
    };
    let mut accepted = Vec::new();
    for version in OldTls::ALL {
        if let Ok(stream) = session.endpoint.dial(None).await
            && tls_probe::accepts(stream, version, name.as_deref(), OLD_TLS_PATIENCE).await
        {
            accepted.push(version.name());
        }
    }
    if !accepted.is_empty() {
        let observed = format!("{} accepted", accepted.join(" and "));
        session.ledger.found(Finding::new(Rule::OldTlsAccepted, subject, observed));
    }
}

/// Discovery as callers send it failed: finds out whether it works in another form (T3, T6, T7).
pub(crate) async fn explain_failed_discovery(session: &mut Session<'_>) {
    let subject = session.whole();
    let real = discovery::call(session);
    if let Ok(answer) = session.send(&subject, &real).await {
        session.ledger.looked_at(CheckId::T6, &subject);
        if answer.status.is_redirection() {
            let observed = format!("discovery gets HTTP status {}", answer.status.as_u16());
            session.ledger.found(Finding::new(Rule::Redirected, &subject, observed));
            return;
        }
    }
    let hook_path = Hook::Discovery.base_path();
    let with_content_type = Call { content_type: Some("application/json"), ..real.clone() };
    let without_timeout =
        Call { path: format!("{}{hook_path}", session.endpoint.place.base_path), ..real.clone() };
    let without_base = Call { path: hook_path, ..real };
    let has_base = !session.endpoint.place.base_path.is_empty();
    for (rule, call, observed) in [
        (
            Rule::ContentTypeRequired,
            with_content_type,
            "discovery works only with Content-Type: application/json",
        ),
        (Rule::TimeoutParameterBreaks, without_timeout, "discovery works only without ?timeout="),
        (Rule::BasePathNotServed, without_base, "discovery works only without the base path"),
    ] {
        if rule == Rule::BasePathNotServed && !has_base {
            continue;
        }
        let works = session.send(&subject, &call).await.is_ok_and(|answer| discovery::read(&answer).is_ok());
        if works {
            session.ledger.found(Finding::new(rule, &subject, observed));
        }
    }
}

/// T3 to T11, with discovery as the request: it changes nothing.
pub(crate) async fn check_http(session: &mut Session<'_>, discovered: &DiscoveryResponse) {
    let subject = session.whole();
    // Discovery worked without Content-Type, with ?timeout=, below the base path and without a redirect.
    for check in [CheckId::T3, CheckId::T6, CheckId::T7] {
        session.ledger.looked_at(check, &subject);
    }
    if !session.ledger.leaves_out(CheckId::T4) {
        check_protocols(session).await;
    }
    if !session.ledger.leaves_out(CheckId::T7) {
        check_timeout_parameter(session, discovered).await;
    }
    if !session.ledger.leaves_out(CheckId::T11) {
        check_unknown_paths(session).await;
    }
    check_anonymous(session).await;
    if !session.ledger.leaves_out(CheckId::T9) {
        check_odd_bodies(session).await;
    }
    if !session.ledger.leaves_out(CheckId::T8) {
        check_oversized_body(session).await;
    }
}

async fn check_protocols(session: &mut Session<'_>) {
    let subject = session.whole();
    session.ledger.looked_at(CheckId::T4, &subject);
    for (protocol, rule) in [(Protocol::Http2, Rule::Http2Unusable), (Protocol::Http1, Rule::Http1Unusable)] {
        let call = Call { protocol, ..discovery::call(session) };
        let answer = session.send(&subject, &call).await.map_err(|error| error.to_string());
        if let Err(observed) = answer.and_then(|answer| discovery::read(&answer)) {
            session.ledger.found(Finding::new(rule, &subject, observed));
        }
    }
}

async fn check_timeout_parameter(session: &mut Session<'_>, discovered: &DiscoveryResponse) {
    let subject = session.whole();
    // None, and durations in the spelling of Go, other than the one that discovery used. Handlers are asked in `calls`.
    for query in ["", "?timeout=1m0s", "?timeout=500ms"] {
        let base = format!("{}{}", session.endpoint.place.base_path, Hook::Discovery.base_path());
        let call = Call { path: format!("{base}{query}"), ..discovery::call(session) };
        let answer = session.send(&subject, &call).await.map_err(|error| error.to_string());
        let other = if query.is_empty() { "without the timeout parameter" } else { query };
        let observed = match answer.and_then(|answer| discovery::read(&answer)) {
            Ok(response) if handler_set(&response) == handler_set(discovered) => continue,
            Ok(_) => format!("discovery answers other handlers {other}"),
            Err(error) => format!("discovery fails {other}: {error}"),
        };
        session.ledger.found(Finding::new(Rule::TimeoutParameterBreaks, &subject, observed));
    }
}

async fn check_unknown_paths(session: &mut Session<'_>) {
    let subject = session.whole();
    session.ledger.looked_at(CheckId::T11, &subject);
    let timeout = session.options.timing.discovery;
    for path in [
        "/hooks.runtime.cluster.x-k8s.io/v1alpha1/windlassconformancetest/nosuchhandler",
        "/hooks.runtime.cluster.x-k8s.io/v1alpha1/beforeclusterupgrade/windlass-conformance-no-such-handler",
    ] {
        let call = Call::post(session.path(path, timeout), discovery::request_body(), timeout);
        if let Ok(answer) = session.send(&subject, &call).await
            && answer.status == StatusCode::OK
        {
            let observed = format!("POST {path} gets HTTP status 200");
            session.ledger.found(Finding::new(Rule::UnknownPathAnswered, &subject, observed));
        }
    }
}

async fn check_anonymous(session: &mut Session<'_>) {
    if !session.endpoint.trust.has_identity {
        let opt_in = "give the certificate that managers use (--client-cert, --client-key)";
        session.ledger.skip(CheckId::T10, "no client certificate was given", Some(opt_in));
        return;
    }
    let subject = session.whole();
    session.ledger.looked_at(CheckId::T10, &subject);
    let call = Call { anonymous: true, ..discovery::call(session) };
    if let Ok(answer) = session.send(&subject, &call).await
        && discovery::read(&answer).is_ok()
    {
        let observed = "discovery works without a client certificate";
        session.ledger.found(Finding::new(Rule::AnonymousAccepted, subject, observed));
    }
}

async fn check_odd_bodies(session: &mut Session<'_>) {
    let subject = session.whole();
    session.ledger.looked_at(CheckId::T9, &subject);
    let real = discovery::call(session);

    let unknown_fields =
        br#"{"kind":"DiscoveryRequest","apiVersion":"hooks.runtime.cluster.x-k8s.io/v1alpha1",
        "windlassConformanceTest":{"safeToIgnore":true}}"#;
    let call = Call { body: unknown_fields.as_slice().into(), ..real.clone() };
    let answer = session.send(&subject, &call).await.map_err(|error| error.to_string());
    if let Err(observed) = answer.and_then(|answer| discovery::read(&answer)) {
        session.ledger.found(Finding::new(Rule::UnknownFieldsRefused, &subject, observed));
    }

    // What the answer says is of no interest for discovery, which has nothing in its body; that there is one is.
    for (body, what) in [
        (NOT_JSON, "malformed JSON"),
        (b"", "an empty body"),
        (br#"{"kind":"WindlassConformanceTest","apiVersion":"example.com/v1"}"#, "a wrong kind"),
    ] {
        let call = Call { body: body.into(), ..real.clone() };
        let observed = match session.send(&subject, &call).await {
            Ok(answer) if answer.status == StatusCode::OK => continue,
            Ok(answer) => format!("{what} gets HTTP status {}", answer.status.as_u16()),
            Err(error) => format!("{what} gets no answer: {error}"),
        };
        session.ledger.found(Finding::new(Rule::MalformedNotAFailure, &subject, observed));
    }
    if let Err(observed) = still_answers(session).await {
        session.ledger.found(Finding::new(Rule::DeadAfterMalformed, subject, observed));
    }
}

async fn check_oversized_body(session: &mut Session<'_>) {
    let subject = session.whole();
    session.ledger.looked_at(CheckId::T8, &subject);
    session.progress.report(&Progress::Waiting("uploading a body of more than 20 MiB"));
    let mut body = br#"{"kind":"DiscoveryRequest","windlassConformanceTest":""#.to_vec();
    body.resize(MAX_BODY + 1, b'x');
    body.extend_from_slice(br#""}"#);
    let call = Call { body: body.into(), protocol: Protocol::Http1, ..discovery::call(session) };
    // A reset while we are still sending is a refusal too, and the usual one.
    if let Ok(answer) = session.send(&subject, &call).await
        && discovery::read(&answer).is_ok()
    {
        let observed = format!("a body of {} bytes is answered with Success", call.body.len());
        session.ledger.found(Finding::new(Rule::OversizedAccepted, &subject, observed));
    }
    if let Err(observed) = still_answers(session).await {
        session.ledger.found(Finding::new(Rule::DeadAfterOversized, subject, observed));
    }
}

async fn still_answers(session: &mut Session<'_>) -> Result<(), String> {
    let subject = session.whole();
    let call = discovery::call(session);
    let answer = session.send(&subject, &call).await.map_err(|error| error.to_string())?;
    discovery::read(&answer).map(drop)
}
