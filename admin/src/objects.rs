//! Stored responses over the API: a page of a listing, searched and sorted, and one object in full. The walks are in the
//! store (`larder_store::listing` for RAM, `larder_store::disk::listing` for entries that are not in RAM) and have
//! threads of their own, so that the admin stays responsive; this module has the names and the JSON. Parameters are
//! parsed in `question`.

mod listing_parameters;
mod walk_lock;

use super::parameters::{Parameter, integer, one_of, text};
use super::{Admin, AdminRequest, AdminResponse, problem, problem_at};
use larder_config::admin_role::AdminRole;
use larder_semantics::coding::Coding;
use larder_semantics::secret;
use larder_semantics::tags;
use larder_stdx::clock::{self, WallTime, precise_micros};
use larder_store::disk::listing as below;
use larder_store::listing::{Listed, ListingPage, MOST};
use larder_store::ram::KeyHash;
use larder_store::{DiskTier, Stored, StoredBody};
use listing_parameters::{ListedTier, ListingParameters, ObjectId};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
pub use walk_lock::WalkLocks;
use walk_lock::{Slow, Wanted};

/// The default size of a page.
const LIMIT: usize = 100;

/// The time limit of a response with a fast device, microseconds: then it reports its progress.
const ANSWER: u64 = 80_000;

/// The least share of the disk in it, microseconds.
const DISK: u64 = 20_000;

/// The time limit of the wait for another listing, and for a device that does not respond.
const LISTING_WAIT: Duration = Duration::from_secs(1);

/// The parameters of a listing.
#[rustfmt::skip]
pub const QUERY: &[Parameter] = &[
    text("search", "a part of the key; with *, a pattern for the whole key, starting at the host or the path"),
    text("tag", "only entries with this tag"),
    text("status", "only entries with this status: 404, 4xx or 400-499"),
    one_of("tier", &["all", "ram", "disk"], "only entries of this tier; all: entries in RAM, sorted, then those on disk only (all)"),
    one_of("sort", &["key", "size", "age", "hits", "expires"], "sort key (key); on disk by size, hits or age since it was written (age)"),
    one_of("order", &["asc", "desc"], "sort order (asc for key and expires, desc for the others)"),
    integer("limit", 1, MOST as i64, "maximum number of entries (100)"),
    text("cursor", "the `next` value of the previous page"),
];

/// The schema of a listing.
pub const PAGE: &str = r#"{"type":"object","required":["total","matched","took_us","disk","next","objects"],"properties":{
"total":{"type":"integer","description":"objects in RAM that were looked at"},
"matched":{"type":"integer","description":"those of them that were asked for, on this page or another"},
"took_us":{"type":"integer"},
"disk":{"type":["object","null"],"description":"null without a disk tier, or where RAM alone was asked for",
"required":["objects","looked_at","left"],"properties":{
"objects":{"type":"integer","description":"objects on disk, those that RAM has as well included"},
"looked_at":{"type":"integer","description":"those that were looked at for this page: as many as the time allowed"},
"left":{"type":"integer","description":"those that were not yet: the next page goes on with them"}}},
"next":{"type":["string","null"],"description":"the cursor of the next page; null where all was looked at. A page may be short, or empty, and have a next one"},
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
"part":{"type":["array","null"],"description":"the first and the last byte that are held, where it is not the whole","items":{"type":"integer"}},
"expires_in":{"type":"integer"},"fresh":{"type":"boolean"},"stored_at":{"type":"integer"},"tags":{"type":"integer"},
"forms":{"type":"array","items":{"type":"object","required":["coding","bytes"],"properties":{"coding":{"type":"string"},"bytes":{"type":"integer"}}}},"body":{"enum":["heap","arena","disk"]}}}}}}"#;

impl Admin {
    /// `GET /api/v1/objects`.
    pub(super) async fn objects(&self, asked: AdminRequest<'_>) -> AdminResponse {
        let began = precise_micros();
        let ListingParameters { tier, ram, mut disk, room, sort } = match ListingParameters::read(asked.query)
        {
            Ok(it) => it,
            Err(wrong) => return wrong.into(),
        };
        let mut output = KnownPage::default();
        if let Some(query) = ram {
            let store = self.gateway.store.clone();
            let list = move |wanted: Wanted| store.list_while(&query, || wanted.is_wanted());
            let Ok(walk) = self.listing.ram.begin(LISTING_WAIT, list).await else {
                return problem(503, "Too many listings of stored objects are in progress; retry.");
            };
            let Some(page) = walk.end().await else {
                return problem(500, "The listing was cancelled; retry.");
            };
            self.add_ram(&mut output, &page, sort);
        }
        if tier != ListedTier::Ram {
            disk.limit = room - output.objects.len();
            if let Err(Slow) = self.list_disk(&mut output, disk, tier.of_disk(), began).await {
                return problem(
                    503,
                    "The disk does not respond, or another listing of it is in progress; retry.",
                );
            }
        }
        AdminResponse::Json(200, output.json(precise_micros() - began))
    }

    fn add_ram(&self, output: &mut KnownPage, page: &ListingPage, sort: listing_parameters::ListingSort) {
        let now = clock::wall();
        let listed = |it: &Listed| Object::in_ram(it.hash, &it.entry, self.disk()).listed(now);
        output.objects = page.listed.iter().map(listed).collect();
        (output.total, output.matched) = (page.total, page.matched);
        output.next = page.next.as_ref().map(|it| listing_parameters::cursor(it, sort));
    }

    /// Entries on disk that fit into the page.
    async fn list_disk(
        &self,
        output: &mut KnownPage,
        query: below::DiskListingQuery,
        those: below::DiskKeySelection,
        began: u64,
    ) -> Result<(), Slow> {
        let Some(disk) = self.gateway.tiers.disk.clone() else { return Ok(()) };
        let (sort, after, is_all) = (query.sort, query.after, output.total == 0);
        if output.next.is_some() || query.limit == 0 {
            let left = disk.keys();
            output.disk = json!({ "objects": left, "looked_at": 0, "left": left });
            // After the end of RAM, the disk begins.
            output.next.get_or_insert_with(|| listing_parameters::disk_cursor(None, sort));
            return Ok(());
        }
        let until = (began + ANSWER).max(precise_micros() + DISK);
        let page = match self.page_of_disk(disk.clone(), query, those, until).await {
            Ok(page) => page,
            Err(Slow) if is_all => return Err(Slow),
            // The entries in RAM are a valid response as well.
            Err(Slow) => {
                let keys = disk.keys();
                below::DiskListingPage { keys, heads_read: 0, left: keys, listed: Vec::new(), next: after }
            }
        };
        let now = clock::wall();
        output.objects.extend(page.listed.iter().map(|it| self.on_disk(it).listed(now)));
        output.disk = json!({ "objects": page.keys, "looked_at": page.heads_read, "left": page.left });
        output.next = (page.left > 0).then(|| listing_parameters::disk_cursor(page.next, sort));
        Ok(())
    }

    async fn page_of_disk(
        &self,
        disk: Arc<DiskTier>,
        query: below::DiskListingQuery,
        those: below::DiskKeySelection,
        until: u64,
    ) -> Result<below::DiskListingPage, Slow> {
        let store = self.gateway.store.clone();
        self.with_disk_read(move || disk.list(&store, &query, those, until)).await
    }

    /// Performs a walk over RAM, one at a time; `None` if others take too long.
    pub(super) async fn with_ram_walk<T: Send + 'static>(
        &self,
        work: impl FnOnce(Wanted) -> T + Send + 'static,
    ) -> Option<T> {
        self.listing.ram.begin(LISTING_WAIT, work).await.ok()?.end().await
    }

    /// Performs an operation that may wait for the device, one at a time.
    pub(super) async fn with_disk_read<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Slow> {
        let reading = self.listing.disk.begin(LISTING_WAIT, |_| work()).await?;
        let done = tokio::time::timeout(LISTING_WAIT, reading.end()).await;
        done.ok().flatten().ok_or(Slow)
    }

    /// `GET /api/v1/objects/{id}`.
    pub(super) async fn object(&self, asked: AdminRequest<'_>) -> AdminResponse {
        const GONE: &str = "The object does not exist, or was removed in the meantime; ids of objects in RAM are valid \
                     until larder restarts.";
        let id = asked.named.unwrap_or_default();
        match ObjectId::read(id) {
            None => problem_at(
                400,
                format!(
                    "{id:?} is not an object id: 32 hexadecimal digits, or 16 for an object on disk, as in the list."
                ),
                "id",
            ),
            Some(ObjectId::Ram(hash)) => match self.gateway.store.inspect(hash) {
                Some(entry) => {
                    AdminResponse::Json(200, Object::in_ram(hash, &entry, self.disk()).details(&asked))
                }
                None => problem_at(404, GONE, "id"),
            },
            Some(ObjectId::Disk(id)) => {
                let Some(disk) = self.gateway.tiers.disk.clone() else { return problem_at(404, GONE, "id") };
                let store = self.gateway.store.clone();
                match self.with_disk_read(move || disk.inspect(&store, id)).await {
                    Ok(Some(found)) => AdminResponse::Json(200, self.on_disk(&found).details(&asked)),
                    Ok(None) => problem_at(404, GONE, "id"),
                    Err(Slow) => problem(503, "The disk does not respond; retry."),
                }
            }
        }
    }

    fn disk(&self) -> Option<&DiskTier> {
        self.gateway.tiers.disk.as_deref()
    }

    fn on_disk<'a>(&self, found: &'a below::DiskKeyEntries) -> Object<'a> {
        let store = &self.gateway.store;
        let tiers = match store.inspect(store.hash(&found.key)) {
            Some(_) => vec!["ram", "disk"],
            None => vec!["disk"],
        };
        let id = listing_parameters::text_of(ObjectId::Disk(found.id));
        Object { id, key: &found.key, hits: found.hits, tiers, variants: found.variants.iter().collect() }
    }
}

/// A partial page of a listing.
#[derive(Default)]
struct KnownPage {
    total: usize,
    matched: usize,
    objects: Vec<Value>,
    disk: Value,
    next: Option<String>,
}

impl KnownPage {
    fn json(self, took: u64) -> Value {
        json!({
            "total": self.total,
            "matched": self.matched,
            "took_us": took,
            "disk": self.disk,
            "next": self.next,
            "objects": self.objects,
        })
    }
}

/// The responses under one key, in all tiers.
struct Object<'a> {
    id: String,
    key: &'a [u8],
    hits: u64,
    tiers: Vec<&'static str>,
    /// Newest first.
    variants: Vec<&'a Stored>,
}

impl<'a> Object<'a> {
    fn in_ram(hash: KeyHash, entry: &'a larder_store::Entry, disk: Option<&DiskTier>) -> Self {
        let mut tiers = vec!["ram"];
        if disk.is_some_and(|it| it.knows(entry.key())) {
            tiers.push("disk");
        }
        let (id, hits) = (listing_parameters::text_of(ObjectId::Ram(hash)), u64::from(entry.hits()));
        Object {
            id,
            key: entry.key(),
            hits,
            tiers,
            variants: entry.variants.iter().map(|it| &**it).collect(),
        }
    }

    /// Its form in a list.
    fn listed(&self, now: WallTime) -> Value {
        let mut output = self.common();
        let Some(newest) = self.variants.first() else { return output };
        let meta = &newest.meta;
        let (age, lifetime) = (meta.age(now), meta.lifetime.seconds);
        output["status"] = meta.status.into();
        output["bytes"] = self.variants.iter().map(|it| it.body.len()).sum::<u64>().into();
        output["variants"] = self.variants.len().into();
        output["age"] = age.into();
        output["lifetime"] = lifetime.into();
        output["expires_in"] = (i64::from(lifetime) - i64::from(age)).into();
        output["fresh"] = (age < lifetime).into();
        output["tags"] = match tags::are_every(newest.tags()) {
            true => tags::MOST.into(),
            false => newest.tags().len().into(),
        };
        output["content_type"] =
            newest.lines().find(|it| it.is("content-type")).map(|it| lossy(it.value)).into();
        output["stored_at"] = meta.response_time.0.into();
        output
    }

    /// With all its variants.
    fn details(&self, asked: &AdminRequest<'_>) -> Value {
        let now = clock::wall();
        let mut output = self.common();
        // It is what they purge.
        if asked.requester.role().is_some_and(|it| it >= AdminRole::Operator) {
            output["url"] = lossy(self.url()).into();
        }
        output["variants"] = self.variants.iter().map(|it| variant_json(it, now)).collect::<Vec<_>>().into();
        output
    }

    /// The additions of a recipe follow the target after a space.
    fn url(&self) -> &[u8] {
        self.key.split(|it| *it == b' ').next().unwrap_or_default()
    }

    fn common(&self) -> Value {
        let url = secret::shown_key(self.url());
        json!({
            "id": self.id, "url": lossy(&url), "key": lossy(&secret::shown_key(self.key)), "hits": self.hits, "tiers": self.tiers,
        })
    }
}

/// One line of a variant key, `name=value`, without secrets of a client.
fn selected_by(line: &[u8]) -> String {
    let Some(at) = line.iter().position(|it| *it == b'=') else { return lossy(line) };
    let name = lossy(&line[..at]);
    let value = lossy(&secret::shown(&name, &line[at + 1..]));
    format!("{name}={value}")
}

fn variant_json(stored: &Stored, now: WallTime) -> Value {
    let meta = &stored.meta;
    let (age, lifetime) = (meta.age(now), meta.lifetime.seconds);
    let fields: Vec<[String; 2]> =
        stored.lines().map(|it| [it.name.to_owned(), lossy(&secret::shown(it.name, it.value))]).collect();
    let selected: Vec<String> =
        stored.variant().split(|it| *it == b'\n').filter(|it| !it.is_empty()).map(selected_by).collect();
    let mut forms = Vec::new();
    if let Some(all) = &stored.encodings {
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
        "vary": meta.vary(),
        "selected_by": selected,
        "status": meta.status,
        "bytes": stored.body.len(),
        "part": meta.partial().map(|it| [it.first, it.last]),
        "fields": fields,
        "age": age,
        "lifetime": lifetime,
        "source": meta.lifetime.source.name(),
        "expires_in": i64::from(lifetime) - i64::from(age),
        "fresh": age < lifetime,
        "stored_at": meta.response_time.0,
        "etag": meta.etag.as_deref().map(lossy),
        "tags": stored.tags().len(),
        "forms": forms,
        "body": match stored.body {
            StoredBody::Heap(_) => "heap",
            StoredBody::Arena(_) => "arena",
            StoredBody::Disk(_) => "disk",
        },
    })
}

fn lossy(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
