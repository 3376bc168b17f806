//! The secrets of keys whose form is [`TextForm::is_secret`](crate::kind::TextForm::is_secret). `file:PATH` is the content of
//! the file already.

use super::ConfigCheck;
use larder_semantics::expression::{Expression, ExpressionSubject};
use larder_stdx::secret::Secret;

impl ConfigCheck {
    /// The condition of a key, if it is set and right. It is shown as it is written: a variable may be a secret.
    pub(super) fn condition(&self, subject: ExpressionSubject, key: &str) -> Option<Expression> {
        let text = Some(self.text(key)).filter(|it| !it.is_empty())?;
        Expression::parse_written(subject, &text, &self.written(key)).ok()
    }

    /// The text of a key as it is written, for people: with `${NAME}` for a variable, whose value may be a secret.
    pub(super) fn written(&self, key: &str) -> String {
        let written = self.with_variables(key).and_then(|it| it.parse::<toml_edit::Value>().ok());
        let written = written.as_ref().and_then(toml_edit::Value::as_str).map(str::to_owned);
        written.unwrap_or_else(|| self.text(key))
    }

    /// The secret of a key, if it is set.
    pub(super) fn secret(&self, key: &str) -> Option<Secret> {
        Some(self.text(key)).filter(|it| !it.is_empty()).map(|it| Secret::new(&it))
    }

    /// The secrets of a list.
    pub(super) fn secrets(&self, key: &str) -> Vec<Secret> {
        self.texts(key).iter().map(|it| Secret::new(it)).collect()
    }

    /// The names of a table, each with its secret.
    pub(super) fn secret_pairs(&self, key: &str) -> Vec<(String, Secret)> {
        self.pairs(key).into_iter().map(|(name, value)| (name, Secret::new(&value))).collect()
    }
}
