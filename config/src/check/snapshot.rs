//! The snapshot of the RAM tier: its file, and the settings under which it may be used.

use super::ConfigCheck;
use crate::problem::Source;
use crate::{Problem, SiteConfig, base_of, dotted};
use larder_wire::segment::sum;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

const KEY: &str = "cache.ram.snapshot";

/// The beginnings of keys that decide neither about cache keys nor about the responses beneath them.
const UNRELATED: [&str; 15] = [
    "admin.",
    "block.",
    "cache.compress.",
    "cache.disk.",
    "cache.fleet.",
    "cache.ram.",
    "cache.spool.",
    "group",
    "limits.",
    "log.",
    "sandbox",
    "telemetry.",
    "tls.",
    "user",
    "workers",
];

impl ConfigCheck {
    /// The file of the snapshot.
    pub(super) fn snapshot(&mut self) -> Option<PathBuf> {
        let path = self.path(KEY)?;
        let source = self.source(KEY);
        if path.is_dir() {
            let text = format!("{}: is a directory; name a file in it", path.display());
            self.problem(source, KEY, &text);
            return None;
        }
        if let Some(of) = self.other_use(&path, &source) {
            let text = format!(
                "{}: is {of}, which the snapshot would replace; name a file of its own",
                path.display()
            );
            self.problem(source, KEY, &text);
            return None;
        }
        let warning = if self.texts("cache.fleet.servers").is_empty() {
            let directory = base_of(&path);
            let text =
                format!("{} does not exist; create it, with write access for larder", directory.display());
            (!directory.is_dir()).then_some(text)
        } else {
            let text =
                "no effect with cache.fleet.servers: other nodes purge while this one is stopped; remove it";
            Some(text.to_owned())
        };
        self.warnings.extend(warning.map(|text| Problem { source, key: dotted(KEY), text }));
        Some(path).filter(|_| self.texts("cache.fleet.servers").is_empty())
    }

    /// Another use of this file by the configuration.
    fn other_use(&self, path: &Path, source: &Source) -> Option<String> {
        if let Source::Line { file, .. } = source {
            let name = Path::new(&**file).file_name()?;
            if self.values.base(source).is_some_and(|it| it.join(name) == path) {
                return Some("the configuration".to_owned());
            }
        }
        let named = self.values.named_paths();
        let other = named.into_iter().find(|it| it.path == path && it.key != dotted(KEY))?;
        Some(match other.key.is_empty() {
            true => "a file of the configuration".to_owned(),
            false => format!("also the value of {} ({})", other.key, other.source),
        })
    }

    /// A checksum of every value that may decide about keys and their responses, and of the rules that are made of them, which
    /// depend on presets as well.
    pub(super) fn key_settings(&self, sites: &[SiteConfig]) -> u64 {
        let mut text = String::new();
        let is_related = |key: &str| !UNRELATED.iter().any(|it| key.starts_with(it));
        for (key, (value, _)) in self.values.given.iter().filter(|it| is_related(it.0)) {
            let _ = writeln!(text, "{key} = {value:?}");
        }
        for route in sites.iter().flat_map(|it| &it.routes) {
            let cache = &route.cache;
            let _ = writeln!(text, "{:?} {:?} {:?}", cache.key, cache.vary, cache.private_cookies);
        }
        sum(0, text.as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use crate::Config;
    use std::path::Path;

    fn read(top: &str, route: &str) -> Config {
        let text = format!(
            "listen = [\"127.0.0.1:80\"]\n{top}\n[[site]]\nhosts = [\"h\"]\n[[site.route]]\npath = \"/*\"\nproxy.to = [\"http://127.0.0.1:9\"]\n{route}\n"
        );
        Config::from_text(&text, "larder.toml", Path::new("."), &[]).unwrap()
    }

    #[test]
    fn the_key_settings_depend_only_on_settings_of_keys() {
        let plain = read("", "").key_settings;
        let same = "workers = 3\nlog.access = \"off\"\nlimits.drain_timeout = \"1s\"\ncache.ram.size = \"64MiB\"\ncache.ram.snapshot = \"x\"";
        assert_eq!(plain, read(same, "").key_settings);
        for route in [
            "cache.key.drop = [\"a\"]",
            "cache.key.headers = [\"x-a\"]",
            "cache.default_ttl = \"1m\"",
            "cache.preset = \"wordpress\"",
            "when = \"method == \\\"GET\\\"\"",
        ] {
            assert_ne!(plain, read("", route).key_settings, "{route}");
        }
        assert_ne!(plain, read("cache.default_ttl = \"1m\"", "").key_settings);
    }

    #[test]
    fn its_path_is_a_file_in_a_directory_that_exists() {
        let folder = tempfile::tempdir().unwrap();
        let line = |path: &Path| format!("cache.ram.snapshot = \"{}\"", path.display());
        let config = read(&line(&folder.path().join("ram")), "");
        assert_eq!((Some(folder.path().join("ram")), 0), (config.snapshot, config.warnings.len()));
        let config = read(&line(&folder.path().join("no/ram")), "");
        assert!(config.warnings[0].text.contains("does not exist; create it"), "{:?}", config.warnings);
        let text = format!("{}\n[[site]]\nhosts = [\"h\"]\n", line(folder.path()));
        let rejected = Config::from_text(&text, "larder.toml", Path::new("."), &[]).unwrap_err();
        assert!(rejected.to_string().contains("is a directory; name a file in it"), "{rejected}");
        for (more, expect) in [
            ("admin.token_file = \"token\"", "t.toml"),
            ("admin.token_file = \"ram\"", "also the value of admin.token_file (t.toml:2)"),
            ("log.error = \"ram\"", "also the value of log.error (t.toml:2)"),
        ] {
            let name = if expect == "t.toml" { expect } else { "ram" };
            let text = format!("cache.ram.snapshot = \"{name}\"\n{more}\n[[site]]\nhosts = [\"h\"]\n");
            let rejected = Config::from_text(&text, "t.toml", folder.path(), &[]).unwrap_err().to_string();
            let expect = if expect == "t.toml" { "is the configuration" } else { expect };
            assert!(rejected.contains(expect) && rejected.contains("name a file of its own"), "{rejected}");
        }
        let fleet = format!("{}\ncache.fleet.servers = [\"127.0.0.1:1\"]", line(&folder.path().join("ram")));
        let config = read(&fleet, "");
        assert!(config.snapshot.is_none());
        assert!(config.warnings.iter().any(|it| it.text.contains("no effect with cache.fleet.servers")));
    }
}
