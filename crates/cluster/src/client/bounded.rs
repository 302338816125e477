//! How much the API server may answer: kube reads whatever comes into memory, and an answer without end would take all of it.
//!
//! Not that the API server is taken for an enemy; but what stands between, and a mistake of anybody's, can send what no API server does, and
//! an operator that is out of memory fences nobody. What is longer than this fails like an answer that broke off (F22).

use bytes::Bytes;
use futures::FutureExt;
use futures::future::BoxFuture;
use http::{Request, Response, StatusCode};
use hyper::body::{Body, Frame, SizeHint};
use kube::client::Body as Sent;
use std::pin::Pin;
use std::task::{Context, Poll};
use tower::{BoxError, Service};

/// An answer: the list of all VolumeAttachments is the longest, with some 1.5 KiB for each; of Nodes 500 are asked for at once.
const ANSWER_BYTES_MAX: usize = 64 << 20;
/// An answer that says why not.
const FAILURE_BYTES_MAX: usize = 1 << 20;
/// An event of a watch: one object, of which the API server stores no more than some 3 MiB.
const EVENT_BYTES_MAX: usize = 8 << 20;

/// The way to the API server, which takes answers of such lengths and no longer ones.
#[derive(Debug, Clone)]
pub(super) struct Bounded<S>(pub(super) S);

impl<S, B> Service<Request<Sent>> for Bounded<S>
where
    S: Service<Request<Sent>, Response = Response<B>>,
    S::Future: Send + 'static,
{
    type Response = Response<Within<B>>;
    type Error = S::Error;
    type Future = BoxFuture<'static, Result<Self::Response, S::Error>>;

    fn poll_ready(&mut self, task: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.0.poll_ready(task)
    }

    fn call(&mut self, request: Request<Sent>) -> Self::Future {
        let query = request.uri().query().unwrap_or_default();
        let is_watch = query.split('&').any(|it| it == "watch=true");
        let answer = self.0.call(request);
        async move {
            let answer = answer.await?;
            let limit = match answer.status() {
                status if !status.is_success() && status != StatusCode::SWITCHING_PROTOCOLS => {
                    Limit::Answer(FAILURE_BYTES_MAX)
                }
                _ if is_watch => Limit::Event,
                _ => Limit::Answer(ANSWER_BYTES_MAX),
            };
            Ok(answer.map(|body| Within {
                body,
                limit,
                bytes: 0,
            }))
        }
        .boxed()
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Limit {
    /// So many bytes in all.
    Answer(usize),
    /// Of each event, which is a line.
    Event,
}

/// A body that ends with an error where it is too long.
#[derive(Debug)]
pub(super) struct Within<B> {
    body: B,
    limit: Limit,
    /// So far: of all, or of the line.
    bytes: usize,
}

impl<B> Within<B> {
    /// Counts what has come.
    fn take(&mut self, data: &[u8]) -> Result<(), BoxError> {
        let (most, what) = match self.limit {
            Limit::Answer(most) => (most, "answer"),
            Limit::Event => (EVENT_BYTES_MAX, "event"),
        };
        let line = match self.limit {
            Limit::Answer(_) => None,
            Limit::Event => data.iter().rposition(|byte| *byte == b'\n'),
        };
        self.bytes = match line {
            // The lines before it may have been long too: of one piece, which is a few KiB.
            Some(end) => data.len() - end - 1,
            None => self.bytes.saturating_add(data.len()),
        };
        match self.bytes > most {
            true => Err(format!(
                "the API server's {what} is longer than {} MiB, which is not read",
                most >> 20
            )
            .into()),
            false => Ok(()),
        }
    }
}

impl<B> Body for Within<B>
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: Into<BoxError>,
{
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        self: Pin<&mut Self>,
        task: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let this = self.get_mut();
        let frame = match Pin::new(&mut this.body).poll_frame(task) {
            Poll::Pending => return Poll::Pending,
            Poll::Ready(None) => return Poll::Ready(None),
            Poll::Ready(Some(frame)) => frame.map_err(Into::into),
        };
        let frame = frame.and_then(|frame| {
            if let Some(data) = frame.data_ref() {
                this.take(data)?;
            }
            Ok(frame)
        });
        Poll::Ready(Some(frame))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn within(limit: Limit) -> Within<()> {
        Within {
            body: (),
            limit,
            bytes: 0,
        }
    }

    #[test]
    fn an_answer_is_counted_as_a_whole_and_a_watch_by_its_events() {
        let mut answer = within(Limit::Answer(2 << 20));
        let mebibyte = vec![b'\n'; 1 << 20];
        assert!(answer.take(&mebibyte).is_ok() && answer.take(&mebibyte).is_ok());
        let error = answer.take(b"x").expect_err("too long").to_string();
        assert_eq!(
            error,
            "the API server's answer is longer than 2 MiB, which is not read"
        );

        let mut watch = within(Limit::Event);
        let half = vec![b'x'; EVENT_BYTES_MAX / 2];
        let end = [&half[..], b"\n"].concat();
        for _ in 0..4 {
            assert!(watch.take(&half).is_ok() && watch.take(&end).is_ok());
        }
        assert!(watch.take(&half).is_ok() && watch.take(&half).is_ok());
        let error = watch.take(b"x").expect_err("too long").to_string();
        assert_eq!(
            error,
            "the API server's event is longer than 8 MiB, which is not read"
        );
    }
}
