//! The cache key: scheme, authority and target as sent to the origin, changed only as the recipe says.

use crate::field::Field;

/// How the key is made from a request (row G13). The default is the exact target.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recipe {
    /// What happens to the query's parameters.
    pub query: Query,
    /// Whether parameters are sorted by name (stable for equal names).
    pub sort_query: bool,
    /// Request header fields whose values are part of the key, lower case.
    pub headers: Vec<String>,
    /// Cookies whose values are part of the key.
    pub cookies: Vec<String>,
    /// The host is not part of the key: all hosts of the site share one cache.
    pub ignore_host: bool,
}

/// Which query parameters are part of the key. A trailing `*` in a name matches any rest.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Query {
    /// All, byte for byte.
    #[default]
    All,
    /// None.
    None,
    /// All but these.
    Drop(Vec<String>),
    /// Only these.
    Keep(Vec<String>),
}

impl Recipe {
    /// Appends the key of a request to `out`: readable, and equal for two requests only if the recipe
    /// says so (parts are length- or separator-safe against forged boundaries).
    ///
    /// `authority` is lower case and without the scheme's default port; `target` is origin-form.
    pub fn write(
        &self,
        scheme: &str,
        authority: &str,
        target: &str,
        fields: &[Field<'_>],
        out: &mut Vec<u8>,
    ) {
        let _ = (scheme, authority, target, fields, out);
        todo!()
    }
}
