//! Troubles: faults that strike at a rate, for a while, as layers around what a manager reads and writes.
//!
//! Those of watches and lists are built into the reflectors; those of single requests are a [`Troubled`] service between a
//! client and the API; those of hooks are for extensions to [ask](Faults::strikes) about. Which request is struck comes from the seed, the request and how often it was made before, and
//! never from the order in which tasks happen to run.

use std::fmt;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::str::FromStr;
use std::task::{Context, Poll};
use std::time::Duration;

use http::{Method, Request, Response, StatusCode};
use http_body_util::{Either, Full};
use serde_json::json;
use tokio::time::{Instant, sleep};
use tower::Service;
use windlass_random::{Generator, Randomness};

use crate::faults::Faults;

/// What can go wrong, over and over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Trouble {
    /// Events of watches come late: in order within a kind, in any order between kinds.
    LateEvents,
    /// A watch breaks, and where it was is forgotten: the events on their way are lost, and everything is listed anew.
    LostEvents,
    /// Events come twice.
    RepeatedEvents,
    /// What a list shows is some seconds old when it arrives.
    StaleLists,
    /// Writes are refused because the object has changed meanwhile, although it has not.
    Conflicts,
    /// Writes fail and nothing is written, as on a full disk.
    FailedWrites,
    /// Writes are done, and the answer is lost.
    LostAnswers,
    /// Reads fail.
    FailedReads,
    /// Reads take some seconds.
    SlowReads,
    /// The API server dies in the middle of a write and is away for some seconds: the write is there as a whole or not at
    /// all, and its writer is not told which.
    TornWrites,
    /// Hooks fail, ask to wait, answer with something that is no answer, or not at all.
    FlappingHooks,
}

impl Trouble {
    /// All of them.
    pub const ALL: [Self; 11] = [
        Self::LateEvents,
        Self::LostEvents,
        Self::RepeatedEvents,
        Self::StaleLists,
        Self::Conflicts,
        Self::FailedWrites,
        Self::LostAnswers,
        Self::FailedReads,
        Self::SlowReads,
        Self::TornWrites,
        Self::FlappingHooks,
    ];

    /// In words, such as `late events`.
    pub fn words(self) -> &'static str {
        match self {
            Self::LateEvents => "late events",
            Self::LostEvents => "lost events",
            Self::RepeatedEvents => "repeated events",
            Self::StaleLists => "stale lists",
            Self::Conflicts => "conflicts",
            Self::FailedWrites => "failed writes",
            Self::LostAnswers => "lost answers",
            Self::FailedReads => "failed reads",
            Self::SlowReads => "slow reads",
            Self::TornWrites => "torn writes",
            Self::FlappingHooks => "flapping hooks",
        }
    }
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.words())
    }
}

/// These words name no trouble.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no trouble")]
pub struct UnknownTrouble(String);

impl FromStr for Trouble {
    type Err = UnknownTrouble;

    fn from_str(words: &str) -> Result<Self, UnknownTrouble> {
        let found = Self::ALL.into_iter().find(|trouble| trouble.words() == words);
        found.ok_or_else(|| UnknownTrouble(words.to_owned()))
    }
}

/// A trouble, how often it strikes, and for how long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Layer {
    /// What goes wrong.
    pub trouble: Trouble,
    /// How many of a hundred requests or events are struck.
    pub percent: u8,
    /// When it ends; without a time, it does not.
    pub until: Option<Instant>,
}

/// All layers of a manager.
#[derive(Debug)]
pub(crate) struct Layers {
    layers: Vec<Layer>,
    randomness: Randomness,
}

impl Default for Layers {
    fn default() -> Self {
        Self { layers: Vec::new(), randomness: Randomness::seeded(0) }
    }
}

impl Layers {
    pub(crate) fn seed(&mut self, seed: u64) {
        self.randomness = Randomness::seeded(seed);
    }

    pub(crate) fn add(&mut self, layer: Layer) {
        self.layers.push(layer);
    }

    pub(crate) fn clear(&mut self) {
        self.layers.clear();
    }

    /// Whether a trouble strikes what `subject` names now; if so, where the details of it are drawn from.
    pub(crate) fn strikes(&self, trouble: Trouble, subject: &[&str], now: Instant) -> Option<Generator> {
        let is_active =
            |layer: &&Layer| layer.trouble == trouble && layer.until.is_none_or(|until| now < until);
        let percent = self.layers.iter().filter(is_active).map(|layer| layer.percent).max()?;
        let owner: Vec<&str> = std::iter::once(trouble.words()).chain(subject.iter().copied()).collect();
        let mut random = self.randomness.generator(&owner);
        (random.u8(0..100) < percent).then_some(random)
    }
}

/// A time up to this, in milliseconds.
pub(crate) fn up_to(random: &mut Generator, most: Duration) -> Duration {
    Duration::from_millis(random.u64(0..=u64::try_from(most.as_millis()).unwrap_or(u64::MAX)))
}

/// How long a slow read takes, at most.
const SLOW: Duration = Duration::from_secs(5);

/// How long an API server is away that died, at most.
const AWAY: Duration = Duration::from_secs(10);

/// A service in which requests meet the troubles of single requests. Watches are let through, unless the server is away.
#[derive(Debug, Clone)]
pub struct Troubled<S> {
    service: S,
    faults: Faults,
}

impl<S> Troubled<S> {
    /// What stands between a client and `service`.
    pub fn new(service: S, faults: Faults) -> Self {
        Self { service, faults }
    }
}

/// What becomes of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    Served,
    Slowly(Duration),
    Refused(StatusCode, &'static str, &'static str),
    Unanswered,
    /// The server dies with this request, and is away for so long.
    Torn {
        is_written: bool,
        away: Duration,
    },
    /// The server is away.
    Unreachable,
}

impl Fate {
    fn of<B>(request: &Request<B>, faults: &Faults) -> Self {
        if faults.is_away() {
            return Self::Unreachable;
        }
        let path = request.uri().path();
        let query = request.uri().query().unwrap_or_default();
        let has = |parameter: &str| query.split('&').any(|part| part == parameter);
        if has("watch=true") || has("watch=1") {
            return Self::Served;
        }
        let strikes = |trouble| faults.strikes(trouble, &[request.method().as_str(), path]);
        let conflicts = request.method() == Method::PUT || is_merge(request);
        if request.method() == Method::GET {
            if strikes(Trouble::FailedReads).is_some() {
                let why = "the server was told to fail this read";
                return Self::Refused(StatusCode::SERVICE_UNAVAILABLE, "ServiceUnavailable", why);
            }
            let slow = strikes(Trouble::SlowReads).map(|mut random| up_to(&mut random, SLOW));
            return slow.map_or(Self::Served, Self::Slowly);
        }
        if conflicts && strikes(Trouble::Conflicts).is_some() {
            let why = "the object has been modified; please apply your changes to the latest version";
            return Self::Refused(StatusCode::CONFLICT, "Conflict", why);
        }
        if strikes(Trouble::FailedWrites).is_some() {
            let why = "no space left on device; nothing was written";
            return Self::Refused(StatusCode::INTERNAL_SERVER_ERROR, "InternalError", why);
        }
        if strikes(Trouble::LostAnswers).is_some() {
            return Self::Unanswered;
        }
        if let Some(mut random) = strikes(Trouble::TornWrites) {
            return Self::Torn { is_written: random.bool(), away: up_to(&mut random, AWAY) };
        }
        Self::Served
    }
}

/// Whether a request changes an object from what was read of it: those are refused if it has changed meanwhile.
fn is_merge<B>(request: &Request<B>) -> bool {
    let content = request.headers().get(http::header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    request.method() == Method::PATCH && content.is_some_and(|content| !content.contains("apply-patch"))
}

impl<S, B, R> Service<Request<R>> for Troubled<S>
where
    S: Service<Request<R>, Response = Response<B>>,
    S::Future: Send + 'static,
    S::Error: Into<tower::BoxError>,
    B: Send + 'static,
{
    type Response = Response<Either<B, Full<bytes::Bytes>>>;
    type Error = tower::BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.service.poll_ready(context).map_err(Into::into)
    }

    fn call(&mut self, request: Request<R>) -> Self::Future {
        let fate = Fate::of(&request, &self.faults);
        if let Fate::Refused(status, reason, message) = fate {
            let body = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
                "message": message, "reason": reason, "code": status.as_u16()});
            let answer = Response::builder()
                .status(status)
                .header(http::header::CONTENT_TYPE, "application/json")
                .body(Either::Right(Full::from(body.to_string())));
            return Box::pin(async move { answer.map_err(Into::into) });
        }
        let broken = |kind, what: &'static str| io::Error::new(kind, what).into();
        match fate {
            Fate::Unreachable => {
                let error = broken(io::ErrorKind::ConnectionRefused, "the server is away");
                return Box::pin(async move { Err(error) });
            }
            Fate::Torn { is_written: false, away } => {
                self.faults.go_away(away);
                let error = broken(io::ErrorKind::ConnectionReset, "the server died before this write");
                return Box::pin(async move { Err(error) });
            }
            _ => {}
        }
        let answer = self.service.call(request);
        let faults = self.faults.clone();
        Box::pin(async move {
            if let Fate::Slowly(time) = fate {
                sleep(time).await;
            }
            let answer = answer.await.map_err(Into::into)?;
            match fate {
                Fate::Unanswered => {
                    Err(io::Error::new(io::ErrorKind::ConnectionReset, "the answer was lost").into())
                }
                Fate::Torn { away, .. } => {
                    faults.go_away(away);
                    Err(io::Error::new(io::ErrorKind::ConnectionReset, "the server died after this write")
                        .into())
                }
                _ => Ok(answer.map(Either::Left)),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_layer_strikes_at_its_rate_and_until_its_end() {
        let mut layers = Layers::default();
        let until = Instant::now() + Duration::from_secs(10);
        layers.add(Layer { trouble: Trouble::Conflicts, percent: 30, until: Some(until) });
        let struck = |layers: &Layers, trouble| {
            let hits = (0..1000).filter(|_| layers.strikes(trouble, &["x"], Instant::now()).is_some());
            hits.count()
        };
        let hits = struck(&layers, Trouble::Conflicts);
        assert!((250..350).contains(&hits), "{hits}");
        assert_eq!(struck(&layers, Trouble::FailedReads), 0, "another trouble");
        tokio::time::advance(Duration::from_secs(10)).await;
        assert_eq!(struck(&layers, Trouble::Conflicts), 0, "it is over");
    }

    #[test]
    fn words_name_each_trouble() {
        for trouble in Trouble::ALL {
            assert_eq!(trouble.words().parse(), Ok(trouble));
        }
        assert_eq!("no such".parse::<Trouble>().unwrap_err().to_string(), "\"no such\" is no trouble");
    }

    #[test]
    fn each_kind_of_request_meets_its_own_troubles() {
        let faults = Faults::new();
        let fate = |method: &str, query: &str, content: &str| {
            let request = Request::builder().method(method).uri(format!("/api/v1/pods?{query}"));
            let request = request.header(http::header::CONTENT_TYPE, content).body(()).unwrap();
            Fate::of(&request, &faults)
        };
        let code = |fate: Fate| match fate {
            Fate::Refused(status, _, _) => Some(status.as_u16()),
            _ => None,
        };
        for trouble in [Trouble::Conflicts, Trouble::FailedReads] {
            faults.add_layer(Layer { trouble, percent: 100, until: None });
        }
        assert_eq!(code(fate("GET", "limit=5", "")), Some(503));
        assert_eq!(fate("GET", "watch=true", ""), Fate::Served, "a watch is no read");
        assert_eq!(code(fate("PATCH", "", "application/merge-patch+json")), Some(409));
        assert_eq!(fate("PATCH", "", "application/apply-patch+yaml"), Fate::Served, "an intent has no basis");
        assert_eq!(fate("POST", "", "application/json"), Fate::Served, "nothing to conflict with");
        faults.add_layer(Layer { trouble: Trouble::LostAnswers, percent: 100, until: None });
        assert_eq!(fate("POST", "", "application/json"), Fate::Unanswered);
        faults.add_layer(Layer { trouble: Trouble::FailedWrites, percent: 100, until: None });
        assert_eq!(code(fate("POST", "", "application/json")), Some(500));
        faults.clear_layers();
        assert_eq!(fate("POST", "", "application/json"), Fate::Served);
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_that_died_in_a_write_is_away_for_a_while_and_has_all_of_the_write_or_nothing() {
        let faults = Faults::new();
        let written = std::sync::Arc::new(std::sync::atomic::AtomicU32::new(0));
        let count = written.clone();
        let served = tower::service_fn(move |_: Request<()>| {
            count.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            async { Ok::<_, io::Error>(Response::new(Full::new(bytes::Bytes::new()))) }
        });
        let mut service = Troubled::new(served, faults.clone());
        let mut ask = |method: &str| service.call(Request::builder().method(method).body(()).unwrap());
        faults.add_layer(Layer { trouble: Trouble::TornWrites, percent: 100, until: None });
        let (mut whole, mut nothing) = (0, 0);
        for _ in 0..20 {
            let before = written.load(std::sync::atomic::Ordering::Relaxed);
            let error = ask("POST").await.unwrap_err().to_string();
            match written.load(std::sync::atomic::Ordering::Relaxed) - before {
                0 => nothing += 1,
                _ => whole += 1,
            }
            assert!(error.contains("the server died"), "{error}");
            faults.watches_down().await;
            assert_eq!(ask("GET").await.unwrap_err().to_string(), "the server is away");
            let begun = Instant::now();
            faults.watches_up().await;
            assert!(begun.elapsed() <= AWAY);
            assert!(ask("GET").await.is_ok(), "it is back");
        }
        assert!(whole > 0 && nothing > 0, "{whole} {nothing}");
    }
}
