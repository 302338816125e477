//! An API server in memory: the part of the real one's HTTP and JSON that the operator uses, and as exact as that part is.
//!
//! It knows a dozen kinds ([`kinds`]), lists with pages and field selectors, watches with bookmarks and 410, the four ways to write with
//! their preconditions, the status as a resource of its own, and what the CustomResourceDefinitions prune, default and refuse
//! ([`schema`], [`cel`]). It has no threads and no clock of its own. How exact it is, is for [`script`] to say: scripts of requests whose
//! answers must be the same here and from a real API server. Server-side apply is not served, because the operator uses none: a fake that is
//! not asked cannot be wrong.
//!
//! A simulation puts [`Api`] behind kube's client in place of a connection ([`answer::Answer::into_response`]), and delays, loses
//! and forges on the way whatever it likes.

pub mod answer;
pub mod api;
pub mod cel;
mod deletes;
pub mod kinds;
mod lists;
pub mod request;
pub mod rules;
pub mod schema;
pub mod script;
mod select;
pub mod store;
mod writes;

pub use answer::{Answer, Refusal};
pub use api::Api;
pub use request::Request;
