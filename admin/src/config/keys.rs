//! The keys of the configuration for forms: every row of the table, with its kind.

use larder_config::dotted;
use larder_config::kind::ValueKind;
use larder_config::table::{self, RoutePhase, Takes};
use serde_json::{Value, json};

/// Every key, for forms: from the table.
pub(super) fn keys() -> Vec<Value> {
    let row = |pattern: String| {
        let key = table::find(&pattern)?;
        let mut told = kind_json(key.kind);
        told["key"] = dotted(&pattern).into();
        told["pattern"] = pattern.into();
        told["default"] = key.default.into();
        told["help"] = key.help.into();
        told["example"] = key.example.into();
        told["restart"] = (key.takes == Takes::AtStart).into();
        told["secret"] = key.kind.is_secret().into();
        told["lines"] = key.kind.has_lines().into();
        told["phase"] =
            RoutePhase::of(told["pattern"].as_str().unwrap_or_default()).map(RoutePhase::name).into();
        Some(told)
    };
    table::patterns().filter_map(row).collect()
}

/// The permitted values of a key: its kind as a word, the sentence of messages, and bounds or words if any.
fn kind_json(kind: ValueKind) -> Value {
    let name = match kind {
        ValueKind::Bool => "bool",
        ValueKind::Integer { .. } => "integer",
        ValueKind::Size { .. } => "size",
        ValueKind::SizeOrOff { .. } => "size-or-off",
        ValueKind::Time { .. } => "time",
        ValueKind::TimeOrOff { .. } => "time-or-off",
        ValueKind::Seconds { .. } => "seconds",
        ValueKind::SecondsOrOff { .. } => "seconds-or-off",
        ValueKind::OneOf(_) => "one-of",
        ValueKind::One(_) => "text",
        ValueKind::List(_) => "list",
        ValueKind::StatusTtls { .. } => "status-ttls",
        ValueKind::Pairs { .. } => "pairs",
    };
    let mut told = json!({ "key": "", "kind": name, "allowed": kind.allowed() });
    match kind {
        ValueKind::Integer { least, most } => (told["least"], told["most"]) = (least.into(), most.into()),
        ValueKind::OneOf(words) => told["words"] = words.into(),
        _ => {}
    }
    told
}
