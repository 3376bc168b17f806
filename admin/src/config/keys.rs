//! The keys of the configuration for forms: every row of the table, with its kind.

use larder_config::dotted;
use larder_config::kind::ValueKind;
use larder_config::table::{self, RoutePhase, Takes};
use serde_json::{Value, json};

/// Every key, for forms: from the table.
pub(super) fn keys() -> Vec<Value> {
    let row = |pattern: String| {
        let key = table::find(&pattern)?;
        let mut described = kind_json(key.kind);
        described["key"] = dotted(&pattern).into();
        described["pattern"] = pattern.into();
        described["default"] = key.default.into();
        described["help"] = key.help.into();
        described["example"] = key.example.into();
        described["restart"] = (key.takes == Takes::AtStart).into();
        described["secret"] = key.kind.is_secret().into();
        described["lines"] = key.kind.has_lines().into();
        described["phase"] =
            RoutePhase::of(described["pattern"].as_str().unwrap_or_default()).map(RoutePhase::name).into();
        Some(described)
    };
    table::patterns().filter_map(row).collect()
}

/// The permitted values of a key: its kind as a word, the sentence of messages, and bounds or words if any.
fn kind_json(kind: ValueKind) -> Value {
    let name = match kind {
        ValueKind::Bool => "bool",
        ValueKind::Integer { .. } | ValueKind::OneNumber(_) => "integer",
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
    let mut described = json!({ "key": "", "kind": name, "allowed": kind.allowed() });
    match kind {
        ValueKind::Integer { least, most } => {
            (described["least"], described["most"]) = (least.into(), most.into())
        }
        ValueKind::OneOf(words) => described["words"] = words.into(),
        _ => {}
    }
    described
}
