//! `budget.minHealthy`: a number of nodes or a share of them, told apart by their JSON type as in `maxUnavailable`.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use super::crd::rule;

/// How many nodes must be healthy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MinHealthy {
    /// At least this many nodes.
    Count(u32),
    /// At least this share of the nodes, 0 to 100; a fraction of a node is rounded up.
    Percent(u8),
}

/// How it stands in JSON.
#[derive(Deserialize)]
#[serde(untagged)]
enum Raw {
    Int(i64),
    String(String),
}

impl TryFrom<Raw> for MinHealthy {
    type Error = String;

    fn try_from(raw: Raw) -> Result<Self, Self::Error> {
        let refused = |value: &dyn std::fmt::Display| {
            format!(
                "`minHealthy` must be a non-negative integer or a percentage between '0%' and '100%', was {value}"
            )
        };
        match raw {
            Raw::Int(count) => u32::try_from(count)
                .map(Self::Count)
                .map_err(|_| refused(&count)),
            Raw::String(text) => text
                .strip_suffix('%')
                .filter(|digits| {
                    !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
                })
                .and_then(|digits| digits.parse().ok())
                .filter(|percent| *percent <= 100)
                .map(Self::Percent)
                .ok_or_else(|| refused(&text)),
        }
    }
}

impl Serialize for MinHealthy {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Count(count) => serializer.serialize_u32(*count),
            Self::Percent(percent) => serializer.collect_str(&format_args!("{percent}%")),
        }
    }
}

impl<'de> Deserialize<'de> for MinHealthy {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Raw::deserialize(deserializer)?
            .try_into()
            .map_err(de::Error::custom)
    }
}

impl JsonSchema for MinHealthy {
    fn schema_name() -> Cow<'static, str> {
        "MinHealthy".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "x-kubernetes-int-or-string": true,
            "x-kubernetes-validations": [rule(
                "type(self) == int ? self >= 0 && self <= 100000 : self.matches('^(100|[0-9]{1,2})%$')",
                "must be a non-negative integer of at most 100000 or a percentage between '0%' and '100%'",
            )],
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn reads_and_writes_both_forms() {
        for (value, expected) in [
            (json!(0), MinHealthy::Count(0)),
            (json!(12), MinHealthy::Count(12)),
            (json!("51%"), MinHealthy::Percent(51)),
            (json!("100%"), MinHealthy::Percent(100)),
        ] {
            let read: MinHealthy = serde_json::from_value(value.clone()).expect("a valid value");
            assert_eq!(read, expected);
            assert_eq!(serde_json::to_value(read).expect("serialisable"), value);
        }
    }

    #[test]
    fn refuses_everything_else() {
        for value in [
            json!(-1),
            json!("101%"),
            json!("51"),
            json!("%"),
            json!("+1%"),
            json!("5 %"),
            json!(1.5),
            json!(null),
        ] {
            assert!(
                serde_json::from_value::<MinHealthy>(value.clone()).is_err(),
                "{value}"
            );
        }
    }
}
