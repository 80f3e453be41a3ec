//! Requests that say who makes them. API servers name the manager of fields that were written without one after it; without
//! either it is `unknown`, and it cannot be told what wrote which field.

use http::header::USER_AGENT;
use http::{HeaderValue, Request};
use tower::util::MapRequest;

/// What requests of this process say.
pub const AGENT: &str = concat!("windlass/", env!("CARGO_PKG_VERSION"));

/// What [`named`] makes of a service.
pub type Named<S, B> = MapRequest<S, fn(Request<B>) -> Request<B>>;

/// A service whose requests say who makes them, unless they do already.
pub fn named<S, B>(service: S) -> Named<S, B> {
    MapRequest::new(service, name)
}

fn name<B>(mut request: Request<B>) -> Request<B> {
    request.headers_mut().entry(USER_AGENT).or_insert(HeaderValue::from_static(AGENT));
    request
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_say_who_makes_them_once() {
        let agent = |request: Request<()>| name(request).headers()[USER_AGENT].to_str().unwrap().to_owned();
        assert_eq!(agent(Request::new(())), AGENT);
        let other = Request::builder().header(USER_AGENT, "other/1").body(()).unwrap();
        assert_eq!(agent(other), "other/1");
    }
}
