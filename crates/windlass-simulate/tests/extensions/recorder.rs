//! An extension that remembers what it was asked and answers as it is told.

use std::collections::BTreeMap;
use std::sync::mpsc;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use serde_json::{Value, json};
use tokio::sync::oneshot;
use windlass_controllers::extension_config::ClusterNamespaces;
use windlass_extension::hooks::{
    AfterClusterUpgrade, AfterClusterUpgradeRequest, AfterClusterUpgradeResponse,
    AfterControlPlaneInitialized, AfterControlPlaneInitializedRequest, AfterControlPlaneInitializedResponse,
    AfterControlPlaneUpgrade, AfterControlPlaneUpgradeRequest, AfterControlPlaneUpgradeResponse,
    AfterWorkersUpgrade, AfterWorkersUpgradeRequest, AfterWorkersUpgradeResponse, BeforeClusterCreate,
    BeforeClusterCreateRequest, BeforeClusterCreateResponse, BeforeClusterDelete, BeforeClusterDeleteRequest,
    BeforeClusterDeleteResponse, BeforeClusterUpgrade, BeforeClusterUpgradeRequest,
    BeforeClusterUpgradeResponse, BeforeControlPlaneUpgrade, BeforeControlPlaneUpgradeRequest,
    BeforeControlPlaneUpgradeResponse, BeforeWorkersUpgrade, BeforeWorkersUpgradeRequest,
    BeforeWorkersUpgradeResponse, HookResponse, RetryResponse,
};
use windlass_extension::{Context, DevelopmentCertificate, Extension, Server, Tls};
use windlass_hooks::HookClient;
use windlass_hooks::transport::{InProcess, boxed};
use windlass_inmemory::Provider;
use windlass_manager::Plane;
use windlass_simulate::{Start, WorldOptions};

/// What was asked, and how often each hook still asks to wait, for how long and why.
#[derive(Clone, Default)]
pub(crate) struct Log {
    asked: Arc<Mutex<Vec<(String, Value)>>>,
    waits: Arc<Mutex<BTreeMap<String, Wait>>>,
}

/// How often, how many seconds, and why.
type Wait = (u32, u32, String);

impl Log {
    /// Hooks and requests in the order of the calls.
    pub(crate) fn asked(&self) -> Vec<(String, Value)> {
        self.asked.lock().unwrap().clone()
    }

    pub(crate) fn hooks(&self) -> Vec<String> {
        self.asked().into_iter().map(|(hook, _)| hook).collect()
    }

    pub(crate) fn wait(&self, hook: &str, times: u32, seconds: u32, message: &str) {
        self.waits.lock().unwrap().insert(hook.to_owned(), (times, seconds, message.to_owned()));
    }

    fn ask(&self, hook: &str, request: &impl serde::Serialize) -> Option<(u32, String)> {
        let request = serde_json::to_value(request).unwrap();
        self.asked.lock().unwrap().push((hook.to_owned(), request));
        let mut waits = self.waits.lock().unwrap();
        let (times, seconds, message) = waits.get_mut(hook).filter(|(times, _, _)| *times > 0)?;
        *times -= 1;
        Some((*seconds, message.clone()))
    }
}

/// An extension with a handler for every lifecycle hook.
pub(crate) fn recorder(log: &Log) -> Extension {
    let mut builder = Extension::new("recorder");
    macro_rules! on {
        ($($hook:ident($request:ty) -> $response:ident as $name:literal),* $(,)?) => {$(
            let log_of_hook = log.clone();
            builder = builder.on($hook, $name, move |_: Context, request: $request| {
                let waiting = log_of_hook.ask(stringify!($hook), &request);
                std::future::ready(match waiting {
                    Some((seconds, message)) => <$response>::blocking(message, seconds),
                    None => <$response>::success(),
                })
            });
        )*};
    }
    on! {
        BeforeClusterCreate(BeforeClusterCreateRequest) -> BeforeClusterCreateResponse as "create",
        BeforeClusterUpgrade(BeforeClusterUpgradeRequest) -> BeforeClusterUpgradeResponse as "upgrade",
        BeforeControlPlaneUpgrade(BeforeControlPlaneUpgradeRequest) -> BeforeControlPlaneUpgradeResponse as "before-cp",
        AfterControlPlaneUpgrade(AfterControlPlaneUpgradeRequest) -> AfterControlPlaneUpgradeResponse as "after-cp",
        BeforeWorkersUpgrade(BeforeWorkersUpgradeRequest) -> BeforeWorkersUpgradeResponse as "before-workers",
        AfterWorkersUpgrade(AfterWorkersUpgradeRequest) -> AfterWorkersUpgradeResponse as "after-workers",
        AfterClusterUpgrade(AfterClusterUpgradeRequest) -> AfterClusterUpgradeResponse as "done",
        BeforeClusterDelete(BeforeClusterDeleteRequest) -> BeforeClusterDeleteResponse as "delete",
    }
    let of_hook = log.clone();
    builder = builder.on(
        AfterControlPlaneInitialized,
        "initialized",
        move |_: Context, request: AfterControlPlaneInitializedRequest| {
            of_hook.ask("AfterControlPlaneInitialized", &request);
            std::future::ready(AfterControlPlaneInitializedResponse::success())
        },
    );
    builder.build().unwrap()
}

/// The object that registers an extension of this process.
pub(crate) fn config(name: &str) -> Value {
    json!({"apiVersion": "runtime.cluster.x-k8s.io/v1beta2", "kind": "ExtensionConfig", "metadata": {"name": name},
        "spec": {"clientConfig": {"url": format!("https://{name}.invalid")}, "namespaceSelector": {}}})
}

/// A world with everything, whose extensions are those of a transport.
pub(crate) fn options(seed: u64, transport: &InProcess) -> WorldOptions {
    let transport = transport.clone();
    let setup = move |start: &Start<'_>| {
        let mut slot = start.provider.lock().unwrap();
        let provider = slot.get_or_insert_with(|| Provider::new(start.clock.clone(), start.seed));
        let namespaces = ClusterNamespaces::new(start.client.clone());
        let hooks = HookClient::builder(boxed(transport.clone())).namespaces(namespaces).build();
        let plane = Plane {
            client: start.client.clone(),
            hooks,
            provider: Some(provider.clone()),
            features: start.features,
        };
        plane.register(start.manager);
    };
    let options = WorldOptions::with(seed, windlass_api::crds::manifests(), Arc::new(setup));
    WorldOptions { has_admission: true, ..options }
}

/// An extension behind HTTPS on a port of the system's choice, with threads and time of its own.
pub(crate) struct RealServer {
    /// Where it is.
    pub(crate) url: String,
    /// Whom to trust there.
    pub(crate) ca_pem: String,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl RealServer {
    pub(crate) fn start(extension: Extension) -> Self {
        Self::serve(move |certificate, ready, stopped| async move {
            let server = Server::new(extension, Tls::development(certificate));
            let server = server.bind("127.0.0.1:0".parse().unwrap()).await.unwrap();
            ready.send(server.url("127.0.0.1")).unwrap();
            let _ = server.run_until(async move { _ = stopped.await }).await;
        })
    }

    /// Serves in any way: with a certificate, telling the address, and until it is stopped.
    pub(crate) fn serve<F: Future<Output = ()>>(
        serve: impl FnOnce(DevelopmentCertificate, mpsc::Sender<String>, oneshot::Receiver<()>) -> F
        + Send
        + 'static,
    ) -> Self {
        let (ready, when_ready) = mpsc::channel();
        let (stop, stopped) = oneshot::channel::<()>();
        let certificate = DevelopmentCertificate::generate(["127.0.0.1"]).unwrap();
        let ca_pem = certificate.ca_pem().to_owned();
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(serve(certificate, ready, stopped));
        });
        let url = when_ready.recv().unwrap();
        Self { url, ca_pem, stop: Some(stop), thread: Some(thread) }
    }

    /// The object that registers it.
    pub(crate) fn config(&self, name: &str) -> Value {
        let yaml = windlass_extension::extension_config(name, &self.url, Some(&self.ca_pem));
        serde_saphyr::from_str(&yaml).unwrap()
    }
}

impl Drop for RealServer {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
