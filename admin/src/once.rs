//! JSON whose objects have each name once: RFC 8259 §4 leaves the meaning of duplicates open, and parsers differ. The
//! meaning of names is not here.

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};
use std::cell::RefCell;
use std::fmt;

/// The reason for a parse error.
#[derive(Debug)]
pub enum UnreadRequestBody {
    /// The place of a repeated name: names with dots, list indexes in brackets.
    Twice(String),
    /// It is not JSON.
    NoJson(serde_json::Error),
}

/// Parses JSON, without further bytes.
///
/// # Errors
/// It is invalid, or an object repeats a name.
pub fn read(text: &[u8]) -> Result<Value, UnreadRequestBody> {
    let place = RefCell::new(Vec::new());
    let mut json = serde_json::Deserializer::from_slice(text);
    let found = Once(&place).deserialize(&mut json).and_then(|it| json.end().map(|()| it));
    found.map_err(|it| match place.take() {
        steps if steps.is_empty() => UnreadRequestBody::NoJson(it),
        steps => UnreadRequestBody::Twice(spell(&steps)),
    })
}

/// A step from a value to one within it.
enum JsonStep {
    Name(String),
    Number(usize),
}

fn spell(steps: &[JsonStep]) -> String {
    let mut text = String::new();
    for it in steps.iter().rev() {
        match it {
            JsonStep::Name(name) if text.is_empty() => text.push_str(name),
            JsonStep::Name(name) => text.extend([".", name]),
            JsonStep::Number(number) => {
                let whole = if text.is_empty() { "body" } else { "" };
                text.push_str(&format!("{whole}[{number}]"));
            }
        }
    }
    text
}

/// A value; for a duplicate within it, the steps to that, the last first: recorded while unwinding, so that a valid input
/// costs nothing.
#[derive(Clone, Copy)]
struct Once<'a>(&'a RefCell<Vec<JsonStep>>);

impl Once<'_> {
    fn pass(self, step: JsonStep) {
        let mut place = self.0.borrow_mut();
        if !place.is_empty() {
            place.push(step);
        }
    }
}

impl<'de> DeserializeSeed<'de> for Once<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<Value, D::Error> {
        json.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Once<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, it: bool) -> Result<Value, E> {
        Ok(it.into())
    }

    fn visit_i64<E>(self, it: i64) -> Result<Value, E> {
        Ok(it.into())
    }

    fn visit_u64<E>(self, it: u64) -> Result<Value, E> {
        Ok(it.into())
    }

    fn visit_f64<E>(self, it: f64) -> Result<Value, E> {
        Ok(it.into())
    }

    fn visit_str<E>(self, it: &str) -> Result<Value, E> {
        Ok(it.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut members: A) -> Result<Value, A::Error> {
        let mut all = Vec::new();
        while let Some(it) =
            members.next_element_seed(self).inspect_err(|_| self.pass(JsonStep::Number(all.len())))?
        {
            all.push(it);
        }
        Ok(all.into())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Value, A::Error> {
        let mut all = Map::new();
        while let Some(name) = members.next_key::<String>()? {
            if all.contains_key(&name) {
                self.0.borrow_mut().push(JsonStep::Name(name));
                return Err(A::Error::custom("a name comes twice"));
            }
            let value =
                members.next_value_seed(self).inspect_err(|_| self.pass(JsonStep::Name(name.clone())))?;
            all.insert(name, value);
        }
        Ok(all.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_without_duplicate_keys_is_read_as_by_serde() {
        let text =
            r#" {"a":[null,true,-1,18446744073709551615,1.5,1e300,"x\u00e4\n",[],{}],"b":{"a":{"a":0}}} "#;
        let found = read(text.as_bytes()).unwrap();
        assert_eq!(serde_json::from_str::<Value>(text).unwrap(), found);
        for text in ["", "{", "[1,]", "{\"a\"}", "1 2", "nul", "\"\\ud800\"", "1e999"] {
            let plain = serde_json::from_str::<Value>(text).unwrap_err();
            let Err(UnreadRequestBody::NoJson(own)) = read(text.as_bytes()) else { panic!("{text}") };
            assert_eq!((plain.line(), plain.column()), (own.line(), own.column()), "{text}: {plain}, {own}");
        }
    }
}
