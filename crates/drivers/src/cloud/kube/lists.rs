//! Lists of objects, page by page as they were at one moment: whole, or their metadata alone, of which many fit on a page.

use super::kept::FEW;
use super::{Object, authorised, parsed};
use crate::DeviceError;
use crate::cloud::errors::Answers;
use crate::cloud::io::Io;
use crate::error::printable;
use crate::http::Call;
use crate::json::Few;
use http::{Method, StatusCode};
use serde::Deserialize;

/// Pages that are asked for, the longest of them in bytes, and all of them together: a pod takes some 30,000.
const PAGES_MAX: usize = 40;
const PAGE_BYTES_MAX: usize = 4 << 20;
pub(super) const LIST_BYTES_MAX: usize = 32 << 20;
/// Objects of one page of metadata, and all pages of it together, of which hardly anything is kept: the metadata of a pod take some 3,000.
const MANY: usize = 500;
const HEADS_BYTES_MAX: usize = 64 << 20;
/// How metadata alone is asked for, and its kind. Source: the API concepts of Kubernetes, "Metadata-only fetches".
const HEADS: &str = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";
const HEADS_KIND: &str = "PartialObjectMetadataList";
/// Longest mark of where the next page begins.
const MARK_BYTES_MAX: usize = 2048;

/// A list, as it was at one moment.
#[derive(Debug)]
pub(in crate::cloud) struct List<T> {
    /// The moment.
    pub(in crate::cloud) version: String,
    /// All of its objects.
    pub(in crate::cloud) items: Vec<T>,
}

/// Which list.
struct Asked<'a> {
    path: &'a str,
    selector: &'a str,
    /// Its own kind.
    kind: &'a str,
    accept: Option<&'static str>,
    /// Of all pages.
    bytes_max: usize,
}

#[derive(Deserialize)]
struct Page<T, const MOST: usize> {
    kind: String,
    metadata: PageMeta,
    items: Few<T, MOST>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PageMeta {
    resource_version: String,
    #[serde(rename = "continue")]
    mark: Option<String>,
}

/// All objects of a list. One that does not end is no list: what is missing may be what counts.
///
/// # Errors
/// It is not known as a whole.
pub(in crate::cloud) async fn list<T: Object>(
    io: &mut Io,
    path: &str,
    selector: &str,
    answers: &Answers,
) -> Result<List<T>, DeviceError> {
    let kind = format!("{}List", T::KIND);
    let asked = Asked {
        path,
        selector,
        kind: &kind,
        accept: None,
        bytes_max: LIST_BYTES_MAX,
    };
    pages::<T, FEW>(io, &asked, answers, |_| true).await
}

/// Of a list that may be long the objects that this wants by their metadata, which is all that is fetched.
///
/// # Errors
/// As [`list`].
pub(in crate::cloud) async fn heads<T: Object>(
    io: &mut Io,
    path: &str,
    selector: &str,
    answers: &Answers,
    wants: impl Fn(&T) -> bool + Send,
) -> Result<Vec<T>, DeviceError> {
    let asked = Asked {
        path,
        selector,
        kind: HEADS_KIND,
        accept: Some(HEADS),
        bytes_max: HEADS_BYTES_MAX,
    };
    let found = pages::<T, MANY>(io, &asked, answers, wants).await?;
    Ok(found.items)
}

async fn pages<T: Object, const MOST: usize>(
    io: &mut Io,
    asked: &Asked<'_>,
    answers: &Answers,
    wants: impl Fn(&T) -> bool + Send,
) -> Result<List<T>, DeviceError> {
    let (at, path) = (io.main(), asked.path);
    let (mut items, mut version, mut mark) = (Vec::new(), String::new(), String::new());
    let (mut bytes, mut count) = (0_usize, 0_usize);
    for _ in 0..PAGES_MAX {
        let page = format!("{path}?limit={MOST}{}{mark}", asked.selector);
        let call = authorised(io, Call::new(Method::GET, &page))?;
        let call = call.with_body_of_at_most(PAGE_BYTES_MAX);
        let call = match asked.accept {
            Some(accept) => call.for_answer_of(accept),
            None => call,
        };
        let reply = io.read(&at, &call, StatusCode::OK, answers).await?;
        bytes += reply.body.as_deref().unwrap_or_default().len();
        if bytes > asked.bytes_max {
            let problem = format!("{path} has more than {} bytes", asked.bytes_max);
            return Err(io.protocol(&at, &problem));
        }
        let page: Page<T, MOST> = parsed(io, reply)?;
        if page.kind != asked.kind {
            let (kind, wanted) = (printable(&page.kind, 40), asked.kind);
            return Err(io.protocol(&at, &format!("{path} is a {kind}, no {wanted}")));
        }
        count += page.items.0.len();
        items.extend(page.items.0.into_iter().filter(&wants));
        version = page.metadata.resource_version;
        match page.metadata.mark.filter(|mark| !mark.is_empty()) {
            None => return Ok(List { version, items }),
            Some(next) if is_mark(&next) => mark = format!("&continue={next}"),
            Some(_) => return Err(io.protocol(&at, "its `continue` is not Base64")),
        }
    }
    let version = printable(&version, 20);
    let problem = format!("{path} has more than {count} objects (version {version})");
    Err(io.protocol(&at, &problem))
}

/// Base64 for URLs, which needs no escape in a query.
fn is_mark(text: &str) -> bool {
    text.len() <= MARK_BYTES_MAX
        && text
            .bytes()
            .all(|it| it.is_ascii_alphanumeric() || b"-_".contains(&it))
}
