//! The answer of `explain` in two lines: the treatment of the request, and whether it is right.

use crate::miss_reason::{MissClass, MissReason};
use larder_stdx::size::ByteSize;

/// The audience of a page, as far as it is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PageAudience {
    /// Possibly every client.
    #[default]
    Unknown,
    /// Recent responses to the URL differed.
    Differs,
    /// A response to the URL was for one client.
    OneClient,
}

/// Whether the treatment of a request is right.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rightness {
    /// It is, and no change is proposed.
    Right,
    /// It is for this request; later ones can be hits.
    Once,
    /// The page could be served from the cache.
    CouldBeCached,
    /// The application fails, or a setting makes it fail.
    Fault,
    /// A rule of the configuration refuses the request: whether it should is for the operator to say.
    ByRule,
}

impl Rightness {
    /// Its name in the API: a stable interface.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Rightness::Right => "right",
            Rightness::Once => "once",
            Rightness::CouldBeCached => "could-be-cached",
            Rightness::Fault => "fault",
            Rightness::ByRule => "by-rule",
        }
    }
}

/// The message with the field or cookies on which a reason depends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CredentialOf {
    /// The explained request.
    Request,
    /// The last request for the page.
    LastRequest,
    /// The requests of the stored variants.
    Variants,
    /// The last response.
    Response,
}

/// The field or cookies on which a reason depends: names, without values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedCredential {
    /// The message that has them.
    pub of: CredentialOf,
    /// The object of a sentence, such as `the cookie sid`.
    pub words: String,
}

/// The server errors of a URL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UrlErrors {
    /// The status of the last one, which was the last response.
    pub status: u16,
    /// The recorded requests that failed.
    pub failed: usize,
    /// The recorded requests for the URL.
    pub of: usize,
}

/// The facts of an explained request.
#[derive(Clone, Copy, Debug)]
pub struct ExplainedFacts<'a> {
    /// The name of the verdict.
    pub verdict: &'a str,
    /// Its sentence.
    pub sentence: &'a str,
    /// Why the origin is asked, if it is.
    pub reason: Option<MissReason>,
    /// The tier that has the response.
    pub tier: &'a str,
    /// The freshness of the stored response, such as "fresh for 48 s".
    pub freshness: &'a str,
    /// Why the origin gave no valid response last time, if it did not.
    pub failure: Option<&'a str>,
    /// The time limit of the configuration that ended it, with its place and value, if one did.
    pub time_limit: Option<&'a str>,
    /// The field or cookies on which the reason depends.
    pub credential: Option<&'a NamedCredential>,
    /// The server errors of the URL, if its last response was one.
    pub errors: Option<UrlErrors>,
    /// Whether the last response, or the stored one, redirects to the same URL over `https`.
    pub redirects_to_https: bool,
    /// The address of a client that sends `X-Forwarded-Proto: https` for this URL without being in `clients.trusted`.
    pub untrusted_proxy: Option<&'a str>,
    /// The status of a stored response.
    pub status: Option<u16>,
    /// The rule of the configuration that refuses the request, as a sentence.
    pub refused_by: Option<&'a str>,
    /// The evidence of recent requests that the page is the same for all clients, whatever their cookies, as a sentence.
    pub equal: Option<&'a str>,
    /// Whether it bypasses the cache because the route's access rules identify its client.
    pub by_access: bool,
    /// The audience of the page.
    pub audience: PageAudience,
    /// `cache.max_object` of the route, in bytes.
    pub max_object: u64,
    /// The decision that the operator can take about the cookies that the response sets, as a sentence.
    pub set_cookie_hint: Option<&'a str>,
    /// Whether a setting would help requests of this reason.
    pub has_setting: bool,
}

/// The two lines, and the judgement in one word.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExplainSummary {
    /// The answer: one clause.
    pub answer: String,
    /// The judgement.
    pub rightness: Rightness,
    /// The judgement as a sentence.
    pub because: String,
    /// Whether the changes are shown.
    pub shows_changes: bool,
}

/// The summary of an explanation.
#[must_use]
pub fn summarize(facts: &ExplainedFacts<'_>) -> ExplainSummary {
    let right = |answer: String, because: &str| ExplainSummary {
        answer,
        rightness: Rightness::Right,
        because: format!("That is right: {because}."),
        shows_changes: false,
    };
    let rest = |start: &str| facts.sentence.strip_prefix(start).unwrap_or(facts.sentence).to_owned();
    if let Some(it) = fault(facts) {
        return it;
    }
    match facts.verdict {
        "hit" => right(
            format!("Served from {}: {}.", place(facts.tier), facts.freshness),
            "the stored page answers, and the origin is not asked",
        ),
        "stale-hit" => right(
            format!("Served stale from {}: {}.", place(facts.tier), facts.freshness),
            "a stale page may be served here",
        ),
        "overlay" => right(format!("Served by an overlay: {}", rest("")), "an operator set the overlay"),
        "file" => right(format!("Served from a file: {}", rest("")), "files need no cache"),
        "refused" => ExplainSummary {
            answer: refusal(facts.sentence),
            rightness: Rightness::ByRule,
            because: facts.refused_by.unwrap_or("larder rejects such requests before the cache.").to_owned(),
            shows_changes: false,
        },
        "gateway-timeout" => right(
            "Answered with 504: the request allows a stored response only, and none is usable.".to_owned(),
            "the client asked not to contact the origin",
        ),
        "depends" => ExplainSummary {
            answer: facts.sentence.to_owned(),
            rightness: Rightness::Right,
            because: "Explain verifies no credentials and asks no service.".to_owned(),
            shows_changes: false,
        },
        "tag" => ExplainSummary {
            answer: facts.sentence.to_owned(),
            rightness: Rightness::Right,
            because: "Each stored page is explained by its URL.".to_owned(),
            shows_changes: false,
        },
        "miss" | "revalidate" | "pass" => of_origin(facts),
        _ => right(
            match facts.sentence.strip_prefix("Answered by larder before access rules and the cache: ") {
                Some(it) => format!("Answered by larder before access rules: {it}"),
                None => format!("Answered by larder: {}", rest("Answered by larder before the cache: ")),
            },
            "the configuration says so",
        ),
    }
}

/// The answer to a refused request.
fn refusal(sentence: &str) -> String {
    let starts = [
        ("Refused by larder before the cache: ", "Refused"),
        ("larder rejects the request with ", "Rejected"),
    ];
    let answer =
        starts.iter().find_map(|(start, word)| Some(format!("{word}: {}", sentence.strip_prefix(start)?)));
    answer.unwrap_or_else(|| sentence.to_owned())
}

/// Why a redirect to `https` is a loop for the clients of a proxy, with the remedy.
fn ignored(proxy: &str) -> String {
    format!(
        "{proxy} sends X-Forwarded-Proto: https, which larder ignores because `clients.trusted` lacks this address. If it is your proxy, add it: \
         clients.trusted = [\"{proxy}\"]"
    )
}

/// The summary where the application fails, or a setting makes it fail: that outweighs everything that concerns the cache.
fn fault(facts: &ExplainedFacts<'_>) -> Option<ExplainSummary> {
    let is_stored = matches!(facts.verdict, "hit" | "stale-hit");
    if let ("redirect", true, Some(proxy)) = (facts.verdict, facts.redirects_to_https, facts.untrusted_proxy)
    {
        return Some(ExplainSummary {
            answer: format!("{} It is a loop for the clients of {proxy}.", facts.sentence),
            rightness: Rightness::Fault,
            because: format!("That is a fault. {}.", ignored(proxy)),
            shows_changes: false,
        });
    }
    if !is_stored && !matches!(facts.verdict, "miss" | "revalidate" | "pass") {
        return None;
    }
    let start = match is_stored {
        true => format!("Served from {}", place(facts.tier)),
        false => "Not cached".to_owned(),
    };
    let (what, because) = match (facts.failure, facts.errors, facts.untrusted_proxy) {
        (Some(failure), ..) if !is_stored => (
            format!("the origin gave no valid response ({failure})"),
            match facts.time_limit {
                Some(limit) => format!(
                    "larder ended the request: {limit}. Raise it if the application needs longer; otherwise repair the origin"
                ),
                None => "An invalid response is not stored. Repair the origin first".to_owned(),
            },
        ),
        (_, _, proxy) if facts.reason == Some(MissReason::RedirectLoop) => {
            let (what, why) = words(MissReason::RedirectLoop);
            let ignored = proxy.map_or(String::new(), |it| format!(". {}", ignored(it)));
            (what.trim_start_matches("Not cached: ").to_owned(), format!("{}{ignored}", sentence(why)))
        }
        (_, _, Some(proxy)) if facts.redirects_to_https => (
            format!(
                "the origin redirects to the same URL over https, which is a loop for the clients of {proxy}"
            ),
            ignored(proxy),
        ),
        (_, Some(it), _) if !is_stored => (
            format!("the last response to this URL was {}", it.status),
            match (it.failed, it.of) {
                (1, 1) => "The last request for it failed, and larder does not store errors".to_owned(),
                (failed, of) if failed == of => {
                    format!(
                        "Each of the last {of} recorded requests for it failed, and larder does not store errors"
                    )
                }
                (failed, of) => format!("{failed} of the last {of} recorded requests for it failed"),
            },
        ),
        _ => match facts.status.filter(|it| is_stored && *it >= 500) {
            Some(status) => (
                format!("the stored response is an error ({status})"),
                "The application gave it a lifetime, or `cache.status_ttl` does".to_owned(),
            ),
            None => return None,
        },
    };
    Some(ExplainSummary {
        answer: format!("{start}: {what}."),
        rightness: Rightness::Fault,
        because: format!("That is a fault. {because}."),
        shows_changes: false,
    })
}

/// A clause as the beginning of a sentence.
fn sentence(clause: &str) -> String {
    let mut letters = clause.chars();
    letters.next().map_or(String::new(), |it| it.to_uppercase().chain(letters).collect())
}

/// The summary of a request that the origin gets.
fn of_origin(facts: &ExplainedFacts<'_>) -> ExplainSummary {
    let Some(reason) = facts.reason else {
        return ExplainSummary {
            answer: format!("Not cached: {}", facts.sentence),
            rightness: Rightness::Right,
            because: "That is right: this request is for the origin.".to_owned(),
            shows_changes: false,
        };
    };
    let (answer, because) = match facts.by_access {
        true => (
            "Not cached: the access rules of the route identify its clients",
            "the response is for one client",
        ),
        false => words(reason),
    };
    let class = reason.row().class;
    // Proof that a page is for one client outweighs everything that a setting could do.
    let apart = match facts.audience {
        PageAudience::Unknown => None,
        PageAudience::Differs => Some("recent responses to this URL differ, so each may be for one client"),
        PageAudience::OneClient => Some("a response to this URL was for one client"),
    };
    let (rightness, start, because) = match (class, apart) {
        (MissClass::ByConfiguration, _) => (Rightness::Right, "The configuration says so", because),
        (MissClass::ByRequest | MissClass::ByResponse, _) => (Rightness::Right, "That is right", because),
        (MissClass::CouldBeHit, Some(apart)) => (Rightness::Right, "That is right", apart),
        (MissClass::CouldBeHit, None) => (Rightness::CouldBeCached, "It could be cached", because),
        (MissClass::Needed | MissClass::Shared, _) if facts.has_setting && apart.is_none() => (
            Rightness::CouldBeCached,
            "It could be cached",
            "a setting makes one stored page answer more requests",
        ),
        (MissClass::Needed | MissClass::Shared, _) => (Rightness::Once, "That is normal", because),
    };
    let is_withheld = matches!(
        reason,
        MissReason::PrivateCookie
            | MissReason::Credentials
            | MissReason::CacheOff
            | MissReason::ClientNoCache
    );
    // The response to a request with a cookie counts as one client's: the evidence compares the bodies.
    let equal =
        facts.equal.filter(|_| is_withheld && facts.audience != PageAudience::Differs && !facts.by_access);
    let (rightness, because) = match equal {
        Some(evidence) => (Rightness::CouldBeCached, format!("It could be cached. {evidence}")),
        None => (rightness, format!("{start}: {because}.")),
    };
    let hint = facts
        .set_cookie_hint
        .filter(|_| reason == MissReason::SetCookie && facts.audience != PageAudience::Differs);
    let because = hint.map_or_else(|| because.clone(), |it| format!("{because} {it}"));
    let named = facts.credential.filter(|_| !facts.by_access).and_then(|it| named_words(reason, it));
    let answer = named.unwrap_or_else(|| match reason {
        MissReason::TooLarge => format!("{answer} ({}).", ByteSize(facts.max_object)),
        _ => format!("{answer}."),
    });
    // A page that sets a cookie counts as one client's: its setting is for cookies that the operator has named.
    let is_named =
        reason == MissReason::SetCookie && facts.has_setting && facts.audience != PageAudience::Differs;
    ExplainSummary {
        answer,
        rightness,
        because,
        shows_changes: apart.is_none() || equal.is_some() || is_named,
    }
}

/// The answer that names the field or cookies on which the reason depends.
fn named_words(reason: MissReason, it: &NamedCredential) -> Option<String> {
    let names = &it.words;
    Some(match (reason, it.of) {
        (MissReason::PrivateCookie, _) => {
            format!("Not cached: the request has {names}, which `cache.private_cookies` makes private.")
        }
        (MissReason::OverridingField, _) => {
            format!("Not cached: {names} of the request may change the target, method or user.")
        }
        (MissReason::UnkeyedField, _) => {
            format!("Not cached: {names} of the request is not in the strict key.")
        }
        (MissReason::SetCookie, _) => format!("Not cached: the response sets {names}."),
        (MissReason::Variant, _) => {
            format!(
                "Not stored in this variant: Vary names {names}, and the values of this request are others."
            )
        }
        (MissReason::Credentials, CredentialOf::Variants) => {
            format!("Not stored for this client: Vary makes a variant for each value of {names}.")
        }
        (MissReason::Credentials, CredentialOf::LastRequest) => format!(
            "Not cached: the last request for this URL had {names}, and nothing says that the page is the same for all clients."
        ),
        (MissReason::Credentials, _) => format!(
            "Not cached: the request has {names}, and nothing says that the page is the same for all clients."
        ),
        (MissReason::Authorization, CredentialOf::LastRequest) => {
            format!("Not cached: the last request for this URL had {names}.")
        }
        (MissReason::Authorization, _) => format!("Not cached: the request has {names}."),
        _ => return None,
    })
}

fn place(tier: &str) -> &str {
    match tier {
        "ram" => "RAM",
        "fleet" => "the fleet",
        it => it,
    }
}

/// The answer, and the clause after "That is right", "That is normal" or "It could be cached".
#[rustfmt::skip]
fn words(reason: MissReason) -> (&'static str, &'static str) {
    match reason {
        MissReason::FirstRequest => ("Not stored yet: no response is stored under this key", "each page is fetched from the origin once"),
        MissReason::Expired => ("Not fresh: the lifetime of the stored page has ended", "a longer lifetime keeps it, or it is served while it is renewed"),
        MissReason::Refresh => ("Served stale: the page is renewed in the background", "no client waits for it"),
        MissReason::Evicted => ("Not stored any more: the fresh page was removed to make room", "RAM is too small for the pages that are requested"),
        MissReason::Idle => ("Not stored any more: no request used the page for a time", "a disk tier keeps such pages"),
        MissReason::Purged => ("Not fresh any more: the page was purged", "it is fetched or validated once"),
        MissReason::Variant => ("Not stored in this variant: the request differs in a field that Vary names", "a page that does not change with this field needs no variants"),
        MissReason::Range => ("Not stored: the request asks for a part that the store does not have", "the part is fetched once"),
        MissReason::ClientNoCache => ("Not served from the cache: the client demands a new response", "the same request without Cache-Control and Pragma is a hit"),
        MissReason::RequestNoStore => ("Not cached: the request has no-store", "the same request without no-store may be stored"),
        MissReason::MustValidate => ("Validated with the origin: the response demands it before each use", "the application decides how long its pages are valid"),
        MissReason::Doubted => ("Validated with the origin: the fleet may have a newer page, or a purge that this node could not read", "the stored page is a hit once the servers answer that the state names"),
        MissReason::PurgeRulesDropped => ("Validated with the origin: purge rules were dropped, and one of them may have named the page", "with fewer purges, each of more pages, such as by tag, no rule is dropped"),
        MissReason::HitForMiss => ("Not cached: the last responses to this URL could not be shared", "requests for such a page do not wait for each other"),
        MissReason::Head => ("Not cached: a HEAD request does not fill the cache", "a GET fills it"),
        MissReason::CacheOff => ("Not cached: the route does not use the cache", "cache.enabled is false"),
        MissReason::Method => ("Not cached: the method is neither GET nor HEAD", "such a request may change something"),
        MissReason::RequestBody => ("Not cached: the request has a body", "the body is not in the key"),
        MissReason::MalformedTarget => ("Not cached: the target has bytes that no URL can have", "servers read such a target in different ways"),
        MissReason::AmbiguousPath => ("Not cached: the path can be read in two ways", "the two ways lead to different pages"),
        MissReason::Upgrade => ("Not cached: the request asks for another protocol", "its connection is for one client"),
        MissReason::PrivateCookie => ("Not cached: the request has a private cookie", "its response may be for one client"),
        MissReason::OverridingField => ("Not cached: a field of the request may change the target, method or user", "the response may be that of another request"),
        MissReason::UnkeyedField => ("Not cached: a field of the request is not in the strict key", "the response may depend on the field"),
        MissReason::Credentials => ("Not cached: the request has credentials, and nothing says that the page is the same for all clients", "the page may be for one client"),
        MissReason::Authorization => ("Not cached: the request has Authorization", "the response is for one client"),
        MissReason::Status => ("Not cached: responses with this status are not stored", "such a response may be an error of a moment"),
        MissReason::RedirectLoop => ("Not cached: the origin redirects the request to its own URL, which is a loop", "no client can follow it; the application must build its URLs from X-Forwarded-Proto and X-Forwarded-Host"),
        MissReason::NoStore => ("Not cached: the response has no-store", "the application forbids it"),
        MissReason::Private => ("Not cached: the response is private", "it is for one client"),
        MissReason::SetCookie => ("Not cached: the response sets a cookie", "the cookie is for one client; if the page is the same for all, the application can set the cookie on one page only, or by a script"),
        MissReason::VaryStar => ("Not cached: the response has Vary: *", "it cannot be matched to other requests"),
        MissReason::NoLifetime => ("Not cached: the response declares no lifetime", "a lifetime by the application or by the route lets larder keep it"),
        MissReason::Useless => ("Not cached: the response was stale on arrival and cannot be validated", "it could never be served"),
        MissReason::Late => ("Not cached: the response became stale on its way", "the next one may arrive in time"),
        MissReason::TooLarge => ("Not cached: the response is larger than cache.max_object", "a larger limit lets larder keep it"),
        MissReason::NoRoom => ("Not cached: the response is too large for the tiers", "more room lets larder keep it"),
        MissReason::Rule => ("Not cached: a rule of the route says pass", "the configuration says so"),
        MissReason::Endless => ("Not cached: the response is a stream of events", "it is for one client and does not end"),
        MissReason::FileOrder => ("Not cached: the response orders a file in place of its body", "the application decided for this request only"),
        MissReason::NoResponse => ("Not cached: the origin gave no valid response", "there is nothing to store"),
        MissReason::Again => ("Not cached: a second request was needed for one response", "the first answer did not fit"),
        MissReason::Retry => ("Not cached: the request was repeated after an origin had failed", "the client gets a response all the same"),
        MissReason::Waited => ("Served by the fetch of another request", "one fetch serves all waiting requests"),
    }
}
