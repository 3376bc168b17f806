//! The source of a server's configuration: flags, a named file or the first of the default places. The parser is in
//! `read`.

use crate::files_in_force::FilesInForce;
use crate::include::{IncludedFile, IncludedTexts};
use crate::kind::PathAccess;
use crate::named_paths::NamedPath;
use crate::{Config, Problem, Rejected, Setting, Source, Values, base_of};
use std::path::PathBuf;

/// The source of a server's configuration. Loading it again returns the current state: a reload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    base: PlanBase,
    settings: Vec<Setting>,
}

/// The base of a plan, which its flags override.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PlanBase {
    /// No file: flags only.
    Flags,
    /// This file.
    File(PathBuf),
    /// The first of [`PLACES`] that exists.
    Search,
}

/// The source of values that `larder serve` sets by habit.
pub(crate) const SERVE: &str = "serve";

/// The places that `run` and `check` search if no file is named.
pub const PLACES: [&str; 2] = ["larder.toml", "/etc/larder/larder.toml"];

impl Plan {
    /// A plan with flags over a base.
    #[must_use]
    pub fn new(base: PlanBase, settings: Vec<Setting>) -> Self {
        Self { base, settings }
    }

    /// Reads and checks the configuration.
    ///
    /// # Errors
    /// All its errors.
    pub fn load(&self) -> Result<Config, Rejected> {
        self.load_over(&FilesInForce::default())
    }

    /// As [`Plan::load`], for a larder that has the content of these files: one that is broken now is a warning.
    ///
    /// # Errors
    /// All its errors.
    pub fn load_over(&self, in_force: &FilesInForce) -> Result<Config, Rejected> {
        match (&self.base, self.file()) {
            (PlanBase::Flags, _) => Config::from_flags_over(&self.settings, in_force),
            (_, Some(file)) => Config::load_over(&file, &self.settings, in_force),
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

    /// Every path of the file system that the configuration names as it is now, valid or not, with its own files.
    #[must_use]
    pub fn named_paths(&self) -> Vec<NamedPath> {
        let Some(file) = self.file() else { return crate::values_of_flags(&self.settings).named_paths() };
        let (text, name) = (crate::read_file(&file).unwrap_or_default(), file.display().to_string());
        let values =
            crate::values_of_text(&text, &name, base_of(&file), &self.settings, &IncludedTexts::new());
        let mut all = values.named_paths();
        // The admin writes it.
        all.push(NamedPath::without_key(file, PathAccess::WRITE));
        all
    }

    /// The file that is read, to be watched; `None` without one.
    #[must_use]
    pub fn file(&self) -> Option<PathBuf> {
        match &self.base {
            PlanBase::Flags => None,
            PlanBase::File(file) => Some(file.clone()),
            PlanBase::Search => PLACES.iter().map(PathBuf::from).find(|it| it.exists()),
        }
    }

    /// As [`Plan::load_over`], with a text instead of the file, and `others` instead of included files.
    ///
    /// # Errors
    /// All its errors, or that there is no file.
    pub fn read(
        &self,
        text: &str,
        others: &IncludedTexts,
        in_force: &FilesInForce,
    ) -> Result<Config, Rejected> {
        match self.file() {
            Some(file) => {
                let name = file.display().to_string();
                Config::from_texts(text, &name, base_of(&file), &self.settings, others, in_force)
            }
            None => self.load_over(in_force),
        }
    }

    /// The included files as they are on disk, whether they are valid or not.
    #[must_use]
    pub fn included(&self) -> Vec<IncludedFile> {
        self.file().map_or_else(Vec::new, |it| crate::files_of(&it).included)
    }

    /// The values of a text instead of the file, and of `others` instead of included files, without what blocks and flags
    /// set.
    #[must_use]
    pub fn values(&self, text: &str, others: &IncludedTexts) -> Values {
        self.file().map_or_else(Values::default, |file| {
            Values::read_with(text, &file.display().to_string(), base_of(&file), others)
        })
    }

    /// The settings of the command line, which override any file.
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

    /// The plan with this file as its base, for `demo`.
    #[must_use]
    pub fn upon(self, file: &std::path::Path) -> Plan {
        Plan { base: PlanBase::File(file.to_owned()), ..self }
    }

    /// Sets a key unless a flag sets it, for `demo`.
    #[must_use]
    pub fn or_else(self, path: &str, text: &str) -> Plan {
        self.default_to(path, text, "demo")
    }

    /// The habits of static sites for `serve DIR`, unless flags set these keys: compression, clean URLs unless
    /// `files.try` names the files of a path, and 404.html if the directory has one.
    #[must_use]
    pub fn of_static_site(self) -> Plan {
        let key = |name: &str| format!("site[0].route[0].files.{name}");
        let lists = self.settings.iter().any(|it| it.path == key("try"));
        let plan = self.default_to(&key("compress"), "true", SERVE);
        let plan = plan.default_to(&key("not_found"), "/404.html", SERVE);
        if lists { plan } else { plan.default_to(&key("clean_urls"), "true", SERVE) }
    }

    fn default_to(mut self, path: &str, text: &str, flag: &str) -> Plan {
        if !self.settings.iter().any(|it| it.path == path) {
            let setting = Setting { path: path.to_owned(), text: text.to_owned(), flag: flag.to_owned() };
            self.settings.push(setting);
        }
        self
    }
}
