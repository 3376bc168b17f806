//! The notations of a key's place: `site[0].route[1].path` in a file, `site[].route[].path` in the table, and
//! `site.route.path` in messages.

/// The pattern of `site[0].route[12].path` in the table: `site[].route[].path`.
#[must_use]
pub fn pattern_of(path: &str) -> String {
    let mut is_within = false;
    let keeps = |it: &char| {
        is_within = *it == '[' || is_within && *it != ']';
        !is_within || !it.is_ascii_digit()
    };
    path.chars().filter(keeps).collect()
}

/// A pattern for display: `site.route.path`.
#[must_use]
pub fn dotted(pattern: &str) -> String {
    pattern.replace("[]", "")
}
