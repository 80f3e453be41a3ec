//! Replicas, load, shutdown and restart: A1 to A5, and I6.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Empty;
use hyper::body::{Body, Frame};
use hyper::{Method, StatusCode};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep, timeout};
use windlass_api::hooks::DiscoveryResponse;

use crate::answer::judge;
use crate::calls::Conversation;
use crate::check::{CheckId, Finding, Rule};
use crate::determinism::in_any_order;
use crate::discovery::{self, handler_set};
use crate::endpoint::{Call, Endpoint, Protocol};
use crate::operations::Operation;
use crate::progress::Progress;
use crate::session::Session;
use crate::target::Target;

/// How often an extension that starts is asked whether it answers.
const START_POLL: Duration = Duration::from_millis(100);
/// What has left us still has to be read by the server before it counts as a call that is under way.
const SETTLE: Duration = Duration::from_millis(100);

/// Checks everything that takes more than one process, in an order that leaves the extension running.
pub(crate) async fn check(
    session: &mut Session<'_>,
    discovered: &DiscoveryResponse,
    conversations: &[Conversation],
) {
    if !session.ledger.leaves_out(CheckId::A2) {
        check_load(session, discovered).await;
    }
    check_replicas(session, discovered, conversations).await;
    check_readiness(session).await;
    check_siblings(session, conversations).await;
    check_restart(session, conversations).await;
    skip_the_rest(session);
}

fn skip_the_rest(session: &mut Session<'_>) {
    for (check, reason, opt_in) in [
        (
            CheckId::A1,
            "neither addresses of replicas nor a readiness endpoint were given",
            "give the addresses of the pods (--replica) and the readiness endpoint (--readiness-url)",
        ),
        (
            CheckId::A3,
            "sibling extensions are left alone",
            "give commands (--stop-siblings-command, --start-siblings-command)",
        ),
        (CheckId::A4, "the extension is not stopped", "give commands (--stop-command, --start-command)"),
        (CheckId::A5, "the extension is not restarted", "give commands (--stop-command, --start-command)"),
        (
            CheckId::I6,
            "there is one replica, and it is not restarted",
            "give the addresses of the pods (--replica), or commands (--stop-command, --start-command)",
        ),
    ] {
        session.ledger.skip(check, reason, Some(opt_in));
    }
}

/// A2: many at once.
async fn check_load(session: &mut Session<'_>, discovered: &DiscoveryResponse) {
    let subject = session.whole();
    session.ledger.looked_at(CheckId::A2, &subject);
    let count = session.options.concurrency;
    let calls = vec![discovery::call(session); count];
    let expected = handler_set(discovered);
    let failed: Vec<String> = session
        .send_all(&subject, calls)
        .await
        .into_iter()
        .filter_map(|answer| {
            let response =
                answer.map_err(|error| error.to_string()).and_then(|answer| discovery::read(&answer));
            match response {
                Ok(response) if handler_set(&response) == expected => None,
                Ok(_) => Some("other handlers than alone".to_owned()),
                Err(error) => Some(error),
            }
        })
        .collect();
    if let Some(first) = failed.first() {
        let observed = format!("{} of {count} parallel calls failed, the first: {first}", failed.len());
        session.ledger.found(Finding::new(Rule::FailsUnderLoad, subject, observed));
    }
}

/// A1 and I6 with the addresses of single replicas.
async fn check_replicas(
    session: &mut Session<'_>,
    discovered: &DiscoveryResponse,
    conversations: &[Conversation],
) {
    if session.options.replicas.is_empty() {
        return;
    }
    let subject = session.whole();
    session.ledger.looked_at(CheckId::A1, &subject);
    let mut ready = Vec::new();
    for &replica in &session.options.replicas {
        let call = Call { address: Some(replica), ..discovery::call(session) };
        let answer = session.send(&subject, &call).await.map_err(|error| error.to_string());
        if let Ok(response) = answer.and_then(|answer| discovery::read(&answer)) {
            ready.push((replica, response));
        }
    }
    if ready.len() < 2 {
        let observed = format!("{} of {} replicas answer", ready.len(), session.options.replicas.len());
        session.ledger.found(Finding::new(Rule::TooFewReplicas, &subject, observed));
        return;
    }
    session.ledger.looked_at(CheckId::I6, &subject);
    for (replica, response) in ready {
        if handler_set(&response) != handler_set(discovered) {
            let observed = format!("{replica} announces other handlers");
            session.ledger.found(Finding::new(Rule::ReplicasDisagree, &subject, observed));
        }
        compare_answers(session, conversations, Some(replica)).await;
    }
}

/// Asks everything again, of one replica or of a process that was started anew.
async fn compare_answers(
    session: &mut Session<'_>,
    conversations: &[Conversation],
    replica: Option<std::net::SocketAddr>,
) {
    for Conversation { handler, request, replies } in conversations {
        // Progress is not a contradiction: what was blocking may be done by now.
        let Some(before) = replies.last() else { continue };
        let call = Call { address: replica, ..session.call_of(handler, request) };
        let answer = session.send(&handler.subject(), &call).await;
        let (reply, _) = judge(handler, &answer);
        let essence = |success: bool, payload: Value| (success, in_any_order(payload));
        let same = reply.is_some_and(|reply| {
            essence(reply.success, reply.payload()) == essence(before.success, before.payload())
        });
        if !same {
            let who = replica.map_or_else(|| "after a restart".to_owned(), |address| format!("at {address}"));
            let observed = format!("the same request gets another answer {who}");
            session.ledger.found(Finding::new(Rule::ReplicasDisagree, handler.subject(), observed));
        }
    }
}

/// A1: the endpoint that Kubernetes asks.
async fn check_readiness(session: &mut Session<'_>) {
    let Some(url) = session.options.readiness_url.clone() else { return };
    session.ledger.looked_at(CheckId::A1, &url);
    let limit = session.options.timing.discovery;
    let status = timeout(limit, readiness(session.target, &url, limit)).await;
    let observed = match status.unwrap_or_else(|_| Err("no answer in time".to_owned())) {
        Ok(StatusCode::OK) => return,
        Ok(status) => format!("HTTP status {}", status.as_u16()),
        Err(error) => error,
    };
    session.ledger.found(Finding::new(Rule::ReadinessBroken, url, observed));
}

async fn readiness(target: &Target, url: &str, limit: Duration) -> Result<StatusCode, String> {
    let Some(rest) = url.strip_prefix("http://") else {
        let target = Target { url: url.to_owned(), address: None, ..target.clone() };
        let endpoint = Endpoint::new(&target).map_err(|error| error.to_string())?;
        let path = if endpoint.place.base_path.is_empty() { "/" } else { &endpoint.place.base_path };
        let call = Call { method: Method::GET, ..Call::post(path, Bytes::new(), limit) };
        return endpoint.send(&call).await.map(|answer| answer.status).map_err(|error| error.to_string());
    };
    let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let address = if authority.contains(':') { authority.to_owned() } else { format!("{authority}:80") };
    let text = |error: &dyn std::error::Error| error.to_string();
    let stream = TcpStream::connect(address).await.map_err(|error| text(&error))?;
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.map_err(|error| text(&error))?;
    tokio::spawn(connection);
    let request = hyper::Request::get(if path.is_empty() { "/" } else { path })
        .header(hyper::header::HOST, authority)
        .body(Empty::<Bytes>::new())
        .map_err(|error| text(&error))?;
    sender.send_request(request).await.map(|response| response.status()).map_err(|error| text(&error))
}

/// A3: others are down.
async fn check_siblings(session: &mut Session<'_>, conversations: &[Conversation]) {
    let Some(operations) = session.options.operations.clone() else { return };
    if !operations.supports(Operation::StopSiblings) {
        return;
    }
    if let Err(error) = operations.perform(Operation::StopSiblings).await {
        session.ledger.skip(CheckId::A3, error.to_string(), None);
        return;
    }
    let subject = session.whole();
    session.ledger.looked_at(CheckId::A3, &subject);
    let call = discovery::call(session);
    let answer = session.send(&subject, &call).await.map_err(|error| error.to_string());
    if let Err(observed) = answer.and_then(|answer| discovery::read(&answer)) {
        session.ledger.found(Finding::new(Rule::DependsOnSiblings, subject, observed));
    }
    for Conversation { handler, request, replies } in conversations {
        let succeeded = replies.last().is_some_and(|reply| reply.success);
        let call = session.call_of(handler, request);
        let answer = session.send(&handler.subject(), &call).await;
        if succeeded && !judge(handler, &answer).0.is_some_and(|reply| reply.success) {
            let observed = "succeeds while others are up, and fails while they are down";
            session.ledger.found(Finding::new(Rule::DependsOnSiblings, handler.subject(), observed));
        }
    }
    if operations.supports(Operation::StartSiblings)
        && let Err(error) = operations.perform(Operation::StartSiblings).await
    {
        session.ledger.skip(CheckId::A3, error.to_string(), None);
    }
}

/// A4, A5 and I6: stop it in the middle of a call, start it, ask again.
async fn check_restart(session: &mut Session<'_>, conversations: &[Conversation]) {
    let Some(operations) = session.options.operations.clone() else { return };
    // What cannot be started again is not stopped.
    if !operations.supports(Operation::Terminate) || !operations.supports(Operation::Start) {
        return;
    }
    let subject = session.whole();
    session.progress.report(&Progress::Waiting("terminating the extension in the middle of a call"));
    if let Err(error) = check_shutdown(session, &subject).await {
        session.ledger.skip(CheckId::A4, error, None);
    }

    session.progress.report(&Progress::Waiting("starting the extension again"));
    let started = Instant::now();
    if let Err(error) = operations.perform(Operation::Start).await {
        session.ledger.skip(CheckId::A5, error.to_string(), None);
        return;
    }
    session.ledger.looked_at(CheckId::A5, &subject);
    let limit = session.options.timing.cold_start;
    let call = discovery::call(session);
    loop {
        let answer = session.send(&subject, &call).await.map_err(|error| error.to_string());
        match answer.and_then(|answer| discovery::read(&answer)) {
            Ok(_) => break,
            Err(_) if started.elapsed() < limit => sleep(START_POLL.min(limit)).await,
            Err(error) => {
                let observed = format!("no answer {} ms after the start: {error}", limit.as_millis());
                session.ledger.found(Finding::new(Rule::SlowColdStart, subject, observed));
                return;
            }
        }
    }
    if !conversations.is_empty() {
        session.ledger.looked_at(CheckId::I6, &subject);
        compare_answers(session, conversations, None).await;
    }
}

/// Half a request is sent, then the extension is told to stop, then the other half is sent. That keeps a call
/// under way for exactly as long as needed, whatever the handler does.
async fn check_shutdown(session: &mut Session<'_>, subject: &str) -> Result<(), String> {
    let Some(operations) = session.options.operations.clone() else { return Ok(()) };
    let body = discovery::request_body();
    let (rest, receiver) = oneshot::channel();
    let (first_half, second_half) = (body.slice(..body.len() / 2), body.slice(body.len() / 2..));
    let length = body.len();
    let (sent, was_sent) = oneshot::channel();
    let halves =
        Halves { first: Some(first_half), sent: Some(sent), rest: Some(receiver), length: length as u64 };
    let call = Call { protocol: Protocol::Http1, ..discovery::call(session) };
    let endpoint = session.endpoint.clone();
    let under_way = tokio::spawn(async move { endpoint.send_body(&call, halves).await });

    // The first half has left when the second is asked for.
    let _ = timeout(session.options.timing.discovery, was_sent).await;
    sleep(SETTLE).await;
    let terminated = operations.perform(Operation::Terminate).await.map_err(|error| error.to_string());
    let _ = rest.send(second_half);
    let answer = under_way.await.map_err(|error| error.to_string())?;
    terminated?;
    session.ledger.looked_at(CheckId::A4, subject);
    if let Err(observed) =
        answer.map_err(|error| error.to_string()).and_then(|answer| discovery::read(&answer).map(drop))
    {
        session.ledger.found(Finding::new(Rule::ShutdownCutsCalls, subject, observed));
    }
    Ok(())
}

/// A body in two halves, the second of which comes when it is told to.
struct Halves {
    first: Option<Bytes>,
    sent: Option<oneshot::Sender<()>>,
    rest: Option<oneshot::Receiver<Bytes>>,
    length: u64,
}

impl Body for Halves {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        if let Some(first) = self.first.take() {
            return Poll::Ready(Some(Ok(Frame::data(first))));
        }
        let Some(rest) = &mut self.rest else { return Poll::Ready(None) };
        let polled = Pin::new(rest).poll(context);
        if let Some(sent) = self.sent.take() {
            let _ = sent.send(());
        }
        match polled {
            Poll::Pending => Poll::Pending,
            Poll::Ready(rest) => {
                self.rest = None;
                Poll::Ready(rest.ok().map(|bytes| Ok(Frame::data(bytes))))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_none()
    }

    fn size_hint(&self) -> hyper::body::SizeHint {
        hyper::body::SizeHint::with_exact(self.length)
    }
}
