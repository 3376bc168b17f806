//! Holds a JSON value against a JSON schema (draft 2020-12), as far as the admin's description uses it. A keyword that is
//! not known here fails the test: nothing is taken for checked that was not.

use serde_json::Value;

/// Everything that is wrong with `value`, each with its place; nothing where all is well.
pub fn problems(schema: &Value, value: &Value) -> Vec<String> {
    let mut found = Vec::new();
    look(schema, value, "", &mut found);
    found
}

fn look(schema: &Value, value: &Value, at: &str, found: &mut Vec<String>) {
    let schema = schema.as_object().unwrap_or_else(|| panic!("{schema} is no schema"));
    for (keyword, rule) in schema {
        match keyword.as_str() {
            "type" => {
                let types = rule.as_array().cloned().unwrap_or_else(|| vec![rule.clone()]);
                if !types.iter().any(|it| is(it.as_str().unwrap(), value)) {
                    found.push(format!("{at}: {value} is not of type {rule}"));
                }
            }
            "enum" => {
                if !rule.as_array().unwrap().contains(value) {
                    found.push(format!("{at}: {value} is not one of {rule}"));
                }
            }
            "required" => {
                let names = rule.as_array().unwrap().iter().map(|it| it.as_str().unwrap());
                for name in names.filter(|name| value.as_object().is_some_and(|it| !it.contains_key(*name))) {
                    found.push(format!("{at}: {name} is missing"));
                }
            }
            "properties" => {
                for (name, rule) in rule.as_object().unwrap() {
                    if let Some(value) = value.get(name) {
                        look(rule, value, &format!("{at}/{name}"), found);
                    }
                }
            }
            "additionalProperties" => {
                let known = schema.get("properties").and_then(Value::as_object);
                for (name, value) in value.as_object().into_iter().flatten() {
                    if known.is_none_or(|it| !it.contains_key(name)) {
                        match rule {
                            Value::Bool(false) => found.push(format!("{at}: {name} is unknown")),
                            Value::Bool(true) => {}
                            rule => look(rule, value, &format!("{at}/{name}"), found),
                        }
                    }
                }
            }
            "items" => {
                for (number, value) in value.as_array().into_iter().flatten().enumerate() {
                    look(rule, value, &format!("{at}/{number}"), found);
                }
            }
            "minimum" => {
                if value.as_f64().is_some_and(|it| it < rule.as_f64().unwrap()) {
                    found.push(format!("{at}: {value} is less than {rule}"));
                }
            }
            "maximum" => {
                if value.as_f64().is_some_and(|it| it > rule.as_f64().unwrap()) {
                    found.push(format!("{at}: {value} is more than {rule}"));
                }
            }
            "minItems" | "maxItems" => {
                let bound = rule.as_u64().unwrap();
                let count = value.as_array().map(|it| it.len() as u64);
                if count.is_some_and(|it| if keyword == "minItems" { it < bound } else { it > bound }) {
                    found.push(format!("{at}: it has not {keyword} of {bound}"));
                }
            }
            "description" | "title" => {}
            other => panic!("{at}: the keyword {other} is not known here"),
        }
    }
    undescribed(schema, value, at, found);
}

/// Values without a description: JSON Schema accepts them, but the description does not mention them. Where any value is
/// allowed, the schema says so: `"additionalProperties": true`, `"items": {}`.
fn undescribed(schema: &serde_json::Map<String, Value>, value: &Value, at: &str, found: &mut Vec<String>) {
    if !schema.contains_key("type") {
        return;
    }
    let known = schema.get("properties").and_then(Value::as_object);
    let names = value.as_object().into_iter().flatten().map(|it| it.0);
    for name in names.filter(|it| known.is_none_or(|known| !known.contains_key(*it))) {
        if !schema.contains_key("additionalProperties") {
            found.push(format!("{at}: {name} is not described"));
        }
    }
    if value.as_array().is_some_and(|it| !it.is_empty()) && !schema.contains_key("items") {
        found.push(format!("{at}: its members are not described"));
    }
}

fn is(kind: &str, value: &Value) -> bool {
    match kind {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "null" => value.is_null(),
        "number" => value.is_number(),
        "integer" => value.is_i64() || value.is_u64() || value.as_f64().is_some_and(|it| it.fract() == 0.0),
        other => panic!("{other} is no type"),
    }
}

mod tests {
    #[test]
    fn the_schema_check_finds_every_violation() {
        let schema = serde_json::json!({
            "type": "object", "required": ["a", "b"],
            "properties": { "a": { "type": ["integer", "null"] }, "c": { "type": "array", "items": { "enum": [1] } } },
            "additionalProperties": { "type": "string" },
        });
        let problems = |text: &str| super::problems(&schema, &serde_json::from_str(text).unwrap());
        assert!(problems(r#"{"a":null,"b":"x","c":[1,1]}"#).is_empty());
        assert_eq!(vec![": b is missing"], problems(r#"{"a":1}"#));
        assert_eq!(4, problems(r#"{"a":1.5,"c":[1,2],"d":3}"#).len());
        assert_eq!(1, problems("[]").len());
        let closed = serde_json::json!({
            "type": "object", "properties": { "a": { "type": "object" }, "b": { "type": "array" }, "c": {} },
        });
        let problems = |text: &str| super::problems(&closed, &serde_json::from_str(text).unwrap());
        assert!(problems(r#"{"a":{},"b":[],"c":[{"d":1}]}"#).is_empty());
        let found = problems(r#"{"a":{"x":1},"b":[1],"d":2}"#);
        let expect = ["/a: x is not described", "/b: its members are not described", ": d is not described"];
        assert_eq!(expect.as_slice(), found);
    }
}
