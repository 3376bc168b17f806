//! The host in an authority.

/// The host of an authority: IPv6 literals keep their brackets; one trailing dot is dropped.
#[must_use]
pub fn host_of(authority: &str) -> &str {
    // Nearly every name without a port ends in a letter, and every request has one.
    if authority.as_bytes().last().is_some_and(u8::is_ascii_alphabetic) {
        return authority;
    }
    let host = match authority.bytes().rposition(|it| matches!(it, b':' | b']')) {
        Some(at) if authority.as_bytes()[at] == b':' => &authority[..at],
        _ => authority,
    };
    host.strip_suffix('.').unwrap_or(host)
}
