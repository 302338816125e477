//! Which VolumeAttachments a node has: every round of an incident asks, and a large cluster has tens of thousands to look through.

use super::name;
use fencing_cluster::slim::CachedAttachment;
use kube::runtime::reflector::{ObjectRef, Store};
use kube::runtime::watcher::Event;
use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

type ByNode = HashMap<String, BTreeSet<String>>;

/// Names of the VolumeAttachments of each node, as the watch tells of them right before its store has them.
#[derive(Clone, Default)]
pub struct Attached(Arc<Mutex<Index>>);

#[derive(Default)]
struct Index {
    by_node: ByNode,
    /// Of a list that is under way: the store has it at its end.
    listed: ByNode,
}

impl Attached {
    /// Takes note of what the watch tells.
    pub fn note(&self, event: &Event<CachedAttachment>) {
        let mut index = self.index();
        match event {
            Event::Apply(attachment) => add(&mut index.by_node, attachment),
            Event::Delete(attachment) => {
                let node = &attachment.node;
                if let Some(names) = index.by_node.get_mut(node) {
                    names.remove(&name(attachment));
                    if names.is_empty() {
                        index.by_node.remove(node);
                    }
                }
            }
            Event::Init => index.listed.clear(),
            Event::InitApply(attachment) => add(&mut index.listed, attachment),
            Event::InitDone => index.by_node = std::mem::take(&mut index.listed),
        }
    }

    /// Those of this node that the store has.
    pub fn of(&self, node: &str, store: &Store<CachedAttachment>) -> Vec<Arc<CachedAttachment>> {
        let index = self.index();
        let names = index.by_node.get(node).into_iter().flatten();
        let stored = names.filter_map(|name| store.get(&ObjectRef::new(name)));
        stored.filter(|it| it.node == node).collect()
    }

    fn index(&self) -> MutexGuard<'_, Index> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn add(to: &mut ByNode, attachment: &CachedAttachment) {
    let names = to.entry(attachment.node.clone()).or_default();
    names.insert(name(attachment));
}

#[cfg(test)]
mod tests {
    use super::*;
    use fencing_cluster::slim::SlimAttachment;
    use kube::runtime::reflector;
    use serde_json::json;

    fn attachment(name: &str, node: &str) -> CachedAttachment {
        let object = json!({"metadata": {"name": name}, "spec": {"nodeName": node}});
        let attachment: SlimAttachment = serde_json::from_value(object).expect("one");
        CachedAttachment::from(attachment)
    }

    /// S1: one that is there and is not found would free the volume of a node that has it.
    #[test]
    fn those_of_a_node_are_found_whatever_the_watch_has_told_before() {
        let (attached, (store, mut writer)) = (Attached::default(), reflector::store());
        let mut tell = |event: Event<CachedAttachment>| {
            attached.note(&event);
            writer.apply_watcher_event(&event);
        };
        let of = |node: &str| {
            let found = attached.of(node, &store).into_iter();
            found.map(|it| name(&*it)).collect::<Vec<_>>()
        };
        tell(Event::Init);
        tell(Event::InitApply(attachment("1", "a")));
        tell(Event::InitApply(attachment("2", "b")));
        tell(Event::InitDone);
        tell(Event::Apply(attachment("3", "a")));
        assert_eq!(
            (of("a"), of("b")),
            (vec!["1".into(), "3".into()], vec!["2".to_owned()])
        );
        // Of that name, but another's.
        tell(Event::Apply(attachment("3", "b")));
        assert_eq!((of("a"), of("b").len()), (vec!["1".to_owned()], 2));
        // While a list is under way what was there before is there, and so is it if the list is given up.
        tell(Event::Init);
        tell(Event::InitApply(attachment("4", "a")));
        assert_eq!(of("a"), ["1"]);
        tell(Event::Init);
        tell(Event::InitApply(attachment("2", "b")));
        tell(Event::InitDone);
        assert_eq!((of("a").len(), of("b")), (0, vec!["2".to_owned()]));
        tell(Event::Delete(attachment("2", "b")));
        assert!(of("b").is_empty());
    }
}
