//! Which changes matter? A hash of what somebody reads of each object tells a change from a heartbeat.
//!
//! At 5,000 nodes the caches tell of a changed Node some twenty times a second, and next to nothing of it is news.

use super::cache::Change;
use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};

/// The last hash of each object.
#[derive(Debug, Default)]
pub struct Marks(HashMap<Change, u64>);

impl Marks {
    /// Takes note of the object's hash, none when it is gone, and says whether it is another than before.
    pub fn differs(&mut self, change: Change, mark: Option<u64>) -> bool {
        let before = match mark {
            Some(mark) => self.0.insert(change, mark),
            None => self.0.remove(&change),
        };
        before != mark
    }
}

/// A hash that is good for as long as this process lives.
pub fn mark(of: impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    of.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tells_news_from_heartbeats() {
        let mut marks = Marks::default();
        let node = || Change::Node("w1".to_owned());
        assert!(marks.differs(node(), Some(mark("Ready"))));
        assert!(!marks.differs(node(), Some(mark("Ready"))));
        assert!(!marks.differs(Change::Device("w1".to_owned()), None));
        assert!(marks.differs(node(), Some(mark("NotReady"))));
        assert!(marks.differs(node(), None));
        assert!(!marks.differs(node(), None));
    }
}
