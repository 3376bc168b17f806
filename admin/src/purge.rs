//! The endpoints of purges: a purge, and its preview, which counts the responses that the purge would match in each tier, and
//! changes nothing. Purging itself is in `larder_server::purge`.

use super::{Admin, AdminRequest, AdminResponse, problem};
use larder_server::purge::disk_count::{DiskCount, count_on_disk};
use larder_server::purge::{PurgeOrder, ReceiptDetail, target};
use larder_stdx::clock::precise_micros;
use larder_store::listing::{ListingQuery, ListingSort, Pattern, SortDirection};
use larder_store::purges::PurgeMatches;
use larder_store::{DiskTier, PurgeRule, PurgeScope};
use serde_json::{Value, json};
use std::sync::Arc;

/// The time limit of a count in RAM, microseconds: some ten million keys that do not match, or a million that do.
const IN_RAM: u64 = 2_000_000;

/// The time limit of a count on disk, microseconds: it reads the head of each record.
const ON_DISK: u64 = 500_000;

/// The schema of a preview.
pub(super) const PREVIEW: &str = r#"{"type":"object","required":["scope","strength","took_us","tiers","hint"],"properties":{
"scope":{"type":"object","description":"the target of the purge, under its kind: url, prefix, tag, where or all","additionalProperties":true},
"strength":{"type":"string"},"took_us":{"type":"integer"},
"tiers":{"type":"array","items":{"type":"object","required":["of"],"properties":{"of":{"type":"string"},
"count":{"type":"integer","description":"responses that the purge would match now; absent if they cannot be counted, and detail gives the reason"},
"bytes":{"type":"integer","description":"bytes of their bodies"},
"count_is":{"type":"string","enum":["exact","more","estimate"],"description":"more: there are at least as many; estimate: from a sample of the records"},
"detail":{"type":"string"}}}},
"hint":{"type":["string","null"],"description":"where nothing matches: a possible reason"}}}"#;

/// The responses of one tier that a purge would match.
enum PreviewCount {
    /// All of them, at the time of the count.
    Exact(PurgeMatches),
    /// These, and perhaps others: the reason.
    More(PurgeMatches, String),
    /// About as many: the basis.
    Estimate(PurgeMatches, String),
    /// Not counted: the reason.
    Unknown(String),
}

impl PreviewCount {
    fn json(&self, of: &str) -> Value {
        let (kind, found, detail) = match self {
            PreviewCount::Exact(found) => ("exact", found, None),
            PreviewCount::More(found, why) => ("more", found, Some(why)),
            PreviewCount::Estimate(found, why) => ("estimate", found, Some(why)),
            PreviewCount::Unknown(why) => return json!({ "of": of, "detail": why }),
        };
        let mut value = json!({ "of": of, "count": found.responses, "bytes": found.bytes, "count_is": kind });
        if let Some(detail) = detail {
            value["detail"] = detail.as_str().into();
        }
        value
    }

    /// Whether no response matches, as far as can be counted.
    fn is_zero(&self) -> bool {
        match self {
            PreviewCount::Exact(it) | PreviewCount::Estimate(it, _) => it.responses == 0,
            PreviewCount::More(..) | PreviewCount::Unknown(_) => false,
        }
    }
}

impl Admin {
    /// Purges; responds when the purge is in force on every tier.
    pub(super) async fn purge(&self, asked: AdminRequest<'_>) -> AdminResponse {
        let began = precise_micros();
        let router = self.router.borrow().clone();
        let by = asked.by();
        let (asked, wait) = match target::read(asked.json, &router) {
            Ok(it) => it,
            Err(wrong) => return wrong.into(),
        };
        let order = PurgeOrder { asked, by, wait, here: None, receipt: ReceiptDetail::Counted };
        match self.purges.purge(order).await {
            Ok(done) => {
                let mut answer = done.json();
                answer["took_us"] = (precise_micros() - began).into();
                AdminResponse::Json(200, answer)
            }
            Err(detail) => problem(503, detail),
        }
    }

    /// Counts what a purge would match. The counts have threads of their own, one at a time for each tier.
    pub(super) async fn preview_purge(&self, asked: AdminRequest<'_>) -> AdminResponse {
        let began = precise_micros();
        let router = self.router.borrow().clone();
        let asked = match target::read(asked.json, &router) {
            Ok((it, _)) => it,
            Err(wrong) => return wrong.into(),
        };
        let mut answer = asked.json();
        let rule = PurgeRule { scope: asked.scope, strength: asked.strength, positions: Vec::new() };
        let mut counts = vec![("ram", self.preview_of_ram(&rule).await)];
        if let Some(disk) = self.gateway.tiers.disk.clone() {
            counts.push(("disk", self.preview_of_disk(disk, &rule).await));
        }
        let hint = match counts.iter().all(|it| it.1.is_zero()) {
            true => Some(self.hint(&rule.scope).await),
            false => None,
        };
        counts.extend(self.preview_of_fleet().map(|it| ("fleet", it)));
        answer["tiers"] = counts.iter().map(|(of, it)| it.json(of)).collect();
        answer["hint"] = hint.into();
        answer["took_us"] = (precise_micros() - began).into();
        AdminResponse::Json(200, answer)
    }

    async fn preview_of_ram(&self, rule: &PurgeRule) -> PreviewCount {
        let (store, rule) = (self.gateway.store.clone(), rule.clone());
        let count = move |_| store.count_until(&rule, precise_micros() + IN_RAM);
        match self.with_ram_walk(count).await {
            Some((found, true)) => PreviewCount::Exact(found),
            Some((found, false)) => PreviewCount::More(found, "the count reached its time limit".to_owned()),
            None => {
                PreviewCount::Unknown("not counted: other listings of RAM are in progress; retry".to_owned())
            }
        }
    }

    async fn preview_of_disk(&self, disk: Arc<DiskTier>, rule: &PurgeRule) -> PreviewCount {
        let (store, rule) = (self.gateway.store.clone(), rule.clone());
        let count = move || count_on_disk(&disk, &store, &rule, precise_micros() + ON_DISK, u64::MAX);
        let Ok(count) = self.with_disk_read(count).await else {
            let why = "not counted: the disk does not respond, or another listing of it is in progress";
            return PreviewCount::Unknown(why.to_owned());
        };
        let why = count.reason().unwrap_or_default();
        match count {
            DiskCount::Exact(found) => PreviewCount::Exact(found),
            DiskCount::OfUrl(found) => PreviewCount::More(found, why),
            DiskCount::Estimate { found, .. } => PreviewCount::Estimate(found, why),
        }
    }

    fn preview_of_fleet(&self) -> Option<PreviewCount> {
        let live = self.live.borrow();
        let fleet = live.config.fleet.as_ref()?;
        let answering = self.nodes.as_ref().map(|it| it.purge_log()).filter(|it| !it.in_sync);
        let then = match fleet.purge_log {
            true if let Some(log) = answering => format!(
                "only {} of {} memcached servers answer: other nodes may miss the purge until the purge log is followed again",
                log.followed, log.servers
            ),
            true => {
                format!(
                    "the purge is logged, and every node applies it within {} ms",
                    fleet.lease.as_millis()
                )
            }
            false => "the purge applies to this node alone (cache.fleet.purge_log)".to_owned(),
        };
        Some(PreviewCount::Unknown(format!("not counted: memcached cannot list its items; {then}")))
    }

    /// A possible reason for which nothing matches.
    async fn hint(&self, scope: &PurgeScope) -> String {
        let key = match scope {
            PurgeScope::Url(key) | PurgeScope::Prefix(key) => String::from_utf8_lossy(key),
            PurgeScope::Tag(_) => {
                return "No stored response has this tag: tags are compared exactly, upper and lower case included."
                    .to_owned();
            }
            PurgeScope::Where(_) => {
                return "No stored response matches the condition.".to_owned();
            }
            PurgeScope::All => return "Nothing is stored.".to_owned(),
        };
        let Some((host, path)) = parts(&key) else {
            return "No response is stored under this URL.".to_owned();
        };
        if path.len() > 1
            && !path.contains('*')
            && let Some(other) = self.any_stored(path).await
        {
            return format!("The cache has {other}, which is another URL: compare host, path and query.");
        }
        if self.any_stored(&format!("//{host}/")).await.is_some() {
            return format!("The cache has other responses of host {host}, and none under this URL.");
        }
        match self.any_stored("").await {
            Some(other) => format!("The cache has no response of host {host}; it has, for example, {other}."),
            None => "Nothing is stored in RAM.".to_owned(),
        }
    }

    /// The URL of a response in RAM whose key has this part.
    async fn any_stored(&self, part: &str) -> Option<String> {
        // A star would stand for any text.
        let query = ListingQuery {
            pattern: Pattern::new(part.split('*').next().unwrap_or_default()),
            tag: None,
            status: None,
            sort: ListingSort::Key,
            order: SortDirection::Ascending,
            limit: 1,
            after: None,
        };
        let store = self.gateway.store.clone();
        let page = self.with_ram_walk(move |wanted| store.list_while(&query, || wanted.is_wanted())).await?;
        let url = page.listed.first()?.entry.key().split(|it| *it == b' ').next()?.to_vec();
        Some(String::from_utf8_lossy(&url).into_owned())
    }
}

/// The host of a key, and its path without a query and without a slash at its end.
fn parts(key: &str) -> Option<(&str, &str)> {
    let (_, rest) = key.split_once("://")?;
    let (host, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let path = path.split(['?', ' ']).next().unwrap_or_default();
    Some((host, path.strip_suffix('/').unwrap_or(path)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hint_looks_for_the_path_without_query_and_slash() {
        #[track_caller]
        fn check(key: &str, expect: Option<(&str, &str)>) {
            assert_eq!(expect, parts(key));
        }
        check("http://h/news/?page=2", Some(("h", "/news")));
        check("http://h:81/", Some(("h:81", "")));
        check("http://h", Some(("h", "")));
        check("http://h/a host=b", Some(("h", "/a")));
        check("h/a", None);
    }

    #[test]
    fn only_a_count_without_doubt_is_zero() {
        let none = PurgeMatches::default();
        assert!(PreviewCount::Exact(none).is_zero() && PreviewCount::Estimate(none, String::new()).is_zero());
        assert!(
            !PreviewCount::More(none, String::new()).is_zero()
                && !PreviewCount::Unknown(String::new()).is_zero()
        );
        let answer =
            PreviewCount::More(PurgeMatches { responses: 3, bytes: 9 }, "why".to_owned()).json("ram");
        assert_eq!(
            json!({ "of": "ram", "count": 3, "bytes": 9, "count_is": "more", "detail": "why" }),
            answer
        );
    }
}
