//! The section `files` of a route: a directory and the files that a path means in it.

use super::{ConfigCheck, Problem, RoutePath, Source};
use crate::kind::ConfigValue;
use crate::plan::SERVE;
use crate::{FilesConfig, SendfileConfig};
use larder_files::{SymlinkPolicy, TryMember};
use larder_semantics::compress::Compress;
use larder_stdx::duration;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The page of a single-page application, if `files.index` names none.
const PAGE: &str = "index.html";

impl ConfigCheck {
    pub(super) fn files(&mut self, at: &RoutePath, route: &Source) -> Option<FilesConfig> {
        let root = self.root(&at.key("files.root"), "site.route.files.root", route)?;
        let falls_through = self.flag(&at.key("files.fall_through"));
        Some(self.files_of(at, root, falls_through))
    }

    /// The keys of `files` over a directory.
    pub(super) fn files_of(&mut self, at: &RoutePath, root: PathBuf, fall_through: bool) -> FilesConfig {
        let key = |name: &str| at.key(&format!("files.{name}"));
        let given = |name: &str| Some(self.text(&key(name))).filter(|it| !it.is_empty());
        let (strip, not_found) = (given("strip"), given("not_found"));
        let cache_control = given("cache_control");
        if let Some(time) = cache_control.as_deref().and_then(|it| duration::parse(it).ok()) {
            let seconds = time.as_secs();
            let text = format!(
                "a time is no Cache-Control; write cache_control = \"max-age={seconds}\", or client_ttl of the route"
            );
            self.problem(self.source(&key("cache_control")), "site.route.files.cache_control", &text);
        }
        let files = FilesConfig {
            members: self.tried(at),
            clean_urls: self.flag(&key("clean_urls")),
            fall_through,
            not_found: not_found.map(|it| format!("/{}", it.trim_start_matches('/'))),
            compress: self.compress_files(at),
            strip: strip.map(|it| it.trim_end_matches('/').to_owned()).filter(|it| !it.is_empty()),
            index: self.texts(&key("index")),
            listing: self.flag(&key("listing")),
            dotfiles: self.flag(&key("dotfiles")),
            symlinks: match self.text(&key("symlinks")).as_str() {
                "never" => SymlinkPolicy::Never,
                "follow" => SymlinkPolicy::Anywhere,
                _ => SymlinkPolicy::Beneath,
            },
            cache_control,
            precompressed: self.flag(&key("precompressed")),
            cache_for: self.time(&key("cache_for")),
            small_file: self.number(&key("small_file")),
            root,
        };
        self.check_members(at, &files);
        self.check_end(at, &files);
        self.warn_missing(at, &files);
        files
    }

    /// The members of `files.try`, or those that follow from the other keys.
    fn tried(&mut self, at: &RoutePath) -> Vec<TryMember> {
        let key = |name: &str| at.key(&format!("files.{name}"));
        let mut members = match self.values.given.get(&key("try")) {
            Some((ConfigValue::Texts(these), _)) => {
                these.iter().filter_map(|it| TryMember::parse(it).ok()).collect()
            }
            _ if self.flag(&key("clean_urls")) => vec![TryMember::own(), TryMember::suffixed(".html")],
            _ => vec![TryMember::own()],
        };
        if self.flag(&key("spa")) {
            let index = self.texts(&key("index"));
            let page = index.first().map_or(PAGE, String::as_str);
            members.push(TryMember::Page(format!("/{page}").into()));
        }
        members
    }

    /// The compression of files by the rules of `cache.compress`.
    fn compress_files(&mut self, at: &RoutePath) -> Option<Arc<Compress>> {
        let key = at.key("files.compress");
        if !self.flag(&key) {
            return None;
        }
        if self.number("cache.compress.workers") == 0 {
            let (source, key) = (self.source(&key), "site.route.files.compress".to_owned());
            let text = "no file is compressed: cache.compress.workers is 0; set it to 1 or more".to_owned();
            self.warnings.push(Problem { source, key, text });
            return None;
        }
        Some(Arc::new(self.compress_rules(at)))
    }

    /// Members that contradict one another or another key.
    fn check_members(&mut self, at: &RoutePath, files: &FilesConfig) {
        let key = |name: &str| at.key(&format!("files.{name}"));
        let (is_given, spa) = (self.source(&key("try")) != Source::Default, self.flag(&key("spa")));
        if self.is_wrong(&key("try")) {
            return;
        }
        let mut problem = |name: &str, text: &str| {
            let source = self.source(&key(name));
            self.problem(source, &format!("site.route.files.{name}"), text);
        };
        if files.members.is_empty() {
            problem("try", "the list is empty; its first member is usually \"{path}\"");
        }
        let end = files.members.iter().position(|it| matches!(it, TryMember::Status(_)));
        if end.is_some_and(|it| it + 1 < files.members.len()) && !spa {
            problem("try", "members after a status are never reached; put the status last");
        }
        if !files.dotfiles && files.members.iter().any(TryMember::is_hidden) {
            let text = "a member names a hidden file (one that begins with a dot), which is not served; rename it, or set \
                        files.dotfiles = true";
            problem("try", text);
        }
        if !is_given {
            return;
        }
        let html = TryMember::suffixed(".html");
        if files.clean_urls && !files.members.contains(&html) {
            let text = "it redirects /page.html to /page, which no member of files.try serves; add \"{path}.html\" to \
                        files.try";
            problem("clean_urls", text);
        }
        if spa {
            let text = "files.try names the files of every path already; add \"/index.html\" as its last member, or \
                        remove files.try";
            problem("spa", text);
        }
    }

    /// Keys that answer paths without a file, which belong to the next route with `files.fall_through`.
    fn check_end(&mut self, at: &RoutePath, files: &FilesConfig) {
        let key = |name: &str| at.key(&format!("files.{name}"));
        if !files.fall_through {
            return;
        }
        let is_php = self.has(at, "php");
        let takes_all = |it: &TryMember| matches!(it, TryMember::Fixed(_) | TryMember::Status(_));
        let wrong = if self.flag(&key("spa")) && !is_php {
            ("spa", "the page of the application")
        } else if files.members.iter().any(takes_all) {
            ("try", "a member without {path}, or a status,")
        } else if !is_php
            && files.not_found.is_some()
            && self.source(&key("not_found")) != Source::Flag(SERVE.into())
        {
            ("not_found", "this page")
        } else {
            return;
        };
        let text = match is_php {
            true => format!("{} answers paths without a file, which belong to PHP; remove it", wrong.1),
            false => format!(
                "{} answers paths without a file, which belong to the next route with files.fall_through = true; remove one \
                 of the two",
                wrong.1
            ),
        };
        self.problem(self.source(&key(wrong.0)), &format!("site.route.files.{}", wrong.0), &text);
    }

    /// Warns of pages that do not exist, and of settings that take paths from an application.
    fn warn_missing(&mut self, at: &RoutePath, files: &FilesConfig) {
        let key = |name: &str| at.key(&format!("files.{name}"));
        let pages = files.members.iter().filter_map(|it| match it {
            TryMember::Fixed(page) => Some(("try", &**page)),
            TryMember::Page(page) => Some(("spa", &**page)),
            TryMember::Named { before, .. } if !before.is_empty() => Some(("try", &**before)),
            TryMember::Named { .. } | TryMember::Status(_) => None,
        });
        let mut warnings = Vec::new();
        let by_habit = self.source(&key("not_found")) == Source::Flag(SERVE.into());
        let not_found = files.not_found.iter().filter(|_| !by_habit);
        for (name, page) in pages.chain(not_found.map(|it| ("not_found", &**it))) {
            let path = files.root.join(page.trim_start_matches('/'));
            let real_root = std::fs::canonicalize(&files.root).unwrap_or_else(|_| files.root.clone());
            let outside =
                |it: &PathBuf| files.symlinks != SymlinkPolicy::Anywhere && !it.starts_with(&real_root);
            let text = match std::fs::canonicalize(&path) {
                Ok(real) if outside(&real) => {
                    format!("{page}: a symbolic link leads out of files.root, so it is never served")
                }
                Ok(_) => continue,
                Err(error) => {
                    let why = larder_stdx::error::plain(&error);
                    format!("{page}: {why}; until it exists in files.root, this member answers no request")
                }
            };
            warnings.push((name, text));
        }
        if self.flag(&key("spa")) && files.listing {
            let remedy = match self.source(&key("listing")) {
                Source::Flag(flag) if &*flag == "--listing" => "leave out --listing",
                _ => "set files.listing = false",
            };
            let text = format!(
                "directories without an index are listed, so the application does not answer there; {remedy}"
            );
            warnings.push(("listing", text));
        }
        for (name, text) in warnings {
            let (source, key) = (self.source(&key(name)), format!("site.route.files.{name}"));
            self.warnings.push(Problem { source, key, text });
        }
    }

    /// The served directory, which must exist; `named` is its key in messages.
    pub(super) fn root(&mut self, key: &str, named: &str, route: &Source) -> Option<PathBuf> {
        let Some(path) = self.path(key) else {
            if !self.is_wrong(key) {
                let text = "missing; set the directory to serve, such as root = \"public\"";
                self.problem(route.clone(), named, text);
            }
            return None;
        };
        self.existing(&path, key, named)
    }

    /// The directory of a key, which must exist. Symbolic links stay in its path: a deployment sets them to the next release.
    pub(super) fn existing(&mut self, path: &Path, key: &str, named: &str) -> Option<PathBuf> {
        let wrong = match std::fs::metadata(path) {
            Ok(it) if it.is_dir() => {
                return Some(std::path::absolute(path).unwrap_or_else(|_| path.to_owned()));
            }
            Ok(_) => "is not a directory".to_owned(),
            Err(error) => larder_stdx::error::plain(&error),
        };
        let text = format!("{}: {wrong}; use an existing directory", path.display());
        self.problem(self.source(key), named, &text);
        None
    }

    /// The directory of files that the application of a route hands over.
    pub(super) fn sendfile(&mut self, at: &RoutePath) -> Option<SendfileConfig> {
        let (root, prefix) = (at.key("sendfile.root"), at.key("sendfile.prefix"));
        let Some(path) = self.path(&root) else {
            if self.values.given.contains_key(&prefix) && !self.is_wrong(&root) {
                let text = "no effect without a directory; set it, such as root = \"/srv/private\"";
                self.problem(self.source(&prefix), "site.route.sendfile.prefix", text);
            }
            return None;
        };
        let prefix = Some(self.text(&prefix)).filter(|it| !it.is_empty());
        let root = self.existing(&path, &root, "site.route.sendfile.root")?;
        let real = root.canonicalize().unwrap_or_else(|_| root.clone());
        Some(SendfileConfig { root, real, prefix })
    }
}
