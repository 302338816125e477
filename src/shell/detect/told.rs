//! What people were told of each node last: nobody reads the same Event twice, and whoever removes one cause reads of the next.

use super::Detector;
use std::collections::BTreeMap;

/// By node and by the reason of the Event, what the last one was about.
#[derive(Debug, Default)]
pub(super) struct Told(BTreeMap<String, BTreeMap<&'static str, String>>);

impl Told {
    /// Was something else told of the node under this reason, or nothing? From now on it counts as told.
    pub fn is_news(&mut self, node: &str, reason: &'static str, about: &str) -> bool {
        let of_node = self.0.entry(node.to_owned()).or_default();
        of_node.insert(reason, about.to_owned()).as_deref() != Some(about)
    }

    /// Its cause is gone: another time it is news.
    pub fn is_over(&mut self, node: &str, reason: &str) {
        if let Some(of_node) = self.0.get_mut(node) {
            of_node.remove(reason);
        }
    }

    /// The Node is gone.
    pub fn forget(&mut self, node: &str) {
        self.0.remove(node);
    }
}

impl Detector {
    /// Calls people to something that only they can judge, once for each thing that it is `about`: a boot, or the words themselves where these
    /// name it. Returns whether it is news.
    pub(super) fn tell_once(
        &mut self,
        node: &str,
        reason: &'static str,
        about: &str,
        message: String,
    ) -> bool {
        let is_news = self.told.is_news(node, reason, about);
        if is_news {
            tracing::error!(node, "{message}");
            self.tell(node, reason, message);
        }
        is_news
    }
}
