//! The same cluster hours later: the plugin asks the API server what time it is, and reaches it through a proxy that dates this one answer later.
//! Everything else is the API server's own, so that no timestamp of an object is made up, and nothing has to be waited for.

use std::time::Duration;

use anyhow::Result;
use e2e::lab::Lab;
use e2e::proxy::{Action, Matcher, Proxy};

use crate::plugin::scene::{NAMESPACE, kubectl};

/// Who reads through the proxy.
const READER: &str = "reader";

/// A proxy whose date may be set.
pub(super) struct Later {
    proxy: Proxy,
    /// What has the plugin go this way.
    pub(super) flags: String,
}

impl Later {
    pub(super) async fn start(lab: &Lab) -> Result<Self> {
        let account = format!("create serviceaccount {READER} -n {NAMESPACE}");
        kubectl(lab, &account).await?;
        let binding = format!(
            "create clusterrolebinding {READER} --clusterrole=cluster-admin --serviceaccount={NAMESPACE}:{READER}"
        );
        kubectl(lab, &binding).await?;
        let proxy = lab.proxy()?;
        let plane = &lab.control_plane;
        let path = plane
            .kubeconfig_for_service_account(NAMESPACE, READER, Some(&proxy.url()))
            .await?;
        Ok(Self {
            proxy,
            flags: format!("--kubeconfig \"{}\"", path.display()),
        })
    }

    /// From now on it is so many minutes later.
    pub(super) fn minutes(&self, minutes: u64) {
        self.proxy.clear_rules();
        let later = Action::Dated(Duration::from_secs(60 * minutes));
        let asked_for = Matcher::new("what time it is").path("/version");
        self.proxy.rule(asked_for, later);
    }
}
