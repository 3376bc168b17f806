//! The paths of the file system that a configuration names, each with the access that it needs: by the forms of the key table, so that
//! no key is listed here.

use crate::include::WatchedFiles;
use crate::key_path::{dotted, pattern_of};
use crate::kind::{ConfigValue, PathAccess, TextForm, ValueKind};
use crate::problem::Source;
use crate::read::Values;
use crate::table::{self, Takes};
use std::path::{Component, Path, PathBuf};

/// A path that a configuration names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedPath {
    /// It; a relative one of a file is beneath the directory of that file.
    pub path: PathBuf,
    /// The access that it needs.
    pub access: PathAccess,
    /// The key, with dots; empty for a file of the configuration or a secret.
    pub key: String,
    /// The place of the value.
    pub source: Source,
    /// When a changed value takes effect.
    pub takes: Takes,
}

impl NamedPath {
    /// A path without a key.
    #[must_use]
    pub fn without_key(path: PathBuf, access: PathAccess) -> Self {
        let source = Source::Flag(path.display().to_string().into());
        Self { path, access, key: String::new(), source, takes: Takes::AtReload }
    }
}

impl Values {
    /// Every path of the values, whether they are valid or not.
    #[must_use]
    pub fn named_paths(&self) -> Vec<NamedPath> {
        let mut all = Vec::new();
        for (at, (value, source)) in &self.given {
            let Some(key) = table::find(&pattern_of(at)) else { continue };
            for (form, text) in texts(&key.kind, value) {
                let Some((path, access)) = form.path_in(text) else { continue };
                let path = self.base(source).map_or_else(|| path.clone(), |it| it.join(&path));
                let (key, takes) = (dotted(key.path), key.takes);
                all.push(NamedPath { path, access, key, source: source.clone(), takes });
            }
        }
        // The admin writes them.
        all.extend(self.included.iter().map(|it| NamedPath::without_key(it.path.clone(), PathAccess::WRITE)));
        for (base, pattern) in &self.watched.patterns {
            all.push(NamedPath::without_key(base.join(before_wildcards(pattern)), PathAccess::WRITE));
        }
        all.extend(self.watched.files.iter().map(|it| NamedPath::without_key(it.clone(), PathAccess::READ)));
        all
    }
}

/// The files besides the main one on which the configuration at `path` depends, whether it is valid or not.
#[must_use]
pub fn watched(path: &Path) -> WatchedFiles {
    let (text, name) = (crate::read_file(path).unwrap_or_default(), path.display().to_string());
    let values =
        crate::values_of_text(&text, &name, crate::base_of(path), &[], &crate::include::IncludedTexts::new());
    let read = values.named_paths().into_iter().filter(|it| it.access == PathAccess::READ);
    WatchedFiles { named: read.map(|it| it.path).collect(), ..values.watched }
}

/// The texts of a value, each with its form.
fn texts<'v>(kind: &ValueKind, value: &'v ConfigValue) -> Vec<(TextForm, &'v str)> {
    match (*kind, value) {
        (ValueKind::One(form), ConfigValue::Text(text)) => vec![(form, text)],
        (ValueKind::List(form), ConfigValue::Texts(texts)) => texts.iter().map(|it| (form, &**it)).collect(),
        (ValueKind::Pairs { value: form, .. }, ConfigValue::Pairs(rows)) => {
            rows.iter().map(|it| (form, &*it.1)).collect()
        }
        _ => Vec::new(),
    }
}

/// The directory in front of the first wildcard of a pattern.
fn before_wildcards(pattern: &str) -> PathBuf {
    let is_plain = |it: &Component<'_>| !it.as_os_str().to_string_lossy().contains(['*', '?']);
    Path::new(pattern).components().take_while(is_plain).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Setting;
    use crate::plan::{Plan, PlanBase};

    fn of(text: &str) -> Vec<(String, PathAccess)> {
        let values = Values::read(text, "t.toml", Path::new("/etc/larder"));
        values.named_paths().into_iter().map(|it| (it.path.display().to_string(), it.access)).collect()
    }

    /// A new key with a path is a row with one of these forms: it is found without a change here.
    #[test]
    fn every_key_with_a_path_is_found() {
        let mut found = Vec::new();
        for key in table::rows().filter(|it| it.path != "include") {
            let form = match key.kind {
                ValueKind::One(form) | ValueKind::List(form) | ValueKind::Pairs { value: form, .. } => form,
                _ => continue,
            };
            let text = match form {
                TextForm::Listen => "unix:/named/path",
                TextForm::DatabaseUrl => "sqlite:/named/path",
                _ => "/named/path",
            };
            if form.path_in(text).is_none() {
                continue;
            }
            let value = match key.kind {
                ValueKind::List(_) => ConfigValue::Texts(vec![text.to_owned()]),
                ValueKind::Pairs { .. } => ConfigValue::Pairs(vec![("404".to_owned(), text.to_owned())]),
                _ => ConfigValue::Text(text.to_owned()),
            };
            let at = key.path.replace("[]", "[0]");
            let values = Values { given: [(at, (value, Source::Default))].into(), ..Values::default() };
            let named = values.named_paths();
            assert_eq!(1, named.len(), "{}", key.path);
            assert_eq!(Path::new("/named/path"), named[0].path, "{}", key.path);
            found.push((dotted(key.path), named[0].access));
        }
        let of = |access: PathAccess| -> Vec<&str> {
            found.iter().filter(|it| it.1 == access).map(|it| &*it.0).collect()
        };
        assert_eq!(["sandbox_paths"], *of(PathAccess::ALL));
        assert_eq!(
            ["site.route.cgi.root", "site.route.cgi.program", "site.route.cgi.directory"],
            *of(PathAccess::RUN)
        );
        let written = [
            "listen",
            "tls.acme.folder",
            "cache.ram.snapshot",
            "cache.spool.directory",
            "cache.disk.path",
            "admin.socket",
            "admin.token_file",
            "admin.audit",
            "admin.history",
            "log.access",
            "log.error",
            "site.access_log",
            "site.route.listeners",
            "database.url",
        ];
        assert_eq!(written, *of(PathAccess::WRITE));
        assert!(of(PathAccess::READ).len() >= 25, "{:?}", of(PathAccess::READ));
    }

    #[test]
    fn paths_are_relative_to_their_file() {
        let text = "log.error = \"-\"\nlog.access = \"logs/a.log\"\n[[site]]\nhosts = \"*\"\nerror_pages = { 404 = \"gone.html\" }\n\
             [[site.route]]\nfiles.root = \"/srv/www\"\n[[site.route]]\ncgi.program = \"a.cgi\"\n";
        let expect = [
            ("/etc/larder/logs/a.log", PathAccess::WRITE),
            ("/etc/larder/gone.html", PathAccess::READ),
            ("/srv/www", PathAccess::READ),
            ("/etc/larder/a.cgi", PathAccess::RUN),
        ];
        let mut found = of(text);
        found.sort_by_key(|it| expect.iter().position(|one| one.0 == it.0));
        assert_eq!(expect.map(|it| (it.0.to_owned(), it.1)), *found);
    }

    #[test]
    fn included_files_and_secrets_are_named_as_well() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        std::fs::create_dir(at("conf.d")).unwrap();
        std::fs::write(
            at("conf.d/site.toml"),
            "[[site]]\nhosts = \"*\"\n[[site.route]]\nfiles.root = \"www\"\n",
        )
        .unwrap();
        std::fs::write(at("secret"), "s3cret").unwrap();
        let text = "include = [\"conf.d/*.toml\"]\n[[database]]\nname = \"a\"\nurl = \"sqlite:/srv/a.db\"\npassword = \"file:secret\"\n";
        std::fs::write(at("larder.toml"), text).unwrap();
        let setting = Setting { path: "log.access".into(), text: "by-flag.log".into(), flag: "--log".into() };
        let found = Plan::new(PlanBase::File(at("larder.toml")), vec![setting]).named_paths();
        let access = |path: &Path| found.iter().find(|it| it.path == path).map(|it| it.access);
        assert_eq!(Some(PathAccess::WRITE), access(&at("larder.toml")));
        assert_eq!(Some(PathAccess::WRITE), access(&at("conf.d")));
        assert_eq!(Some(PathAccess::WRITE), access(&at("conf.d/site.toml").canonicalize().unwrap()));
        assert_eq!(Some(PathAccess::READ), access(&at("conf.d/www")));
        assert_eq!(Some(PathAccess::READ), access(&at("secret")));
        assert_eq!(Some(PathAccess::WRITE), access(Path::new("/srv/a.db")));
        assert_eq!(Some(PathAccess::WRITE), access(Path::new("by-flag.log")));
    }
}
