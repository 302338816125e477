//! Forms of which no more is kept than they name, whatever stands there: what a `Value` makes of a few bytes takes hundreds of them, and a page of a
//! list has megabytes (S19).

use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserializer, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor};
use std::fmt;
use std::marker::PhantomData;

/// A list that is refused where it is longer than this.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Few<T, const MOST: usize>(pub(crate) Vec<T>);

/// A text; anything else is none.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Text(Option<String>);

/// A whole number, or a text of ten digits at most that is one; anything else is none.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Whole(pub(crate) Option<u64>);

/// Does anything stand there but `null` and `false`?
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Any(pub(crate) bool);

/// An object; anything else is an empty one.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Object<T>(pub(crate) T);

/// A list of objects, of which what is none is an empty one; anything else is an empty list. Refused where it is longer than this.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Objects<T, const MOST: usize>(pub(crate) Vec<Object<T>>);

impl Text {
    /// The text.
    pub(crate) fn as_str(&self) -> Option<&str> {
        self.0.as_deref()
    }
}

impl<T, const MOST: usize> Default for Few<T, MOST> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

/// What a form makes of each kind of JSON, where it is not what the form is for.
macro_rules! otherwise {
    ($none:expr; $($kind:ident)*) => { $(otherwise!(@ $kind $none);)* };
    (@ unit $none:expr) => { fn visit_unit<E>(self) -> Result<Self::Value, E> { Ok($none) } };
    (@ bool $none:expr) => { fn visit_bool<E>(self, _: bool) -> Result<Self::Value, E> { Ok($none) } };
    (@ numbers $none:expr) => {
        fn visit_i64<E>(self, _: i64) -> Result<Self::Value, E> { Ok($none) }
        fn visit_u64<E>(self, _: u64) -> Result<Self::Value, E> { Ok($none) }
        fn visit_f64<E>(self, _: f64) -> Result<Self::Value, E> { Ok($none) }
    };
    (@ text $none:expr) => { fn visit_str<E>(self, _: &str) -> Result<Self::Value, E> { Ok($none) } };
    (@ list $none:expr) => {
        fn visit_seq<A: SeqAccess<'de>>(self, items: A) -> Result<Self::Value, A::Error> {
            IgnoredAny.visit_seq(items)?;
            Ok($none)
        }
    };
    (@ object $none:expr) => {
        fn visit_map<A: MapAccess<'de>>(self, entries: A) -> Result<Self::Value, A::Error> {
            IgnoredAny.visit_map(entries)?;
            Ok($none)
        }
    };
}

/// Reads a form of this name.
struct Form<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>, const MOST: usize> Visitor<'de> for Form<Few<T, MOST>> {
    type Value = Few<T, MOST>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a short list")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut entries: A) -> Result<Self::Value, A::Error> {
        let mut kept = Vec::new();
        while let Some(entry) = entries.next_element()? {
            if kept.len() >= MOST {
                return Err(A::Error::custom(format_args!(
                    "a list has more than {MOST} entries"
                )));
            }
            kept.push(entry);
        }
        Ok(Few(kept))
    }
}

impl<'de> Visitor<'de> for Form<Text> {
    type Value = Text;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any JSON")
    }

    fn visit_str<E>(self, text: &str) -> Result<Text, E> {
        Ok(Text(Some(text.to_owned())))
    }

    otherwise!(Text(None); unit bool numbers list object);
}

impl<'de> Visitor<'de> for Form<Whole> {
    type Value = Whole;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any JSON")
    }

    fn visit_u64<E>(self, number: u64) -> Result<Whole, E> {
        Ok(Whole(Some(number)))
    }

    fn visit_i64<E>(self, number: i64) -> Result<Whole, E> {
        Ok(Whole(u64::try_from(number).ok()))
    }

    fn visit_f64<E>(self, _: f64) -> Result<Whole, E> {
        Ok(Whole(None))
    }

    fn visit_str<E>(self, text: &str) -> Result<Whole, E> {
        let number = text.parse().ok().filter(|_| text.len() <= 10);
        Ok(Whole(number))
    }

    otherwise!(Whole(None); unit bool list object);
}

impl<'de> Visitor<'de> for Form<Any> {
    type Value = Any;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any JSON")
    }

    fn visit_bool<E>(self, is_so: bool) -> Result<Any, E> {
        Ok(Any(is_so))
    }

    otherwise!(Any(false); unit);
    otherwise!(Any(true); numbers text list object);
}

impl<'de, T: Deserialize<'de> + Default> Visitor<'de> for Form<Object<T>> {
    type Value = Object<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any JSON")
    }

    fn visit_map<A: MapAccess<'de>>(self, entries: A) -> Result<Self::Value, A::Error> {
        T::deserialize(MapAccessDeserializer::new(entries)).map(Object)
    }

    otherwise!(Object::default(); unit bool numbers text list);
}

impl<'de, T: Deserialize<'de> + Default, const MOST: usize> Visitor<'de>
    for Form<Objects<T, MOST>>
{
    type Value = Objects<T, MOST>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any JSON")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, entries: A) -> Result<Self::Value, A::Error> {
        let few = Form::<Few<Object<T>, MOST>>(PhantomData).visit_seq(entries)?;
        Ok(Objects(few.0))
    }

    otherwise!(Objects(Vec::new()); unit bool numbers text object);
}

impl<'de, T: Deserialize<'de>, const MOST: usize> Deserialize<'de> for Few<T, MOST> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_seq(Form::<Self>(PhantomData))
    }
}

impl<'de> Deserialize<'de> for Text {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(Form::<Self>(PhantomData))
    }
}

impl<'de> Deserialize<'de> for Whole {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(Form::<Self>(PhantomData))
    }
}

impl<'de> Deserialize<'de> for Any {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(Form::<Self>(PhantomData))
    }
}

impl<'de, T: Deserialize<'de> + Default> Deserialize<'de> for Object<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(Form::<Self>(PhantomData))
    }
}

impl<'de, T: Deserialize<'de> + Default, const MOST: usize> Deserialize<'de> for Objects<T, MOST> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(Form::<Self>(PhantomData))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    #[derive(Debug, Default, PartialEq, Deserialize)]
    #[serde(default)]
    struct Named {
        name: Text,
        flag: Any,
    }

    fn named(name: Option<&str>, flag: bool) -> Object<Named> {
        Object(Named {
            name: Text(name.map(str::to_owned)),
            flag: Any(flag),
        })
    }

    fn read<T: serde::de::DeserializeOwned>(value: &Value) -> serde_json::Result<T> {
        serde_json::from_str(&value.to_string())
    }

    #[test]
    fn what_is_no_object_is_an_empty_one() {
        let of = |value: Value| read::<Object<Named>>(&value).expect("any JSON");
        assert_eq!(
            of(json!({"name": "a", "other": [{}]})),
            named(Some("a"), false)
        );
        // A list is no object whose fields come one after the other.
        for value in [
            json!(["a", true]),
            json!("a"),
            json!(1),
            json!(1.5),
            json!(-1),
            json!(true),
            json!(null),
        ] {
            assert_eq!(of(value), named(None, false));
        }
        for (flag, is_set) in [
            (json!(true), true),
            (json!(false), false),
            (json!(null), false),
            (json!(0), true),
            (json!(""), true),
            (json!([]), true),
            (json!({}), true),
        ] {
            assert_eq!(of(json!({"flag": flag, "name": {}})), named(None, is_set));
        }
    }

    #[test]
    fn a_number_may_be_written_as_a_text() {
        let of = |value: Value| read::<Whole>(&value).expect("any JSON").0;
        assert_eq!(of(json!(100)), Some(100));
        assert_eq!(of(json!("100")), Some(100));
        for value in [
            json!(-1),
            json!(1.5),
            json!("a"),
            json!("00000000100"),
            json!([1]),
            json!({}),
            json!(null),
        ] {
            assert_eq!(of(value), None);
        }
    }

    #[test]
    fn a_list_that_is_longer_is_refused() {
        let list = |length: usize| json!(vec!["a"; length]);
        assert!(read::<Few<String, 3>>(&list(3)).is_ok());
        assert!(read::<Few<String, 3>>(&list(4)).is_err());
        assert!(read::<Few<String, 3>>(&json!({})).is_err());
        let objects = |value: &Value| read::<Objects<Named, 3>>(value).map(|it| it.0.len());
        assert_eq!(objects(&list(3)).expect("three"), 3);
        assert!(objects(&list(4)).is_err());
        assert_eq!(objects(&json!({"a": 1})).expect("none"), 0);
        assert_eq!(objects(&json!(null)).expect("none"), 0);
    }
}
