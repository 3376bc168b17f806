//! Where the configuration of a server comes from: flags, a named file or the first of the usual places. Reading it is in `read`.

use crate::{Config, Problem, Rejected, Setting, Source, base_of};
use std::path::PathBuf;

/// Where a server's configuration comes from. Loading it again gives what has changed since: a reload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    base: PlanBase,
    settings: Vec<Setting>,
}

/// What the flags of a plan stand over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PlanBase {
    /// No file: the flags say everything.
    Flags,
    /// This file.
    File(PathBuf),
    /// The first of [`PLACES`] that exists.
    Search,
}

/// Where `run` and `check` look for a configuration when none is named.
pub const PLACES: [&str; 2] = ["larder.toml", "/etc/larder/larder.toml"];

impl Plan {
    /// A plan with what flags say over a base.
    #[must_use]
    pub fn new(base: PlanBase, settings: Vec<Setting>) -> Self {
        Self { base, settings }
    }

    /// Reads and checks the configuration.
    ///
    /// # Errors
    /// Everything that is wrong with it.
    pub fn load(&self) -> Result<Config, Rejected> {
        match (&self.base, self.file()) {
            (PlanBase::Flags, _) => Config::from_flags(&self.settings),
            (_, Some(file)) => Config::load(&file, &self.settings),
            (_, None) => {
                let text = format!(
                    "no configuration file: neither {} nor {} exists; use -c FILE, or start without a file: larder \
                     proxy ORIGIN",
                    PLACES[0], PLACES[1]
                );
                let source = Source::Flag("configuration".into());
                Err(Rejected(vec![Problem { source, key: String::new(), text }]))
            }
        }
    }

    /// The file that is read, to be watched; `None` where there is none.
    #[must_use]
    pub fn file(&self) -> Option<PathBuf> {
        match &self.base {
            PlanBase::Flags => None,
            PlanBase::File(file) => Some(file.clone()),
            PlanBase::Search => PLACES.iter().map(PathBuf::from).find(|it| it.exists()),
        }
    }

    /// Reads and checks a text as if the file had it.
    ///
    /// # Errors
    /// Everything that is wrong with it, or that there is no file.
    pub fn read(&self, text: &str) -> Result<Config, Rejected> {
        match self.file() {
            Some(file) => {
                Config::from_text(text, &file.display().to_string(), base_of(&file), &self.settings)
            }
            None => self.load(),
        }
    }

    /// What the command line says, over any file.
    #[must_use]
    pub fn settings(&self) -> &[Setting] {
        &self.settings
    }

    /// The plan with one route to this origin, for `demo`.
    #[must_use]
    pub fn in_front_of(mut self, origin: &str) -> Plan {
        let path = "site[0].route[0].proxy.to".to_owned();
        self.settings.push(Setting { path, text: origin.to_owned(), flag: "ORIGIN".to_owned() });
        self
    }

    /// The plan with this file beneath its flags, for `demo`.
    #[must_use]
    pub fn upon(self, file: &std::path::Path) -> Plan {
        Plan { base: PlanBase::File(file.to_owned()), ..self }
    }

    /// Gives a key a value unless a flag does already, for `demo`.
    #[must_use]
    pub fn or_else(mut self, path: &str, text: &str) -> Plan {
        if !self.settings.iter().any(|it| it.path == path) {
            let setting = Setting { path: path.to_owned(), text: text.to_owned(), flag: "demo".to_owned() };
            self.settings.push(setting);
        }
        self
    }
}
