//! The description of the admin's endpoints as OpenAPI 3.1, generated from the rows of `table`.

use super::parameters::{Parameter, ParameterKind};
use super::table::{Content, ENDPOINTS, Endpoint, EndpointAccess};
use super::{Admin, AdminResponse};
use larder_transport::Synthetic;
use serde_json::{Map, Value, json};

impl Admin {
    /// `GET /api/v1/openapi.json`.
    pub(super) fn openapi(&self) -> AdminResponse {
        AdminResponse::Json(200, describe())
    }

    /// `GET /healthz`: open to every client; reveals only that larder runs, with all its workers.
    pub(super) fn healthz(&self) -> AdminResponse {
        let (status, word) = match self.failure.first() {
            None => (200, "ok\n"),
            Some(_) => (503, "failed\n"),
        };
        AdminResponse::Whole(Synthetic::new(status, "text/plain", word))
    }
}

/// The whole description.
#[must_use]
pub fn describe() -> Value {
    let mut paths = Map::new();
    for it in ENDPOINTS.iter().filter(|it| !it.for_tests) {
        paths.entry(it.path).or_insert_with(|| json!({}))[it.method.to_lowercase()] = operation(it);
    }
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "The admin of larder",
            "version": "1",
            "description": "Bytes are numbers of bytes, times are unix seconds (or say otherwise in their name). Every \
                            refusal is a Problem: one sentence with the mistake, its place, and the remedy. Problems \
                            of the request (4xx) name the place in it, too: a key of the body, a parameter, a field, a \
                            line and column. A name that is not described here is refused. `x-role` is the least role of a \
                            token that may call an operation: viewer, operator or admin; tokens with a lesser role get 403.",
        },
        "security": [{ "token": [] }],
        "paths": paths,
        "components": {
            "securitySchemes": { "token": { "type": "http", "scheme": "bearer" } },
            "schemas": { "Refusal": problem(&["status", "detail", "where"]), "Problem": problem(&["status", "detail"]) },
        },
    })
}

/// The schema of a rejection with these properties.
fn problem(required: &[&str]) -> Value {
    json!({
        "type": "object",
        "required": required,
        "properties": {
            "status": { "type": "integer" },
            "detail": { "type": "string" },
            "where": { "type": "string" },
        },
    })
}

fn operation(it: &Endpoint) -> Value {
    let mut operation = Map::new();
    let name = it.path.trim_start_matches("/api/v1").replace(['/', '.', '-'], "_").replace(['{', '}'], "");
    operation.insert("operationId".to_owned(), format!("{}{name}", it.method.to_lowercase()).into());
    operation.insert("summary".to_owned(), it.summary.into());
    match it.needs {
        EndpointAccess::Role(_) => {}
        EndpointAccess::Word => drop(operation.insert("security".to_owned(), json!([{}, { "token": [] }]))),
        EndpointAccess::Named | EndpointAccess::Every => {
            operation.insert("security".to_owned(), json!([]));
        }
    }
    if let Some(role) = it.needs.role() {
        operation.insert("x-role".to_owned(), role.name().into());
    }
    let mut parameters: Vec<Value> = it.query.iter().map(parameter).collect();
    if let Some((_, rest)) = it.path.split_once('{') {
        let name = rest.trim_end_matches('}');
        parameters
            .push(json!({ "name": name, "in": "path", "required": true, "schema": { "type": "string" } }));
    }
    if !parameters.is_empty() {
        operation.insert("parameters".to_owned(), parameters.into());
    }
    if let Some(takes) = it.takes {
        let mut content = content(takes);
        if let (Content::Json(_), Some((_, body))) = (takes, it.example)
            && let Ok(example) = serde_json::from_str::<Value>(body)
        {
            content["application/json"]["example"] = example;
        }
        operation.insert("requestBody".to_owned(), json!({ "required": true, "content": content }));
    }
    if let Some((query, body)) = it.example {
        operation.insert("x-example".to_owned(), json!({ "query": query, "body": body }));
    }
    let problem = |what: &str, schema: &str| {
        let schema = json!({ "$ref": format!("#/components/schemas/{schema}") });
        json!({ "description": what, "content": { "application/json": { "schema": schema } } })
    };
    let refused = problem("Rejected; nothing was changed.", "Refusal");
    let failed = problem("The operation failed.", "Problem");
    let mut given = content(it.gives);
    if it.needs == EndpointAccess::Word {
        given["text/plain"] = json!({});
    }
    let done = json!({ "description": it.summary, "content": given });
    operation.insert("responses".to_owned(), json!({ "200": done, "4XX": refused, "default": failed }));
    Value::Object(operation)
}

fn parameter(it: &Parameter) -> Value {
    let schema = match it.kind {
        ParameterKind::Text => json!({ "type": "string" }),
        ParameterKind::Integer(least, most) => {
            json!({ "type": "integer", "minimum": least, "maximum": most })
        }
        ParameterKind::OneOf(words) => json!({ "type": "string", "enum": words }),
    };
    json!({ "name": it.name, "in": "query", "required": it.required, "description": it.help, "schema": schema })
}

fn content(it: Content) -> Value {
    match it {
        // The rows' own test checks that every schema is JSON.
        Content::Json(schema) => {
            json!({ "application/json": { "schema": serde_json::from_str(schema).unwrap_or(Value::Bool(true)) } })
        }
        Content::Any(media) => json!({ media: {} }),
        Content::Events(which) => {
            json!({ "text/event-stream": { "schema": { "type": "string", "description": which } } })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_is_there_and_well_formed() {
        let all = describe();
        let mut names = std::collections::HashSet::new();
        for it in ENDPOINTS.iter().filter(|it| !it.for_tests) {
            let operation = &all["paths"][it.path][it.method.to_lowercase()];
            assert_eq!(it.summary, operation["summary"], "{} {}", it.method, it.path);
            assert!(names.insert(operation["operationId"].to_string()), "{operation:#}: twice");
            for content in [Some(it.gives), it.takes].into_iter().flatten() {
                if let Content::Json(schema) = content {
                    let read = serde_json::from_str::<Value>(schema);
                    let says = read.is_ok_and(|it| it["properties"].is_object());
                    assert!(says, "{} {}: {schema} says nothing", it.method, it.path);
                }
            }
            if let (Some(Content::Json(_)), Some((_, body))) = (it.takes, it.example) {
                let read = serde_json::from_str::<Value>(body);
                assert!(read.is_ok(), "{} {}: the example {body:?} is no JSON", it.method, it.path);
            }
        }
    }
}
