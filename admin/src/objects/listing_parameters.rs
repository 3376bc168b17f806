//! The parameters of a listing: queries to the store, cursors, and ids of objects.

use super::LIMIT;
use crate::parameters;
use larder_semantics::secret;
use larder_server::input_error::InputError;
use larder_store::disk::listing as below;
pub use larder_store::listing::ListingSort;
use larder_store::listing::{ListingCursor, ListingQuery, Pattern, ShownKey, SortDirection};
use larder_store::ram::KeyHash;
use std::ops::RangeInclusive;

/// The tiers to search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListedTier {
    /// RAM, then entries that are only on disk.
    All,
    /// In RAM.
    Ram,
    /// The disk, including entries that are also in RAM.
    Disk,
}

/// A parsed query.
pub struct ListingParameters {
    pub tier: ListedTier,
    /// `None` if only the disk remains.
    pub ram: Option<ListingQuery>,
    /// Used if `tier` includes it and RAM leaves room.
    pub disk: below::DiskListingQuery,
    /// The most objects of a page.
    pub room: usize,
    /// The sort order of RAM.
    pub sort: ListingSort,
}

/// The start of a page.
#[derive(Clone, Debug, PartialEq, Eq)]
enum ListingStart {
    Ram(ListingCursor),
    /// `None` is the beginning.
    Disk(Option<below::DiskListingCursor>),
}

impl ListedTier {
    /// The keys on disk that are listed.
    pub fn of_disk(self) -> below::DiskKeySelection {
        if self == ListedTier::Disk {
            below::DiskKeySelection::OnDisk
        } else {
            below::DiskKeySelection::OnDiskAlone
        }
    }
}

impl ListingParameters {
    /// Parses a query. `tier`, `sort`, `order` and `limit` were validated against the row in `table`.
    ///
    /// # Errors
    /// One sentence: the error, its place, a valid form.
    pub fn read(asked: &str) -> Result<ListingParameters, InputError> {
        let pairs = parameters::pairs(asked)?;
        let filled =
            |name: &str| pairs.iter().find(|it| it.0 == name).map(|it| &*it.1).filter(|it| !it.is_empty());
        let tier = match filled("tier") {
            Some("ram") => ListedTier::Ram,
            Some("disk") => ListedTier::Disk,
            _ => ListedTier::All,
        };
        let sort = match filled("sort") {
            Some("size") => ListingSort::Size,
            Some("age") => ListingSort::Age,
            Some("hits") => ListingSort::Hits,
            Some("expires") => ListingSort::Expires,
            _ => ListingSort::Key,
        };
        if let (ListedTier::Disk, Some(by @ ("key" | "expires"))) = (tier, filled("sort")) {
            return Err(InputError::at(
                "sort",
                format!(
                    "The parameter sort: found {by:?}; allowed with tier=disk: age, size, hits (no keys, no lifetimes)."
                ),
            ));
        }
        let order = match (filled("order"), sort) {
            (Some("asc"), _) | (None, ListingSort::Key | ListingSort::Expires) => SortDirection::Ascending,
            _ => SortDirection::Descending,
        };
        let status = filled("status").map(statuses_of).transpose()?;
        let behind = match filled("cursor") {
            Some(text) => Some(start_of(text, tier, sort).ok_or_else(|| {
                InputError::at(
                    "cursor",
                    "The parameter cursor is not a `next` value of this listing; remove it to start from the \
                     beginning.",
                )
            })?),
            None => None,
        };
        let room = filled("limit").and_then(|it| it.parse().ok()).unwrap_or(LIMIT);
        let shown = ShownKey { form: secret::shown_key, clear: secret::clear_part };
        let pattern = || filled("search").and_then(Pattern::new).map(|it| it.in_shown(shown));
        let tag = || filled("tag").map(str::to_owned);
        let (after, disk_after, in_ram) = match behind {
            None => (None, None, tier != ListedTier::Disk),
            Some(ListingStart::Ram(place)) => (Some(place), None, true),
            Some(ListingStart::Disk(place)) => (None, place, false),
        };
        let ram = ListingQuery {
            pattern: pattern(),
            tag: tag(),
            status: status.clone(),
            sort,
            order,
            limit: room,
            after,
        };
        let (disk_sort, disk_order) = on_disk(sort, order);
        let disk = below::DiskListingQuery {
            pattern: pattern(),
            tag: tag(),
            status,
            sort: disk_sort,
            order: disk_order,
            limit: room,
            after: disk_after,
        };
        Ok(ListingParameters { tier, ram: in_ram.then_some(ram), disk, room, sort })
    }
}

/// The disk's order for an order of RAM: the same if possible, otherwise the newest first.
fn on_disk(sort: ListingSort, order: SortDirection) -> (below::DiskListingSort, SortDirection) {
    match (sort, order) {
        (ListingSort::Size, _) => (below::DiskListingSort::Size, order),
        (ListingSort::Hits, _) => (below::DiskListingSort::Hits, order),
        // The oldest was written first.
        (ListingSort::Age, SortDirection::Descending) => {
            (below::DiskListingSort::Written, SortDirection::Ascending)
        }
        _ => (below::DiskListingSort::Written, SortDirection::Descending),
    }
}

fn statuses_of(text: &str) -> Result<RangeInclusive<u16>, InputError> {
    statuses(text).ok_or_else(|| {
        let detail =
            format!("The parameter status: found {text:?}; allowed: a status such as 404, 4xx, or 400-499.");
        InputError::at("status", detail)
    })
}

/// `404`, `4xx` or `400-499`.
fn statuses(text: &str) -> Option<RangeInclusive<u16>> {
    let number = |it: &str| it.parse().ok().filter(|it| (100..=599).contains(it));
    match (text.split_once('-'), text.strip_suffix("xx")) {
        (Some((first, last)), _) => Some(number(first)?..=number(last)?).filter(|it| !it.is_empty()),
        (_, Some(class)) => {
            class.parse().ok().filter(|it| (1..=5).contains(it)).map(|it: u16| it * 100..=it * 100 + 99)
        }
        _ => number(text).map(|it| it..=it),
    }
}

/// The id of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ObjectId {
    /// Of one in RAM, in this process.
    Ram(KeyHash),
    /// Of one on disk.
    Disk(below::DiskEntryId),
}

impl ObjectId {
    /// Parses the output of [`text_of`].
    pub fn read(id: &str) -> Option<ObjectId> {
        if !id.bytes().all(|it| it.is_ascii_hexdigit()) {
            return None;
        }
        match id.len() {
            32 => u128::from_str_radix(id, 16).ok().map(|it| ObjectId::Ram(KeyHash(it))),
            16 => u64::from_str_radix(id, 16).ok().map(|it| ObjectId::Disk(below::DiskEntryId(it))),
            _ => None,
        }
    }
}

/// An id in the notation of the API.
pub fn text_of(id: ObjectId) -> String {
    match id {
        ObjectId::Ram(hash) => format!("{:032x}", hash.0),
        ObjectId::Disk(id) => format!("{:016x}", id.0),
    }
}

/// A position in RAM as text: the sort order, the number or the key, the hash.
pub fn cursor(place: &ListingCursor, sort: ListingSort) -> String {
    let rank = match sort {
        ListingSort::Key => place.key.iter().map(|it| format!("{it:02x}")).collect(),
        _ => place.rank.to_string(),
    };
    format!("{}.{rank}.{}", letter(sort), text_of(ObjectId::Ram(place.hash)))
}

/// A position on disk as text: the sort order, the number, the record; its beginning has only the first.
pub fn disk_cursor(place: Option<below::DiskListingCursor>, sort: below::DiskListingSort) -> String {
    let begin = disk_letters(sort);
    place.map_or(begin.to_owned(), |it| format!("{begin}.{}.{}", it.rank, it.stamp))
}

fn start_of(text: &str, tier: ListedTier, sort: ListingSort) -> Option<ListingStart> {
    if text.starts_with('d') {
        let place = disk_place(text, on_disk(sort, SortDirection::Ascending).0)?;
        return (tier != ListedTier::Ram).then_some(ListingStart::Disk(place));
    }
    cursor_of(text, sort).filter(|_| tier != ListedTier::Disk).map(ListingStart::Ram)
}

fn cursor_of(text: &str, sort: ListingSort) -> Option<ListingCursor> {
    let mut parts = text.split('.');
    let (by, rank) = (parts.next()?, parts.next()?);
    let ObjectId::Ram(hash) = ObjectId::read(parts.next()?)? else { return None };
    if by != letter(sort) || parts.next().is_some() {
        return None;
    }
    match sort {
        ListingSort::Key => {
            let pair = |it: &[u8]| u8::from_str_radix(std::str::from_utf8(it).ok()?, 16).ok();
            let key: Option<Box<[u8]>> = rank.as_bytes().chunks(2).map(pair).collect();
            Some(ListingCursor { rank: 0, key: key?, hash })
        }
        _ => Some(ListingCursor { rank: rank.parse().ok()?, key: Box::default(), hash }),
    }
}

fn disk_place(text: &str, sort: below::DiskListingSort) -> Option<Option<below::DiskListingCursor>> {
    let rest = text.strip_prefix(disk_letters(sort))?;
    if rest.is_empty() {
        return Some(None);
    }
    let (rank, stamp) = rest.strip_prefix('.')?.split_once('.')?;
    Some(Some(below::DiskListingCursor { rank: rank.parse().ok()?, stamp: stamp.parse().ok()? }))
}

fn letter(sort: ListingSort) -> &'static str {
    match sort {
        ListingSort::Key => "k",
        ListingSort::Size => "s",
        ListingSort::Age => "a",
        ListingSort::Hits => "h",
        ListingSort::Expires => "e",
    }
}

fn disk_letters(sort: below::DiskListingSort) -> &'static str {
    match sort {
        below::DiskListingSort::Written => "dw",
        below::DiskListingSort::Size => "ds",
        below::DiskListingSort::Hits => "dh",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statuses_are_one_a_class_or_a_range() {
        assert_eq!(Some(404..=404), statuses("404"));
        assert_eq!(Some(500..=599), statuses("5xx"));
        assert_eq!(Some(200..=299), statuses("200-299"));
        for wrong in ["", "x", "6xx", "xx", "99", "200-", "-200", "499-400", "600"] {
            assert_eq!(None, statuses(wrong), "{wrong}");
        }
    }

    #[test]
    fn cursors_come_back_as_they_went() {
        let by_key = ListingCursor { rank: 0, key: b"http://a/\xff ".as_slice().into(), hash: KeyHash(7) };
        let by_size = ListingCursor { rank: 17, key: Box::default(), hash: KeyHash(u128::MAX) };
        for (place, sort) in [(by_key, ListingSort::Key), (by_size, ListingSort::Size)] {
            let text = cursor(&place, sort);
            assert_eq!(Some(place), cursor_of(&text, sort), "{text}");
            assert_eq!(None, cursor_of(&text, ListingSort::Hits), "of another sort");
        }
        let on_disk = below::DiskListingCursor { rank: 9, stamp: 12 };
        for place in [None, Some(on_disk)] {
            let text = disk_cursor(place, below::DiskListingSort::Hits);
            assert_eq!(
                Some(ListingStart::Disk(place)),
                start_of(&text, ListedTier::All, ListingSort::Hits),
                "{text}"
            );
            assert_eq!(None, start_of(&text, ListedTier::All, ListingSort::Size), "of another sort");
            assert_eq!(None, start_of(&text, ListedTier::Ram, ListingSort::Hits), "of another tier");
        }
        for wrong in [
            "",
            "d",
            "dw.",
            "dw.1",
            "dw.1.x",
            "dw.1.2.3",
            "k",
            "k.7.1",
            "s.x.00000000000000000000000000000001",
            "k.6é.00000000000000000000000000000001",
        ] {
            assert_eq!(None, start_of(wrong, ListedTier::All, ListingSort::Key), "{wrong}");
            assert_eq!(None, start_of(wrong, ListedTier::All, ListingSort::Size), "{wrong}");
        }
    }
}
