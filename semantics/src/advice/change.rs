//! Changes for each reason. A setting is proposed only if no response becomes shared by it that is for one client. No
//! setting is for a reason that marks a response as private, and a new lifetime comes with a bypass for cookies.

use crate::analytics;
use crate::cookies;
use crate::key::QueryPolicy;
use crate::miss_reason::MissReason;
use crate::policy::{Policy, RequestDirectivePolicy};
use crate::trial::evidence::{EqualForAll, MISSING, NeedlessParameters, VaryingField};
use std::borrow::Cow;

/// The proposed lifetime of pages that declare none, and the time in which a stale page is served, seconds.
const SHORT: u32 = 60;

/// One key of the configuration with its proposed value. Seconds, bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SafeSetting {
    /// `cache.default_ttl`.
    DefaultTtl(u32),
    /// `cache.status_ttl`: all lifetimes by status, those in force included.
    StatusTtl(Vec<(u16, u32)>),
    /// `cache.request_directives = "harmless"`: those that demand a new response are ignored.
    HarmlessDirectives,
    /// `cache.store_set_cookie`: the response is stored without the field.
    StoreSetCookie,
    /// `cache.private_cookies = ["*"]`: requests with a cookie bypass the cache.
    EveryCookiePrivate,
    /// `cache.private_cookies`: all names, those in force included.
    PrivateCookies(Vec<String>),
    /// `cache.ignored_cookies`: all names, those in force included. The origin no longer gets these cookies.
    IgnoredCookies(Vec<String>),
    /// `cache.key.drop`: all names, those in force included.
    DropParameters(Vec<String>),
    /// `cache.key.sort`.
    SortParameters,
    /// `cache.enabled`.
    UseCache,
    /// `cache.stale_while_revalidate`.
    StaleWhileRevalidate(u32),
    /// `cache.compress.enabled`.
    Compress,
    /// `cache.compress.uncached = false`: responses that are not stored are sent as they come.
    CompressStoredOnly,
    /// `cache.max_object`.
    MaxObject(u64),
    /// `cache.ram.size`.
    RamSize(u64),
    /// `cache.disk.path`.
    DiskPath,
    /// `cache.disk.size`.
    DiskSize(u64),
}

/// A value of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SettingValue {
    /// A text.
    Text(String),
    /// A list of texts.
    List(Vec<String>),
    /// `true` or `false`.
    Switch(bool),
    /// Names with texts.
    Table(Vec<(String, String)>),
}

impl SafeSetting {
    /// The key, such as `cache.default_ttl`.
    #[must_use]
    pub fn key(&self) -> &'static str {
        match self {
            SafeSetting::DefaultTtl(_) => "cache.default_ttl",
            SafeSetting::StatusTtl(_) => "cache.status_ttl",
            SafeSetting::HarmlessDirectives => "cache.request_directives",
            SafeSetting::StoreSetCookie => "cache.store_set_cookie",
            SafeSetting::EveryCookiePrivate | SafeSetting::PrivateCookies(_) => "cache.private_cookies",
            SafeSetting::IgnoredCookies(_) => "cache.ignored_cookies",
            SafeSetting::DropParameters(_) => "cache.key.drop",
            SafeSetting::SortParameters => "cache.key.sort",
            SafeSetting::UseCache => "cache.enabled",
            SafeSetting::StaleWhileRevalidate(_) => "cache.stale_while_revalidate",
            SafeSetting::Compress => "cache.compress.enabled",
            SafeSetting::CompressStoredOnly => "cache.compress.uncached",
            SafeSetting::MaxObject(_) => "cache.max_object",
            SafeSetting::RamSize(_) => "cache.ram.size",
            SafeSetting::DiskPath => "cache.disk.path",
            SafeSetting::DiskSize(_) => "cache.disk.size",
        }
    }

    /// The value.
    #[must_use]
    pub fn value(&self) -> SettingValue {
        let text = |it: String| SettingValue::Text(it);
        match self {
            SafeSetting::DefaultTtl(it) | SafeSetting::StaleWhileRevalidate(it) => text(format!("{it}s")),
            SafeSetting::StatusTtl(all) => {
                SettingValue::Table(all.iter().map(|it| (it.0.to_string(), format!("{}s", it.1))).collect())
            }
            SafeSetting::HarmlessDirectives => text("harmless".to_owned()),
            SafeSetting::EveryCookiePrivate => SettingValue::List(vec!["*".to_owned()]),
            SafeSetting::PrivateCookies(names)
            | SafeSetting::IgnoredCookies(names)
            | SafeSetting::DropParameters(names) => SettingValue::List(names.clone()),
            SafeSetting::Compress
            | SafeSetting::SortParameters
            | SafeSetting::UseCache
            | SafeSetting::StoreSetCookie => SettingValue::Switch(true),
            SafeSetting::CompressStoredOnly => SettingValue::Switch(false),
            SafeSetting::MaxObject(it) | SafeSetting::RamSize(it) | SafeSetting::DiskSize(it) => {
                text(size(*it))
            }
            SafeSetting::DiskPath => text("/var/cache/larder".to_owned()),
        }
    }

    /// Whether it is a setting of the whole server, not of a route.
    #[must_use]
    pub fn is_of_server(&self) -> bool {
        use SafeSetting::{Compress, CompressStoredOnly, DiskPath, DiskSize, RamSize};
        matches!(self, RamSize(_) | DiskPath | DiskSize(_) | Compress | CompressStoredOnly)
    }

    /// Applies it to a route's policy; those of the server have no effect there.
    pub fn apply(&self, policy: &mut Policy) {
        match self {
            SafeSetting::DefaultTtl(it) => policy.default_ttl = Some(*it),
            SafeSetting::StatusTtl(all) => policy.status_ttl.clone_from(all),
            SafeSetting::HarmlessDirectives => policy.request_directives = RequestDirectivePolicy::Harmless,
            SafeSetting::StoreSetCookie => policy.store_set_cookie = true,
            SafeSetting::EveryCookiePrivate => policy.private_cookies = vec!["*".to_owned()],
            SafeSetting::PrivateCookies(names) => policy.private_cookies.clone_from(names),
            SafeSetting::IgnoredCookies(names) => policy.ignored_cookies.clone_from(names),
            SafeSetting::DropParameters(names) => policy.key.query = QueryPolicy::Drop(names.clone()),
            SafeSetting::SortParameters => policy.key.sort_query = true,
            SafeSetting::UseCache => policy.enabled = true,
            SafeSetting::StaleWhileRevalidate(it) => policy.stale_while_revalidate = *it,
            SafeSetting::MaxObject(it) => policy.max_object = *it,
            SafeSetting::Compress
            | SafeSetting::CompressStoredOnly
            | SafeSetting::RamSize(_)
            | SafeSetting::DiskPath
            | SafeSetting::DiskSize(_) => {}
        }
    }
}

/// A number of bytes in whole units of the configuration.
fn size(bytes: u64) -> String {
    match bytes {
        it if it.is_multiple_of(1 << 30) => format!("{}GiB", it >> 30),
        it => format!("{}MiB", it.div_ceil(1 << 20)),
    }
}

/// One change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SafeChange {
    /// The operator sets these keys.
    Configuration {
        /// The effect, one sentence.
        sentence: Cow<'static, str>,
        /// The keys, all of one route or of the server.
        settings: Vec<SafeSetting>,
    },
    /// Only the application can change it.
    Application {
        /// The change, one sentence.
        sentence: Cow<'static, str>,
    },
    /// Another server, such as memcached, has to be restored.
    Server {
        /// The fault and the remedy, as in the state of the server.
        sentence: String,
    },
}

impl SafeChange {
    /// The keys that the operator sets.
    #[must_use]
    pub fn settings(&self) -> &[SafeSetting] {
        match self {
            SafeChange::Configuration { settings, .. } => settings,
            SafeChange::Application { .. } | SafeChange::Server { .. } => &[],
        }
    }
}

/// The pages of RAM, and those that it lacks: bytes and numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NeededPages {
    /// The different pages that were lately evicted while they were fresh, and are not in RAM again.
    pub evicted: u64,
    /// Their bytes, at the mean size of a stored page.
    pub evicted_bytes: u64,
    /// The bytes of the pages in RAM.
    pub stored: u64,
}

/// The facts that changes depend on.
#[derive(Clone, Copy, Debug)]
pub struct ChangeFacts<'a> {
    /// The policy of the route.
    pub policy: &'a Policy,
    /// No page of the route is known whose responses differ or are for one client without saying so, and the requests in question
    /// had no credentials.
    pub is_public: bool,
    /// Parameters of analytics in these requests ([`analytics::parameters_of`]).
    pub parameters: u64,
    /// The status of the response, if it is known.
    pub status: Option<u16>,
    /// The cookies that the response sets, if it is declared `public`; otherwise none.
    pub set_cookies: &'a [String],
    /// The size of the response, if it is known.
    pub length: Option<u64>,
    /// The largest body that a tier of the route keeps.
    pub most_stored: u64,
    /// `cache.ram.size`.
    pub ram_size: u64,
    /// The most RAM that may be proposed.
    pub ram_limit: u64,
    /// The pages of RAM, and those that it lacks.
    pub needed: NeededPages,
    /// Whether there is a disk tier.
    pub has_disk: bool,
    /// `cache.disk.size` of a disk tier that has dropped pages for space.
    pub full_disk: Option<u64>,
}

/// The changes that help requests of this reason: of the configuration first, then of the application. Empty for what is rightly
/// not cached.
#[must_use]
pub fn changes(reason: MissReason, facts: &ChangeFacts<'_>) -> Vec<SafeChange> {
    let application = |sentence: &'static str| vec![SafeChange::Application { sentence: sentence.into() }];
    match reason {
        MissReason::FirstRequest => without_parameters(facts),
        MissReason::Expired => {
            let mut all = served_stale(facts);
            all.extend(application(
                "The application declares a longer lifetime, such as Cache-Control: s-maxage=600.",
            ));
            all
        }
        MissReason::Evicted => more_room(facts),
        MissReason::Idle => disk(facts),
        MissReason::NoRoom => more_ram(facts),
        MissReason::Variant => vec![fewer_variants(&[])],
        MissReason::NoLifetime => {
            let missing = facts.status.filter(|it| MISSING.contains(it));
            let mut all = missing.map_or_else(|| lifetime(facts), |it| lifetime_of_errors(facts, &[it]));
            all.extend(application("The application declares a lifetime, such as Cache-Control: s-maxage=60, for pages that are the same for all clients."));
            all
        }
        MissReason::TooLarge => larger(facts),
        MissReason::Credentials => application(
            "Only if the page is the same for all clients, the application marks it Cache-Control: public.",
        ),
        MissReason::SetCookie => stored_without_cookies(facts),
        MissReason::Useless => application(
            "The application sends an ETag or Last-Modified, so that larder validates the page in place of fetching it.",
        ),
        // Rightly not cached, or needed. Without the directives of requests (`cache.request_directives`) what a client wants kept
        // for itself would be stored.
        MissReason::ClientNoCache
        | MissReason::RequestNoStore
        | MissReason::Refresh
        | MissReason::Purged
        | MissReason::Range
        | MissReason::MustValidate
        | MissReason::Doubted
        | MissReason::PurgeRulesDropped
        | MissReason::HitForMiss
        | MissReason::Head
        | MissReason::CacheOff
        | MissReason::Method
        | MissReason::RequestBody
        | MissReason::MalformedTarget
        | MissReason::AmbiguousPath
        | MissReason::Upgrade
        | MissReason::PrivateCookie
        | MissReason::OverridingField
        | MissReason::UnkeyedField
        | MissReason::Authorization
        | MissReason::Status
        | MissReason::RedirectLoop
        | MissReason::NoStore
        | MissReason::Private
        | MissReason::VaryStar
        | MissReason::Late
        | MissReason::Rule
        | MissReason::Endless
        | MissReason::FileOrder
        | MissReason::NoResponse
        | MissReason::Again
        | MissReason::Retry
        | MissReason::Waited => Vec::new(),
    }
}

/// The parameters of analytics that are in these requests and in the key leave both. The origin no longer gets them, so that no
/// response can depend on them.
fn without_parameters(facts: &ChangeFacts<'_>) -> Vec<SafeChange> {
    let seen = analytics::names(facts.parameters);
    let mut names: Vec<String> = match &facts.policy.key.query {
        QueryPolicy::All => Vec::new(),
        QueryPolicy::Drop(names) => names.clone(),
        QueryPolicy::None | QueryPolicy::Keep(_) => return Vec::new(),
    };
    let before = names.len();
    names.extend(
        seen.into_iter()
            .filter(|it| !names.iter().any(|name| name == it))
            .map(str::to_owned)
            .collect::<Vec<_>>(),
    );
    if names.len() == before {
        return Vec::new();
    }
    vec![SafeChange::Configuration {
        sentence: "One stored page answers all these URLs: the parameters leave the key and the request to the origin; scripts in the browser still read them.".into(),
        settings: vec![SafeSetting::DropParameters(names)],
    }]
}

/// Cookies of analytics make no request private: they leave the request to the origin, so that no response can depend on them.
/// Only a route that names its private cookies removes them: one that does not gets a bypass for all other cookies.
pub(super) fn without_cookies(facts: &ChangeFacts<'_>) -> Vec<SafeChange> {
    let names_none = facts.policy.private_cookies.is_empty();
    if names_none && !facts.is_public || !names_none && ignored(facts) == facts.policy.ignored_cookies {
        return Vec::new();
    }
    let without = SafeSetting::IgnoredCookies(ignored(facts));
    let (sentence, settings) = match names_none {
        true => (
            "Requests whose only cookies are those of analytics are answered as requests without a cookie: these cookies leave the request to the origin; scripts in the browser still read them. Every request with another cookie bypasses the cache.",
            vec![SafeSetting::EveryCookiePrivate, without],
        ),
        false => (
            "Requests whose only cookies are those of analytics use the cache: these cookies leave the request to the origin; scripts in the browser still read them.",
            vec![without],
        ),
    };
    vec![SafeChange::Configuration { sentence: sentence.into(), settings }]
}

/// Cookies for whose values pages were equal make no request private any more. They leave the request to the origin, so that no response
/// can depend on them. All other cookies stay private.
#[must_use]
pub fn without_needless_cookies(policy: &Policy, of: &EqualForAll) -> SafeChange {
    let mut settings = Vec::new();
    if of.needs_lifetime && policy.default_ttl.is_none() {
        settings.push(SafeSetting::DefaultTtl(SHORT));
    }
    let rest: Vec<String> =
        policy.private_cookies.iter().filter(|it| !of.cookies.contains(it)).cloned().collect();
    let is_still_private = |name: &String| rest.iter().any(|it| cookies::matches(it, name.as_bytes()));
    let is_listed = policy.private_cookies.len() == rest.len() + of.cookies.len();
    if is_listed && !rest.is_empty() && of.analytics.is_empty() && !of.cookies.iter().any(is_still_private) {
        settings.push(SafeSetting::PrivateCookies(rest));
    } else {
        if policy.private_cookies.is_empty() {
            settings.push(SafeSetting::EveryCookiePrivate);
        }
        let found = of.cookies.iter().chain(&of.analytics);
        settings.push(SafeSetting::IgnoredCookies(with_more(&policy.ignored_cookies, found)));
    }
    let effect = "Requests that have only these cookies are answered as requests without a cookie: the application does not get them on this route, scripts in the browser still read them. Requests with another cookie bypass the cache. Not to be applied if a page of this route changes after a login that the recent requests do not show.";
    let sessions: Vec<&str> =
        of.cookies.iter().filter(|it| is_like_session(it)).map(String::as_str).collect();
    let (of, are) = if sessions.len() == 1 { ("its name", "is") } else { ("their names", "are each") };
    let sentence = match sessions[..] {
        [] => Cow::Borrowed(effect),
        _ => Cow::Owned(format!(
            "Caution: by {of} {} {are} a session cookie. If the application shows anything to logged-in visitors alone, their pages would be those of all visitors. {effect}",
            sessions.join(", "),
        )),
    };
    SafeChange::Configuration { sentence, settings }
}

/// Whether the name of a cookie is one that sessions and logins have.
fn is_like_session(name: &str) -> bool {
    const PARTS: [&str; 8] = ["sess", "sid", "auth", "token", "login", "user", "jwt", "account"];
    let name = name.to_ascii_lowercase();
    PARTS.iter().any(|it| name.contains(it))
}

/// Parameters for whose values pages were equal leave the key and the request to the origin, with those of analytics in the same requests.
pub(super) fn without_needless_parameters(policy: &Policy, of: &NeedlessParameters) -> Option<SafeChange> {
    let before = match &policy.key.query {
        QueryPolicy::All => &[][..],
        QueryPolicy::Drop(names) => names,
        QueryPolicy::None | QueryPolicy::Keep(_) => return None,
    };
    Some(SafeChange::Configuration {
        sentence: "One stored page answers all these URLs: the parameters leave the key and the request to the origin; scripts in the browser still read them.".into(),
        settings: vec![SafeSetting::DropParameters(with_more(before, of.analytics.iter().chain(&of.names)))],
    })
}

/// The key has the parameters in one order.
pub(super) fn sorted_parameters() -> SafeChange {
    SafeChange::Configuration {
        sentence: "One stored page answers all orders of its parameters: the key and the request to the origin have them sorted by name.".into(),
        settings: vec![SafeSetting::SortParameters],
    }
}

/// The cache of a route whose responses were all for all clients.
#[must_use]
pub fn with_cache() -> SafeChange {
    SafeChange::Configuration {
        sentence: "The route uses the cache: recent responses all declared a lifetime, none was private or set a cookie, and none differed between clients. Responses for one client are not stored, as on other routes.".into(),
        settings: vec![SafeSetting::UseCache],
    }
}

/// Fewer variants, where these fields have several values; none are known if there is no evidence.
pub(super) fn fewer_variants(of: &[VaryingField]) -> SafeChange {
    const COOKIES: &str = "; a request with a cookie then bypasses the cache unless `cache.private_cookies` and `cache.ignored_cookies` name it.";
    let has = |name: &str| of.iter().any(|it| it.name.eq_ignore_ascii_case(name));
    let mut sentence = String::from("The application names in Vary only the fields that change the page");
    if of.is_empty() || has("User-Agent") {
        sentence.push_str("; User-Agent seldom does");
    }
    sentence.push_str(". ");
    if !of.is_empty() && of.iter().all(|it| it.name == "Cookie") {
        sentence.push_str(
            "`cache.ignored_cookies` names the cookies that do not change it, such as those of analytics.",
        );
    } else if has("Accept-Language") {
        sentence.push_str("`cache.key.accept_language` with the languages of the application, such as `[\"en\", \"de\"]`, leaves one variant for each language. `cache.key.strict` is no remedy where the page has several languages: it keeps Accept-Language from the application, so that all clients get one language.");
    } else {
        let language =
            if of.is_empty() { ", with Accept-Language also one language for all clients" } else { "" };
        sentence.push_str("Until then `cache.key.strict` keeps such fields from the application, so that one variant remains");
        sentence.push_str(language);
        sentence.push_str(COOKIES);
    }
    SafeChange::Application { sentence: sentence.into() }
}

/// A list with further names, each once.
fn with_more<'a>(before: &[String], more: impl Iterator<Item = &'a String>) -> Vec<String> {
    let mut names = before.to_vec();
    for it in more {
        if !names.contains(it) {
            names.push(it.clone());
        }
    }
    names
}

/// Compression of what is stored, with `ram` as the size of the RAM tier where the codecs have no room in the present one. A response for one client stays as it is: the length of a compressed page with a secret can tell
/// the secret (BREACH).
pub(super) fn compressed(ram: Option<u64>) -> SafeChange {
    let mut settings = vec![SafeSetting::Compress, SafeSetting::CompressStoredOnly];
    settings.extend(ram.map(SafeSetting::RamSize));
    SafeChange::Configuration {
        sentence: Cow::Borrowed(match ram {
            None => {
                "Stored responses are compressed once, in the background, and each client gets the coding that it prefers."
            }
            Some(_) => {
                "Stored responses are compressed once, in the background, and each client gets the coding that it prefers. The codecs need more RAM."
            }
        }),
        settings,
    }
}

/// `cache.ignored_cookies` with the names of analytics.
fn ignored(facts: &ChangeFacts<'_>) -> Vec<String> {
    let mut names = facts.policy.ignored_cookies.clone();
    let more =
        analytics::COOKIES.iter().filter(|it| !facts.policy.ignored_cookies.iter().any(|name| name == *it));
    names.extend(more.map(|it| (*it).to_owned()));
    names
}

fn served_stale(facts: &ChangeFacts<'_>) -> Vec<SafeChange> {
    if facts.policy.stale_while_revalidate > 0 || !facts.is_public {
        return Vec::new();
    }
    vec![SafeChange::Configuration {
        sentence:
            "An expired page is served at once while it is renewed in the background, for up to a minute."
                .into(),
        settings: vec![SafeSetting::StaleWhileRevalidate(SHORT)],
    }]
}

fn more_ram(facts: &ChangeFacts<'_>) -> Vec<SafeChange> {
    let twice = facts.ram_size.saturating_mul(2);
    if facts.ram_size == 0 || twice > facts.ram_limit {
        return Vec::new();
    }
    let NeededPages { evicted, evicted_bytes, stored } = facts.needed;
    // An eighth for growth. A tail of pages that are requested once is no reason for more than four times the size.
    let bytes = stored.saturating_add(evicted_bytes);
    let all = bytes.saturating_add(bytes / 8).next_multiple_of(1 << 20);
    let most = facts.ram_limit.min(facts.ram_size.saturating_mul(4));
    let sentence = match all {
        _ if all <= twice => Cow::Borrowed("RAM keeps twice as many pages."),
        all => {
            let part = if all <= most { "all" } else { "a part" };
            let [stored, evicted_size] = [stored, evicted_bytes].map(|it| it.div_ceil(1 << 20));
            Cow::Owned(format!(
                "RAM holds {stored} MiB of pages, and {evicted} different pages of about {evicted_size} MiB were evicted while they were fresh: RAM has room for {part} of them."
            ))
        }
    };
    vec![SafeChange::Configuration {
        sentence,
        settings: vec![SafeSetting::RamSize(all.clamp(twice, most.max(twice)))],
    }]
}

fn disk(facts: &ChangeFacts<'_>) -> Vec<SafeChange> {
    if facts.has_disk {
        return Vec::new();
    }
    vec![SafeChange::Configuration {
        sentence: "Pages that leave RAM stay on disk: name a directory on a local SSD.".into(),
        settings: vec![SafeSetting::DiskPath],
    }]
}

fn more_room(facts: &ChangeFacts<'_>) -> Vec<SafeChange> {
    let larger_disk = |size: u64| SafeChange::Configuration {
        sentence: "The disk tier keeps twice as many pages, if the device has the space.".into(),
        settings: vec![SafeSetting::DiskSize(size.saturating_mul(2))],
    };
    let mut all: Vec<SafeChange> = facts.full_disk.map(larger_disk).into_iter().collect();
    all.extend(more_ram(facts));
    all.extend(disk(facts));
    all
}

/// A short lifetime. A route that does not name its private cookies gets a bypass for all of them: otherwise the pages of visitors
/// with a session would be shared as well.
fn lifetime(facts: &ChangeFacts<'_>) -> Vec<SafeChange> {
    if !facts.is_public || facts.policy.default_ttl.is_some() {
        return Vec::new();
    }
    let names_none = facts.policy.private_cookies.is_empty();
    let settings = with_private_cookies(facts, SafeSetting::DefaultTtl(SHORT));
    let sentence = match names_none {
        true => {
            "If they are the same for all clients without a cookie: pages without a declared lifetime are kept for a minute. Every request with a cookie other than those of analytics bypasses the cache."
        }
        false => {
            "If they are the same for all clients without a private cookie: pages without a declared lifetime are kept for a minute."
        }
    };
    vec![SafeChange::Configuration { sentence: sentence.into(), settings }]
}

fn larger(facts: &ChangeFacts<'_>) -> Vec<SafeChange> {
    let Some(length) = facts.length.filter(|it| *it > facts.policy.max_object && *it <= facts.most_stored)
    else {
        return Vec::new();
    };
    vec![SafeChange::Configuration {
        sentence: "Bodies of this size are stored.".into(),
        settings: vec![SafeSetting::MaxObject(length.next_multiple_of(1 << 20))],
    }]
}

/// A lifetime, and a bypass for all cookies where the route names no private ones.
fn with_private_cookies(facts: &ChangeFacts<'_>, lifetime: SafeSetting) -> Vec<SafeSetting> {
    let mut settings = vec![lifetime];
    if facts.policy.private_cookies.is_empty() {
        settings.push(SafeSetting::EveryCookiePrivate);
        settings.push(SafeSetting::IgnoredCookies(ignored(facts)));
    }
    settings
}

/// A short lifetime of these statuses, and not of the other responses of the route.
pub(super) fn lifetime_of_errors(facts: &ChangeFacts<'_>, statuses: &[u16]) -> Vec<SafeChange> {
    let mut all = facts.policy.status_ttl.clone();
    all.extend(
        statuses
            .iter()
            .filter(|it| !facts.policy.status_ttl.iter().any(|known| known.0 == **it))
            .map(|it| (*it, SHORT)),
    );
    if !facts.is_public || all.len() == facts.policy.status_ttl.len() {
        return Vec::new();
    }
    let names: Vec<String> = statuses.iter().map(u16::to_string).collect();
    let bypass = match facts.policy.private_cookies.is_empty() {
        true => "every request with a cookie other than those of analytics bypasses the cache",
        false => "requests with a private cookie bypass the cache",
    };
    let sentence = format!(
        "Responses with status {} that declare no lifetime are kept for a minute; a page that appears under such a URL is served after that time. Other responses get no lifetime by it, and {bypass}.",
        names.join(" and ")
    );
    vec![SafeChange::Configuration {
        sentence: sentence.into(),
        settings: with_private_cookies(facts, SafeSetting::StatusTtl(all)),
    }]
}

/// The cookies that a page sets, if none is by its name one of a session or of `cache.private_cookies`.
fn harmless_cookies<'a>(policy: &Policy, names: &'a [String]) -> Option<&'a [String]> {
    let is_private = |name: &String| has_cookie(&policy.private_cookies, name);
    let is_harmless = |name: &String| !is_like_session(name) && !is_private(name);
    (!names.is_empty() && !policy.store_set_cookie && names.iter().all(is_harmless)).then_some(names)
}

/// Whether a list names a cookie, other than by `*` alone.
fn has_cookie(list: &[String], name: &str) -> bool {
    list.iter().any(|it| it != "*" && cookies::matches(it, name.as_bytes()))
}

/// Storing pages without the cookies that they set, where the operator has named these as cookies that identify no visitor: the value of a
/// cookie is not known, and a session may have any name.
fn stored_without_cookies(facts: &ChangeFacts<'_>) -> Vec<SafeChange> {
    let names = harmless_cookies(facts.policy, facts.set_cookies);
    let Some(names) = names.filter(|all| all.iter().all(|it| has_cookie(&facts.policy.ignored_cookies, it)))
    else {
        return Vec::new();
    };
    vec![SafeChange::Configuration {
        sentence: format!(
            "By `cache.ignored_cookies`, {} identifies no visitor: these pages are stored without `Set-Cookie`, and clients that get a stored page do not get the cookie. So are all other pages of the route that set a cookie.",
            names.join(", ")
        )
        .into(),
        settings: vec![SafeSetting::StoreSetCookie],
    }]
}

/// The decision that only the operator can take about a page that sets these cookies, as a sentence.
#[must_use]
pub fn set_cookie_hint(policy: &Policy, names: &[String]) -> Option<String> {
    let names = harmless_cookies(policy, names)?;
    let list = names.join(", ");
    (!names.iter().all(|it| has_cookie(&policy.ignored_cookies, it))).then(|| {
        format!(
            "If {list} identifies no visitor, name it in `cache.ignored_cookies`: then `cache.store_set_cookie` is proposed, which stores the page without the cookie."
        )
    })
}

/// Requests that demand a new response get the stored page.
#[must_use]
pub fn with_harmless_directives() -> SafeChange {
    SafeChange::Configuration {
        sentence: "Requests with `no-cache` or `max-age` get the stored page as long as it is fresh: a reload of a browser, too, shows it until it expires or is purged. `no-store` of a request is ignored as well; no recent request of the route had it.".into(),
        settings: vec![SafeSetting::HarmlessDirectives],
    }
}
