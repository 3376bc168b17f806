//! The databases of countries and autonomous systems, and the values that need them: conditions, variables, access rules and keys.

use super::{ConfigCheck, ConfigValue, Source};
use crate::geo::{GeoConfig, GeoContent};
use crate::key_path::pattern_of;
use crate::kind::{TextForm, ValueKind};
use crate::table;
use larder_semantics::expression::{Expression, ExpressionSubject};
use larder_semantics::template::{Template, TemplateInput};

/// The databases that a value needs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct GeoNeeds {
    country: bool,
    asn: bool,
}

impl GeoNeeds {
    fn or(self, other: Self) -> Self {
        Self { country: self.country || other.country, asn: self.asn || other.asn }
    }

    /// Of a text of this form.
    fn of(form: TextForm, text: &str) -> Self {
        match form {
            TextForm::Condition | TextForm::AccessCondition => {
                let parsed = Expression::parse_about(ExpressionSubject::Request, text);
                let parsed = parsed.map(|it| Self { country: it.reads_country(), asn: it.reads_asn() });
                parsed.unwrap_or_default()
            }
            TextForm::Template
            | TextForm::BodyTemplate
            | TextForm::PathTemplate
            | TextForm::SecretTemplate
            | TextForm::VariableTemplate => {
                let Ok(template) = Template::parse(text) else { return Self::default() };
                let reads = |input| template.inputs().any(|it| it == input);
                Self { country: reads(TemplateInput::Country), asn: reads(TemplateInput::Asn) }
            }
            TextForm::AccessAddress => {
                Self { country: text.starts_with("country:"), asn: text.starts_with("asn:") }
            }
            _ => Self::default(),
        }
    }

    /// Of a value of this kind.
    fn of_value(kind: ValueKind, value: &ConfigValue) -> Self {
        let all = |form, texts: &mut dyn Iterator<Item = &String>| {
            texts.fold(Self::default(), |sum, it| sum.or(Self::of(form, it)))
        };
        match (kind, value) {
            (ValueKind::One(form), ConfigValue::Text(text)) => Self::of(form, text),
            (ValueKind::List(form), ConfigValue::Texts(texts)) => all(form, &mut texts.iter()),
            (ValueKind::Pairs { value: form, .. }, ConfigValue::Pairs(rows)) => {
                all(form, &mut rows.iter().map(|it| &it.1))
            }
            _ => Self::default(),
        }
    }
}

impl ConfigCheck {
    pub(super) fn geo(&mut self) -> GeoConfig {
        let config =
            GeoConfig { countries: self.path("geoip.database"), numbers: self.path("geoip.asn_database") };
        for (key, path, content) in [
            ("geoip.database", &config.countries, GeoContent::Countries),
            ("geoip.asn_database", &config.numbers, GeoContent::Numbers),
        ] {
            let Some(path) = path else { continue };
            if let Err(why) = content.read(path) {
                let is_in_force = self.in_force.has_database(content, path);
                let text = format!("{}: {why}", path.display());
                self.broken_file(self.source(key), key, &text, is_in_force);
            }
        }
        self.refuse_unknown_countries(&config);
        config
    }

    /// Rejects every value that needs a database which is not configured.
    fn refuse_unknown_countries(&mut self, config: &GeoConfig) {
        let needs = |(path, (value, source)): (&String, &(ConfigValue, Source))| {
            let pattern = pattern_of(path);
            let row = table::find(&pattern)?;
            let mut needs = GeoNeeds::of_value(row.kind, value);
            if pattern.ends_with("access.budget.by") {
                needs.country |= *value == ConfigValue::Text("country".to_owned());
                needs.asn |= *value == ConfigValue::Text("asn".to_owned());
            }
            needs.country |= pattern.ends_with("cache.key.country") && *value == ConfigValue::Bool(true);
            let needs = GeoNeeds {
                country: needs.country && config.countries.is_none(),
                asn: needs.asn && config.numbers.is_none(),
            };
            (needs != GeoNeeds::default()).then(|| (pattern, source.clone(), needs))
        };
        let found: Vec<_> = self.values.given.iter().filter_map(needs).collect();
        for (pattern, source, needs) in found {
            let text = match needs.country {
                true => {
                    "the country of a client is unknown without a database; add geoip.database = \"FILE.mmdb\""
                }
                false => {
                    "the autonomous system of a client is unknown without a database; add geoip.asn_database = \"FILE.mmdb\""
                }
            };
            self.problem(source, &pattern, text);
        }
    }
}
