//! Answers that a client must survive: wrong statuses, broken bodies, bodies without end.

use std::time::Duration;

use bytes::Bytes;
use futures::{StreamExt, stream};
use http::{
    Response,
    header::{
        CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, HeaderValue, LOCATION, RETRY_AFTER,
        WWW_AUTHENTICATE,
    },
};
use http_body_util::{BodyExt, StreamBody};
use hyper::body::Frame;

use super::{
    answer::{Answer, error_for},
    faults::Nonsense,
};
use crate::https::{Body, Cut, body_of};

const CHUNK_BYTES: usize = 16 << 10;

impl Nonsense {
    /// Is the right answer needed to make it (so that the request takes effect)?
    pub(super) fn is_made_of_the_answer(&self) -> bool {
        matches!(
            self,
            Self::Truncated | Self::Padded(_) | Self::Drip(_) | Self::Deep(_) | Self::Gzip
        )
    }
}

/// Makes the response out of the answer that would have been right.
pub(crate) fn replace(what: &Nonsense, answer: Answer) -> Result<Response<Body>, Cut> {
    Ok(match what {
        Nonsense::Close => return Err(Cut::Close),
        Nonsense::Reset => return Err(Cut::Reset),
        Nonsense::Status(status, retry_after) => {
            let mut answer = error_for(*status);
            if let Some(seconds) = retry_after {
                answer = answer.with(RETRY_AFTER, seconds.to_string());
            }
            if *status == 401 {
                answer = answer.with(WWW_AUTHENTICATE, "Basic realm=\"Redfish\"");
            }
            answer.into_response()
        }
        Nonsense::Redirect(status, location) => Answer::text(*status, "")
            .with(LOCATION, location)
            .into_response(),
        Nonsense::BadJson => {
            Answer::text(200, "{\"PowerState\": \"Off\", \"UUID\": ").into_response()
        }
        Nonsense::Html => {
            let page = "<!DOCTYPE html><html><body><form>Password: <input></form></body></html>";
            Answer::text(200, page)
                .with(CONTENT_TYPE, "text/html")
                .into_response()
        }
        Nonsense::Empty => Answer::text(200, "").into_response(),
        Nonsense::NotAnObject => Answer::text(200, "[\"Off\"]").into_response(),
        Nonsense::NotText => {
            let mut response = Answer::text(200, "{}").into_response();
            *response.body_mut() =
                body_of(Bytes::from_static(b"{\"PowerState\": \"Off\xff\xfe\"}"));
            response
        }
        Nonsense::Truncated => truncated(&answer),
        Nonsense::Padded(bytes) => padded(&answer, *bytes),
        Nonsense::EndlessChunks => {
            let chunk = Bytes::from(vec![b' '; CHUNK_BYTES]);
            streamed(&answer, stream::repeat(chunk).map(Ok))
        }
        Nonsense::Drip(pause) => drip(&answer, *pause),
        Nonsense::Deep(depth) => deep(answer, *depth).into_response(),
        Nonsense::Gzip => {
            let mut response = answer.clone().into_response();
            *response.body_mut() = body_of(gzip_stored(answer.text.as_bytes()));
            response
                .headers_mut()
                .insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
            response
        }
    })
}

fn streamed(
    answer: &Answer,
    chunks: impl futures::Stream<Item = Result<Bytes, Cut>> + Send + 'static,
) -> Response<Body> {
    let frames = chunks.map(|chunk| chunk.map(Frame::data).map_err(Into::into));
    let mut response = Response::new(StreamBody::new(frames).boxed_unsync());
    let headers_of = Answer {
        text: "{}".to_owned(),
        ..answer.clone()
    };
    headers_of.headers_into(&mut response);
    response
}

fn with_length(mut response: Response<Body>, bytes: u64) -> Response<Body> {
    response
        .headers_mut()
        .insert(CONTENT_LENGTH, HeaderValue::from(bytes));
    response
}

fn truncated(answer: &Answer) -> Response<Body> {
    let whole = answer.text.len();
    let half = Bytes::copy_from_slice(&answer.text.as_bytes()[..whole / 2]);
    let chunks = stream::iter([Ok(half)]).chain(stream::once(async {
        // Let the first half be sent before the connection ends.
        tokio::time::sleep(Duration::from_millis(20)).await;
        Err(Cut::Close)
    }));
    with_length(streamed(answer, chunks), whole as u64)
}

fn padded(answer: &Answer, padding_bytes: u64) -> Response<Body> {
    let text = answer.text.trim_end_matches('}').to_owned();
    let end = Bytes::copy_from_slice(&answer.text.as_bytes()[text.len()..]);
    let length = answer.text.len() as u64 + padding_bytes;
    let chunk = Bytes::from(vec![b' '; CHUNK_BYTES]);
    let whole_chunks =
        usize::try_from(padding_bytes / CHUNK_BYTES as u64).expect("padding fits memory");
    let rest = usize::try_from(padding_bytes % CHUNK_BYTES as u64).expect("a rest is small");
    let padding = stream::repeat(chunk.clone())
        .take(whole_chunks)
        .chain(stream::iter([chunk.slice(..rest)]));
    let chunks = stream::iter([Bytes::from(text)])
        .chain(padding)
        .chain(stream::iter([end]));
    with_length(streamed(answer, chunks.map(Ok)), length)
}

fn drip(answer: &Answer, pause: Duration) -> Response<Body> {
    let bytes: Vec<_> = answer
        .text
        .bytes()
        .map(|byte| Bytes::copy_from_slice(&[byte]))
        .collect();
    let chunks = stream::iter(bytes).then(move |byte| async move {
        tokio::time::sleep(pause).await;
        Ok(byte)
    });
    with_length(streamed(answer, chunks), answer.text.len() as u64)
}

fn deep(mut answer: Answer, depth: usize) -> Answer {
    if answer.text.starts_with('<')
        && let Some(end) = answer.text.rfind("</")
    {
        let nested = format!("{}{}", "<a>".repeat(depth), "</a>".repeat(depth));
        answer.text.insert_str(end, &nested);
    } else if let Some(brace) = answer.text.rfind('}') {
        let nested = format!(",\"Oem\":{}{}", "[".repeat(depth), "]".repeat(depth));
        answer.text.insert_str(brace, &nested);
    }
    answer
}

/// gzip (RFC 1952) of stored blocks: valid, and as long as it was.
fn gzip_stored(data: &[u8]) -> Vec<u8> {
    let mut out = vec![0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255];
    let mut blocks = data.chunks(usize::from(u16::MAX)).peekable();
    while let Some(block) = blocks.next() {
        let length = u16::try_from(block.len()).expect("a stored block fits 16 bits");
        out.push(u8::from(blocks.peek().is_none()));
        out.extend(length.to_le_bytes());
        out.extend((!length).to_le_bytes());
        out.extend(block);
    }
    out.extend(crc32(data).to_le_bytes());
    out.extend(
        u32::try_from(data.len())
            .expect("an answer is small")
            .to_le_bytes(),
    );
    out
}

fn crc32(data: &[u8]) -> u32 {
    let step = |crc: u32, byte: &u8| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| {
            if crc & 1 == 1 {
                (crc >> 1) ^ 0xedb8_8320
            } else {
                crc >> 1
            }
        })
    };
    !data.iter().fold(!0, step)
}

#[cfg(test)]
mod tests {
    #[test]
    fn crc32_is_that_of_the_standard() {
        assert_eq!(super::crc32(b"123456789"), 0xcbf4_3926);
    }
}
