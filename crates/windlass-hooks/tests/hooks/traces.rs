//! What is logged about calls, and what is not.

use std::io;
use std::sync::{Arc, Mutex};

use tracing_subscriber::fmt::MakeWriter;
use windlass_api::hooks::{BeforeClusterUpgrade, Hook};
use windlass_api::runtime::CaBundle;
use windlass_hooks::HookClient;
use windlass_hooks::transport::{InProcess, boxed};

use crate::setup::{SUCCESS, extension, handler, in_process, register, upgrade_request};

#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl io::Write for Log {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(data);
        Ok(data.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Log {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

#[tokio::test]
async fn calls_are_logged_by_hook_and_handler_without_settings_or_bodies() {
    let log = Log::default();
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(tracing::Level::TRACE)
        .with_ansi(false)
        .with_writer(log.clone())
        .finish();
    let _guard = tracing::subscriber::set_default(subscriber);

    let transport = InProcess::new();
    let client = HookClient::builder(boxed(transport.clone())).build();
    let mut config = extension("e", "https://h", CaBundle::default());
    config.spec.settings.insert("token".to_owned(), "s3cret".to_owned());
    register(&client, &config, &[handler("gate", Hook::BeforeClusterUpgrade, "Ignore")]);
    let call = async || client.call_one::<BeforeClusterUpgrade>("gate.e", "ns1", &upgrade_request()).await;
    assert!(call().await.unwrap().is_ignored());
    in_process(&transport, "e", |_, _| SUCCESS.to_owned());
    assert!(!call().await.unwrap().is_ignored());

    let text = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
    assert!(text.contains("hook=BeforeClusterUpgrade handler=gate.e"), "{text}");
    assert!(text.contains("a failure was ignored"), "{text}");
    assert!(text.contains("the handler answered"), "{text}");
    assert!(!text.contains("s3cret") && !text.contains("v1.32.5"), "{text}");
}
