//! A request, and what the API server says to it. Tables of cases are judged to their end, so that one run shows every wrong verdict.

use anyhow::{Result, ensure};
use e2e::toolchain::is_usual_kubernetes;
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
const UNCHECKED: &str = ": some validation rules were not checked because the object was invalid; \
                         correct the existing errors to complete validation]";
/// What stands before that: up to Kubernetes 1.33 with quotation marks.
const NO_VALUE: [&str; 2] = [
    ", <nil>: Invalid value: null",
    ", <nil>: Invalid value: \"null\"",
];

/// A refusal without the name of the object, which begins it, and without what is said at every one.
fn reason(message: &str) -> &str {
    let reason = message.split_once("is invalid: ");
    let reason = reason.map_or(message, |(_, reason)| reason);
    let alone = reason.strip_prefix('[');
    let alone = alone.and_then(|reason| reason.strip_suffix(UNCHECKED));
    alone
        .and_then(|alone| NO_VALUE.iter().find_map(|it| alone.strip_suffix(it)))
        .unwrap_or(reason)
}

/// The words without the values that they call invalid. Kubernetes up to 1.34 names the value's type in their place, and that of the object
/// where later ones name nothing. Up to 1.33 an object is written as Go does.
pub fn without_values(words: &str) -> String {
    const BEFORE: &str = "Invalid value: ";
    let words = words
        .replace("map[string]interface {}", "")
        .replace("\", \"", "\",\"");
    let mut parts = words.split(BEFORE);
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |said, part| said + BEFORE + after_value(part))
}

/// What follows a value and its colon; everything, if it does not begin with a value.
fn after_value(part: &str) -> &str {
    let mut values = serde_json::Deserializer::from_str(part).into_iter::<Value>();
    let value = values.next().and_then(std::result::Result::ok);
    let rest = value.and_then(|_| part[values.byte_offset()..].strip_prefix(": "));
    rest.unwrap_or(part)
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

    /// The same, but a denial must say `message`, word for word; on another Kubernetes than the usual one, but for the values it calls invalid.
    pub fn judge_words(
        &mut self,
        name: &str,
        expect: Expect,
        message: Option<&str>,
        verdict: &Verdict,
    ) {
        let words = message.unwrap_or("(the case does not say what)");
        self.compare(name, expect, verdict, words, |said, words| {
            let said = reason(said);
            said == words || !is_usual_kubernetes() && without_values(said) == without_values(words)
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

#[test]
fn values_are_left_out_and_nothing_else() {
    let old = "[spec.a: Invalid value: \"integer\": spec.a in body should be less, spec: Invalid value: \"object\": must set one: `b` or `c`]";
    let new = "[spec.a: Invalid value: 0: spec.a in body should be less, spec: Invalid value: must set one: `b` or `c`]";
    assert_eq!(without_values(old), without_values(new));
    let url = "spec.a: Invalid value: \"https://10.0.0.1/#a\": must be https";
    assert_eq!(without_values(url), "spec.a: Invalid value: must be https");
    assert_ne!(
        without_values(url),
        without_values("spec.b: Invalid value: \"\": must be https")
    );
    assert_eq!(without_values("no value"), "no value");
    let old = r#"spec.a[1]: Duplicate value: map[string]interface {}{"status":"Unknown", "type":"Ready"}"#;
    let new = r#"spec.a[1]: Duplicate value: {"status":"Unknown","type":"Ready"}"#;
    assert_eq!(without_values(old), without_values(new));
}

#[test]
fn what_was_not_checked_is_no_reason() {
    let rest = "some validation rules were not checked because the object was invalid; \
                correct the existing errors to complete validation]";
    for value in ["null", "\"null\""] {
        let message =
            format!("x is invalid: [spec.a: Required value, <nil>: Invalid value: {value}: {rest}");
        assert_eq!(reason(&message), "spec.a: Required value");
    }
}
