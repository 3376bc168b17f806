//! The pages that larder makes itself where it has no response: their sentences.

/// The sentence of the 504 for a request that forbids asking the origin.
pub const ONLY_IF_CACHED: &str =
    "No stored response may be used, and the request forbids contacting the origin (only-if-cached).";

/// The sentence of the 429 for a request beyond the budget of misses.
pub const OVER_BUDGET: &str = "Too many requests for pages that are not cached. Retry later.";

/// The sentence of the 503 where every origin is drained: an operator's decision.
pub const DRAINED: &str = "The service is unavailable: all origins are drained.";

/// The sentence of the 502, 503 or 504 for a request that is answered with the failure of identical requests.
pub const FAILED_FOR_ANOTHER: &str = "The origin failed to answer two requests for this resource; this identical request was not sent to it. \
     Retry later.";

/// The sentence of the 501 for an extended CONNECT of HTTP/2 (RFC 8441) whose protocol is not passed on.
pub const NOT_PASSED: &str = "This resource does not support the requested upgrade.";

/// One sentence for the error page of a status that larder makes itself.
#[must_use]
pub fn error_sentence(status: u16) -> &'static str {
    match status {
        400 => "The request body is malformed or incomplete.",
        405 => "This server does not allow the method.",
        508 => "Request loop: the request already passed this server.",
        408 => "The request body timed out.",
        413 => "The request body is too large.",
        431 => "The fields of the request are larger than the protocol of the application allows.",
        500 => "Internal server error.",
        501 => NOT_PASSED,
        503 => "No connection to the origin is available; retry later.",
        504 => "The origin did not respond in time.",
        _ => "The origin is unreachable, or its response was invalid.",
    }
}
