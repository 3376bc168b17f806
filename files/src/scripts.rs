//! The PHP script that answers a path: found beneath the root before the application is asked, as the files of a directory are. No
//! script is read here; the rules by which a path names one are in `semantics::script_path`.

use crate::answer::NotServed;
use crate::resolve::{self, FileNames, FileNode, ResolveRules, SymlinkPolicy};
use crate::root_directory::{OpenRoot, RootDirectory};
use larder_semantics::cgi::{EarlierRoute, Script, other_route};
use larder_semantics::script_path;
use larder_stdx::clock::Monotonic;
use larder_stdx::descriptors;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::os::fd::AsFd as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Semaphore;

/// The script of a directory.
const INDEX: &[u8] = b"/index.php";

/// Paths whose script is remembered: with 4096 of 300 bytes about 1 MiB. All are forgotten when another one comes.
const MOST: usize = 4096;

/// Bytes of the longest path that is remembered. It is held twice, as the key and in its script.
const LONGEST: usize = 512;

/// Lookups on the disk at the same time.
const CONCURRENCY: usize = 16;

/// The pause before another attempt without a descriptor, and the number of attempts: for half a minute.
const PAUSE: Duration = Duration::from_millis(20);
const TRIES: usize = 1500;

/// The options of a directory with scripts.
#[derive(Clone, Debug)]
pub struct ScriptOptions {
    /// The directory as the application sees it, without a slash at its end; without one it is the path without symbolic links.
    pub seen_as: Option<String>,
    /// The script for paths that name none, with a slash in front; without one they are not found.
    pub front: Option<String>,
    /// The symbolic links that are followed.
    pub symlinks: SymlinkPolicy,
    /// Variables for every script.
    pub more: Arc<[(String, String)]>,
    /// The routes before that of the scripts: see [`other_route`].
    pub before: Arc<[EarlierRoute]>,
    /// How long a script that was found is asked without another look on the disk.
    pub cache_for: Duration,
}

/// A directory with scripts. Shared by all workers.
pub struct ScriptRoot {
    directory: RootDirectory,
    options: ScriptOptions,
    /// By path in the normal form.
    known: Mutex<HashMap<Box<[u8]>, KnownScript>>,
    turns: Arc<Semaphore>,
}

/// The answer to a path, and when the disk was looked at.
struct KnownScript {
    found: FoundScript,
    looked: Monotonic,
}

/// The answer to a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FoundScript {
    /// This script.
    Script(Arc<Script>, ScriptRule),
    /// The path of a directory with an index lacks its slash: a redirect to this path of the same host.
    Redirect(Arc<[u8]>),
    /// The script of the path belongs to this earlier route, whose rules would not hold for the request: 404.
    OfOtherRoute(Arc<Script>, String),
    /// No script.
    None(NotServed),
}

/// Why a script answers a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScriptRule {
    /// The path names it.
    Named,
    /// It is the index of the directory that the path names.
    Index,
    /// No other script has the path.
    Front,
}

impl ScriptRoot {
    /// Opens the directory that a path leads to; every look on the disk follows the path. Blocks: for the start and for reloads.
    ///
    /// # Errors
    /// It is not a directory, or cannot be opened.
    pub fn open(path: &Path, options: ScriptOptions) -> std::io::Result<Arc<Self>> {
        let directory = RootDirectory::open(path)?;
        let turns = Arc::new(Semaphore::new(CONCURRENCY));
        Ok(Arc::new(Self { directory, options, known: Mutex::default(), turns }))
    }

    /// Finds the script of a request. Looks on the disk on a pool of threads, unless the path was looked up a short time ago.
    pub async fn find(self: &Arc<Self>, method: &str, target: &str, now: Monotonic) -> FoundScript {
        let Some(path) = script_path::normal(target) else { return FoundScript::None(NotServed::Malformed) };
        let path: Arc<[u8]> = path.into();
        match self.find_path(&path, now).await {
            FoundScript::Script(script, rule) => match self.other_route(method, &path, &script) {
                Some(route) => FoundScript::OfOtherRoute(script, route.name.clone()),
                None => FoundScript::Script(script, rule),
            },
            found => found,
        }
    }

    /// The earlier route that a script belongs to. The front controller belongs to none: the route names it for every path.
    fn other_route(&self, method: &str, request: &[u8], script: &Script) -> Option<&EarlierRoute> {
        let is_front = self.options.front.as_ref().is_some_and(|it| it.as_bytes() == script.name);
        if is_front { None } else { other_route(&self.options.before, method, request, &script.name) }
    }

    async fn find_path(self: &Arc<Self>, path: &Arc<[u8]>, now: Monotonic) -> FoundScript {
        if let Some(known) = self.known(path, now) {
            return known;
        }
        for _ in 0..TRIES {
            let Ok(turn) = self.turns.clone().acquire_owned().await else { break };
            let (root, path) = (self.clone(), path.clone());
            let work = tokio::task::spawn_blocking(move || {
                let found = root.look(&path);
                drop(turn);
                if !matches!(found, FoundScript::None(it) if it.status() >= 500) {
                    root.remember(&path, &found, now);
                }
                found
            });
            match work.await.unwrap_or(FoundScript::None(NotServed::Failed)) {
                FoundScript::None(NotServed::NoDescriptor) => descriptors::record_shortage(),
                FoundScript::None(NotServed::Busy) => {}
                found => return found,
            }
            tokio::time::sleep(PAUSE).await;
        }
        FoundScript::None(NotServed::Busy)
    }

    /// Bytes of memory for the paths that are remembered, about.
    #[must_use]
    pub fn memory_held(&self) -> u64 {
        /// Bytes of an entry apart from its path: the script and its place in the map.
        const EACH: usize = 256;
        let known = self.known.lock();
        known.keys().map(|it| it.len() * 2 + EACH).sum::<usize>() as u64
    }

    fn known(&self, path: &[u8], now: Monotonic) -> Option<FoundScript> {
        let known = self.known.lock();
        let KnownScript { found, looked } = known.get(path)?;
        let age = Duration::from_millis(now.0.saturating_sub(looked.0));
        (age < self.options.cache_for).then(|| found.clone())
    }

    fn remember(&self, path: &[u8], found: &FoundScript, now: Monotonic) {
        if self.options.cache_for.is_zero() || path.len() > LONGEST {
            return;
        }
        let mut known = self.known.lock();
        if known.len() >= MOST && !known.contains_key(path) {
            known.clear();
        }
        known.insert(path.into(), KnownScript { found: found.clone(), looked: now });
    }

    /// Looks on the disk.
    fn look(&self, path: &[u8]) -> FoundScript {
        self.choose(path).unwrap_or_else(FoundScript::None)
    }

    fn choose(&self, path: &[u8]) -> Result<FoundScript, NotServed> {
        let root = &self.directory.current();
        for end in script_path::ends(path) {
            match self.node(root, &path[..end], FileNames::Run)? {
                Some(FileNode::File(_)) => {
                    return Ok(self.script(root, &path[..end], &path[end..], ScriptRule::Named));
                }
                Some(FileNode::Directory(_)) => {}
                None => break,
            }
        }
        if !script_path::is_hidden(path) {
            let directory = path.strip_suffix(b"/");
            let index = [directory.unwrap_or(path), INDEX].concat();
            if self.is_file(root, &index, FileNames::Run)? {
                return Ok(match directory {
                    Some(_) => self.script(root, &index, b"", ScriptRule::Index),
                    None => FoundScript::Redirect([path, b"/"].concat().into()),
                });
            }
        }
        match &self.options.front {
            Some(front) if self.is_file(root, front.as_bytes(), FileNames::Any)? => {
                Ok(self.script(root, front.as_bytes(), b"", ScriptRule::Front))
            }
            _ => Err(NotServed::NotFound),
        }
    }

    /// The object at a path with a slash in front; `None` if it is absent, not beneath the root, or a file with another name.
    fn node(&self, root: &OpenRoot, path: &[u8], names: FileNames) -> Result<Option<FileNode>, NotServed> {
        let rules = ResolveRules { symlinks: self.options.symlinks, names };
        match resolve::look(root.as_fd(), &path[1..], rules) {
            Ok(node) => Ok(Some(node)),
            Err(NotServed::NotFound) => Ok(None),
            Err(other) => Err(other),
        }
    }

    fn is_file(&self, root: &OpenRoot, path: &[u8], names: FileNames) -> Result<bool, NotServed> {
        Ok(matches!(self.node(root, path, names)?, Some(FileNode::File(_))))
    }

    fn script(&self, root: &OpenRoot, name: &[u8], info: &[u8], rule: ScriptRule) -> FoundScript {
        let seen_as = self.options.seen_as.as_ref().map(String::as_bytes);
        let script = Script {
            root: seen_as.unwrap_or_else(|| root.real_path().as_os_str().as_bytes()).to_owned(),
            name: name.to_owned(),
            info: (!info.is_empty()).then(|| info.to_owned()),
            more: self.options.more.clone(),
        };
        FoundScript::Script(Arc::new(script), rule)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use larder_semantics::method::Methods;
    use larder_semantics::pattern::PathPattern;
    use std::os::unix::fs::symlink;

    fn folder() -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for name in [
            "index.php",
            "wp-login.php",
            "admin/index.php",
            "dir.php/deep.php",
            "upload/x.jpg",
            ".git/hook.php",
            "UPPER.PHP",
            "plain/a.txt",
            ".hidden.php",
            ".releases/5/page.php",
        ] {
            let path = folder.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, "").unwrap();
        }
        let outside = tempfile::NamedTempFile::new().unwrap();
        symlink(outside.path(), folder.path().join("out.php")).unwrap();
        symlink("wp-login.php", folder.path().join("link.php")).unwrap();
        for (to, name) in [
            ("upload/x.jpg", "picture.php"),
            (".hidden.php", "shown.php"),
            ("plain/a.txt", "admin/text.php"),
            (".releases/5", "current"),
            ("current/page.php", "page.php"),
        ] {
            symlink(to, folder.path().join(name)).unwrap();
        }
        std::fs::create_dir(folder.path().join("gone.php")).unwrap();
        folder
    }

    fn open(folder: &Path, change: impl FnOnce(&mut ScriptOptions)) -> Arc<ScriptRoot> {
        let mut options = ScriptOptions {
            seen_as: Some("/app".into()),
            front: Some("/index.php".into()),
            symlinks: SymlinkPolicy::Beneath,
            more: Arc::default(),
            before: Arc::default(),
            cache_for: Duration::from_secs(1),
        };
        change(&mut options);
        ScriptRoot::open(folder, options).unwrap()
    }

    fn told(found: &FoundScript) -> String {
        let text = |it: &[u8]| it.escape_ascii().to_string();
        match found {
            FoundScript::Script(it, rule) => {
                let info = it.info.as_ref().map_or(String::new(), |it| format!(" + {}", text(it)));
                format!("{rule:?} {}{info}", text(&it.name))
            }
            FoundScript::Redirect(path) => format!("to {}", text(path)),
            FoundScript::OfOtherRoute(_, route) => format!("404: of {route}"),
            FoundScript::None(why) => why.status().to_string(),
        }
    }

    fn earlier(path: &str) -> EarlierRoute {
        let (name, path) = (path.to_owned(), PathPattern::parse(path).unwrap());
        EarlierRoute { name, path, methods: Methods::Any }
    }

    #[tokio::test]
    async fn after_the_switch_of_a_link_the_scripts_are_those_of_the_new_release() {
        let folder = tempfile::tempdir().unwrap();
        let at = |it: &str| folder.path().join(it);
        for release in ["1", "2"] {
            std::fs::create_dir(at(release)).unwrap();
            std::fs::write(at(release).join("index.php"), "").unwrap();
        }
        symlink("1", at("current")).unwrap();
        let root = open(&at("current"), |it| {
            it.seen_as = None;
            it.cache_for = Duration::ZERO;
        });
        let release = async || match root.find("GET", "/", Monotonic(0)).await {
            FoundScript::Script(it, _) => {
                std::path::PathBuf::from(String::from_utf8(it.root.clone()).unwrap())
            }
            other => panic!("{other:?}"),
        };
        assert_eq!(at("1").canonicalize().unwrap(), release().await);
        symlink("2", at("next")).unwrap();
        std::fs::rename(at("next"), at("current")).unwrap();
        assert_eq!(at("2").canonicalize().unwrap(), release().await);
    }

    #[tokio::test]
    async fn the_script_of_a_path() {
        let folder = folder();
        let root = open(folder.path(), |_| {});
        for (target, expect) in [
            ("/", "Index /index.php"),
            ("/index.php", "Named /index.php"),
            ("/wp-login.php?a=b", "Named /wp-login.php"),
            ("/index.php/a/b", "Named /index.php + /a/b"),
            ("/index.php/", "Named /index.php + /"),
            ("/admin/", "Index /admin/index.php"),
            ("/admin", "to /admin/"),
            ("/admin/none", "Front /index.php"),
            ("/none", "Front /index.php"),
            ("/none.php", "Front /index.php"),
            ("/none.php/a", "Front /index.php"),
            ("/plain/", "Front /index.php"),
            ("/plain", "Front /index.php"),
            ("/upload/x.jpg/y.php", "Front /index.php"),
            ("/upload/x.jpg", "Front /index.php"),
            ("/dir.php/deep.php/i", "Named /dir.php/deep.php + /i"),
            ("/gone.php", "Front /index.php"),
            ("/.git/hook.php", "Front /index.php"),
            ("/%2egit/hook.php", "Front /index.php"),
            ("/UPPER.PHP", "Named /UPPER.PHP"),
            ("/upper.php", "Front /index.php"),
            ("/out.php", "Front /index.php"),
            ("/link.php", "Named /link.php"),
            // The file at the end of the link is judged as well.
            ("/picture.php", "Front /index.php"),
            ("/picture.php/x", "Front /index.php"),
            ("/shown.php", "Front /index.php"),
            ("/admin/text.php", "Front /index.php"),
            ("/page.php", "Named /page.php"),
            ("/current/page.php", "Named /current/page.php"),
            ("/../../etc/passwd", "Front /index.php"),
            ("/index.php%00", "400"),
            ("/index.php/%0a", "400"),
        ] {
            assert_eq!(expect, told(&root.find("GET", target, Monotonic(0)).await), "{target}");
        }
        let long = format!("/{}", "a".repeat(9000));
        assert_eq!("Front /index.php", told(&root.find("GET", &long, Monotonic(0)).await));
    }

    #[tokio::test]
    async fn without_a_front_controller_and_with_another_root() {
        let folder = folder();
        let root = open(folder.path(), |it| it.front = None);
        assert_eq!("404", told(&root.find("GET", "/none", Monotonic(0)).await));
        assert_eq!("Index /index.php", told(&root.find("GET", "/", Monotonic(0)).await));
        let root = open(folder.path(), |it| it.front = Some("/admin/index.php".into()));
        assert_eq!("Front /admin/index.php", told(&root.find("GET", "/none", Monotonic(0)).await));
        let root = open(folder.path(), |it| it.symlinks = SymlinkPolicy::Never);
        assert_eq!("Front /index.php", told(&root.find("GET", "/link.php", Monotonic(0)).await));
        let FoundScript::Script(script, _) = root.find("GET", "/a", Monotonic(0)).await else { panic!() };
        assert_eq!(b"/app", &script.root[..]);
    }

    #[tokio::test]
    async fn a_script_of_another_route_runs_by_no_other_path() {
        let folder = folder();
        let root = open(folder.path(), |it| {
            it.before = [earlier("/wp-login.php"), earlier("/admin/*.php"), earlier("/*")].into();
        });
        for (target, expect) in [
            ("/wp-login.php/x", "404: of /wp-login.php"),
            ("/wp-login.php/", "404: of /wp-login.php"),
            ("/%77p-login.php/x", "404: of /wp-login.php"),
            ("/admin/", "404: of /admin/*.php"),
            ("/admin", "to /admin/"),
            ("/index.php/x", "Named /index.php + /x"),
            ("/", "Index /index.php"),
            ("/none", "Front /index.php"),
            // Another condition of the route kept the request from it.
            ("/wp-login.php", "Named /wp-login.php"),
        ] {
            assert_eq!(expect, told(&root.find("GET", target, Monotonic(0)).await), "{target}");
        }
    }

    #[tokio::test]
    async fn the_front_controller_answers_although_an_earlier_route_has_its_path() {
        let folder = folder();
        // As in the configuration that Symfony recommends for nginx: other scripts are refused.
        let root = open(folder.path(), |it| it.before = [earlier("/index.php"), earlier("*.php")].into());
        for (target, expect) in [
            ("/", "Index /index.php"),
            ("/posts/1", "Front /index.php"),
            ("/index.php/a", "Named /index.php + /a"),
            ("/admin/", "404: of *.php"),
        ] {
            assert_eq!(expect, told(&root.find("GET", target, Monotonic(0)).await), "{target}");
        }
    }

    #[tokio::test]
    async fn a_route_for_other_methods_takes_no_script() {
        let folder = folder();
        let posts = EarlierRoute { methods: Methods::Only(vec!["POST".into()]), ..earlier("*.php") };
        let root = open(folder.path(), |it| it.before = [posts].into());
        for (method, expect) in
            [("GET", "Index /admin/index.php"), ("POST", "404: of *.php"), ("post", "404: of *.php")]
        {
            assert_eq!(expect, told(&root.find(method, "/admin/", Monotonic(0)).await), "{method}");
        }
    }

    /// A client chooses the length, up to `limits.target_size`.
    #[tokio::test]
    async fn a_long_path_is_not_remembered() {
        let folder = folder();
        let root = open(folder.path(), |_| {});
        for length in [LONGEST, 4 * LONGEST] {
            let path = format!("/wp-login.php/{}", "a".repeat(length));
            assert!(told(&root.find("GET", &path, Monotonic(0)).await).starts_with("Named /wp-login.php"));
        }
        assert_eq!(0, root.known.lock().len());
    }

    #[tokio::test]
    async fn a_script_is_remembered_for_a_while() {
        let folder = folder();
        let root = open(folder.path(), |_| {});
        let find = |at| {
            let root = root.clone();
            async move { told(&root.find("GET", "/wp-login.php", Monotonic(at)).await) }
        };
        assert_eq!("Named /wp-login.php", find(0).await);
        std::fs::remove_file(folder.path().join("wp-login.php")).unwrap();
        assert_eq!("Named /wp-login.php", find(999).await);
        assert_eq!("Front /index.php", find(1000).await);
        for number in 0..MOST + 9 {
            root.find("GET", &format!("/{number}"), Monotonic(1000)).await;
        }
        assert!(root.known.lock().len() <= MOST);
    }
}
