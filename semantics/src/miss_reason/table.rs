//! The closed list of reasons: names, classes, sentences and the changes that help. The table of the guide is made from it.

use super::MissClass;

/// One row of the list.
#[derive(Clone, Copy, Debug)]
pub struct ReasonRow {
    /// Its reason.
    pub reason: MissReason,
    /// Its name, kebab-case: a stable interface.
    pub name: &'static str,
    /// Its meaning for the hit ratio.
    pub class: MissClass,
    /// The event, in one sentence.
    pub sentence: &'static str,
    /// The change that may help, in one sentence; empty where none would be right. It never proposes to share a response that is for
    /// one client.
    pub change: &'static str,
}

macro_rules! reasons {
    ($($reason:ident $name:literal $class:ident: $sentence:literal, $change:literal;)*) => {
        /// Why a request reached an origin. Each has its row in [`REASONS`].
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u8)]
        pub enum MissReason { $(#[doc = $sentence] $reason,)* }

        /// All reasons, in the order of [`MissReason::index`].
        pub const REASONS: &[ReasonRow] = &[$(ReasonRow {
            reason: MissReason::$reason, name: $name, class: MissClass::$class, sentence: $sentence, change: $change,
        },)*];
    };
}

reasons! {
    FirstRequest "first-request" Needed: "No response was stored under this key, and none was removed lately.",
        "If one page has many URLs, `cache.key.drop` removes parameters that do not change it, such as `utm_*`, and `cache.key.sort` makes one page of all orders of its parameters.";
    Expired "expired" CouldBeHit: "The lifetime of the stored response had ended.",
        "A longer lifetime by the application (`s-maxage`); `cache.stale_while_revalidate` serves the page while it is renewed.";
    Refresh "refresh" Needed: "A stale response was served, and renewed in the background.", "";
    Evicted "evicted" CouldBeHit: "The stored response was removed from RAM to make room while it was fresh, and no other tier has it.",
        "More RAM (`cache.ram.size`), a larger disk tier (`cache.disk.size`), or a disk tier (`cache.disk.path`).";
    Idle "idle" CouldBeHit: "The stored response was removed from RAM because no request used it.",
        "A longer `cache.ram.idle`, or a disk tier (`cache.disk.path`).";
    Purged "purged" Needed: "A purge, or a request that changed the page, ended the stored response.", "";
    Variant "variant" CouldBeHit: "Responses are stored, but for other values of the fields that `Vary` names.",
        "The application names in `Vary` only the fields that change the page. With `Vary: Cookie`, `cache.ignored_cookies` names the cookies that do not change it, such as those of analytics.";
    Range "range" Needed: "The request asks for a range of bytes that is not stored.", "";
    ClientNoCache "client-no-cache" CouldBeHit: "`Cache-Control` of the request (`no-cache`, `max-age`) demands a new response.",
        "`cache.request_directives` sets which of these directives are obeyed.";
    RequestNoStore "request-no-store" CouldBeHit: "`Cache-Control` of the request has `no-store`.",
        "`cache.request_directives` sets which of these directives are obeyed.";
    MustValidate "must-validate" ByResponse: "The response demands a validation before each use (`no-cache`, or a lifetime of zero).", "";
    Doubted "doubted" CouldBeHit: "The stored response is in doubt: the fleet may have a newer one, or a purge or a change of a database that this node could not read.",
        "The memcached servers, the purge log and the database that the state of the server names have to be restored: no key of the configuration replaces them.";
    PurgeRulesDropped "purge-rules-dropped" CouldBeHit: "The stored response is in doubt: purge rules were dropped because their table was full, and one of them may have ended it.",
        "Fewer purges of more pages each, such as by tag; more RAM (`cache.ram.size`) has room for more rules.";
    HitForMiss "hit-for-miss" Needed: "The last responses to this URL were not cacheable, so that requests for it do not wait for each other.", "";
    Head "head" Needed: "A HEAD request, which does not fill the cache.", "";
    CacheOff "cache-off" ByConfiguration: "The route does not use the cache (`cache.enabled = false`).",
        "If its responses are for all clients: `cache.enabled` is removed.";
    Method "method" ByRequest: "The method is neither GET nor HEAD.", "";
    RequestBody "request-body" ByRequest: "The request has a body, which is not in the key.", "";
    MalformedTarget "malformed-target" ByRequest: "The target has bytes that no URL can have.", "";
    AmbiguousPath "ambiguous-path" ByRequest: "The path can be read in two ways that lead to different pages.", "";
    Upgrade "upgrade" ByRequest: "The request asks for another protocol, such as WebSocket.", "";
    PrivateCookie "private-cookie" ByConfiguration: "The request has a cookie of `cache.private_cookies`.", "";
    OverridingField "overriding-field" ByRequest: "A field of the request may make the application answer another request.", "";
    UnkeyedField "unkeyed-field" ByConfiguration: "A field of the request is not in the strict key.", "";
    Credentials "credentials" ByRequest: "The request identifies its client by a cookie, `Authorization` or a field such as `X-Api-Key`. Its response is shared only if the response or the route says that the page is the same for all clients; with `Vary: Cookie`, only between requests with equal cookies.",
        "Only if the page is the same for all clients: the application marks it `Cache-Control: public`. Explain names the cookie. With the field in `cache.key.headers`, each value has pages of its own. For files that are the same for all clients, `cache.public_files` names their directories.";
    Authorization "authorization" ByRequest: "The request has `Authorization`, or `access` of the route identifies its client, and the response is for this client.", "";
    Status "status" ByResponse: "Responses with this status are not stored, or not without a declared lifetime.",
        "Redirects and errors that are the same for all clients: the application declares a lifetime, or `cache.status_ttl` gives the status one.";
    RedirectLoop "redirect-loop" ByResponse: "The origin redirects the request to its own URL, so that the client never gets the page.",
        "The application builds the URL from `X-Forwarded-Proto` and `X-Forwarded-Host`, or trusts the address of larder as a proxy.";
    NoStore "no-store" ByResponse: "The response has `no-store`.", "";
    Private "private" ByResponse: "The response has `private`: it is for one client.", "";
    SetCookie "set-cookie" ByResponse: "The response sets a cookie, which is for one client.", "";
    VaryStar "vary-star" ByResponse: "The response cannot be matched to other requests (`Vary: *`).", "";
    NoLifetime "no-lifetime" CouldBeHit: "The response declares no lifetime.",
        "The application declares one (`Cache-Control: s-maxage`), or `cache.default_ttl` gives it one; name the session cookies in `cache.private_cookies` first.";
    Useless "useless" ByResponse: "The response was stale on arrival and cannot be validated.",
        "With an `ETag` or `Last-Modified` of the application, larder validates it in place of fetching it.";
    Late "late" Needed: "The response became stale on its way.", "";
    TooLarge "too-large" CouldBeHit: "The response is larger than `cache.max_object`.", "A larger `cache.max_object`.";
    NoRoom "no-room" CouldBeHit: "The response is too large for the tiers.",
        "More RAM (`cache.ram.size`), or a disk tier (`cache.disk.path`).";
    Rule "rule" ByConfiguration: "A rule of the route says `pass` (`cache.rule`).", "";
    Endless "endless" ByResponse: "A stream of events, which is for one client and does not end.", "";
    FileOrder "file-order" ByResponse: "The response orders a file in place of its body, for this request only.", "";
    NoResponse "no-response" Needed: "The origin gave no valid response: it failed, a time limit ended the request, or the client left before.", "";
    Again "again" Needed: "A second request for one response: the first answer did not fit.", "";
    Retry "retry" Needed: "The request was repeated after an origin had failed.", "";
    Waited "waited" Shared: "The request was answered by the fetch of another request, and did not reach the origin itself.", "";
}

impl MissReason {
    /// Its position in [`REASONS`].
    #[must_use]
    pub const fn index(self) -> usize {
        self as usize
    }

    /// Its row.
    #[must_use]
    pub fn row(self) -> &'static ReasonRow {
        &REASONS[self.index()]
    }

    /// Stable, kebab-case.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.row().name
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn every_row_is_its_reasons_own() {
        let mut names = HashSet::new();
        for (at, it) in REASONS.iter().enumerate() {
            assert_eq!(at, it.reason.index());
            assert!(names.insert(it.name), "{} is there twice", it.name);
            assert!(it.name.bytes().all(|it| it.is_ascii_lowercase() || it == b'-'), "{}", it.name);
            assert!(
                it.sentence.ends_with('.') && (it.change.is_empty() || it.change.ends_with('.')),
                "{}",
                it.name
            );
            assert!(
                it.class != MissClass::CouldBeHit || !it.change.is_empty(),
                "{}: a change helps",
                it.name
            );
        }
    }
}
