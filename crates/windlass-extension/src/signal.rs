//! When an operator or Kubernetes wants the process to end.

use std::future::Future;

/// A future that completes when the process is asked to end: on SIGTERM, or on Ctrl-C.
///
/// The signals are caught from this call on, not from the first `await`: call it before announcing that
/// the process runs. A signal that cannot be caught ends the process the hard way, as without this.
///
/// # Panics
///
/// Outside of a tokio runtime.
pub fn termination() -> impl Future<Output = ()> + Send + 'static {
    caught()
}

#[cfg(unix)]
fn caught() -> impl Future<Output = ()> + Send + 'static {
    use tokio::signal::unix::{SignalKind, signal};

    let (terminate, interrupt) = (signal(SignalKind::terminate()), signal(SignalKind::interrupt()));
    async move {
        let heard = async |signals: std::io::Result<tokio::signal::unix::Signal>| match signals {
            Ok(mut signals) => {
                signals.recv().await;
            }
            Err(_) => std::future::pending().await,
        };
        tokio::select! {
            () = heard(terminate) => {}
            () = heard(interrupt) => {}
        }
    }
}

#[cfg(not(unix))]
fn caught() -> impl Future<Output = ()> + Send + 'static {
    async {
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}
