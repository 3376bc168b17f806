//! The body of a request to the admin: JSON, validated against the schema of the endpoint's row, so that every endpoint
//! rejects errors with the same texts, and the description matches the validation. The meaning of values is checked by
//! the endpoint.

use super::once::{self, UnreadRequestBody};
use super::table::{Content, Endpoint};
use larder_config::problem::nearest;
use larder_server::input_error::InputError;
use serde_json::{Map, Value};
use std::cmp::Ordering;
use std::fmt::Write as _;

/// The most characters of an invalid value that are shown.
const MOST_QUOTED: usize = 60;

/// A body as JSON; `null` if the endpoint takes none, or raw bytes.
///
/// # Errors
/// It violates the row: the key, and a valid form.
pub fn read(endpoint: &Endpoint, body: &[u8]) -> Result<Value, InputError> {
    let schema = match endpoint.takes {
        Some(Content::Json(schema)) => schema,
        Some(_) => return Ok(Value::Null),
        // Some clients send an empty object with every `POST`.
        None if matches!(body.trim_ascii(), b"" | b"{}") => return Ok(Value::Null),
        None => {
            let detail = format!(
                "{} {} does not accept a body; this request has {} bytes.",
                endpoint.method,
                endpoint.path,
                body.len()
            );
            return Err(InputError::at("body", detail));
        }
    };
    let value = json(body)?;
    // The rows' own test checks that every schema is JSON.
    let schema = serde_json::from_str(schema).unwrap_or(Value::Null);
    check(&schema, &value, "")?;
    Ok(value)
}

fn json(body: &[u8]) -> Result<Value, InputError> {
    once::read(body).map_err(|it| match it {
        UnreadRequestBody::Twice(at) => {
            let at = short(&at);
            let detail = format!("{at:?} is duplicate; send it once.");
            InputError::at(at, detail)
        }
        UnreadRequestBody::NoJson(it) => {
            let place = if body.is_empty() {
                "body".to_owned()
            } else {
                format!("line {}, column {}", it.line(), it.column())
            };
            InputError::at(place, format!("The body is not JSON: {it}."))
        }
    })
}

/// Validates a value against a schema, as far as the rows use JSON Schema; `at` is empty for the whole body.
fn check(schema: &Value, value: &Value, at: &str) -> Result<(), InputError> {
    if !fits(schema, value) {
        let name = if at.is_empty() { "The body".to_owned() } else { format!("{at:?}") };
        let detail = format!("{name} is {}, not {}.", allowed(schema), found(value));
        return Err(InputError::at(if at.is_empty() { "body" } else { at }, detail));
    }
    match value {
        Value::Object(members) => check_members(schema, members, at),
        Value::Array(members) if schema["items"].is_object() => {
            members.iter().enumerate().try_for_each(|(number, it)| {
                let at = if at.is_empty() { "body" } else { at };
                check(&schema["items"], it, &format!("{at}[{number}]"))
            })
        }
        _ => Ok(()),
    }
}

fn check_members(schema: &Value, members: &Map<String, Value>, at: &str) -> Result<(), InputError> {
    let Some(known) = schema["properties"].as_object() else { return Ok(()) };
    let below = |name: &str| if at.is_empty() { name.to_owned() } else { format!("{at}.{name}") };
    for (name, value) in members {
        match known.get(name) {
            Some(schema) => check(schema, value, &below(name))?,
            None if schema["additionalProperties"] == false => {
                return Err(InputError::at(below(&short(name)), unknown(name, known)));
            }
            None => {}
        }
    }
    let required = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
    match required.into_iter().find(|it| !members.contains_key(*it)) {
        Some(missing) => {
            let what = known[missing]["description"].as_str();
            let what = what.map_or_else(|| allowed(&known[missing]), str::to_owned);
            let at = below(missing);
            let detail = format!("{at:?} is missing: {what}.");
            Err(InputError::at(at, detail))
        }
        None => Ok(()),
    }
}

fn unknown(name: &str, known: &Map<String, Value>) -> String {
    let names: Vec<&str> = known.keys().map(String::as_str).collect();
    let quoted = short(name);
    match nearest(name, names.iter().copied()) {
        Some(near) => format!("{quoted:?} is unknown; did you mean {near:?}?"),
        None if names.len() == 1 => format!("{quoted:?} is unknown; the only known name is {}.", names[0]),
        None => format!("{quoted:?} is unknown; known names are {}.", names.join(", ")),
    }
}

/// The types that a schema permits; empty if it permits all.
fn types(schema: &Value) -> Vec<&str> {
    match &schema["type"] {
        Value::String(one) => vec![one],
        Value::Array(several) => several.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    }
}

fn fits(schema: &Value, value: &Value) -> bool {
    let types = types(schema);
    let is = |kind: &&str| match *kind {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "integer" => value.is_u64() || value.is_i64(),
        "boolean" => value.is_boolean(),
        _ => value.is_null(),
    };
    let within = |name: &str, not: Ordering| match (schema[name].as_f64(), value.as_f64()) {
        (Some(bound), Some(number)) => number.total_cmp(&bound) != not,
        _ => true,
    };
    let count = value.as_array().map_or(0, Vec::len) as u64;
    (types.is_empty() || types.iter().any(is))
        && within("minimum", Ordering::Less)
        && within("maximum", Ordering::Greater)
        && schema["minItems"].as_u64().is_none_or(|it| !value.is_array() || count >= it)
        && schema["maxItems"].as_u64().is_none_or(|it| count <= it)
}

/// The permitted values, in words.
fn allowed(schema: &Value) -> String {
    let mut all = String::new();
    for (number, kind) in types(schema).into_iter().enumerate() {
        let words = match kind {
            "object" => "an object",
            "array" => "a list",
            "string" => "a text",
            "integer" => "a whole number",
            "boolean" => "true or false",
            _ => "null",
        };
        let _ = write!(all, "{}{words}", if number > 0 { " or " } else { "" });
    }
    match (schema["minimum"].as_i64(), schema["maximum"].as_i64()) {
        (Some(least), Some(most)) => drop(write!(all, " from {least} to {most}")),
        (Some(least), None) => drop(write!(all, " of at least {least}")),
        _ => {}
    }
    match (schema["minItems"].as_u64(), schema["maxItems"].as_u64()) {
        (None, None) => {}
        (Some(least), Some(most)) if least == most => drop(write!(all, " of {least}")),
        (least, Some(most)) => drop(write!(all, " of {} to {most}", least.unwrap_or(0))),
        (Some(least), None) => drop(write!(all, " of {least} or more")),
    }
    all
}

fn found(value: &Value) -> String {
    match value {
        Value::Object(_) => "an object".to_owned(),
        Value::Array(members) => format!("a list of {}", members.len()),
        other => short(&other.to_string()),
    }
}

/// The beginning of a received text.
fn short(text: &str) -> String {
    match text.char_indices().nth(MOST_QUOTED) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::table::{self, ENDPOINTS, EndpointMatch};
    use super::*;

    #[track_caller]
    fn check(row: &str, body: &str, expect: Result<(), (&str, &str)>) {
        let (method, path) = row.split_once(' ').unwrap();
        let EndpointMatch::Endpoint(endpoint, _) = table::find(method, path) else { panic!("no {row}") };
        let found = read(endpoint, body.as_bytes());
        let found = found.as_ref().map(|_| ()).map_err(|it| (it.at.as_str(), it.detail.as_str()));
        assert_eq!(expect, found, "{row} {body}");
    }

    #[test]
    fn a_body_is_checked_against_the_row_of_its_endpoint() {
        const PURGE: &str = "POST /api/v1/purge";
        const EDIT: &str = "POST /api/v1/config/edit";
        const SAMPLING: &str = "PUT /api/v1/traces/sampling";
        check(PURGE, r#"{"all":true,"wait":false}"#, Ok(()));
        check(
            PURGE,
            "",
            Err(("body", "The body is not JSON: EOF while parsing a value at line 1 column 0.")),
        );
        let open = "The body is not JSON: EOF while parsing an object at line 1 column 1.";
        check(PURGE, "{", Err(("line 1, column 1", open)));
        check(PURGE, "[1]", Err(("body", "The body is an object, not a list of 1.")));
        check(PURGE, r#"{"tga":"x"}"#, Err(("tga", "\"tga\" is unknown; did you mean \"tag\"?")));
        let known = "\"colour\" is unknown; known names are url, prefix, tag, where, all, soft, validate, hard, host, wait.";
        check(PURGE, r#"{"colour":1}"#, Err(("colour", known)));
        check(PURGE, r#"{"tag":5}"#, Err(("tag", "\"tag\" is a text, not 5.")));
        check(PURGE, r#"{"tag":null}"#, Err(("tag", "\"tag\" is a text, not null.")));
        check(PURGE, r#"{"all":1}"#, Err(("all", "\"all\" is true or false, not 1.")));
        let code = "\"code\" is missing: the part of a login link after \"#login=\".";
        check("POST /api/v1/login", "{}", Err(("code", code)));
        check(
            "POST /api/v1/login",
            "{\"kode\":\"\"}",
            Err(("kode", "\"kode\" is unknown; did you mean \"code\"?")),
        );
        let every = "\"every\" is a whole number from 0 to 4294967295, not -1.";
        check(SAMPLING, r#"{"route":"*","every":-1}"#, Err(("every", every)));
        check(SAMPLING, r#"{"route":"*","every":4294967295}"#, Ok(()));
        check(EDIT, r#"{"text":"","set":[{"path":["a",0],"value":null}]}"#, Ok(()));
        let to = "\"too\" is unknown; did you mean \"to\"?";
        check(
            EDIT,
            r#"{"text":"","set":[{"path":["a"],"to":1},{"path":["a"],"too":1}]}"#,
            Err(("set[1].too", to)),
        );
        let path = "\"set[0].path[1]\" is a text or a whole number, not true.";
        check(EDIT, r#"{"text":"","set":[{"path":["a",true]}]}"#, Err(("set[0].path[1]", path)));
        let pair = "\"headers[0]\" is a list of 2, not a list of 1.";
        check("POST /cache/explain", r#"{"url":"u","headers":[["a"]]}"#, Err(("headers[0]", pair)));
    }

    /// Of two values one reader takes the first and another the last: neither is taken here.
    #[test]
    fn a_name_stands_once() {
        let twice = |at: &str| format!("{at:?} is duplicate; send it once.");
        check("POST /api/v1/purge", r#"{"tag":"a","tag":"b"}"#, Err(("tag", &twice("tag"))));
        check("POST /api/v1/purge", r#"{"tag":"a","all":true,"t\u0061g":"a"}"#, Err(("tag", &twice("tag"))));
        let path = r#"{"text":"","set":[{"path":["a"],"to":1},{"path":["a"],"to":{"b":{},"b":0}}]}"#;
        check("POST /api/v1/config/edit", path, Err(("set[1].to.b", &twice("set[1].to.b"))));
        check(
            "POST /api/v1/purge",
            &format!("[{}", "[".repeat(200)),
            Err((
                "line 1, column 128",
                "The body is not JSON: recursion limit exceeded at line 1 column 128.",
            )),
        );
    }

    #[test]
    fn an_endpoint_without_a_body_rejects_one() {
        for body in ["", " \n", "{}"] {
            check("POST /api/v1/login-links", body, Ok(()));
        }
        let none = "POST /api/v1/login-links does not accept a body; this request has 9 bytes.";
        check("POST /api/v1/login-links", r#"{"ttl":1}"#, Err(("body", none)));
    }

    #[test]
    fn a_rejection_quotes_only_the_start_of_a_long_value() {
        let long = format!("{{\"tag\":{}}}", "1".repeat(300));
        let EndpointMatch::Endpoint(endpoint, _) = table::find("POST", "/cache/purge") else {
            panic!("no purge")
        };
        for body in [long, format!("{{\"{}\":1}}", "ü".repeat(300))] {
            let wrong = read(endpoint, body.as_bytes()).unwrap_err();
            assert!(wrong.detail.len() < 250 && wrong.at.len() < 130, "{wrong:?}");
        }
    }

    /// Every object of a body says that nothing else may be in it.
    #[test]
    fn every_body_is_closed() {
        fn check_text(schema: &Value, about: &str) {
            if schema["properties"].is_object() {
                assert_eq!(false, schema["additionalProperties"], "{about}: {schema}");
            }
            for it in schema["properties"].as_object().into_iter().flatten() {
                check_text(it.1, about);
            }
            if schema["items"].is_object() {
                check_text(&schema["items"], about);
            }
        }
        let mut looked = 0;
        for it in ENDPOINTS {
            if let Some(Content::Json(schema)) = it.takes {
                check_text(&serde_json::from_str(schema).unwrap(), it.path);
                looked += 1;
            }
        }
        assert!(looked >= 8, "{looked}");
    }
}
