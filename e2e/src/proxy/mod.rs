//! A reverse proxy between the operator and the API server, which can hold, lose and spoil any request.
//!
//! It terminates TLS with a certificate of the lab's authority, and passes everything on as it came, the bearer token
//! included; watches stream. The operator's kubeconfig names it in place of the API server. [`Matcher`] says which
//! requests a rule is about ([`writes`] has one for each guarded write of the operator), [`Action`] what befalls them,
//! and a [`Hold`] freezes the operator at an exact point of its protocol without a hook in the product.
//!
//! ```no_run
//! # async fn example(plane: e2e::control_plane::ControlPlane) -> anyhow::Result<()> {
//! use std::time::Duration;
//! use e2e::proxy::{Action, Fate, Proxy, writes};
//!
//! let proxy = Proxy::start(&plane.url(), &plane.ca_pem(), &plane.serving_identity()?)?;
//! let kubeconfig = plane.kubeconfig_for_service_account("fencing", "operator", Some(&proxy.url())).await?;
//! let lost = proxy.rule(writes::claim().once(), Action::After(Fate::Silence));
//! let hold = proxy.hold(writes::taint());
//! hold.wait_arrived(Duration::from_secs(30)).await?;
//! hold.release();
//! assert_eq!(lost.hits(), 1);
//! # Ok(()) }
//! ```

mod forward;
mod matcher;
mod record;
mod rules;
#[cfg(test)]
mod tests;
pub mod writes;

use std::{
    net::{Ipv4Addr, SocketAddr, TcpListener},
    sync::Arc,
    time::Duration,
};

use anyhow::{Context, Result};
use http::Uri;
use serde_json::Value;

use self::{forward::Forwarder, rules::Deed};
pub use self::{
    matcher::{Matcher, Seen},
    record::Record,
    rules::{Action, Fate, Rule, Spoil},
};
pub use fencing_testbed::https::{Hold, Line};
use fencing_testbed::{
    https::{Leaf, Server, client, hold},
    pki::Identity,
    ports::Port,
};

/// A running proxy. It ends when dropped.
pub struct Proxy {
    server: Server,
    forwarder: Arc<Forwarder>,
}

impl Proxy {
    /// Starts a proxy on a free port of 127.0.0.1, before the API server at `upstream`, whose authority is
    /// `upstream_ca_pem`. It shows its clients this certificate, which they must take for that address.
    pub fn start(upstream: &str, upstream_ca_pem: &str, identity: &Identity) -> Result<Self> {
        let (port, listener) = Port::listen(Ipv4Addr::LOCALHOST.into())?;
        Self::on(listener, Some(port), upstream, upstream_ca_pem, identity)
    }

    /// The same on this socket.
    pub fn on(
        listener: TcpListener,
        port: Option<Port>,
        upstream: &str,
        upstream_ca_pem: &str,
        identity: &Identity,
    ) -> Result<Self> {
        let upstream: Uri = upstream
            .parse()
            .with_context(|| format!("`{upstream}` is no URL"))?;
        let leaf = Leaf::new(identity)?;
        let forwarder = Arc::new(Forwarder::new(upstream, client(upstream_ca_pem)?, leaf)?);
        let server = Server::on(listener, port, forwarder.clone())?;
        Ok(Self { server, forwarder })
    }

    /// What goes as `server` into a kubeconfig.
    pub fn url(&self) -> String {
        format!("https://{}", self.address())
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.server.address()
    }

    /// From now on this befalls the requests that match. Of several rules that match, the oldest counts.
    pub fn rule(&self, matcher: Matcher, action: Action) -> Rule {
        self.forwarder.rules.add(matcher, Deed::Act(action))
    }

    /// From now on each event of the watches that match becomes what this makes of it: nothing, itself, or others.
    pub fn edit(
        &self,
        matcher: Matcher,
        edit: impl Fn(Value) -> Vec<Value> + Send + Sync + 'static,
    ) -> Rule {
        self.forwarder
            .rules
            .add(matcher, Deed::Edit(Arc::new(edit)))
    }

    /// From now on this JSON is the answer to the requests that match, as if an API server that is behind had said it: nobody asks the one that
    /// is here.
    pub fn answer(&self, matcher: Matcher, answer: Value) -> Rule {
        self.forwarder
            .rules
            .add(matcher, Deed::Answer(Arc::new(answer)))
    }

    /// Holds the next request that matches (or the nth, if the matcher says so) before the API server sees it.
    pub fn hold(&self, matcher: Matcher) -> Hold {
        let (hold, gate) = hold();
        self.forwarder.rules.add(matcher, Deed::HoldBefore(gate));
        hold
    }

    /// Holds the answer to it: the API server has committed, and its client does not know. After [`Hold::drop_it`] it
    /// never will: the connection is closed.
    pub fn hold_answer(&self, matcher: Matcher) -> Hold {
        let (hold, gate) = hold();
        self.forwarder.rules.add(matcher, Deed::HoldAfter(gate));
        hold
    }

    /// Takes away every rule; requests that are held stay held.
    pub fn clear_rules(&self) {
        self.forwarder.rules.clear();
    }

    /// Cuts the clients off (`Line::Refused` at once, `Line::BlackHole` and `Line::Dark` silently), or lets them back.
    pub fn set_line(&self, line: Line) -> Result<()> {
        self.server.set_line(line)
    }

    /// Every request that it has received, in order.
    pub fn log(&self) -> Vec<Record> {
        self.forwarder.log.entries()
    }

    /// Waits for a request, past or future, that fulfils the condition; an error when there is none `within` this time.
    pub async fn wait_for(
        &self,
        within: Duration,
        is_it: impl FnMut(&Record) -> bool,
    ) -> Result<Record> {
        self.forwarder.log.wait_for(within, is_it).await
    }
}
