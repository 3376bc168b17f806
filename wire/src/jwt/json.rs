//! JSON in which no object has a name twice (RFC 7515 §4): parsers differ in the member that they use.

use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};
use std::fmt;

/// Parses an object.
pub(super) fn object(text: &[u8]) -> Option<Map<String, Value>> {
    match serde_json::from_slice(text) {
        Ok(UniqueJson(Value::Object(it))) => Some(it),
        _ => None,
    }
}

/// A value whose objects have every name once.
struct UniqueJson(Value);

impl<'de> Deserialize<'de> for UniqueJson {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(UniqueVisitor)
    }
}

struct UniqueVisitor;

impl<'de> Visitor<'de> for UniqueVisitor {
    type Value = UniqueJson;

    fn expecting(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<UniqueJson, E> {
        Ok(UniqueJson(Value::Null))
    }

    fn visit_bool<E>(self, it: bool) -> Result<UniqueJson, E> {
        Ok(UniqueJson(it.into()))
    }

    fn visit_u64<E>(self, it: u64) -> Result<UniqueJson, E> {
        Ok(UniqueJson(it.into()))
    }

    fn visit_i64<E>(self, it: i64) -> Result<UniqueJson, E> {
        Ok(UniqueJson(it.into()))
    }

    fn visit_f64<E>(self, it: f64) -> Result<UniqueJson, E> {
        Ok(UniqueJson(it.into()))
    }

    fn visit_str<E>(self, it: &str) -> Result<UniqueJson, E> {
        Ok(UniqueJson(it.into()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut from: A) -> Result<UniqueJson, A::Error> {
        let mut all = Vec::new();
        while let Some(UniqueJson(it)) = from.next_element()? {
            all.push(it);
        }
        Ok(UniqueJson(Value::Array(all)))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut from: A) -> Result<UniqueJson, A::Error> {
        let mut all = Map::new();
        while let Some((name, UniqueJson(it))) = from.next_entry::<String, UniqueJson>()? {
            if all.insert(name, it).is_some() {
                return Err(A::Error::custom("a name occurs twice"));
            }
        }
        Ok(UniqueJson(Value::Object(all)))
    }
}
