//! A request, and what the API server says to it. Tables of cases are judged to their end, so that one run shows every wrong verdict.

use anyhow::{Result, ensure};
use http::{Method, Request};
use kube::Client;
use serde::Deserialize;
use serde_json::Value;

/// What a case wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Expect {
    Allow,
    Deny,
}

/// What the API server said: the object, or its refusal.
pub type Verdict = std::result::Result<Value, kube::core::Status>;

/// How a request's body is to be read.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Body {
    Json,
    Merge,
    Object,
    Strategic,
}

impl Body {
    fn content_type(self) -> &'static str {
        match self {
            Self::Json => "application/json-patch+json",
            Self::Merge => "application/merge-patch+json",
            Self::Object => "application/json",
            Self::Strategic => "application/strategic-merge-patch+json",
        }
    }
}

/// Sends a request. Fails only when there was no verdict.
pub async fn call(
    client: &Client,
    method: Method,
    path: &str,
    body: Option<(Body, &Value)>,
) -> Result<Verdict> {
    let mut request = Request::builder().method(method).uri(path);
    let mut bytes = Vec::new();
    if let Some((kind, value)) = body {
        request = request.header(http::header::CONTENT_TYPE, kind.content_type());
        bytes = serde_json::to_vec(value)?;
    }
    match client.request::<Value>(request.body(bytes)?).await {
        Ok(object) => Ok(Ok(object)),
        Err(kube::Error::Api(status)) => Ok(Err(*status)),
        Err(error) => Err(error.into()),
    }
}

/// Sends a request that must be granted: a step of the set-up.
pub async fn must(
    client: &Client,
    method: Method,
    path: &str,
    body: Option<(Body, &Value)>,
) -> Result<Value> {
    match call(client, method.clone(), path, body).await? {
        Ok(object) => Ok(object),
        Err(status) => anyhow::bail!("{method} {path}: {}", status.message),
    }
}

/// What the API server adds to every error of a schema.
const UNCHECKED: &str = ", <nil>: Invalid value: null: some validation rules were not checked because the object was invalid; \
                         correct the existing errors to complete validation]";

/// A refusal without the name of the object, which begins it, and without what is said at every one.
fn reason(message: &str) -> &str {
    let reason = message.split_once("is invalid: ");
    let reason = reason.map_or(message, |(_, reason)| reason);
    let alone = reason.strip_prefix('[');
    alone
        .and_then(|reason| reason.strip_suffix(UNCHECKED))
        .unwrap_or(reason)
}

/// Counts cases and keeps what was wrong.
#[derive(Debug, Default)]
pub struct Tally {
    judged: usize,
    wrong: Vec<String>,
}

impl Tally {
    /// Compares a verdict with what the case wants. A denial must contain `message`.
    pub fn judge(&mut self, name: &str, expect: Expect, message: Option<&str>, verdict: &Verdict) {
        let words = message.unwrap_or_default();
        self.compare(name, expect, verdict, words, |said, words| {
            said.contains(words)
        });
    }

    /// The same, but a denial must say `message`, word for word.
    pub fn judge_words(
        &mut self,
        name: &str,
        expect: Expect,
        message: Option<&str>,
        verdict: &Verdict,
    ) {
        let words = message.unwrap_or("(the case does not say what)");
        self.compare(name, expect, verdict, words, |said, words| {
            reason(said) == words
        });
    }

    fn compare(
        &mut self,
        name: &str,
        expect: Expect,
        verdict: &Verdict,
        words: &str,
        says: fn(&str, &str) -> bool,
    ) {
        self.judged += 1;
        let fault = match (expect, verdict) {
            (Expect::Allow, Err(status)) => format!("denied: {}", status.message),
            (Expect::Deny, Ok(_)) => "allowed".to_owned(),
            (Expect::Deny, Err(status)) if !says(&status.message, words) => {
                format!("denied without saying {words:?}: {}", status.message)
            }
            _ => return,
        };
        self.wrong.push(format!("{name}: {fault}"));
    }

    /// How many there were so far.
    pub fn judged(&self) -> usize {
        self.judged
    }

    /// Prints how many there were. Fails with every wrong verdict, or when there were fewer cases than `at_least`.
    pub fn finish(self, at_least: usize) -> Result<()> {
        ensure!(
            self.wrong.is_empty(),
            "{} of {} verdicts are wrong:\n{}",
            self.wrong.len(),
            self.judged,
            self.wrong.join("\n")
        );
        ensure!(self.judged >= at_least, "only {} cases", self.judged);
        println!("{} verdicts, each as the case wants it", self.judged);
        Ok(())
    }
}
