//! Heads written as one line, for the tables of this crate's tests. Nothing here is in the library.

use crate::date;
use crate::field::FieldList;
use larder_stdx::clock::WallTime;

/// When the responses of the tables arrive, and their requests were sent.
pub(crate) const NOW: WallTime = WallTime(1_800_000_000);

/// `Name: value | Name: value`; a value `@-60` is the date 60 seconds before [`NOW`].
pub(crate) fn head(text: &str) -> FieldList {
    let mut list = FieldList::new();
    for line in text.split(" | ").filter(|it| !it.trim().is_empty()) {
        let (name, value) = line.split_once(':').unwrap();
        let value = value.trim();
        match value.strip_prefix('@') {
            Some(offset) => list.push(name.trim(), date::format(at(offset.parse().unwrap()))),
            None => list.push(name.trim(), value),
        }
    }
    list
}

/// This number of seconds after [`NOW`].
pub(crate) fn at(offset: i64) -> WallTime {
    WallTime(NOW.0.saturating_add_signed(offset))
}
