//! A list of VolumeAttachments of which only those of some nodes are kept: Kubernetes selects them by name only, and a large cluster has tens of
//! thousands. Each is dropped as soon as it is decoded, so that the list costs its text and no more.

use super::SlimAttachment;
use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt;

/// The list's own metadata, as far as it tells whether the list is whole.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ListHead {
    /// Of the moment that the list shows.
    pub resource_version: Option<String>,
    /// Set: the list goes on elsewhere.
    #[serde(rename = "continue")]
    pub continue_: Option<String>,
}

/// What is kept of the list.
#[derive(Clone, Debug, Default)]
pub struct Attachments {
    /// Its metadata.
    pub head: ListHead,
    /// Those of the wanted nodes.
    pub items: Vec<SlimAttachment>,
}

/// Decodes a list of VolumeAttachments, and keeps those of these nodes.
///
/// # Errors
/// The text is no list of VolumeAttachments: `items` has to be there, whatever is in it.
pub fn attachments_of(text: &str, nodes: &BTreeSet<String>) -> serde_json::Result<Attachments> {
    let mut json = serde_json::Deserializer::from_str(text);
    let list = Of(nodes).deserialize(&mut json)?;
    json.end()?;
    Ok(list)
}

/// Of these nodes.
#[derive(Clone, Copy)]
struct Of<'a>(&'a BTreeSet<String>);

impl<'de> DeserializeSeed<'de> for Of<'_> {
    type Value = Attachments;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<Self::Value, D::Error> {
        from.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Of<'_> {
    type Value = Attachments;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of VolumeAttachments")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let (mut head, mut items) = (ListHead::default(), None);
        while let Some(key) = map.next_key::<String>()? {
            match key.as_str() {
                "metadata" => head = map.next_value()?,
                "items" => items = Some(map.next_value_seed(Items(self.0))?),
                _ => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        let items = items.ok_or_else(|| Error::missing_field("items"))?;
        Ok(Attachments { head, items })
    }
}

struct Items<'a>(&'a BTreeSet<String>);

impl<'de> DeserializeSeed<'de> for Items<'_> {
    type Value = Vec<SlimAttachment>;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<Self::Value, D::Error> {
        from.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for Items<'_> {
    type Value = Vec<SlimAttachment>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("VolumeAttachments")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut all: A) -> Result<Self::Value, A::Error> {
        let mut kept = Vec::new();
        while let Some(text) = all.next_element::<&RawValue>()? {
            let whose: Whose<'_> = serde_json::from_str(text.get()).map_err(A::Error::custom)?;
            if self.0.contains(&*whose.spec.node_name) {
                let attachment = serde_json::from_str(text.get());
                kept.push(attachment.map_err(A::Error::custom)?);
            }
        }
        Ok(kept)
    }
}

/// As much of a VolumeAttachment as says which node has it, copied from nowhere.
#[derive(Deserialize, Default)]
#[serde(default)]
struct Whose<'a> {
    #[serde(borrow)]
    spec: WhoseSpec<'a>,
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct WhoseSpec<'a> {
    #[serde(borrow)]
    node_name: Cow<'a, str>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn attachment(name: &str, node: &str) -> Value {
        let fields = json!({"manager": "csi", "fieldsV1": {"f:spec": {}}});
        json!({
            "metadata": {"name": name, "uid": format!("uid-{name}"), "managedFields": [fields]},
            "spec": {"attacher": "lab.csi", "nodeName": node, "source": {"persistentVolumeName": "pv"}},
            "status": {"attached": true},
        })
    }

    fn decoded(list: &Value) -> serde_json::Result<Attachments> {
        let nodes = BTreeSet::from(["a".to_owned(), "b".to_owned()]);
        attachments_of(&list.to_string(), &nodes)
    }

    #[test]
    fn those_of_the_wanted_nodes_are_kept() {
        let items = [
            attachment("1", "a"),
            attachment("2", "other"),
            attachment("3", "b"),
        ];
        let list = json!({"metadata": {"resourceVersion": "7"}, "items": items});
        let list = decoded(&list).expect("a list");
        let names = list.items.iter().map(|it| it.view().name);
        assert_eq!(names.collect::<Vec<_>>(), ["1", "3"]);
        assert_eq!(list.head.resource_version.as_deref(), Some("7"));
        assert_eq!(list.head.continue_, None);
    }

    /// F22: an answer that is not the list is not an empty one.
    #[test]
    fn what_is_no_list_is_none() {
        for wrong in [
            json!({}),
            json!({"metadata": {"resourceVersion": "7"}}),
            json!({"metadata": {"resourceVersion": "7"}, "items": null}),
            json!({"metadata": {"resourceVersion": "7"}, "items": ["1"]}),
            json!([]),
        ] {
            assert!(decoded(&wrong).is_err(), "{wrong}");
        }
    }
}
