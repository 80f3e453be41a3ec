//! Leader election: of several processes, the one that holds a Lease acts.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::future::select_all;
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use kube::api::{Api, ObjectMeta, PostParams};
use kube::{Client, ResourceExt};
use tokio::sync::{Notify, Semaphore};
use tokio::time::{Instant, sleep};
use windlass_runtime::describe_error;

/// How a Lease is held.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaderOptions {
    /// Namespace of the Lease.
    pub namespace: String,
    /// Name of the Lease.
    pub name: String,
    /// Who we are; another in every process.
    pub identity: String,
    /// After how long without a renewal others may take it.
    pub lease: Duration,
    /// After how long without a renewal this process stops acting: before another one may begin.
    pub renew_deadline: Duration,
    /// How often it is renewed, or tried.
    pub retry: Duration,
    /// How long it is kept when this process ends, for the next one of the same identity; left out, it is given back at once.
    pub kept_at_the_end: Option<Duration>,
}

impl LeaderOptions {
    /// The times that Kubernetes' own controllers use.
    pub fn new(namespace: &str, name: &str, identity: &str) -> Self {
        Self {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            identity: identity.to_owned(),
            lease: Duration::from_secs(15),
            renew_deadline: Duration::from_secs(10),
            retry: Duration::from_secs(2),
            kept_at_the_end: None,
        }
    }

    /// The Lease of another program, for the time that this Lease is held.
    ///
    /// The processes that elect a leader by this Lease hold the other one under one identity, the name of this Lease: the next
    /// leader goes on with it at once, and the other program, which waits for it too, does not get it in between. For the same
    /// reason others must wait longer for it than for this Lease, and it is kept for a while when the leader ends.
    pub fn beside(&self, namespace: &str, name: &str) -> Self {
        Self {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            identity: self.full_name(),
            lease: self.lease * 4,
            kept_at_the_end: Some(self.lease),
            ..self.clone()
        }
    }

    /// Namespace and name of the Lease.
    pub fn full_name(&self) -> String {
        format!("{}/{}", self.namespace, self.name)
    }
}

/// What the holder of a Lease looks like from here.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Seen {
    holder: String,
    renewed: Option<Timestamp>,
    /// After how long without a renewal it may be taken, if it says so.
    lease: Option<Duration>,
    /// When we saw it so first. The clocks of others are not compared with ours.
    since: Instant,
}

/// What is to be done about a Lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Action {
    /// There is none: make it.
    Create,
    /// It is ours: say so again.
    Renew,
    /// It is free, or its holder is gone: take it.
    Take,
    /// Another process holds it.
    Wait,
}

/// What became of a write of a Lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Written {
    /// It is ours.
    Yes,
    /// It has changed since it was read, or was created by another process.
    Conflict,
    /// It is gone, or its Namespace is not there.
    NotFound,
}

fn decide(seen: Option<&Seen>, identity: &str, lease: Duration, now: Instant) -> Action {
    match seen {
        None => Action::Create,
        Some(seen) if seen.holder == identity => Action::Renew,
        Some(seen)
            if seen.holder.is_empty() || now.duration_since(seen.since) >= seen.lease.unwrap_or(lease) =>
        {
            Action::Take
        }
        Some(_) => Action::Wait,
    }
}

/// Whether a candidate can take part, as far as it knows. Cheap to clone; all clones are one.
#[derive(Clone, Debug)]
pub struct Standing(Arc<Mutex<Result<(), String>>>);

impl Standing {
    /// # Errors
    ///
    /// Why the Lease can be neither taken nor waited for.
    pub fn check(&self) -> Result<(), String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Notes how it is, and says it in the log where that is news.
    fn note(&self, lease: &str, now: Result<(), String>) {
        let mut before = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Err(problem) = &now
            && *before != now
        {
            tracing::warn!(lease, %problem, "cannot take part in the election");
        }
        *before = now;
    }
}

/// Takes all of these Leases, says when it has them, and keeps them; returns when it cannot be sure of one any more.
///
/// The others are tried once the first is held: two processes that tried all of them at once could end up with one each, and
/// wait for each other for ever.
pub(crate) async fn hold_all(candidates: &mut [Candidate], has_all: &Notify) {
    let missing = AtomicUsize::new(candidates.len());
    if candidates.is_empty() {
        has_all.notify_one();
        return std::future::pending().await;
    }
    // A permit for each of the others, once they may be tried.
    let turns = Semaphore::new(0);
    let others = candidates.len() - 1;
    let (turns, missing) = (&turns, &missing);
    let each = candidates.iter_mut().enumerate().map(|(place, candidate)| {
        Box::pin(async move {
            // It is never closed.
            if place > 0
                && let Ok(turn) = turns.acquire().await
            {
                turn.forget();
            }
            candidate.lead().await;
            if place == 0 {
                turns.add_permits(others);
            }
            if missing.fetch_sub(1, Ordering::Relaxed) == 1 {
                has_all.notify_one();
            }
            candidate.keep().await;
        })
    });
    select_all(each).await;
}

/// Takes part in an election.
pub struct Candidate {
    client: Client,
    api: Api<Lease>,
    options: LeaderOptions,
    seen: Option<Seen>,
    /// The Lease as this process wrote it last, if nothing says that it has changed since: renewing it is one request.
    held: Option<Lease>,
    standing: Standing,
}

impl Candidate {
    /// A candidate that holds nothing.
    pub fn new(client: Client, options: LeaderOptions) -> Self {
        let api = Api::namespaced(client.clone(), &options.namespace);
        let standing = Standing(Arc::new(Mutex::new(Err("the Lease was not read yet".to_owned()))));
        Self { client, api, options, seen: None, held: None, standing }
    }

    /// Whether it can take part.
    pub fn standing(&self) -> Standing {
        self.standing.clone()
    }

    /// Waits until it can take part: it leads, or another process does.
    pub async fn join(&mut self) {
        loop {
            self.attempt().await;
            if self.standing.check().is_ok() {
                return;
            }
            sleep(self.options.retry).await;
        }
    }

    /// Waits until it leads.
    pub async fn lead(&mut self) {
        let mut waits_for = String::new();
        loop {
            if self.attempt().await {
                tracing::info!(identity = %self.options.identity, lease = %self.options.name, "leading");
                return;
            }
            let holder = self.seen.as_ref().map_or("", |seen| &seen.holder);
            if holder != waits_for {
                tracing::info!(lease = %self.options.name, holder, "waiting for a Lease that another process holds");
                holder.clone_into(&mut waits_for);
            }
            sleep(self.options.retry).await;
        }
    }

    /// Stays the leader as long as it can; returns when it cannot be sure of it any more.
    pub async fn keep(&mut self) {
        let mut renewed = Instant::now();
        loop {
            sleep(self.options.retry).await;
            let left = self.options.renew_deadline.saturating_sub(renewed.elapsed());
            match tokio::time::timeout(left.max(self.options.retry), self.attempt()).await {
                Ok(true) => renewed = Instant::now(),
                Ok(false) | Err(_) if renewed.elapsed() >= self.options.renew_deadline => return,
                // Another process has it: no reason to wait for the deadline.
                Ok(false) if self.seen.as_ref().is_some_and(|seen| seen.holder != self.options.identity) => {
                    return;
                }
                Ok(false) | Err(_) => {}
            }
        }
    }

    /// Gives the Lease back, so that the next one need not wait, or waits no longer than it is kept.
    pub async fn resign(&mut self) {
        let Ok(mut lease) = self.api.get(&self.options.name).await else { return };
        if lease.spec.as_ref().and_then(|spec| spec.holder_identity.as_deref())
            == Some(&self.options.identity)
        {
            let mut spec = lease.spec.unwrap_or_default();
            match self.options.kept_at_the_end {
                Some(time) => {
                    spec.lease_duration_seconds = Some(seconds(time));
                    spec.renew_time = Some(MicroTime(Timestamp::now()));
                }
                None => spec.holder_identity = Some(String::new()),
            }
            lease.spec = Some(spec);
            // If it does not arrive, the Lease runs out.
            let _ = self.api.replace(&self.options.name, &PostParams::default(), &lease).await;
        }
    }

    /// Tries once to take or renew the Lease; whether it is ours afterwards. Notes where that cannot be said.
    async fn attempt(&mut self) -> bool {
        let attempted = self.try_once().await;
        let lease = format!("{}/{}", self.options.namespace, self.options.name);
        self.standing.note(&lease, attempted.as_ref().map(|_| ()).map_err(Clone::clone));
        attempted.unwrap_or(false)
    }

    async fn try_once(&mut self) -> Result<bool, String> {
        if let Some(held) = self.held.take() {
            match self.write(held, Action::Renew).await? {
                Written::Yes => return Ok(true),
                // What another process made of it is read below.
                Written::Conflict | Written::NotFound => {}
            }
        }
        let found = self.api.get_opt(&self.options.name).await;
        let found = found.map_err(|error| format!("the Lease cannot be read: {}", describe_error(&error)))?;
        self.look(found.as_ref());
        let action = decide(self.seen.as_ref(), &self.options.identity, self.options.lease, Instant::now());
        let lease = match action {
            Action::Wait => return Ok(false),
            Action::Create | Action::Renew | Action::Take => found.unwrap_or_default(),
        };
        match self.write(lease, action).await? {
            Written::Yes => Ok(true),
            // Another process was faster, with this Lease or the Namespace.
            Written::Conflict => Ok(false),
            Written::NotFound if action == Action::Create => self.create_namespace().await.map(|()| false),
            Written::NotFound => Ok(false),
        }
    }

    /// Writes the Lease on condition that it is still as it was read: of two that try at once, one conflicts.
    async fn write(&mut self, mut lease: Lease, action: Action) -> Result<Written, String> {
        lease.spec = Some(self.spec(lease.spec.as_ref(), action != Action::Renew));
        let written = if action == Action::Create {
            lease.metadata.name = Some(self.options.name.clone());
            self.api.create(&PostParams::default(), &lease).await
        } else {
            self.api.replace(&self.options.name, &PostParams::default(), &lease).await
        };
        match written {
            Ok(lease) => {
                self.look(Some(&lease));
                self.held = Some(lease);
                Ok(Written::Yes)
            }
            Err(kube::Error::Api(status)) if status.code == 409 => Ok(Written::Conflict),
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(Written::NotFound),
            Err(error) => Err(format!("the Lease cannot be written: {}", describe_error(&error))),
        }
    }

    /// Makes the Namespace of the Lease, which is missing. The Lease is tried again.
    async fn create_namespace(&self) -> Result<(), String> {
        let name = &self.options.namespace;
        let metadata = ObjectMeta { name: Some(name.clone()), ..ObjectMeta::default() };
        let namespace = Namespace { metadata, ..Namespace::default() };
        let namespaces: Api<Namespace> = Api::all(self.client.clone());
        match namespaces.create(&PostParams::default(), &namespace).await {
            Ok(_) => {
                tracing::info!(namespace = name, "created the Namespace of the Lease");
                Ok(())
            }
            Err(kube::Error::Api(status)) if status.code == 409 => Ok(()),
            Err(error) => Err(format!(
                "Namespace {name}, in which the Lease is kept, does not exist and cannot be created: {}",
                describe_error(&error)
            )),
        }
    }

    fn look(&mut self, lease: Option<&Lease>) {
        let Some(lease) = lease else {
            self.seen = None;
            return;
        };
        let spec = lease.spec.clone().unwrap_or_default();
        let holder = spec.holder_identity.unwrap_or_default();
        let renewed = spec.renew_time.map(|time| time.0);
        let lease_time = spec.lease_duration_seconds.and_then(|seconds| u64::try_from(seconds).ok());
        let lease_time = lease_time.map(Duration::from_secs);
        if self.seen.as_ref().is_none_or(|seen| seen.holder != holder || seen.renewed != renewed) {
            tracing::debug!(lease = %lease.name_any(), %holder, "the lease has changed");
            self.seen = Some(Seen { holder, renewed, lease: lease_time, since: Instant::now() });
        }
    }

    fn spec(&self, before: Option<&LeaseSpec>, takes: bool) -> LeaseSpec {
        let now = MicroTime(Timestamp::now());
        let before = before.cloned().unwrap_or_default();
        let transitions = before.lease_transitions.unwrap_or_default();
        LeaseSpec {
            holder_identity: Some(self.options.identity.clone()),
            lease_duration_seconds: Some(seconds(self.options.lease)),
            acquire_time: if takes { Some(now.clone()) } else { before.acquire_time },
            renew_time: Some(now),
            lease_transitions: Some(transitions + i32::from(takes && before.holder_identity.is_some())),
            ..LeaseSpec::default()
        }
    }
}

fn seconds(time: Duration) -> i32 {
    i32::try_from(time.as_secs()).unwrap_or(i32::MAX)
}

#[cfg(test)]
mod tests {
    use windlass_apiserver::{ApiServer, Options};
    use windlass_store::{History, Store};

    use super::*;

    #[test]
    fn a_lease_is_taken_only_when_nobody_holds_it() {
        let now = Instant::now();
        let lease = Duration::from_secs(15);
        let seen = |holder: &str, age: u64| Seen {
            holder: holder.to_owned(),
            renewed: None,
            lease: (holder == "slow").then_some(Duration::from_mins(1)),
            since: now - Duration::from_secs(age),
        };
        for (seen, action) in [
            (None, Action::Create),
            (Some(seen("me", 100)), Action::Renew),
            (Some(seen("", 0)), Action::Take),
            (Some(seen("you", 14)), Action::Wait),
            (Some(seen("you", 15)), Action::Take),
            (Some(seen("slow", 59)), Action::Wait),
            (Some(seen("slow", 60)), Action::Take),
        ] {
            assert_eq!(decide(seen.as_ref(), "me", lease, now), action, "{seen:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn one_leads_at_a_time_and_the_next_follows() {
        let server = ApiServer::start(Store::in_memory(History::default()), Options::new()).await.unwrap();
        let client = Client::new(server.service(), "default");
        let candidate =
            |name: &str| Candidate::new(client.clone(), LeaderOptions::new("default", "windlass", name));
        let (mut first, mut second) = (candidate("first"), candidate("second"));
        first.lead().await;
        assert!(!second.attempt().await, "the first leads");
        let waiting = async {
            let begun = Instant::now();
            second.lead().await;
            begun.elapsed()
        };
        let leading = async {
            // Renews for a minute, then is gone without a word.
            let _ = tokio::time::timeout(Duration::from_secs(60), first.keep()).await;
        };
        let (waited, ()) = tokio::join!(waiting, leading);
        assert!(waited >= Duration::from_secs(60 + 10), "{waited:?}: not before the lease has run out");
        assert!(waited < Duration::from_secs(60 + 20), "{waited:?}");
        assert!(!first.attempt().await, "it has lost it");

        second.resign().await;
        let begun = Instant::now();
        first.lead().await;
        assert!(begun.elapsed() < Duration::from_secs(1), "a lease that was given back is taken at once");
        let lease: Api<Lease> = Api::default_namespaced(client.clone());
        assert_eq!(lease.get("windlass").await.unwrap().spec.unwrap().lease_transitions, Some(2));
    }

    #[tokio::test(start_paused = true)]
    async fn a_renewal_is_one_request_and_a_lease_that_another_took_is_noticed() {
        let server = ApiServer::start(Store::in_memory(History::default()), Options::new()).await.unwrap();
        let requests = Arc::new(Mutex::new(Vec::new()));
        let (seen, service) = (Arc::clone(&requests), server.service());
        let counting =
            tower::util::MapRequest::new(service, move |request: http::Request<kube::client::Body>| {
                seen.lock().unwrap().push(request.method().to_string());
                request
            });
        let client = Client::new(counting, "default");
        let options = LeaderOptions::new("default", "windlass", "me");
        let mut candidate = Candidate::new(client, options);
        candidate.lead().await;
        requests.lock().unwrap().clear();
        for _ in 0..3 {
            assert!(candidate.attempt().await);
        }
        assert_eq!(*requests.lock().unwrap(), ["PUT", "PUT", "PUT"]);

        let leases: Api<Lease> = Api::default_namespaced(Client::new(server.service(), "default"));
        let mut lease = leases.get("windlass").await.unwrap();
        lease.spec.as_mut().unwrap().holder_identity = Some("you".to_owned());
        leases.replace("windlass", &PostParams::default(), &lease).await.unwrap();
        assert!(!candidate.attempt().await, "another has it");
    }

    #[tokio::test(start_paused = true)]
    async fn all_leases_are_held_or_none_counts() {
        let server = ApiServer::start(Store::in_memory(History::default()), Options::new()).await.unwrap();
        let client = Client::new(server.service(), "default");
        let candidate = |lease: &str, name: &str| {
            Candidate::new(client.clone(), LeaderOptions::new("default", lease, name))
        };
        let mut upstream = candidate("theirs", "upstream");
        upstream.lead().await;
        let mut ours = [candidate("windlass", "me"), candidate("theirs", "me")];
        let has_all = Notify::new();
        let begun = Instant::now();
        let (waited, held) = tokio::join!(
            async {
                has_all.notified().await;
                begun.elapsed()
            },
            async {
                tokio::select! {
                    // Upstream stops after a minute, and its Lease runs out.
                    () = async {
                        let _ = tokio::time::timeout(Duration::from_mins(1), upstream.keep()).await;
                        // Later it is started again, and waits.
                        tokio::time::sleep(Duration::from_mins(1)).await;
                        assert!(!upstream.attempt().await);
                        // Another process takes it away by force.
                        let leases: Api<Lease> = Api::default_namespaced(client.clone());
                        leases.delete("theirs", &kube::api::DeleteParams::default()).await.unwrap();
                        upstream.lead().await;
                        std::future::pending().await
                    } => unreachable!(),
                    () = hold_all(&mut ours, &has_all) => begun.elapsed(),
                }
            }
        );
        assert!(waited >= Duration::from_secs(70) && waited < Duration::from_secs(80), "{waited:?}");
        assert!(held >= Duration::from_secs(120) && held < Duration::from_secs(130), "{held:?}");
    }

    /// Two processes of ours, one after the other, and one of another program that waits for its Lease all the time.
    async fn next_leader(resigns: bool) -> (Duration, Duration) {
        let server = ApiServer::start(Store::in_memory(History::default()), Options::new()).await.unwrap();
        let client = Client::new(server.service(), "default");
        let candidates = |identity: &str| {
            let own = LeaderOptions::new("default", "windlass", identity);
            let theirs = own.beside("default", "theirs");
            [Candidate::new(client.clone(), own), Candidate::new(client.clone(), theirs)]
        };
        let (mut first, mut second) = (candidates("first"), candidates("second"));
        let mut upstream =
            Candidate::new(client.clone(), LeaderOptions::new("default", "theirs", "upstream"));
        let has_all = Notify::new();
        let held = tokio::time::timeout(Duration::from_mins(1), hold_all(&mut first, &has_all)).await;
        assert!(held.is_err(), "it has them until it ends");
        if resigns {
            for candidate in &mut first {
                candidate.resign().await;
            }
        }
        let begun = Instant::now();
        let second_has_all = Notify::new();
        // The second leads for ten minutes.
        let until = async {
            second_has_all.notified().await;
            let waited = begun.elapsed();
            tokio::time::sleep(Duration::from_mins(10)).await;
            waited
        };
        let waited = tokio::select! {
            () = upstream.lead() => panic!("after {:?} the other program acts", begun.elapsed()),
            () = hold_all(&mut second, &second_has_all) => panic!("the second has lost a Lease"),
            waited = until => waited,
        };
        for candidate in &mut second {
            candidate.resign().await;
        }
        let begun = Instant::now();
        upstream.lead().await;
        (waited, begun.elapsed())
    }

    #[tokio::test(start_paused = true)]
    async fn a_lease_that_is_held_for_another_program_passes_from_one_of_our_processes_to_the_next() {
        for (resigns, within) in [(false, 20), (true, 3)] {
            let (waited, upstream) = next_leader(resigns).await;
            assert!(waited < Duration::from_secs(within), "{resigns}: {waited:?}");
            assert!(upstream <= Duration::from_secs(18), "{upstream:?}: the other program goes on soon");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn two_processes_never_end_up_with_a_lease_each() {
        let server = ApiServer::start(Store::in_memory(History::default()), Options::new()).await.unwrap();
        let client = Client::new(server.service(), "default");
        // The order in which they ask is the opposite of the order in which they would have to.
        let candidates = |identity: &str| {
            let own = LeaderOptions::new("default", "windlass", identity);
            let theirs = LeaderOptions::new("default", "theirs", identity);
            [Candidate::new(client.clone(), own), Candidate::new(client.clone(), theirs)]
        };
        let (mut first, mut second) = (candidates("first"), candidates("second"));
        first[0].lead().await;
        let (has, has_not) = (Notify::new(), Notify::new());
        tokio::select! {
            () = hold_all(&mut second, &has_not) => panic!("it never had one"),
            () = hold_all(&mut first, &has) => panic!("it has lost one"),
            () = has_not.notified() => panic!("the first has one of them"),
            () = async { has.notified().await; tokio::time::sleep(Duration::from_mins(5)).await } => {}
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_namespace_that_is_missing_is_created() {
        let server = ApiServer::start(Store::in_memory(History::default()), Options::new()).await.unwrap();
        let client = Client::new(server.service(), "default");
        let options = LeaderOptions::new("windlass-system", "windlass", "me");
        let mut candidate = Candidate::new(client.clone(), options);
        let standing = candidate.standing();
        assert!(standing.check().is_err(), "nothing is known yet");
        candidate.join().await;
        candidate.lead().await;
        assert_eq!(standing.check(), Ok(()));
        let namespaces: Api<Namespace> = Api::all(client);
        assert!(namespaces.get_opt("windlass-system").await.unwrap().is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn a_namespace_that_is_missing_and_may_not_be_created_is_named() {
        let server = ApiServer::start(Store::in_memory(History::default()), Options::new()).await.unwrap();
        let service = server.service();
        // Everything is allowed but to create Namespaces.
        let restricted = tower::service_fn(move |request: http::Request<kube::client::Body>| {
            let mut service = service.clone();
            async move {
                if request.method() == http::Method::POST && request.uri().path() == "/api/v1/namespaces" {
                    let status = serde_json::json!({"kind": "Status", "apiVersion": "v1", "status": "Failure",
                        "reason": "Forbidden", "message": "not allowed", "code": 403});
                    let answer = http::Response::builder().status(403);
                    return Ok(answer
                        .body(kube::client::Body::from(status.to_string().into_bytes()))
                        .unwrap());
                }
                let (parts, body) = tower::Service::call(&mut service, request).await?.into_parts();
                let body = http_body_util::BodyExt::collect(body).await.unwrap().to_bytes().to_vec();
                Ok::<_, std::convert::Infallible>(http::Response::from_parts(
                    parts,
                    kube::client::Body::from(body),
                ))
            }
        });
        let client = Client::new(restricted, "default");
        let options = LeaderOptions::new("windlass-system", "windlass", "me");
        let mut candidate = Candidate::new(client, options);
        assert!(!candidate.attempt().await);
        let problem = candidate.standing().check().unwrap_err();
        assert_eq!(
            problem,
            "Namespace windlass-system, in which the Lease is kept, does not exist and cannot be created: not allowed"
        );
        let admin = Client::new(server.service(), "default");
        let namespace = serde_json::from_value(serde_json::json!({"metadata": {"name": "windlass-system"}}));
        let namespaces: Api<Namespace> = Api::all(admin);
        namespaces.create(&PostParams::default(), &namespace.unwrap()).await.unwrap();
        candidate.join().await;
        candidate.lead().await;
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_cannot_renew_stops_before_another_begins() {
        let server = ApiServer::start(Store::in_memory(History::default()), Options::new()).await.unwrap();
        let client = Client::new(server.service(), "default");
        let mut leader = Candidate::new(client, LeaderOptions::new("default", "windlass", "me"));
        leader.lead().await;
        let begun = Instant::now();
        // Its Lease is not to be reached any more.
        leader.api = Api::namespaced(
            Client::new(
                tower::service_fn(|_: http::Request<kube::client::Body>| async {
                    Err::<http::Response<kube::client::Body>, _>(std::io::Error::other("down"))
                }),
                "default",
            ),
            "default",
        );
        leader.keep().await;
        let took = begun.elapsed();
        assert!(took >= Duration::from_secs(10) && took < Duration::from_secs(15), "{took:?}");
    }
}
