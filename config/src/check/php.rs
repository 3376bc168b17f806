//! The section `php` of a route: the directory of the scripts, its files, and php-fpm.

use super::fall_through::methods_of;
use super::rewrite::OF_SCRIPTS;
use super::{ConfigCheck, RoutePath, Source};
use crate::kind::PathPattern;
use crate::php::PhpConfig;
use crate::{Methods, Proxy, RouteConfig, Service};
use larder_gateway::buffered::BufferedBodies;
use larder_origin::{OriginAddress, ProgramPlace, ProgramSettings};
use larder_semantics::cgi::EarlierRoute;
use larder_semantics::template::Template;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Keys of `files` that answer paths without a file, or name the directory.
const NOT_OF_FILES: [(&str, &str); 6] = [
    ("root", "php.root is the directory of the files, too; remove it"),
    ("fall_through", "paths without a file belong to PHP; remove it"),
    ("spa", "paths without a file belong to PHP; remove it, or set php.front_controller"),
    ("not_found", "paths without a file belong to PHP; remove it, or use error_pages"),
    ("listing", "directories without an index belong to PHP; remove it"),
    (
        "strip",
        "a script would have another path than a file; use a directory that has the prefix, and remove it",
    ),
];

impl ConfigCheck {
    /// The origins and scripts of a route with `php`.
    pub(super) fn php(&mut self, at: &RoutePath, route: &Source) -> Option<Proxy> {
        for (name, text) in NOT_OF_FILES {
            let key = at.key(&format!("files.{name}"));
            if self.values.given.contains_key(&key) {
                self.problem(self.source(&key), &format!("site.route.files.{name}"), text);
            }
        }
        for name in ["strip", "add_prefix", "rewrite"] {
            let key = at.key(name);
            if self.values.given.contains_key(&key) {
                let text = "files and scripts of php have the path of the request; use a directory that has the prefix, and remove it";
                self.problem(self.source(&key), &format!("site.route.{name}"), text);
            }
        }
        let to = at.key("proxy.to");
        if self.values.given.contains_key(&to) {
            let text = "php.to names the origins of the route; remove one of the two";
            self.problem(self.source(&to), "site.route.proxy.to", text);
        }
        let root = self.root(&at.key("php.root"), "site.route.php.root", route);
        let files = root.map(|it| self.files_of(at, it, true));
        let proxy = self.proxy(at, route);
        let (files, proxy) = (files?, proxy?);
        let seen_as = Some(self.text(&at.key("php.application_root"))).filter(|it| !it.is_empty());
        let front = self.text(&at.key("php.front_controller"));
        let front = (front != "off").then(|| format!("/{}", front.trim_start_matches('/')));
        let php = PhpConfig {
            application_root: seen_as.map(|it| it.trim_end_matches('/').to_owned()),
            front_controller: front,
            env: self.script_variables(at).into(),
            before: Arc::default(),
            files,
        };
        self.warn_front(at, &php);
        // A process of php-fpm would wait for a slow client: bodies are read first, unless the configuration says otherwise.
        let buffers = match self.source(&at.key("proxy.buffer_request")) {
            Source::Default => BufferedBodies::All,
            _ => proxy.buffers,
        };
        Some(Proxy { php: Some(Box::new(php)), buffers, ..proxy })
    }

    /// The constants of `php.env`.
    fn script_variables(&self, at: &RoutePath) -> Vec<(String, String)> {
        let all = self.pairs(&at.key(OF_SCRIPTS)).into_iter();
        all.filter_map(|(name, value)| Some((name, Template::parse(&value).ok()?)))
            .filter(|it| it.1.inputs().next().is_none())
            .map(|(name, it)| (name, it.constant().unwrap_or_default().to_owned()))
            .collect()
    }

    /// Warns where paths without a script are not found although a script is named for them.
    fn warn_front(&mut self, at: &RoutePath, php: &PhpConfig) {
        let Some(front) = &php.front_controller else { return };
        if php.files.root.join(front.trim_start_matches('/')).is_file() {
            return;
        }
        let key = at.key("php.front_controller");
        let source = match self.source(&key) {
            Source::Default => self.source(&at.key("php.root")),
            source => source,
        };
        let text = format!(
            "{} has no {front}, so paths that name no script get 404; add it, name another one, or set front_controller = \"off\"",
            php.files.root.display()
        );
        self.warn_of(source, "site.route.php.front_controller", &text);
    }
}

/// The routes of one section: those with PHP are two, and the files are the first.
pub(super) fn halves(route: RouteConfig) -> Vec<RouteConfig> {
    let Service::Proxy(proxy) = &route.service else { return vec![route] };
    let Some(php) = &proxy.php else { return vec![route] };
    let service = Service::Files(php.files.clone());
    let methods = methods_of(route.methods.clone(), Some(&service));
    if matches!(&methods, Methods::Only(these) if these.is_empty()) {
        return vec![route];
    }
    let name = format!("{}:files", route.name);
    let mut files = RouteConfig { name, methods, service, budget: None, ..route.clone() };
    if let Some(ttl) = &mut files.finish.client_ttl {
        ttl.is_shareable = !files.access.has_credentials();
    }
    vec![files, route]
}

/// Tells the scripts and programs of each route the routes before it, and programs the directory of the site.
pub(super) fn know_others(routes: &mut [RouteConfig]) {
    let root = document_root(routes);
    for at in 0..routes.len() {
        let (before, rest) = routes.split_at_mut(at);
        let Some(RouteConfig { service: Service::Proxy(proxy), .. }) = rest.first_mut() else { continue };
        let earlier = |it: &RouteConfig| EarlierRoute {
            name: it.name.clone(),
            path: it.path.clone(),
            methods: it.methods.clone(),
        };
        let before = || before.iter().map(earlier);
        if let Some(php) = &mut proxy.php {
            php.before = before().collect();
        }
        for member in &mut proxy.to.members {
            if let OriginAddress::Programs(programs) = &mut member.at {
                let programs = Arc::make_mut(programs);
                programs.before = before().collect();
                programs.document_root = root.clone().or_else(|| above_programs(programs));
            }
        }
    }
}

/// The directory of a site: that of the files of all its paths.
fn document_root(routes: &[RouteConfig]) -> Option<PathBuf> {
    routes.iter().filter(|it| it.path == PathPattern::all()).find_map(|it| match &it.service {
        Service::Files(files) if files.strip.is_none() => Some(files.root.clone()),
        _ => None,
    })
}

/// The directory beneath which the URL path of each program is the path of its file.
fn above_programs(programs: &ProgramSettings) -> Option<PathBuf> {
    let ProgramPlace::Directory(directory) = &programs.place else { return None };
    let strip = Path::new(OsStr::from_bytes(programs.strip.strip_prefix(b"/").unwrap_or_default()));
    let above = directory.ancestors().nth(strip.components().count())?;
    directory.ends_with(strip).then(|| above.to_owned())
}
