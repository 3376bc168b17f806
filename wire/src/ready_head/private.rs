//! Where a head becomes private: responses of routes that depend on a fact of the client are sent with `private`, mostly by these
//! bytes before the one value of `Cache-Control`.

use super::encode;
use larder_semantics::client_ttl;
use std::num::NonZeroU32;

/// The place in a head's text before which [`client_ttl::PRIVATE`] makes it private.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct PrivatePlace(Option<NonZeroU32>);

impl PrivatePlace {
    /// Bytes of a place.
    pub const SIZE: usize = 4;

    /// The place in a text with a status line; none where more has to change, or no field says how the response may be stored.
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
                    // `parts` has an empty value, which is no place, for a line without `: `.
                    let start = u32::try_from(at + name.len() + 2).ok();
                    place = start.filter(|_| client_ttl::is_private_with_prefix(value));
                }
            }
            at = end + 1;
        }
        Self(place.and_then(NonZeroU32::new).filter(|_| lines == 1))
    }

    /// The place, if there is one.
    #[inline]
    pub fn get(self) -> Option<usize> {
        self.0.map(|it| it.get() as usize)
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
