//! The values that require a restart, with their texts for people.

use super::ConfigCheck;
use crate::kind::{ConfigValue, ValueKind};
use crate::problem::Source;
use crate::restart_keys::StartValue;
use crate::substituted::SubstitutedValues;
use crate::table::{self, Takes};
use larder_stdx::size::ByteSize;

impl ConfigCheck {
    /// The values that require a restart.
    pub(super) fn at_start(&self, substituted: &SubstitutedValues) -> Vec<StartValue> {
        let keys = table::rows().filter(|it| it.takes == Takes::AtStart);
        keys.map(|it| {
            let value = self.value(it.path);
            let shown = match (it.kind.is_secret(), self.with_variables(it.path)) {
                (true, _) => "(hidden)".to_owned(),
                (false, Some(written)) => written.trim().to_owned(),
                (false, None) => {
                    without_variables(&self.source(it.path), substituted, &shown(it.kind, &value))
                }
            };
            StartValue { key: it.path, value, shown }
        })
        .collect()
    }
}

/// A text without the values of variables, which flags have as well.
fn without_variables(source: &Source, substituted: &SubstitutedValues, text: &str) -> String {
    substituted.hide(source, text).unwrap_or_else(|name| format!("${{{name}}}"))
}

/// A value in the notation of the file, without quotes.
fn shown(kind: ValueKind, value: &ConfigValue) -> String {
    match value {
        ConfigValue::Bool(it) => it.to_string(),
        ConfigValue::Number(it) if matches!(kind, ValueKind::Size { .. }) => ByteSize(*it).to_string(),
        ConfigValue::Number(it) => it.to_string(),
        ConfigValue::Time(it) => format!("{it:?}"),
        ConfigValue::Off => "off".to_owned(),
        ConfigValue::Text(it) if it.is_empty() => "not set".to_owned(),
        ConfigValue::Text(it) => it.clone(),
        ConfigValue::Texts(all) if all.is_empty() => "none".to_owned(),
        ConfigValue::Texts(all) => all.join(", "),
        ConfigValue::StatusTtls(all) => {
            all.iter().map(|(status, seconds)| format!("{status}: {seconds}s")).collect::<Vec<_>>().join(", ")
        }
        // The values may be secrets.
        ConfigValue::Pairs(all) => all.iter().map(|it| it.0.as_str()).collect::<Vec<_>>().join(", "),
        ConfigValue::Wrong => "not set".to_owned(),
    }
}
