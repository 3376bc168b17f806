//! The secrets of keys whose form is [`TextForm::is_secret`](crate::kind::TextForm::is_secret). `file:PATH` is the content of
//! the file already.
#![allow(dead_code, reason = "each is used once a key of its kind exists")]

use super::ConfigCheck;
use larder_stdx::secret::Secret;

impl ConfigCheck {
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
