//! Properties of methods (RFC 9110 §9.2). Names are case-sensitive.

/// Methods that clients send: of RFC 9110, PATCH, of WebDAV, and of caches.
pub const REGISTERED: [&str; 29] = [
    "GET",
    "HEAD",
    "POST",
    "PUT",
    "DELETE",
    "CONNECT",
    "OPTIONS",
    "TRACE",
    "PATCH",
    "QUERY",
    "PROPFIND",
    "PROPPATCH",
    "MKCOL",
    "COPY",
    "MOVE",
    "LOCK",
    "UNLOCK",
    "SEARCH",
    "REPORT",
    "MKCALENDAR",
    "PURGE",
    "BAN",
    "FULLBAN",
    "PURGEKEYS",
    "PURGETAGS",
    "LINK",
    "UNLINK",
    "BIND",
    "ACL",
];

/// Whether a method is a known one in another case, such as `post`. To larder it would be another method, and many applications take it
/// for the known one: a condition over the method would not apply.
#[must_use]
pub fn is_misspelt(method: &str) -> bool {
    method.bytes().any(|it| it.is_ascii_lowercase())
        && REGISTERED.iter().any(|it| it.eq_ignore_ascii_case(method))
}

/// Safe methods (RFC 9110 §9.2.1). An unknown method counts as unsafe.
#[must_use]
pub fn is_safe(method: &str) -> bool {
    matches!(method, "GET" | "HEAD" | "OPTIONS" | "TRACE" | "QUERY" | "PROPFIND" | "REPORT" | "SEARCH")
}

/// Idempotent methods (RFC 9110 §9.2.2): those that may be sent again after a connection died.
#[must_use]
pub fn is_idempotent(method: &str) -> bool {
    is_safe(method) || matches!(method, "PUT" | "DELETE")
}

/// The methods of a route.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Methods {
    /// All.
    Any,
    /// These.
    Only(Vec<String>),
}

impl Methods {
    /// Whether the route accepts a method. `GET` includes `HEAD`, which requests the same without its content (RFC 9110
    /// section 9.3.2). Methods differ by case, but applications take `post` for `POST`: rules of the route must apply to both.
    #[must_use]
    pub fn allow(&self, method: &str) -> bool {
        match self {
            Methods::Any => true,
            Methods::Only(these) => {
                let allows =
                    |it: &String| it.eq_ignore_ascii_case(method) || (method == "HEAD" && it == "GET");
                these.iter().any(allows)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(method: &str, safe: bool, idempotent: bool) {
        assert_eq!((safe, idempotent), (is_safe(method), is_idempotent(method)), "{method}");
    }

    #[test]
    fn methods() {
        check("GET", true, true);
        check("HEAD", true, true);
        check("PUT", false, true);
        check("DELETE", false, true);
        check("POST", false, false);
        check("PATCH", false, false);
        check("get", false, false);
        check("FOO", false, false);
        check("", false, false);
    }
}
