//! Values of TOML items, by the kinds of their keys. Keys and their places are in `read`.

use super::kind::{ConfigValue, TextForm, ValueKind};
use toml_edit::{Array, Item};

/// Converts a TOML item to its key's kind.
pub(super) fn of_item(kind: &ValueKind, item: &Item) -> Result<ConfigValue, String> {
    let allowed = || kind.allowed();
    match (kind, item) {
        (ValueKind::Bool, Item::Value(value)) => value.as_bool().map(ConfigValue::Bool).ok_or_else(allowed),
        (ValueKind::Integer { .. } | ValueKind::OneNumber(_), Item::Value(value)) => {
            kind.parse(&value.as_integer().ok_or_else(allowed)?.to_string())
        }
        (ValueKind::Size { .. }, Item::Value(value)) => match value.as_integer() {
            Some(bytes) => kind.parse(&bytes.to_string()),
            None => kind.parse(value.as_str().ok_or_else(allowed)?),
        },
        (
            ValueKind::List(TextForm::FailureStatus | TextForm::StatusRange),
            Item::Value(toml_edit::Value::Array(array)),
        ) => {
            let numbers: Option<Vec<_>> = array.iter().map(status).collect();
            kind.parse_list(numbers.ok_or_else(allowed)?.iter().map(String::as_str))
        }
        (ValueKind::List(_), Item::Value(toml_edit::Value::Array(array))) => {
            kind.parse_list(texts(array).ok_or_else(allowed)?.into_iter())
        }
        (ValueKind::List(TextForm::FailureStatus | TextForm::StatusRange), Item::Value(value)) => {
            kind.parse_list(std::iter::once(status(value).ok_or_else(allowed)?.as_str()))
        }
        (ValueKind::List(_), Item::Value(value)) => {
            kind.parse_list(std::iter::once(value.as_str().ok_or_else(allowed)?))
        }
        (ValueKind::StatusTtls { .. }, item) => {
            let table = item.as_table_like().ok_or_else(allowed)?;
            let pair = |(status, item): (&str, &Item)| kind.parse_status_ttl(status, item.as_str()?);
            let pairs: Option<Vec<_>> = table.iter().map(pair).collect();
            pairs.map(ConfigValue::StatusTtls).ok_or_else(allowed)
        }
        (ValueKind::Pairs { .. }, item) => {
            let table = item.as_table_like().ok_or_else(allowed)?;
            let pairs: Option<Vec<_>> = table.iter().map(|(name, it)| Some((name, it.as_str()?))).collect();
            kind.parse_pairs(pairs.ok_or_else(allowed)?.into_iter())
        }
        (_, item) => kind.parse(item.as_str().ok_or_else(allowed)?),
    }
}

/// A status, as a number or as a text.
fn status(value: &toml_edit::Value) -> Option<String> {
    value.as_integer().map(|it| it.to_string()).or_else(|| value.as_str().map(str::to_owned))
}

/// The texts of an array; `None` if one of its values is another kind.
pub(super) fn texts(array: &Array) -> Option<Vec<&str>> {
    array.iter().map(toml_edit::Value::as_str).collect()
}
