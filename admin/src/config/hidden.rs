//! The secrets of a configuration, which leave larder as placeholders and come back as such. The replacement itself is in
//! `larder_config::hide`.

use super::Configuring;
use super::texts::AskedTexts;
use larder_config::Setting;
use larder_config::hide::{KnownSecrets, SecretCover};
use serde_json::{Value, json};

impl Configuring {
    /// The texts of a client with the secrets of the saved files in place of placeholders. A placeholder that stands for none
    /// stays; the check reports it.
    pub(super) fn revealed(&self, asked: &AskedTexts) -> AskedTexts {
        let mut known = KnownSecrets::default();
        let main = self.store().and_then(|it| it.read());
        main.iter().for_each(|it| self.cover.learn(it, &mut known));
        self.plan.included().iter().for_each(|it| self.cover.learn(&it.text, &mut known));
        let others = asked.others.iter().map(|it| (it.0.clone(), known.reveal(it.1).into()));
        AskedTexts { text: known.reveal(&asked.text), others: others.collect() }
    }
}

/// A setting of the command line.
pub(super) fn flag_json(cover: &SecretCover, it: &Setting) -> Value {
    let value = if it.is_secret() { cover.hide_value(&it.text) } else { it.text.clone() };
    json!({ "key": it.path, "flag": it.flag, "value": value })
}
