//! Settings of a route that change nothing for its requests, although they are valid: `larder check` warns of them.

use super::rewrite::never_stripped;
use super::{ConfigCheck, RoutePath, Source};
use crate::Service;
use crate::kind::{BLOCK, PathPattern};

/// Keys of `cache` that routes to files use, too.
const OF_FILES: [&str; 4] = ["compress.codings", "compress.min_size", "compress.max_size", "compress.types"];

impl ConfigCheck {
    pub(super) fn warn_unused(&mut self, at: &RoutePath, service: Option<&Service>, path: &PathPattern) {
        let what = match service {
            Some(Service::Files(_)) => "files have a cache of their own (files.cache_for, files.small_file)",
            Some(Service::Redirect(_)) => "redirects are not cached",
            Some(Service::Respond(_)) => "fixed answers are not cached",
            Some(Service::Proxy(_) | Service::Sql(_)) | None => "",
        };
        if !what.is_empty() {
            self.warn_cache(at, what);
        }
        if !matches!(service, Some(Service::Proxy(_)) | None) {
            self.refuse_sendfile(at);
        }
        self.warn_uncached(at);
        if let Some(Service::Files(files)) = service
            && let Some(strip) = &files.strip
            && let Some(text) = never_stripped(strip, path)
        {
            self.warn_of(self.source(&at.key("files.strip")), "site.route.files.strip", &text);
        }
    }

    /// `cache.compress.uncached` of a route that compresses nothing.
    fn warn_uncached(&mut self, at: &RoutePath) {
        let (key, switch) = (at.key("cache.compress.uncached"), at.key("cache.compress.enabled"));
        if !self.values.given.contains_key(&key) || !self.flag(&key) || self.flag(&switch) {
            return;
        }
        let source = self.source(&key);
        if !self.is_of_block(&source) {
            let text = "no effect: cache.compress.enabled is false; set it to true, or remove this key";
            self.warn_of(source, "site.route.cache.compress.uncached", text);
        }
    }

    /// Only an application hands files over. Keys of a block may be for other routes.
    fn refuse_sendfile(&mut self, at: &RoutePath) {
        let keys = ["root", "prefix"].map(|it| (it, at.key(&format!("sendfile.{it}"))));
        let given = keys.into_iter().find(|it| self.values.given.contains_key(&it.1));
        let Some((name, source)) = given.map(|it| (it.0, self.source(&it.1))) else { return };
        if !self.is_of_block(&source) {
            let text = "no effect: only a route with an origin (proxy.to, php.to) has an application that hands files over; remove it";
            self.problem(source, &format!("site.route.sendfile.{name}"), text);
        }
    }

    /// Whether a value is that of a block, which may be for other routes.
    pub(super) fn is_of_block(&self, source: &Source) -> bool {
        let blocks = self.values.given.range(format!("{BLOCK}.")..);
        blocks.take_while(|it| it.0.starts_with(BLOCK)).any(|it| it.1.1 == *source)
    }

    /// Warns of the first key of `cache` in a route that has no origin. Keys of a block may be for other routes.
    fn warn_cache(&mut self, at: &RoutePath, what: &str) {
        let prefix = at.key("cache.");
        let keys = self
            .values
            .given
            .range(prefix.clone()..)
            .map_while(|(key, (_, source))| key.strip_prefix(prefix.as_str()).map(|it| (it, source)));
        let is_unused = |(name, source): &(&str, &Source)| {
            !matches!(source, Source::Preset(_)) && !self.is_of_block(source) && !OF_FILES.contains(name)
        };
        let Some((name, source)) = keys.into_iter().find(is_unused) else { return };
        let (source, key) =
            (source.clone(), format!("site.route.cache.{}", name.split('[').next().unwrap_or(name)));
        self.warn_of(source, &key, &format!("no effect: {what}; remove it"));
    }
}
