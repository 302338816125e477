//! Objects as a cache keeps them: what the core sees of each is made once for each change, and read by everything that looks at all of them.
//!
//! A large cluster has 5,000 Nodes and 20,000 VolumeAttachments: metadata that no one reads would be most of what they take.

use super::{SlimAttachment, SlimNode};
use fencing_core::budget::Member;
use fencing_core::observed::{AttachmentView, NodeView, Ready};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::api::storage::v1::VolumeAttachment;
use kube::Resource;
use kube::runtime::reflector::Lookup;
use std::borrow::Cow;
use std::collections::BTreeMap;

/// A Node in a cache.
#[derive(Clone, Debug)]
pub struct CachedNode {
    /// As the core sees it.
    pub view: NodeView,
    /// When the Node was created.
    pub created: Option<Timestamp>,
}

/// A VolumeAttachment in a cache.
#[derive(Clone, Debug)]
pub struct CachedAttachment {
    /// As the core sees it.
    pub view: AttachmentView,
    /// Its node.
    pub node: String,
}

impl From<SlimNode> for CachedNode {
    fn from(node: SlimNode) -> Self {
        Self {
            view: node.view(),
            created: node.created(),
        }
    }
}

impl From<SlimAttachment> for CachedAttachment {
    fn from(attachment: SlimAttachment) -> Self {
        Self {
            view: attachment.view(),
            node: attachment.spec.node_name,
        }
    }
}

impl Member for CachedNode {
    fn name(&self) -> &str {
        &self.view.name
    }

    fn labels(&self) -> &BTreeMap<String, String> {
        &self.view.labels
    }

    fn ready(&self) -> Ready {
        self.view.ready()
    }
}

/// Known to a store by its name alone.
macro_rules! known_by_name {
    ($cached:ty, $kind:ty) => {
        impl Lookup for $cached {
            type DynamicType = ();

            fn kind(_: &()) -> Cow<'_, str> {
                <$kind as Resource>::kind(&())
            }

            fn group(_: &()) -> Cow<'_, str> {
                <$kind as Resource>::group(&())
            }

            fn version(_: &()) -> Cow<'_, str> {
                <$kind as Resource>::version(&())
            }

            fn plural(_: &()) -> Cow<'_, str> {
                <$kind as Resource>::plural(&())
            }

            fn name(&self) -> Option<Cow<'_, str>> {
                Some(Cow::Borrowed(&self.view.name))
            }

            fn namespace(&self) -> Option<Cow<'_, str>> {
                None
            }

            fn resource_version(&self) -> Option<Cow<'_, str>> {
                None
            }

            fn uid(&self) -> Option<Cow<'_, str>> {
                None
            }
        }
    };
}

known_by_name!(CachedNode, Node);
known_by_name!(CachedAttachment, VolumeAttachment);
