//! Properties of methods (RFC 9110 §9.2). Names are case-sensitive.

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
