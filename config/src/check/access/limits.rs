//! The limits of requests of a route: `access.limit`, and the further ones of `access.limits`.

use super::{ConfigCheck, RoutePath};
use crate::access::{LimitConfig, LimitKey, MOST_LIMITS};
use crate::problem::{Problem, Source};
use larder_semantics::rate::{Gcra, Rate};

impl ConfigCheck {
    pub(super) fn request_limits(&mut self, at: &RoutePath) -> Vec<LimitConfig> {
        let keys =
            ["rate", "burst", "by", "concurrency"].map(|it| self.access_key(at, &format!("limit.{it}")));
        let scope = self.limit_scope(at, &keys.each_ref());
        let mut all: Vec<LimitConfig> = self.request_limit(&keys, scope, None).into_iter().collect();
        let (own, of_site) = (at.key("access.limits"), at.of_site("access.limits"));
        let list = match self.values.count(&own) > 0 || !self.flag(&at.key("access.inherit")) {
            true => own,
            false => of_site,
        };
        for number in 0..self.values.count(&list) {
            let section = format!("{list}[{number}]");
            let place = self.values.sections.get(&section).cloned().unwrap_or_default();
            let keys = ["rate", "burst", "by", "concurrency"].map(|it| format!("{section}.{it}"));
            let scope = self.limit_scope(at, &[&list]);
            let Some(it) = self.request_limit(&keys, scope, Some(place.clone())) else { continue };
            let name = it.describe();
            let text = if all.iter().any(|other| other.describe() == name) {
                format!("the limit {name} is there already; remove one of them")
            } else if all.len() == MOST_LIMITS {
                format!("a route has at most {MOST_LIMITS} limits, access.limit included; remove this one")
            } else {
                all.push(it);
                continue;
            };
            self.problem(place, "site.route.access.limits", &text);
        }
        self.warn_idle_limits(&all, &self.source(&keys[0]));
        all
    }

    /// Warns of a limit that another one of the same key makes superfluous. `single` is the place of `access.limit`.
    fn warn_idle_limits(&mut self, all: &[LimitConfig], single: &Source) {
        for it in all {
            let is_stricter = |other: &&LimitConfig| {
                let rates = it.rate.zip(other.rate);
                let is_slower = rates.is_some_and(|(own, other)| other.interval >= own.interval);
                *other != it && other.by == it.by && is_slower && other.burst <= it.burst
            };
            let Some(other) = all.iter().find(is_stricter).filter(|_| it.concurrency.is_none()) else {
                continue;
            };
            let (key, source) = match &it.place {
                Some(place) => ("site.route.access.limits", place),
                None => ("site.route.access.limit", single),
            };
            let count = other.rate.map_or(0, |it| it.rate.count.saturating_sub(1));
            let text = format!(
                "no effect: the limit {} admits fewer requests, and no more at once; add burst = {count} to that one, or remove this one",
                other.describe()
            );
            self.warn_once(Problem { source: source.clone(), key: key.to_owned(), text });
        }
    }

    /// The limit with these keys: rate, burst, by and concurrency. `place` is that of a member of `access.limits`.
    fn request_limit(
        &mut self,
        keys: &[String; 4],
        scope: String,
        place: Option<Source>,
    ) -> Option<LimitConfig> {
        let [rate, burst, by, concurrency] = keys;
        let burst_count = u32::try_from(self.number(burst)).unwrap_or(u32::MAX);
        let most = self.given_number(concurrency).and_then(|it| u32::try_from(it).ok());
        let bound = Rate::parse(&self.text(rate));
        let (key, add) = match place {
            None => ("site.route.access.limit", "access.limit.rate"),
            Some(_) => ("site.route.access.limits", "rate"),
        };
        if bound.is_none() && !self.is_wrong(rate) {
            let lone = [(burst, "burst", false), (by, "by", most.is_some())];
            let lone = lone.into_iter().map(|(key, name, fits)| (self.source(key), name, fits));
            if let Some((source, name, _)) = lone.into_iter().find(|it| it.0 != Source::Default && !it.2) {
                let text = format!("{name} has no effect without a rate; add {add}, such as \"5/s\"");
                self.problem(source, key, &text);
            } else if let Some(place) =
                place.clone().filter(|_| most.is_none() && !self.is_wrong(concurrency))
            {
                self.problem(
                    place,
                    key,
                    "the limit has no bound; add rate, such as \"100/h\", or concurrency",
                );
            }
        }
        if bound.is_none() && most.is_none() {
            return None;
        }
        Some(LimitConfig {
            scope,
            rate: bound.map(|it| Gcra::new(it, burst_count)),
            burst: burst_count,
            by: LimitKey::parse(&self.text(by)).unwrap_or(LimitKey::Client),
            concurrency: most,
            place,
        })
    }
}
