//! Listens, lets in who may look, and sends what changes. Nothing is written but to those who look.

use std::convert::Infallible;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream;
use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::{Method, Request, Response, StatusCode};
use http_body::Frame;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, Limited, StreamBody};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use jiff::Timestamp;
use kube::Client;
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, watch};
use windlass_controllers::fleet::{ClusterView, Fleet};

use crate::forecast::Forecasts;
use crate::page::{self, Parts};
use crate::session::{COOKIE, Sessions, random, secret_of};
use crate::{LIVE_STYLE, SCRIPT, STYLE};

/// How many connections there may be: every page that is open has one.
const CONNECTIONS: usize = 256;
/// How long a client may take to send the head of its request.
const PATIENCE: Duration = Duration::from_secs(10);
/// How often clusters are looked at while a page is open.
const EVERY: Duration = Duration::from_secs(1);
/// The most that is read of a login form.
const FORM: usize = 4096;

/// What browsers may do with a page: load from here, and nothing else.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; \
    base-uri 'none'; form-action 'self'; frame-ancestors 'none'";

const ICON: &str = "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 16 16\"><circle cx=\"8\" cy=\"8\" r=\"6.5\" fill=\"none\" \
    stroke=\"#0b63ce\" stroke-width=\"2\"/><path d=\"M8 1.5v13M1.5 8h13\" stroke=\"#0b63ce\" stroke-width=\"2\"/></svg>";

/// How the page is served.
pub struct WebOptions {
    /// Where; port 0 takes a free one.
    pub listen: SocketAddr,
    /// What lets in as long as the process runs, besides the link.
    pub token: Option<String>,
}

/// The page, listening.
pub struct Web {
    listener: TcpListener,
    address: SocketAddr,
    link: String,
    site: Arc<Site>,
}

/// What all connections share.
struct Site {
    client: Client,
    forecasts: Arc<Forecasts>,
    sessions: Sessions,
    looks: watch::Sender<Look>,
    /// Whether clusters are followed: that begins when somebody logs in, so that it costs nothing before.
    is_looking: AtomicBool,
    is_local: bool,
}

/// All clusters at a moment.
#[derive(Clone, Default)]
struct Look {
    views: Arc<Vec<ClusterView>>,
    trouble: Option<String>,
}

type Answer = Response<UnsyncBoxBody<Bytes, Infallible>>;

impl Web {
    /// Begins to listen, and to follow the clusters of an API.
    ///
    /// # Errors
    ///
    /// When the address is not free, or the system has no randomness for secrets.
    pub async fn start(client: Client, options: WebOptions) -> std::io::Result<Self> {
        let listener = TcpListener::bind(options.listen).await?;
        let address = listener.local_addr()?;
        let secret = random().map(secret_of);
        let secret =
            secret.ok_or_else(|| std::io::Error::other("the system has no randomness for secrets"))?;
        let sessions = Sessions::new(&secret, options.token.as_deref());
        let site = Arc::new(Site {
            forecasts: Arc::new(Forecasts::new(client.clone())),
            client,
            sessions,
            looks: watch::Sender::new(Look::default()),
            is_looking: AtomicBool::new(false),
            is_local: address.ip().is_loopback(),
        });
        Ok(Self { listener, address, link: format!("http://{address}/login?token={secret}"), site })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The link that lets in, once.
    pub fn link(&self) -> &str {
        &self.link
    }

    /// Answers until it is dropped.
    pub async fn run(self) {
        let places = Arc::new(Semaphore::new(CONNECTIONS));
        loop {
            let Ok((stream, _)) = self.listener.accept().await else {
                // Out of file descriptors, most likely: others must end first.
                tokio::time::sleep(Duration::from_millis(50)).await;
                continue;
            };
            let Ok(place) = Arc::clone(&places).try_acquire_owned() else { continue };
            let site = Arc::clone(&self.site);
            tokio::spawn(async move {
                let _place = place;
                let service = service_fn(move |request: Request<Incoming>| {
                    let site = Arc::clone(&site);
                    async move { Ok::<_, Infallible>(secured(site.answer(request).await)) }
                });
                let connection = http1::Builder::new()
                    .timer(TokioTimer::new())
                    .header_read_timeout(PATIENCE)
                    .serve_connection(TokioIo::new(stream), service);
                // A connection that breaks is the reader's to notice.
                let _ = connection.await;
            });
        }
    }
}

impl Site {
    async fn answer(self: &Arc<Self>, request: Request<Incoming>) -> Answer {
        if !self.is_meant(request.headers()) {
            return text(
                StatusCode::MISDIRECTED_REQUEST,
                "text/plain; charset=utf-8",
                "not this host\n".to_owned(),
            );
        }
        let (path, query) =
            (request.uri().path().to_owned(), request.uri().query().unwrap_or_default().to_owned());
        let method = request.method().clone();
        match (&method, path.as_str()) {
            (&Method::GET, "/login") => match parameter(&query, "token") {
                Some(token) => self.log_in(&token),
                None => page(StatusCode::OK, page::login(false)),
            },
            (&Method::POST, "/login") => {
                let form = Limited::new(request.into_body(), FORM).collect().await;
                let form = form.map(|form| String::from_utf8_lossy(&form.to_bytes()).into_owned());
                self.log_in(&parameter(&form.unwrap_or_default(), "token").unwrap_or_default())
            }
            (&Method::GET, "/assets/style.css") => {
                text(StatusCode::OK, "text/css; charset=utf-8", format!("{STYLE}{LIVE_STYLE}"))
            }
            (&Method::GET, "/assets/live.js") => {
                text(StatusCode::OK, "text/javascript; charset=utf-8", SCRIPT.to_owned())
            }
            (&Method::GET, "/assets/icon.svg") => text(StatusCode::OK, "image/svg+xml", ICON.to_owned()),
            _ if !self.is_known(request.headers()) => page(StatusCode::UNAUTHORIZED, page::login(false)),
            (&Method::GET, path) => self.page(path, &query).await,
            _ => text(StatusCode::METHOD_NOT_ALLOWED, "text/plain; charset=utf-8", "only GET\n".to_owned()),
        }
    }

    async fn page(self: &Arc<Self>, path: &str, query: &str) -> Answer {
        let look = self.looks.borrow().clone();
        let parts: Vec<&str> = path.trim_start_matches('/').split('/').collect();
        match parts.as_slice() {
            [""] => page(StatusCode::OK, page::document("Clusters", page::FLEET)),
            ["clusters", namespace, name] => {
                let body = page::cluster_frame(namespace, name);
                match look.find(namespace, name) {
                    Some(_) => page(StatusCode::OK, page::document(&format!("{namespace}/{name}"), &body)),
                    None => not_found(),
                }
            }
            ["what-if", namespace, name] if look.find(namespace, name).is_some() => {
                let to = parameter(query, "to").unwrap_or_default();
                let key = ((*namespace).to_owned(), (*name).to_owned());
                let report = self.forecasts.what_if(&key, &to).await;
                page(StatusCode::OK, page::what_if(namespace, name, &to, &report))
            }
            ["events"] => self.stream(|look, _| Some(page::fleet(&look.views, look.trouble.as_deref()))),
            ["events", "clusters", namespace, name] => {
                let (namespace, name) = ((*namespace).to_owned(), (*name).to_owned());
                self.stream(move |look, site| {
                    let view = look.find(&namespace, &name)?;
                    let mut parts = page::cluster(view, site.forecasts.of(view).as_ref());
                    parts.set_trouble(look.trouble.as_deref());
                    Some(parts)
                })
            }
            ["api", "clusters"] => json(&*look.views),
            ["api", "clusters", namespace, name] => match look.find(namespace, name) {
                Some(view) => json(view),
                None => not_found(),
            },
            _ => not_found(),
        }
    }

    /// Sends the parts of a page that change, for as long as the reader stays.
    fn stream(
        self: &Arc<Self>,
        parts: impl Fn(&Look, &Arc<Self>) -> Option<Parts> + Send + Sync + 'static,
    ) -> Answer {
        let site = Arc::clone(self);
        let looks = self.looks.subscribe();
        let parts = Arc::new(parts);
        let events = stream::unfold((looks, None::<Parts>), move |(mut looks, sent)| {
            let (site, parts) = (Arc::clone(&site), Arc::clone(&parts));
            async move {
                // What was seen last is sent at once.
                if sent.is_some() {
                    looks.changed().await.ok()?;
                }
                let look = looks.borrow_and_update().clone();
                let now = parts(&look, &site).unwrap_or_default();
                let change = now.since(sent.as_ref()).and_then(|change| serde_json::to_string(&change).ok());
                // A comment keeps the connection, and finds out whether the reader is still there.
                let text = change.map_or_else(|| ":\n\n".to_owned(), |change| format!("data: {change}\n\n"));
                Some((Ok::<_, Infallible>(Frame::data(Bytes::from(text))), (looks, Some(now))))
            }
        });
        let mut answer = Response::new(StreamBody::new(events).boxed_unsync());
        set(answer.headers_mut(), header::CONTENT_TYPE, "text/event-stream");
        answer
    }

    /// Looks at all clusters again and again, from the first login on.
    fn begin(self: &Arc<Self>) {
        if self.is_looking.swap(true, Ordering::AcqRel) {
            return;
        }
        let site = Arc::clone(self);
        tokio::spawn(async move {
            let fleet = Fleet::start(site.client.clone());
            loop {
                let views = Arc::new(fleet.look(Timestamp::now()).await);
                site.looks.send_replace(Look { views, trouble: fleet.trouble() });
                tokio::time::sleep(EVERY).await;
            }
        });
    }

    fn log_in(self: &Arc<Self>, secret: &str) -> Answer {
        let Some(session) = self.sessions.log_in(secret) else {
            return page(StatusCode::UNAUTHORIZED, page::login(true));
        };
        self.begin();
        let mut answer = text(StatusCode::SEE_OTHER, "text/plain; charset=utf-8", String::new());
        set(answer.headers_mut(), header::LOCATION, "/");
        let cookie = format!("{COOKIE}={session}; Path=/; HttpOnly; SameSite=Strict");
        if let Ok(cookie) = HeaderValue::from_str(&cookie) {
            answer.headers_mut().insert(header::SET_COOKIE, cookie);
        }
        answer
    }

    fn is_known(&self, headers: &HeaderMap) -> bool {
        let cookies = headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
        cookies.into_iter().any(|cookies| self.sessions.knows(cookies))
    }

    /// Whether a request means this host. A page of somebody else whose name was made to lead here means another.
    fn is_meant(&self, headers: &HeaderMap) -> bool {
        let host = headers.get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
        !self.is_local || is_loopback(host)
    }
}

impl Look {
    fn find(&self, namespace: &str, name: &str) -> Option<&ClusterView> {
        let is_it = |view: &&ClusterView| {
            (view.described.namespace.as_str(), view.described.name.as_str()) == (namespace, name)
        };
        self.views.iter().find(is_it)
    }
}

/// Whether a host and a port name this machine.
fn is_loopback(host: &str) -> bool {
    let name = match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => host.split(':').next().unwrap_or_default(),
    };
    name == "localhost" || name.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// A parameter of a query or a form. Secrets and versions need no more than percent signs decoded.
fn parameter(query: &str, name: &str) -> Option<String> {
    let pairs = query.split('&').filter_map(|pair| pair.split_once('='));
    let value = pairs.into_iter().find(|(key, _)| *key == name).map(|(_, value)| value)?;
    let mut bytes = Vec::new();
    let mut rest = value.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'+' => b' ',
            b'%' => {
                let digits = [rest.next()?, rest.next()?];
                u8::from_str_radix(std::str::from_utf8(&digits).ok()?, 16).ok()?
            }
            byte => byte,
        });
    }
    String::from_utf8(bytes).ok()
}

fn not_found() -> Answer {
    let what = "There is no such page, or no such Cluster yet.";
    page(StatusCode::NOT_FOUND, page::problem("Not found", what))
}

fn page(status: StatusCode, html: String) -> Answer {
    text(status, "text/html; charset=utf-8", html)
}

fn json(value: &impl serde::Serialize) -> Answer {
    match serde_json::to_string(value) {
        Ok(value) => text(StatusCode::OK, "application/json", value),
        Err(_) => text(StatusCode::INTERNAL_SERVER_ERROR, "text/plain; charset=utf-8", String::new()),
    }
}

fn text(status: StatusCode, kind: &'static str, text: String) -> Answer {
    let mut answer = Response::new(Full::from(text).boxed_unsync());
    *answer.status_mut() = status;
    set(answer.headers_mut(), header::CONTENT_TYPE, kind);
    answer
}

fn set(headers: &mut HeaderMap, name: HeaderName, value: &'static str) {
    headers.insert(name, HeaderValue::from_static(value));
}

/// With what keeps browsers from doing anything else with it.
fn secured(mut answer: Answer) -> Answer {
    let headers = answer.headers_mut();
    set(headers, header::CONTENT_SECURITY_POLICY, POLICY);
    set(headers, header::X_CONTENT_TYPE_OPTIONS, "nosniff");
    set(headers, header::REFERRER_POLICY, "no-referrer");
    set(headers, header::CACHE_CONTROL, "no-store");
    set(headers, HeaderName::from_static("cross-origin-opener-policy"), "same-origin");
    set(headers, HeaderName::from_static("cross-origin-resource-policy"), "same-origin");
    answer
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_that_only_lead_here_are_not_meant() {
        for (host, is_it) in [
            ("127.0.0.1:8080", true),
            ("localhost", true),
            ("[::1]:8080", true),
            ("attacker.example:8080", false),
            ("127.0.0.1.attacker.example", false),
            ("", false),
        ] {
            assert_eq!(is_loopback(host), is_it, "{host}");
        }
    }

    #[test]
    fn parameters_are_read_from_queries_and_forms() {
        assert_eq!(parameter("a=1&to=v1.34.0%2Bx+y", "to").as_deref(), Some("v1.34.0+x y"));
        for wrong in ["", "to", "to=%4", "to=%zz", "to=%ff"] {
            assert_eq!(parameter(wrong, "to"), None, "{wrong}");
        }
    }
}
