//! The key recipe of a route: `cache.key` and its contradictions. The key itself is in `semantics::key`.

use super::{ConfigCheck, Problem, RoutePath};
use larder_gateway::trusted_headers;
use larder_semantics::accept::{InvalidOffers, MAX_OFFERS, MediaTypeOffers};
use larder_semantics::geo::COUNTRY_FIELD;
use larder_semantics::key::{KeyRecipe, QueryPolicy};
use larder_semantics::language::{InvalidLanguages, LanguageOffers, MAX_LANGUAGES};
use larder_semantics::policy::Policy;
use larder_semantics::vary;

/// The most combinations of the offers of a route.
const MAX_COMBINATIONS: usize = 64;

/// The most names of `cache.vary`: the `Vary` of the origin has room for others.
const MAX_VARIED: usize = 16;

impl ConfigCheck {
    pub(super) fn recipe(&mut self, at: &RoutePath) -> KeyRecipe {
        let (accept, languages) = (self.offers(at), self.languages(at));
        let key = |name: &str| self.cache_key(at, &format!("key.{name}"));
        let (drop, keep) = (self.texts(&key("drop")), self.texts(&key("keep")));
        let none = self.text(&key("query")) == "none";
        let mut recipe = KeyRecipe {
            condition: None,
            query: match (none, keep.is_empty(), drop.is_empty()) {
                (true, ..) => QueryPolicy::None,
                (false, false, _) => QueryPolicy::Keep(keep.clone()),
                (false, true, false) => QueryPolicy::Drop(drop.clone()),
                (false, true, true) => QueryPolicy::All,
            },
            sort_query: self.flag(&key("sort")),
            headers: self.texts(&key("headers")).iter().map(|it| it.to_ascii_lowercase()).collect(),
            cookies: self.texts(&key("cookies")),
            accept,
            languages,
            any_host_of: self.flag(&key("ignore_host")).then(|| {
                // No two sites have a host in common.
                let first = self.texts(&at.of_site("hosts")).into_iter().next().unwrap_or_default();
                first.trim_start_matches('*').to_ascii_lowercase()
            }),
            bodies: self.flag(&self.cache_key(at, "query")),
            strict: self.flag(&key("strict")),
        };
        let clash = match (none, keep.is_empty(), drop.is_empty()) {
            (_, false, false) => {
                Some("both keep and drop are set; keep alone already removes all other parameters")
            }
            (true, false, _) | (true, _, false) => {
                Some("query = \"none\" removes every parameter; keep and drop have no effect")
            }
            _ => None,
        };
        if let Some(text) = clash {
            let name = if drop.is_empty() { "keep" } else { "drop" };
            let source = self.source(&key(name));
            if !self.values.problems.iter().any(|it| it.source == source) {
                self.problem(source, "cache.key", text);
            }
        }
        if let Some(name) = recipe.headers.iter().find(|it| trusted_headers::names_client(it)) {
            let text = format!(
                "{name} cannot be part of the key: it carries the client address, which clients.trusted controls"
            );
            let source = self.source(&self.cache_key(at, "key.headers"));
            if !self.values.problems.iter().any(|it| it.source == source) {
                self.problem(source, "cache.key.headers", &text);
            }
        }
        if self.flag(&self.cache_key(at, "key.country")) {
            recipe.headers.push(COUNTRY_FIELD.to_owned());
        }
        if recipe.bodies && recipe.strict {
            let text = "a request to the origin of a strict key has no Content-Type, which a QUERY needs; set cache.query = false or \
                        cache.key.strict = false";
            self.key_problem(at, "query", text);
        }
        for (name, key) in [("accept", "accept"), ("accept-language", "accept_language")] {
            if recipe.negotiates(name) && recipe.headers.iter().any(|it| it == name) {
                let text = format!(
                    "{name} is in the key as sent; with key.{key}, only the preferred offer is: remove it from headers"
                );
                self.key_problem(at, "key.headers", &text);
            }
        }
        let combinations = recipe.representatives().len();
        if combinations > MAX_COMBINATIONS {
            let text = format!(
                "with key.accept there are {combinations} combinations of a media type, or none of them, and a language; allowed: \
                 at most {MAX_COMBINATIONS}, since each is a stored response, and each is removed by a POST to the page"
            );
            self.key_problem(at, "key.accept_language", &text);
        }
        recipe
    }

    /// The offers of media types of a route.
    fn offers(&mut self, at: &RoutePath) -> MediaTypeOffers {
        let types = self.texts(&self.cache_key(at, "key.accept"));
        match MediaTypeOffers::new(types) {
            Ok(offers) => return offers,
            // The form of the value says so already.
            Err(InvalidOffers::NotAType(_)) => {}
            Err(InvalidOffers::Twice(it)) => {
                self.key_problem(at, "key.accept", &format!("{it} is in the list twice; remove one"));
            }
            Err(InvalidOffers::TooMany) => {
                let text = format!(
                    "the list has more than {MAX_OFFERS} media types; each multiplies the stored responses"
                );
                self.key_problem(at, "key.accept", &text);
            }
        }
        MediaTypeOffers::default()
    }

    /// The offers of languages of a route.
    fn languages(&mut self, at: &RoutePath) -> LanguageOffers {
        const KEY: &str = "key.accept_language";
        let tags = self.texts(&self.cache_key(at, KEY));
        match LanguageOffers::new(tags) {
            Ok(offers) => return offers,
            // The form of the value says so already.
            Err(InvalidLanguages::NotATag(_)) => {}
            Err(InvalidLanguages::Twice(it)) => {
                self.key_problem(at, KEY, &format!("{it} is in the list twice; remove one"));
            }
            Err(InvalidLanguages::TooMany) => {
                let text = format!(
                    "the list has more than {MAX_LANGUAGES} languages; each multiplies the stored responses"
                );
                self.key_problem(at, KEY, &text);
            }
        }
        LanguageOffers::default()
    }

    /// `cache.vary`: sorted, in lower case, each once.
    pub(super) fn varied(&mut self, at: &RoutePath) -> Vec<String> {
        let key = self.cache_key(at, "vary");
        let mut names: Vec<String> = self.texts(&key).iter().map(|it| it.to_ascii_lowercase()).collect();
        names.sort();
        names.dedup();
        let wrong = if let Some(name) = names.iter().find(|it| vary::is_client_fact(it)) {
            Some(format!(
                "{name} cannot select a variant: every client has another value, or larder writes it"
            ))
        } else if names.len() > MAX_VARIED {
            Some(format!("the list has more than {MAX_VARIED} names"))
        } else {
            None
        };
        if let Some(text) = wrong {
            let source = self.source(&key);
            if !self.values.problems.iter().any(|it| it.source == source) {
                self.problem(source, "cache.vary", &text);
            }
        }
        names
    }

    /// Reports a problem of `cache.NAME`, once for a value that several routes have.
    fn key_problem(&mut self, at: &RoutePath, name: &str, text: &str) {
        let source = self.source(&self.cache_key(at, name));
        if !self.values.problems.iter().any(|it| it.source == source) {
            self.problem(source, &format!("cache.{name}"), text);
        }
    }

    /// Warns of hosts that share a cache, but have no representative name.
    pub(super) fn warn_shared_host(&mut self, at: &RoutePath, cache: &Policy) {
        let key = "cache.key.ignore_host";
        let first = self.texts(&at.of_site("hosts")).into_iter().next().unwrap_or_default();
        let source = self.source(&self.cache_key(at, "key.ignore_host"));
        let is_warned = self.warnings.iter().any(|it| it.key == key && it.source == source);
        if cache.key.any_host_of.is_some() && first.starts_with('*') && !is_warned {
            let text = format!(
                "the first host is \"{first}\", so the origin receives its own address as Host; put the host that \
                 the origin expects first"
            );
            self.warnings.push(Problem { source, key: key.to_owned(), text });
        }
    }
}
