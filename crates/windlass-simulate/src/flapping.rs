//! Hooks that flap: a layer between the controllers and all extensions of a world.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use serde_json::{Value, json};
use tokio::time::sleep;
use tower::{ServiceExt, service_fn};
use windlass_api::hooks::{Hook, HookTag};
use windlass_hooks::transport::{BoxTransport, boxed};
use windlass_runtime::{Faults, Trouble};

/// How long an extension takes that hangs: longer than any timeout.
pub(crate) const HANGS_FOR: Duration = Duration::from_secs(3600);

/// How long a hook that flaps asks to wait.
const A_MOMENT: u32 = 5;

/// Where the faults of a world are told to what was made before it.
pub(crate) type Told = Arc<Mutex<Option<Faults>>>;

/// The same transport while [`Trouble::FlappingHooks`] does not strike. Discovery is let through: an extension is known
/// before it flaps.
pub(crate) fn flapping(transport: BoxTransport, faults: Told) -> BoxTransport {
    boxed(service_fn(move |request: Request<Bytes>| {
        let flap = flap(&request, &faults);
        let transport = transport.clone();
        async move {
            match flap {
                None => transport.oneshot(request).await,
                Some(Flap::Silent) => {
                    sleep(HANGS_FOR).await;
                    Ok(Response::new(Bytes::new()))
                }
                Some(Flap::Says(text)) => Ok(Response::new(Bytes::from(text))),
            }
        }
    }))
}

/// What a hook does instead of its answer.
enum Flap {
    Silent,
    Says(String),
}

fn flap(request: &Request<Bytes>, faults: &Told) -> Option<Flap> {
    let faults = faults.lock().unwrap_or_else(PoisonError::into_inner).clone()?;
    let (hook, _) = Hook::from_path(request.uri().path())?;
    if hook == Hook::Discovery {
        return None;
    }
    // By what is asked about, so that it does not matter which of two controllers asks first.
    let body: Value = serde_json::from_slice(request.body()).unwrap_or_default();
    let about = ["/desired/machine/metadata/name", "/cluster/metadata/name"];
    let about = about.iter().find_map(|name| body.pointer(name)?.as_str()).unwrap_or_default();
    let mut random = faults.strikes(Trouble::FlappingHooks, &[request.uri().path(), about])?;
    let says = |answer: Value| Flap::Says(answer.to_string());
    Some(match random.u8(0..4) {
        0 => Flap::Silent,
        1 => Flap::Says("<html>it works</html>".to_owned()),
        // Only these may ask to wait at any time. AfterWorkersUpgrade is not waited for at the last version: it would count as
        // called, without its extension knowing.
        2 if hook.tag() == HookTag::Lifecycle && hook != Hook::AfterWorkersUpgrade => {
            says(json!({"status": "Success", "message": "in a moment", "retryAfterSeconds": A_MOMENT}))
        }
        _ => says(json!({"status": "Failure", "message": "out of order"})),
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use windlass_api::HandlerName;
    use windlass_hooks::transport::TransportError;
    use windlass_runtime::Layer;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn hooks_flap_in_every_way_and_discovery_does_not() {
        let works = service_fn(|_: Request<Bytes>| async {
            Ok::<_, TransportError>(Response::new(Bytes::from_static(b"works")))
        });
        let faults = Faults::new();
        let transport = flapping(boxed(works), Arc::new(Mutex::new(Some(faults.clone()))));
        let ask = async |path: &str| {
            let request = Request::post(path).body(Bytes::from_static(b"{}")).unwrap();
            let answer = transport.clone().oneshot(request).await.unwrap().into_body();
            String::from_utf8(answer.to_vec()).unwrap()
        };
        let lifecycle = Hook::BeforeClusterUpgrade.path(&HandlerName::new("h").unwrap());
        assert_eq!(ask(&lifecycle).await, "works", "nothing strikes yet");
        faults.add_layer(Layer { trouble: Trouble::FlappingHooks, percent: 100, until: None });
        let mut seen = BTreeSet::new();
        for _ in 0..60 {
            seen.insert(ask(&lifecycle).await);
        }
        assert_eq!(seen.len(), 4, "{seen:?}");
        assert!(!seen.contains("works"));
        assert_eq!(ask(&Hook::Discovery.path(&HandlerName::new("h").unwrap())).await, "works");
        faults.clear_layers();
        assert_eq!(ask(&lifecycle).await, "works");
    }
}
