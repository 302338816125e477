//! A service on loopback that answers as a test has written it, and keeps what it was asked.

use super::account::Accounts;
use crate::address::{Address, AddressRules};
use crate::clock::Clock;
use crate::credentials::Credentials;
use crate::past::Past;
use crate::tls::CertificateCheck;
use crate::{NodeFacts, Parts};
use serde_json::Value;
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};

/// The answers of a service by method and path: a first line without its version, headers, a body. The last of several is repeated.
type Answers = HashMap<String, Vec<(String, String, String)>>;

/// Answers that are none: the connection is closed, or nothing comes.
pub(crate) const HANGS_UP: &str = "hangs up";
pub(crate) const SAYS_NOTHING: &str = "says nothing";

/// Stands in an answer for the `requestID` of the request, or the `requestId` of its path, which is the end of that and no part of its name here.
pub(crate) const REQUEST_ID: &str = "$requestID";
const REQUEST_ID_OF_PATH: &str = "requestId=";

/// A service.
pub(crate) struct Service {
    /// `http://127.0.0.1:PORT`.
    pub(crate) url: String,
    answers: Arc<Mutex<Answers>>,
    asked: Arc<Mutex<Vec<String>>>,
}

fn lock<T>(value: &Mutex<T>) -> MutexGuard<'_, T> {
    value.lock().expect("no test has panicked with it")
}

impl Service {
    pub(crate) async fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let (answers, asked) = (Arc::<Mutex<Answers>>::default(), Arc::default());
        let (for_answers, for_asked) = (Arc::clone(&answers), Arc::clone(&asked));
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (answers, asked) = (Arc::clone(&for_answers), Arc::clone(&for_asked));
                tokio::spawn(async move { serve(stream, &answers, &asked).await });
            }
        });
        Self {
            url,
            answers,
            asked,
        }
    }

    /// From now on this request is answered like this; more than once: one after the other.
    pub(crate) fn answer(&self, request: &str, status: &str, headers: &str, body: impl ToString) {
        let answer = (status.to_owned(), headers.to_owned(), body.to_string());
        lock(&self.answers)
            .entry(request.to_owned())
            .or_default()
            .push(answer);
    }

    /// The same in place of the answers before.
    pub(crate) fn now(&self, request: &str, status: &str, headers: &str, body: impl ToString) {
        lock(&self.answers).remove(request);
        self.answer(request, status, headers, body);
    }

    /// Heads and bodies of all requests since this was asked last.
    pub(crate) fn asked(&self) -> Vec<String> {
        std::mem::take(&mut lock(&self.asked))
    }

    /// What a driver is made of that talks to it.
    pub(crate) fn parts(&self, node: NodeFacts, secret: &[(&'static str, &str)]) -> Parts {
        let loopback = vec!["127.0.0.0/8".parse().expect("a range")];
        let keys: Vec<&'static str> = secret.iter().map(|(key, _)| *key).collect();
        let data: BTreeMap<String, Vec<u8>> = secret
            .iter()
            .map(|(key, value)| ((*key).to_owned(), value.as_bytes().to_vec()))
            .collect();
        let credentials = Credentials::with_keys("cloud", &keys, &data, &BTreeMap::new());
        Parts {
            node,
            address: Address::parse(&self.url).expect("an address"),
            secret: ("cloud".to_owned(), "1".to_owned()),
            credentials: Arc::new(credentials.expect("credentials")),
            verification: CertificateCheck::None,
            rules: Arc::new(AddressRules::new(loopback, Vec::new())),
            call_timeout: Duration::from_secs(20),
            command_timeout: Duration::from_secs(2),
            past: Past::default(),
            keyring: Arc::default(),
            accounts: Arc::<Accounts>::default(),
            clock: Clock::SYSTEM,
        }
    }
}

async fn serve(stream: TcpStream, answers: &Mutex<Answers>, asked: &Mutex<Vec<String>>) {
    let mut stream = BufReader::new(stream);
    loop {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            match stream.read_line(&mut head).await {
                Ok(read) if read > 0 => {}
                _ => return,
            }
        }
        let length = head
            .lines()
            .find_map(|line| line.strip_prefix("content-length: "));
        let mut body = vec![0; length.map_or(0, |length| length.parse().expect("a length"))];
        stream.read_exact(&mut body).await.expect("a whole body");
        let mut request: Vec<&str> = head.split(' ').take(2).collect();
        let body = String::from_utf8(body).expect("text");
        lock(asked).push(format!("{head}{body}"));
        let document = serde_json::from_str::<Value>(&body).unwrap_or_default();
        // A call of JSON-RPC has its method behind the path.
        request.extend(document["method"].as_str());
        let request = request.join(" ");
        let (request, own) = match request.split_once(REQUEST_ID_OF_PATH) {
            Some((path, id)) => (format!("{path}{REQUEST_ID_OF_PATH}"), id.to_owned()),
            None => (request, String::new()),
        };
        let id = document["requestID"].as_str().map_or(own, str::to_owned);
        let answer = match lock(answers).get_mut(&request) {
            Some(all) if all.len() > 1 => all.remove(0),
            Some(all) => all[0].clone(),
            None => ("418 not written".to_owned(), String::new(), request),
        };
        let (status, headers, body) = answer;
        let body = body.replace(REQUEST_ID, &id);
        match status.as_str() {
            HANGS_UP => return,
            SAYS_NOTHING => std::future::pending::<()>().await,
            _ => {}
        }
        let length = body.len();
        let text = format!("HTTP/1.1 {status}\r\n{headers}content-length: {length}\r\n\r\n{body}");
        if stream.get_mut().write_all(text.as_bytes()).await.is_err() {
            return;
        }
    }
}
