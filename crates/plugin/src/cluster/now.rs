//! What time it is. Everything whose age is shown was dated in the cluster, and the clock of a laptop may be minutes off.

use super::Cluster;
use fencing_drivers::clock;
use jiff::fmt::rfc2822::DateTimeParser;
use jiff::{SignedDuration, Timestamp};
use kube::client::Body;
use tokio::time::timeout;

/// Clocks that differ by no more agree: an answer is dated in whole seconds, and takes its time.
const CLOCKS_AGREE: SignedDuration = SignedDuration::from_secs(5);

impl Cluster {
    /// What time it is by the clock of the API server; by this machine's where the two agree but for some seconds, and where the API server does
    /// not say.
    pub async fn now(&self) -> Timestamp {
        let ahead = self.ahead().await;
        wall(ahead)
    }

    /// How far the API server's clock is ahead of this machine's: not at all where they agree, and where it does not say.
    pub async fn ahead(&self) -> SignedDuration {
        self.says_ahead().await.unwrap_or_default()
    }

    /// The same for whoever asks again and again; none: it does not say.
    pub async fn says_ahead(&self) -> Option<SignedDuration> {
        let dated = timeout(self.limits.read, self.date()).await;
        Some(ahead(dated.ok().flatten()?, clock::wall()))
    }

    /// The `Date` of an answer that everybody gets.
    async fn date(&self) -> Option<Timestamp> {
        let request = http::Request::get("/version").body(Body::empty()).ok()?;
        let answer = self.clients.reads.send(request).await.ok()?;
        parsed(answer.headers().get(http::header::DATE)?.to_str().ok()?)
    }
}

/// As HTTP writes it (RFC 9110, 5.6.7).
fn parsed(date: &str) -> Option<Timestamp> {
    DateTimeParser::new().parse_timestamp(date).ok()
}

fn ahead(dated: Timestamp, own: Timestamp) -> SignedDuration {
    let ahead = dated.duration_since(own);
    match ahead.abs() > CLOCKS_AGREE {
        true => ahead,
        false => SignedDuration::ZERO,
    }
}

/// What time it is by a clock that is so far ahead of this machine's.
pub fn wall(ahead: SignedDuration) -> Timestamp {
    let own = clock::wall();
    own.saturating_add(ahead).unwrap_or(own)
}

#[cfg(test)]
mod tests {
    use super::super::Limits;
    use super::*;
    use fencing_cluster::fake::Fake;
    use serde_json::json;

    #[test]
    fn ages_count_by_the_clock_of_the_api_server_where_the_two_are_apart() {
        let own: Timestamp = "2026-11-26T07:00:00.7Z".parse().expect("a time");
        let date = |text: &str| (own + ahead(parsed(text).expect("a date"), own)).to_string();
        assert_eq!(
            date("Thu, 26 Nov 2026 07:09:00 GMT"),
            "2026-11-26T07:09:00Z"
        );
        assert_eq!(
            date("Thu, 26 Nov 2026 06:51:00 GMT"),
            "2026-11-26T06:51:00Z"
        );
        assert_eq!(date("Thu, 26 Nov 2026 07:00:04 GMT"), own.to_string());
        assert_eq!(parsed("no date"), None);
    }

    #[tokio::test]
    async fn an_answer_of_any_kind_is_dated() {
        let server = Fake::start(|_| (403, json!({}))).await;
        let cluster = Cluster {
            clients: server.clients.clone(),
            namespace: "node-fencing-system".to_owned(),
            limits: Limits::of(None),
        };
        let date = cluster.date().await.expect("a date");
        assert!(date.duration_since(clock::wall()).abs() < SignedDuration::from_secs(60));
        assert_eq!(server.seen().len(), 1);
    }
}
