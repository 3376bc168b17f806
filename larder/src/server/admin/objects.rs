//! What is stored, over the API: a page of it, searched and sorted, and one object in full. The walk is the store's
//! (`larder_store::listing`) and has a thread of its own, so that the admin goes on meanwhile; here are its words and its JSON.

use super::table::{Parameter, integer, one_of, text};
use super::{Admin, Answer, Asked, Wrong, problem, problem_at, query};
use larder_semantics::coding::Coding;
use larder_semantics::tags;
use larder_stdx::clock::{self, WallTime, precise_micros};
use larder_store::listing::{Listed, MOST, Order, Page, Pattern, Place, Query, Sort};
use larder_store::ram::KeyHash;
use larder_store::{Body, Disk, Shelf, Stored};
use serde_json::{Value, json};
use std::ops::RangeInclusive;
use std::sync::Arc;
use tokio::sync::Semaphore;

/// What one page has, where nothing else is said.
const LIMIT: usize = 100;

/// The parameters of a listing.
#[rustfmt::skip]
pub const QUERY: &[Parameter] = &[
    text("search", "a part of the key; or, with *, a pattern for all of it, from the host or the path on"),
    text("tag", "only what has this tag"),
    text("status", "only this status: 404, 4xx or 400-499"),
    one_of("sort", &["key", "size", "age", "hits", "expires"], "by what (key)"),
    one_of("order", &["asc", "desc"], "which end first (asc for key and expires, desc for the others)"),
    integer("limit", 1, MOST as i64, "how many at most (100)"),
    text("cursor", "what the page before gave as next"),
];

/// The schema of a listing.
pub const PAGE: &str = r#"{"type":"object","required":["total","matched","took_us","next","objects"],"properties":{
"total":{"type":"integer","description":"objects that were looked at"},
"matched":{"type":"integer","description":"those that were asked for, on this page or another"},
"took_us":{"type":"integer"},
"next":{"type":["string","null"],"description":"the cursor of the next page"},
"objects":{"type":"array","items":{"type":"object","required":["id","url","key","status","bytes","variants","age","lifetime",
"expires_in","fresh","hits","tags","content_type","tiers","stored_at"],"properties":{"id":{"type":"string"},"url":{"type":"string"},
"key":{"type":"string"},"status":{"type":"integer"},"bytes":{"type":"integer"},"variants":{"type":"integer"},
"age":{"type":"integer"},"lifetime":{"type":"integer"},"expires_in":{"type":"integer"},"fresh":{"type":"boolean"},
"hits":{"type":"integer"},"tags":{"type":"integer"},"content_type":{"type":["string","null"]},
"tiers":{"type":"array","items":{"type":"string"}},"stored_at":{"type":"integer"}}}}}}"#;

/// The schema of one object.
pub const OBJECT: &str = r#"{"type":"object","required":["id","url","key","hits","tiers","variants"],"properties":{
"id":{"type":"string"},"url":{"type":"string"},"key":{"type":"string"},"hits":{"type":"integer"},
"tiers":{"type":"array","items":{"type":"string"}},
"variants":{"type":"array","items":{"type":"object","required":["vary","status","bytes","fields","age","lifetime","source",
"etag","forms","body"],"properties":{"vary":{"type":"array","items":{"type":"string"}},
"selected_by":{"type":"array","items":{"type":"string"}},"status":{"type":"integer"},
"bytes":{"type":"integer"},"fields":{"type":"array","items":{"type":"array","items":{"type":"string"}}},
"age":{"type":"integer"},"lifetime":{"type":"integer"},"source":{"type":"string"},"etag":{"type":["string","null"]},
"forms":{"type":"array"},"body":{"enum":["heap","arena","disk"]}}}}}}"#;

/// Who lists: one walk at a time, so that however many ask, one core is left to hits.
pub struct Turn(Semaphore);

impl Default for Turn {
    fn default() -> Self {
        Self(Semaphore::new(1))
    }
}

impl Admin {
    /// `GET /api/v1/objects`.
    pub(super) async fn objects(&self, asked: Asked<'_>) -> Answer {
        let query = match question(asked.query) {
            Ok(it) => it,
            Err(wrong) => return wrong.into(),
        };
        let Ok(_turn) = self.listing.0.acquire().await else {
            return problem(503, "larder is being stopped.");
        };
        let (store, sort) = (self.gateway.store.clone(), query.sort);
        let began = precise_micros();
        let Ok(page) = tokio::task::spawn_blocking(move || store.list(&query)).await else {
            return problem(500, "The listing was given up; ask again.");
        };
        let took = precise_micros() - began;
        Answer::Json(200, page_json(&page, sort, took, self.gateway.tiers.disk.as_deref()))
    }

    /// `GET /api/v1/objects/{id}`.
    pub(super) fn object(&self, asked: Asked<'_>) -> Answer {
        let id = asked.named.unwrap_or_default();
        let Some(hash) = hash_of(id) else {
            return problem_at(
                400,
                format!("{id:?} is no object's id: 32 hexadecimal digits, as the list gives them."),
                "id",
            );
        };
        let Some(shelf) = self.gateway.store.inspect(hash) else {
            return problem_at(
                404,
                "There is no such object, or it has gone meanwhile; ids hold until larder is started again.",
                "id",
            );
        };
        Answer::Json(200, object_json(hash, &shelf, self.gateway.tiers.disk.as_deref()))
    }
}

/// What is asked for. What `sort`, `order` and `limit` may be was held against the row in `table`.
///
/// # Errors
/// One sentence: what is wrong, where, what would be right.
fn question(asked: &str) -> Result<Query, Wrong> {
    let pairs = query::pairs(asked)?;
    let filled =
        |name: &str| pairs.iter().find(|it| it.0 == name).map(|it| &*it.1).filter(|it| !it.is_empty());
    let sort = match filled("sort") {
        Some("size") => Sort::Size,
        Some("age") => Sort::Age,
        Some("hits") => Sort::Hits,
        Some("expires") => Sort::Expires,
        _ => Sort::Key,
    };
    let order = match (filled("order"), sort) {
        (Some("asc"), _) | (None, Sort::Key | Sort::Expires) => Order::Ascending,
        _ => Order::Descending,
    };
    let status = match filled("status") {
        Some(text) => Some(statuses(text).ok_or_else(|| {
            Wrong::at(
                "status",
                format!(
                    "The parameter status: found {text:?}; allowed: a status such as 404, 4xx, or 400-499."
                ),
            )
        })?),
        None => None,
    };
    let after = match filled("cursor") {
        Some(text) => Some(cursor_of(text, sort).ok_or_else(|| {
            Wrong::at(
                "cursor",
                "The parameter cursor is not one that this listing gave as next; leave it out to begin anew.",
            )
        })?),
        None => None,
    };
    let limit = filled("limit").and_then(|it| it.parse().ok()).unwrap_or(LIMIT);
    let (pattern, tag) = (filled("search").map(Pattern::new), filled("tag").map(str::to_owned));
    Ok(Query { pattern, tag, status, sort, order, limit, after })
}

/// `404`, `4xx` or `400-499`.
fn statuses(text: &str) -> Option<RangeInclusive<u16>> {
    let number = |it: &str| it.parse().ok().filter(|it| (100..=599).contains(it));
    match (text.split_once('-'), text.strip_suffix("xx")) {
        (Some((first, last)), _) => Some(number(first)?..=number(last)?),
        (_, Some(class)) => {
            class.parse().ok().filter(|it| (1..=5).contains(it)).map(|it: u16| it * 100..=it * 100 + 99)
        }
        _ => number(text).map(|it| it..=it),
    }
}

fn id(hash: KeyHash) -> String {
    format!("{:032x}", hash.0)
}

fn hash_of(id: &str) -> Option<KeyHash> {
    let is_hash = id.len() == 32 && id.bytes().all(|it| it.is_ascii_hexdigit());
    u128::from_str_radix(id, 16).ok().filter(|_| is_hash).map(KeyHash)
}

/// A place as text: by what is sorted, the number or the key, the hash.
fn cursor(place: &Place, sort: Sort) -> String {
    let rank = match sort {
        Sort::Key => place.key.iter().map(|it| format!("{it:02x}")).collect(),
        _ => place.rank.to_string(),
    };
    format!("{}.{rank}.{}", letter(sort), id(place.hash))
}

fn cursor_of(text: &str, sort: Sort) -> Option<Place> {
    let mut parts = text.split('.');
    let (by, rank, hash) = (parts.next()?, parts.next()?, hash_of(parts.next()?)?);
    if by != letter(sort) || parts.next().is_some() {
        return None;
    }
    match sort {
        Sort::Key => {
            let pair = |it: &[u8]| u8::from_str_radix(std::str::from_utf8(it).ok()?, 16).ok();
            let key: Option<Box<[u8]>> = rank.as_bytes().chunks(2).map(pair).collect();
            Some(Place { rank: 0, key: key?, hash })
        }
        _ => Some(Place { rank: rank.parse().ok()?, key: Box::default(), hash }),
    }
}

fn letter(sort: Sort) -> &'static str {
    match sort {
        Sort::Key => "k",
        Sort::Size => "s",
        Sort::Age => "a",
        Sort::Hits => "h",
        Sort::Expires => "e",
    }
}

fn page_json(page: &Page, sort: Sort, took: u64, disk: Option<&Disk>) -> Value {
    let now = clock::wall();
    let objects: Vec<Value> = page.listed.iter().map(|it| listed_json(it, now, disk)).collect();
    json!({
        "total": page.total,
        "matched": page.matched,
        "took_us": took,
        "next": page.next.as_ref().map(|it| cursor(it, sort)),
        "objects": objects,
    })
}

fn listed_json(listed: &Listed, now: WallTime, disk: Option<&Disk>) -> Value {
    let shelf = &listed.shelf;
    let mut told = common_json(listed.hash, shelf, disk);
    let Some(newest) = shelf.variants.first() else { return told };
    let meta = &newest.meta;
    let (age, lifetime) = (meta.age(now), meta.lifetime.seconds);
    told["status"] = meta.status.into();
    told["bytes"] = shelf.variants.iter().map(|it| it.body.len()).sum::<u64>().into();
    told["variants"] = shelf.variants.len().into();
    told["age"] = age.into();
    told["lifetime"] = lifetime.into();
    told["expires_in"] = (i64::from(lifetime) - i64::from(age)).into();
    told["fresh"] = (age < lifetime).into();
    told["tags"] = match tags::are_every(&newest.marks.tags) {
        true => tags::MOST.into(),
        false => newest.marks.tags.len().into(),
    };
    told["content_type"] = newest.fields.get("content-type").map(lossy).into();
    told["stored_at"] = meta.response_time.0.into();
    told
}

/// What a list and a single object have in common.
fn common_json(hash: KeyHash, shelf: &Shelf, disk: Option<&Disk>) -> Value {
    // What a recipe adds to the key comes after a space.
    let url = shelf.key.split(|it| *it == b' ').next().unwrap_or_default();
    let mut tiers = vec!["ram"];
    if disk.is_some_and(|it| it.knows(&shelf.key)) {
        tiers.push("disk");
    }
    json!({ "id": id(hash), "url": lossy(url), "key": lossy(&shelf.key), "hits": shelf.hits(), "tiers": tiers })
}

fn object_json(hash: KeyHash, shelf: &Arc<Shelf>, disk: Option<&Disk>) -> Value {
    let now = clock::wall();
    let mut told = common_json(hash, shelf, disk);
    told["variants"] = shelf.variants.iter().map(|it| variant_json(it, now)).collect::<Vec<_>>().into();
    told
}

fn variant_json(stored: &Stored, now: WallTime) -> Value {
    let meta = &stored.meta;
    let (age, lifetime) = (meta.age(now), meta.lifetime.seconds);
    let fields: Vec<[String; 2]> =
        stored.fields.iter().map(|it| [it.name.to_owned(), lossy(it.value)]).collect();
    let selected: Vec<String> =
        stored.variant.split(|it| *it == b'\n').filter(|it| !it.is_empty()).map(lossy).collect();
    let mut forms = Vec::new();
    if let Some(all) = &stored.forms {
        let codings = [
            (Coding::Identity, "identity"),
            (Coding::Gzip, "gzip"),
            (Coding::Brotli, "br"),
            (Coding::Zstd, "zstd"),
        ];
        for (coding, name) in codings {
            if let Some(form) = all.get(coding) {
                forms.push(json!({ "coding": name, "bytes": form.body.len() }));
            }
        }
    }
    json!({
        "vary": meta.vary,
        "selected_by": selected,
        "status": meta.status,
        "bytes": stored.body.len(),
        "part": meta.partial.map(|it| [it.first, it.last]),
        "fields": fields,
        "age": age,
        "lifetime": lifetime,
        "source": meta.lifetime.source.name(),
        "expires_in": i64::from(lifetime) - i64::from(age),
        "fresh": age < lifetime,
        "stored_at": meta.response_time.0,
        "etag": meta.etag.as_deref().map(lossy),
        "tags": stored.marks.tags.len(),
        "forms": forms,
        "body": match stored.body {
            Body::Heap(_) => "heap",
            Body::Arena(_) => "arena",
            Body::Disk(_) => "disk",
        },
    })
}

fn lossy(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statuses_are_one_a_class_or_a_range() {
        assert_eq!(Some(404..=404), statuses("404"));
        assert_eq!(Some(500..=599), statuses("5xx"));
        assert_eq!(Some(200..=299), statuses("200-299"));
        for wrong in ["", "x", "6xx", "xx", "99", "200-", "-200", "600"] {
            assert_eq!(None, statuses(wrong), "{wrong}");
        }
    }

    #[test]
    fn cursors_come_back_as_they_went() {
        let by_key = Place { rank: 0, key: b"http://a/\xff ".as_slice().into(), hash: KeyHash(7) };
        let by_size = Place { rank: 17, key: Box::default(), hash: KeyHash(u128::MAX) };
        for (place, sort) in [(by_key, Sort::Key), (by_size, Sort::Size)] {
            let text = cursor(&place, sort);
            assert_eq!(Some(place), cursor_of(&text, sort), "{text}");
            assert_eq!(None, cursor_of(&text, Sort::Hits), "of another sort");
        }
        for wrong in [
            "",
            "k",
            "k.7.1",
            "s.x.00000000000000000000000000000001",
            "k.6é.00000000000000000000000000000001",
        ] {
            assert_eq!(None, cursor_of(wrong, Sort::Key), "{wrong}");
            assert_eq!(None, cursor_of(wrong, Sort::Size), "{wrong}");
        }
    }
}
