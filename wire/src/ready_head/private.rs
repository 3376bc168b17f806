//! Where a head becomes private: responses of routes that depend on a fact of the client are sent with `private` in the one value of
//! `Cache-Control`, mostly by these bytes before it.

use super::encode;
use larder_semantics::client_ttl;
use std::num::NonZeroU32;

/// The place in a head's text where its one value of `Cache-Control` begins, and whether [`client_ttl::PRIVATE`] before it is enough.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct PrivatePlace(Option<NonZeroU32>);

/// The bit of a place whose value is replaced.
const REPLACED: u32 = 1 << 31;

/// The change of a value that makes a head private.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PrivateChange {
    /// [`client_ttl::PRIVATE`] before it.
    Prefix,
    /// That of [`client_ttl::make_private`].
    Value,
}

impl PrivatePlace {
    /// Bytes of a place.
    pub const SIZE: usize = 4;

    /// The place in a text with a status line; none where several lines have to change, or no field says how the response may be stored.
    pub fn of(text: &[u8]) -> Self {
        let (mut place, mut lines, mut at) = (None, 0, 0);
        for end in memchr::memchr_iter(b'\n', text) {
            let line = &text[at..=end];
            if let Some((name, value)) = encode::parts(line).filter(|_| at > 0) {
                if client_ttl::FOR_SHARED_CACHES.iter().any(|it| name.eq_ignore_ascii_case(it.as_bytes())) {
                    return Self(None);
                }
                if name.eq_ignore_ascii_case(b"cache-control") {
                    lines += 1;
                    let start = u32::try_from(at + name.len() + 2).ok();
                    let start = start.filter(|it| *it < REPLACED && line[name.len()..].starts_with(b": "));
                    let is_prefixed = client_ttl::is_private_with_prefix(value);
                    place = start.map(|it| if is_prefixed { it } else { it | REPLACED });
                }
            }
            at = end + 1;
        }
        Self(place.and_then(NonZeroU32::new).filter(|_| lines == 1))
    }

    /// The place, if there is one, and the change there.
    #[inline]
    pub fn get(self) -> Option<(usize, PrivateChange)> {
        let place = self.0?.get();
        let change = if place & REPLACED == 0 { PrivateChange::Prefix } else { PrivateChange::Value };
        Some(((place & !REPLACED) as usize, change))
    }

    /// It as bytes.
    pub fn to_bytes(self) -> [u8; Self::SIZE] {
        self.0.map_or(0, NonZeroU32::get).to_ne_bytes()
    }

    /// The place with these bytes, from [`PrivatePlace::to_bytes`].
    #[inline]
    pub fn from_bytes(bytes: [u8; Self::SIZE]) -> Self {
        Self(NonZeroU32::new(u32::from_ne_bytes(bytes)))
    }
}
