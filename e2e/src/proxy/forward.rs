//! Passes requests on, and does to them what the rules say.

use std::{sync::Arc, time::Duration};

use anyhow::{Result, ensure};
use bytes::Bytes;
use futures::{StreamExt, future::BoxFuture, stream};
use http::{
    HeaderMap, HeaderName, HeaderValue, Request, Response, StatusCode, Uri,
    header::{
        CONNECTION, CONTENT_LENGTH, CONTENT_TYPE, DATE, HOST, RETRY_AFTER, TE, TRAILER,
        TRANSFER_ENCODING, UPGRADE,
    },
};
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use jiff::Timestamp;
use jiff::fmt::rfc2822::DateTimePrinter;
use rustls::ServerConfig;
use serde_json::{Value, json};

use super::{
    matcher::Seen,
    record::Record,
    rules::{Action, Deed, Edit, Fate, Rules, Spoil},
};
use fencing_testbed::https::{Body, Call, Client, Cut, Journal, Leaf, Passage, Site, body_of};
use fencing_testbed::moment::Moment;

/// How long a client that is not answered is kept waiting. Longer than any client's patience.
const SILENCE: Duration = Duration::from_mins(10);

/// Headers that belong to one connection and are not passed on (RFC 9110, 7.6.1).
const HOP_BY_HOP: [HeaderName; 5] = [CONNECTION, TE, TRAILER, TRANSFER_ENCODING, UPGRADE];

pub(super) struct Forwarder {
    upstream: Uri,
    client: Client,
    leaf: Leaf,
    pub(super) rules: Rules,
    pub(super) log: Journal<Record>,
}

impl Site for Forwarder {
    fn tls(&self) -> Option<Arc<ServerConfig>> {
        Some(self.leaf.config())
    }

    fn answer(self: Arc<Self>, call: Call) -> BoxFuture<'static, Result<Response<Body>, Cut>> {
        Box::pin(self.respond(call))
    }
}

impl Forwarder {
    pub(super) fn new(upstream: Uri, client: Client, leaf: Leaf) -> Result<Self> {
        ensure!(
            upstream.authority().is_some(),
            "the API server's URL names no host"
        );
        Ok(Self {
            upstream,
            client,
            leaf,
            rules: Rules::default(),
            log: Journal::new(),
        })
    }

    async fn respond(self: Arc<Self>, call: Call) -> Result<Response<Body>, Cut> {
        let seen = Seen::of(&call);
        let deed = self.rules.find(&seen);
        let index = self.log.push(Record::new(seen));
        let outcome = self.deal(call, deed, index).await;
        self.log.amend(index, |record| {
            record.status = outcome
                .as_ref()
                .ok()
                .map(|response| response.status().as_u16());
            record.ended = Some(Moment::now());
        });
        outcome
    }

    async fn deal(
        &self,
        call: Call,
        deed: Option<Deed>,
        index: usize,
    ) -> Result<Response<Body>, Cut> {
        Ok(match deed {
            None => self.forward(call, index).await?.map(stream_of),
            Some(Deed::HoldBefore(gate)) => match gate.pass().await {
                Passage::Discard => return Err(Cut::Close),
                Passage::Go => self.forward(call, index).await?.map(stream_of),
            },
            Some(Deed::HoldAfter(gate)) => {
                let response = self.forward(call, index).await?;
                match gate.pass().await {
                    Passage::Discard => return Err(Cut::Close),
                    Passage::Go => response.map(stream_of),
                }
            }
            Some(Deed::Act(Action::Delay(delay))) => {
                tokio::time::sleep(delay).await;
                self.forward(call, index).await?.map(stream_of)
            }
            Some(Deed::Act(Action::Before(fate))) => suffer(fate).await?,
            Some(Deed::Act(Action::After(fate))) => {
                // The whole answer has to be here: then the write is committed for certain.
                let _ = self.forward(call, index).await?.into_body().collect().await;
                suffer(fate).await?
            }
            Some(Deed::Act(Action::Twice)) => {
                let first = self.forward(call.clone(), index).await?;
                let _ = first.into_body().collect().await;
                self.forward(call, index).await?.map(stream_of)
            }
            Some(Deed::Act(Action::Dated(later))) => {
                let mut response = self.forward(call, index).await?.map(stream_of);
                response.headers_mut().insert(DATE, date(later)?);
                response
            }
            Some(Deed::Act(Action::Dead)) => {
                let (head, _) = self.forward(call, index).await?.into_parts();
                let nothing = stream::pending::<Result<Frame<Bytes>, _>>();
                Response::from_parts(head, StreamBody::new(nothing).boxed_unsync())
            }
            Some(Deed::Edit(edit)) => self
                .forward(call, index)
                .await?
                .map(|body| edited(body, edit)),
            Some(Deed::Answer(answer)) => {
                let mut response = Response::new(body_of(answer.to_string()));
                let json = HeaderValue::from_static("application/json");
                response.headers_mut().insert(CONTENT_TYPE, json);
                response
            }
            Some(Deed::Act(Action::Spoil(spoil))) => {
                let (head, body) = self.forward(call, index).await?.into_parts();
                let body = body.collect().await.map_err(|_| Cut::Close)?.to_bytes();
                spoiled(Response::from_parts(head, body), spoil)
            }
        })
    }

    async fn forward(&self, call: Call, index: usize) -> Result<Response<Incoming>, Cut> {
        let mut uri = self.upstream.clone().into_parts();
        uri.path_and_query = call.head.uri.path_and_query().cloned();
        let mut request = Request::new(Full::new(call.body));
        *request.method_mut() = call.head.method;
        *request.uri_mut() = Uri::from_parts(uri).map_err(|_| Cut::Close)?;
        *request.headers_mut() = call.head.headers;
        strip(request.headers_mut());
        request.headers_mut().remove(HOST);
        let mut response = self.client.request(request).await.map_err(|error| {
            tracing::debug!(%error, "the API server does not answer");
            Cut::Close
        })?;
        strip(response.headers_mut());
        let status = response.status().as_u16();
        self.log
            .amend(index, |record| record.upstream_status = Some(status));
        Ok(response)
    }
}

impl Seen {
    fn of(call: &Call) -> Self {
        let content_type = call.head.headers.get(CONTENT_TYPE);
        Self {
            method: call.head.method.clone(),
            path: call.head.uri.path().to_owned(),
            query: call.head.uri.query().unwrap_or_default().to_owned(),
            content_type: content_type
                .and_then(|v| v.to_str().ok())
                .unwrap_or_default()
                .to_owned(),
            body: serde_json::from_slice(&call.body).unwrap_or_default(),
        }
    }
}

/// So much later than now, as HTTP writes it.
fn date(later: Duration) -> Result<HeaderValue, Cut> {
    let at = Timestamp::now() + later;
    let text = DateTimePrinter::new().timestamp_to_rfc9110_string(&at);
    let text = text.map_err(|_| Cut::Close)?;
    HeaderValue::from_str(&text).map_err(|_| Cut::Close)
}

fn strip(headers: &mut HeaderMap) {
    for name in HOP_BY_HOP {
        headers.remove(name);
    }
}

fn stream_of(body: Incoming) -> Body {
    body.map_err(Into::into).boxed_unsync()
}

/// A watch, each line of which is an event.
fn edited(body: Incoming, edit: Arc<Edit>) -> Body {
    let mut rest = Vec::new();
    let pieces = body.into_data_stream().map(move |piece| {
        rest.extend_from_slice(&piece?);
        let mut out = Vec::new();
        while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = rest.drain(..=end).collect();
            for event in edit(serde_json::from_slice(&line)?) {
                out.extend(serde_json::to_vec(&event)?);
                out.push(b'\n');
            }
        }
        Ok(Frame::data(out.into()))
    });
    StreamBody::new(pieces).boxed_unsync()
}

async fn suffer(fate: Fate) -> Result<Response<Body>, Cut> {
    match fate {
        Fate::Status(status, retry_after) => Ok(status_object(status, retry_after)),
        Fate::Reset => Err(Cut::Reset),
        Fate::Close => Err(Cut::Close),
        Fate::Silence => {
            tokio::time::sleep(SILENCE).await;
            Err(Cut::Close)
        }
    }
}

/// A `Status` as the API server makes it.
fn status_object(status: u16, retry_after: Option<u32>) -> Response<Body> {
    let reason = match status {
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "NotFound",
        409 => "Conflict",
        410 => "Expired",
        422 => "Invalid",
        429 => "TooManyRequests",
        503 => "ServiceUnavailable",
        504 => "Timeout",
        _ => "InternalError",
    };
    let mut details = json!({});
    if let Some(seconds) = retry_after {
        details["retryAfterSeconds"] = json!(seconds);
    }
    let body = json!({
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": format!("the lab answers {status} in place of the API server"),
        "reason": reason,
        "details": details,
        "code": status,
    });
    let mut response = Response::new(body_of(body.to_string()));
    *response.status_mut() = StatusCode::from_u16(status).expect("a status of a rule is one");
    response
        .headers_mut()
        .insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    if let Some(seconds) = retry_after {
        response
            .headers_mut()
            .insert(RETRY_AFTER, HeaderValue::from(seconds));
    }
    response
}

fn spoiled(response: Response<Bytes>, spoil: Spoil) -> Response<Body> {
    let (mut head, body) = response.into_parts();
    head.headers.remove(CONTENT_LENGTH);
    let body = match spoil {
        Spoil::Truncated => {
            head.headers
                .insert(CONTENT_LENGTH, HeaderValue::from(body.len()));
            let half = stream::iter([Ok(Frame::data(body.slice(..body.len() / 2)))]);
            let end = stream::once(async {
                // Let the first half be sent before the connection ends.
                tokio::time::sleep(Duration::from_millis(20)).await;
                Err(Cut::Close.into())
            });
            StreamBody::new(half.chain(end)).boxed_unsync()
        }
        Spoil::Garbage => body_of("{\"kind\":\"Node\",\"spec\":{\"taints\":[{\u{0}"),
        Spoil::WrongContentType => {
            head.headers
                .insert(CONTENT_TYPE, HeaderValue::from_static("text/html"));
            body_of(body)
        }
        Spoil::Empty => body_of(Bytes::new()),
        Spoil::OtherKind => {
            let status =
                json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"});
            body_of(status.to_string())
        }
        Spoil::Partial => {
            let mut list: Value = serde_json::from_slice(&body).unwrap_or_default();
            list["items"] = json!([]);
            list["metadata"]["continue"] = json!("lost");
            body_of(list.to_string())
        }
    };
    Response::from_parts(head, body)
}
