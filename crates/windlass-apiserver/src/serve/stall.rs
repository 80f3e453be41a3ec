//! Connections whose other end does not read are given up, not waited for.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep_until};

/// A connection that fails when writing to it stalls.
pub(super) struct Impatient<T> {
    inner: T,
    /// How long the other end may take to accept the next byte.
    patience: Duration,
    stalled: Option<Pin<Box<Sleep>>>,
}

impl<T> Impatient<T> {
    pub(super) fn new(inner: T, patience: Duration) -> Self {
        Self { inner, patience, stalled: None }
    }

    fn judge<O>(&mut self, context: &mut Context<'_>, result: Poll<io::Result<O>>) -> Poll<io::Result<O>> {
        if result.is_ready() {
            self.stalled = None;
            return result;
        }
        let end = Instant::now() + self.patience;
        let stalled = self.stalled.get_or_insert_with(|| Box::pin(sleep_until(end)));
        match stalled.as_mut().poll(context) {
            Poll::Ready(()) => {
                Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the client does not read")))
            }
            Poll::Pending => Poll::Pending,
        }
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for Impatient<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_read(context, buffer)
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for Impatient<T> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let result = Pin::new(&mut self.inner).poll_write(context, bytes);
        self.judge(context, result)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let result = Pin::new(&mut self.inner).poll_flush(context);
        self.judge(context, result)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let result = Pin::new(&mut self.inner).poll_shutdown(context);
        self.judge(context, result)
    }
}
