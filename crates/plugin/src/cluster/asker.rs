//! Who asks, and when: what is written in a user's name says both as the API server has them.

use super::{Cluster, Error, VIEWER, ask_within};
use crate::output::complain;
use fencing_drivers::clock;
use jiff::Timestamp;
use k8s_openapi::api::authentication::v1::SelfSubjectReview;
use kube::Api;
use kube::api::PostParams;

/// Where the API server does not date its answer, which it always does (upstream's pkg/registry/authentication/selfsubjectreview); what stands
/// between may not.
const NO_DATE: &str =
    "the API server does not date its answer: this is dated by the clock of this machine";

/// Who asks.
#[derive(Debug, Clone)]
pub struct Asker {
    /// The name that the API server has authenticated.
    pub name: String,
    /// When it did that, by its own clock (whole seconds): what is compared with what the operator writes is dated by this, since the clock of
    /// a laptop may be minutes off.
    pub at: Timestamp,
}

impl Cluster {
    /// Who asks, as the API server knows them, and when by its clock.
    ///
    /// # Errors
    /// [`Error`].
    pub async fn asker(&self) -> Result<Asker, Error> {
        let reviews: Api<SelfSubjectReview> = Api::all(self.clients.reads.clone());
        let (params, asked) = (PostParams::default(), SelfSubjectReview::default());
        let review = ask_within(self.limits.read, reviews.create(&params, &asked)).await;
        let what = || "ask who you are".to_owned();
        let review = review.map_err(|it| self.error::<SelfSubjectReview>(it, what(), VIEWER))?;
        let at = review.metadata.creation_timestamp.map(|it| it.0);
        let name = review.status.and_then(|it| it.user_info?.username);
        let name = name.filter(|it| !it.is_empty());
        Ok(Asker {
            name: name.ok_or_else(|| {
                Error::Config("the API server does not report who you are".to_owned())
            })?,
            at: at.unwrap_or_else(|| {
                complain(NO_DATE);
                clock::wall()
            }),
        })
    }
}
