//! Reading answers of the API: a missing member, or one of another kind, is empty or zero. Requests are in `admin_client`.

use super::terminal::harmless;
use serde_json::Value;

/// A number; 0 if it is none.
#[must_use]
pub fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or(0.0)
}

/// The members of a list; none if it is none.
#[must_use]
pub fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

/// A text for a terminal: clients and origins may have written parts of it.
#[must_use]
pub fn text(value: &Value) -> String {
    harmless(value.as_str().unwrap_or(""))
}
