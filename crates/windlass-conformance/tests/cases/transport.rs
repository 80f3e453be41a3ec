//! TLS, HTTP and bodies.

use std::sync::atomic::{AtomicBool, Ordering};

use windlass_api::Hook::BeforeClusterUpgrade;
use windlass_conformance::Rule;

use super::Case;
use crate::support::certificates::Pki;
use crate::support::{End, Reply};

pub(crate) fn tls() -> Vec<Case> {
    let case = |expected: &'static [Rule]| Case::new(expected, &[]);
    vec![
        // Discard is a port that nobody serves.
        case(&[Rule::Unreachable]).adjust(|_, target, _| target.url = "https://127.0.0.1:9".to_owned()),
        case(&[Rule::HandshakeFailed]).below(|below| below.plain = true),
        case(&[Rule::CertificateRejected]).adjust(|_, target, _| {
            *target = target.clone().with_ca_bundle(Pki::new(&["127.0.0.1"], 1).ca_pem);
        }),
        case(&[Rule::CertificateRejected, Rule::CertificateExpiring])
            .below(|below| below.expires_in_days = -2),
        case(&[Rule::NameNotCovered]).below(|below| below.names = vec!["other.example"]),
        case(&[Rule::CertificateExpiring]).below(|below| below.expires_in_days = 5),
        case(&[Rule::OldTlsAccepted]).below(|below| below.old_tls = true),
        case(&[Rule::AnonymousAccepted]).adjust(|extension, target, _| {
            target.client_identity = Some(extension.pki.client_identity());
        }),
    ]
}

pub(crate) fn http() -> Vec<Case> {
    let case = |expected: &'static [Rule]| Case::new(expected, &[BeforeClusterUpgrade]);
    vec![
        case(&[Rule::ContentTypeRequired, Rule::DiscoveryFailed])
            .twist(|ask, reply| if ask.content_type { reply } else { Reply::status(415) }),
        case(&[Rule::ContentTypeRequired]).twist(|ask, reply| {
            if ask.content_type || ask.is_discovery() { reply } else { Reply::status(415) }
        }),
        case(&[Rule::Http2Unusable]).below(|below| below.alpn = vec!["http/1.1"]),
        case(&[Rule::Http1Unusable]).below(|below| below.alpn = vec!["h2"]),
        case(&[Rule::BadCompression]).twist(|_, reply| reply.with_header("content-encoding", "br")),
        case(&[Rule::BadCompression]).calls(|_, reply| reply.with_header("content-encoding", "gzip")),
        case(&[Rule::Redirected, Rule::DiscoveryFailed])
            .discovery(|_, _| Reply::status(307).with_header("location", "/elsewhere")),
        case(&[Rule::Redirected])
            .twist(|ask, reply| if ask.is_discovery() { reply } else { Reply::status(301) }),
        case(&[Rule::BasePathNotServed]).adjust(|_, target, _| target.url.push_str("/base")),
        case(&[Rule::TimeoutParameterBreaks, Rule::DiscoveryFailed])
            .twist(|ask, reply| if ask.query.is_empty() { reply } else { Reply::status(404) }),
        case(&[Rule::TimeoutParameterBreaks])
            .discovery(|ask, reply| if ask.query.ends_with("ms") { Reply::status(400) } else { reply }),
        // Discovery takes the parameter, and handlers are found by the whole request line.
        case(&[Rule::TimeoutParameterBreaks]).twist(|ask, reply| {
            if ask.is_discovery() || ask.query.is_empty() { reply } else { Reply::status(404) }
        }),
        // Handlers are found, and take the parameter for a part of their settings.
        case(&[Rule::TimeoutParameterBreaks]).calls(|ask, reply| {
            let failure = serde_json::json!({"status": "Failure", "message": "timeout must be 10s"});
            if ask.query == "timeout=10s" { reply } else { Reply::json(&failure) }
        }),
        // Works for nobody who does not send the parameter.
        case(&[Rule::TimeoutParameterBreaks])
            .discovery(|ask, reply| if ask.query.is_empty() { Reply::status(400) } else { reply }),
        case(&[Rule::UnknownPathAnswered])
            .twist(|_, reply| if reply.status == 404 { Reply::status(200) } else { reply }),
    ]
}

pub(crate) fn bodies() -> Vec<Case> {
    const LARGE: usize = 20 * 1024 * 1024;
    let case = |expected: &'static [Rule]| Case::new(expected, &[BeforeClusterUpgrade]);
    // The body is large, so that each of these takes a while; both rules are shown by one extension.
    let dead = AtomicBool::new(false);
    let oversized = case(&[Rule::OversizedAccepted, Rule::DeadAfterOversized]).twist(move |ask, reply| {
        if dead.load(Ordering::SeqCst) {
            return reply.ending(End::Abort);
        }
        dead.store(ask.body.len() > LARGE, Ordering::SeqCst);
        if ask.body.len() > LARGE {
            Reply::json(&crate::support::behaviour::announcement(&[]))
        } else {
            reply
        }
    });
    let killed = AtomicBool::new(false);
    let fragile = case(&[Rule::MalformedNotAFailure, Rule::DeadAfterMalformed]).twist(move |ask, reply| {
        if ask.body.is_empty() {
            killed.store(true, Ordering::SeqCst);
        }
        if killed.load(Ordering::SeqCst) { reply.ending(End::Abort) } else { reply }
    });
    vec![
        oversized,
        fragile,
        case(&[Rule::UnknownFieldsRefused]).discovery(|ask, reply| {
            if ask.value.get("windlassConformanceTest").is_some() { Reply::status(400) } else { reply }
        }),
        case(&[Rule::MalformedNotAFailure])
            .twist(|ask, reply| if ask.value.is_null() { Reply::status(500) } else { reply }),
        case(&[Rule::MalformedNotAFailure]).twist(|ask, reply| {
            let accepted = serde_json::json!({"status": "Success"});
            if ask.value.is_null() && !ask.is_discovery() { Reply::json(&accepted) } else { reply }
        }),
        case(&[Rule::MalformedNotAFailure]).twist(|ask, reply| {
            if ask.value.is_null() && !ask.is_discovery() { reply.ending(End::Abort) } else { reply }
        }),
    ]
}
