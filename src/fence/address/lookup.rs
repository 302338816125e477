//! Who says where a name leads.

use futures::future::{BoxFuture, FutureExt};
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

/// The addresses of a host, each with the port.
type Found = BoxFuture<'static, io::Result<Vec<SocketAddr>>>;
/// What is asked.
type Ask = dyn Fn(&str, u16) -> Found + Send + Sync;

/// Asks for the addresses of a host and port; the system's resolver, unless it is another.
#[derive(Clone)]
pub struct Lookup(Arc<Ask>);

impl Lookup {
    /// One that asks like this.
    pub fn new(ask: impl Fn(&str, u16) -> Found + Send + Sync + 'static) -> Self {
        Self(Arc::new(ask))
    }

    /// Where the name leads now.
    #[must_use]
    pub fn of(&self, host: &str, port: u16) -> Found {
        (self.0)(host, port)
    }
}

impl Default for Lookup {
    fn default() -> Self {
        Self::new(|host, port| {
            let host = host.to_owned();
            async move { Ok(tokio::net::lookup_host((host, port)).await?.collect()) }.boxed()
        })
    }
}

impl fmt::Debug for Lookup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Lookup")
    }
}
