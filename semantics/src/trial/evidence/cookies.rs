//! Whether the pages of a route are the same for all clients, whatever their cookies. The proposal that follows removes these cookies
//! from requests to the origin, so that no response can depend on them.

use super::{PageAnswer, PageComparison, REQUESTS, compare, frequent, proven};
use crate::analytics;
use crate::cookies;
use crate::field::{Field, all, members};
use crate::policy::Policy;
use crate::storable::{NotStorable, Storable};
use crate::trial::audience::url_of;
use crate::trial::{RecordedRequest, ServedBy, judge};
use std::collections::{BTreeMap, BTreeSet};

/// The lifetime that is tried for pages without one, seconds.
const LIFETIME: u32 = 60;

/// Why the pages of a route are not shared by those that have cookies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SharingRefusal {
    /// A response is marked as private.
    Private,
    /// A response sets a cookie.
    SetsCookie,
    /// Responses to one URL differed, and not only with the time.
    Differs,
}

/// The evidence that is missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MissingEvidence {
    /// Fewer than ten recorded requests can be compared.
    Requests,
    /// Most requests were for pages that one client alone requested.
    Clients,
    /// No cookie had eight values for which a page had equal responses.
    Values,
}

/// Pages that are the same for all clients.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EqualForAll {
    /// The names of the cookies that do not change the pages: of each, pages had equal responses for several values.
    pub cookies: Vec<String>,
    /// Patterns of analytics that match further cookies of the requests.
    pub analytics: Vec<String>,
    /// Whether most of these pages declare no lifetime.
    pub needs_lifetime: bool,
    /// The recorded requests that have no other cookie, and could have been hits.
    pub could: u64,
    /// Their pages, each of which has to be fetched once.
    pub pages: u64,
    /// All recorded requests that were no hits because of their credentials.
    pub all: u64,
}

/// The judgement about the pages of a route for requests with cookies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CookieSharing {
    /// No request was withheld from the cache because of its cookies.
    Unneeded,
    /// The pages are the same for all clients.
    Equal(EqualForAll),
    /// They are not to be shared; an example is the request of this number.
    Refused(SharingRefusal, usize),
    /// The recorded requests do not show it.
    Missing(MissingEvidence),
}

/// The recorded requests of one route.
pub struct CookieEvidence<'p, 'r> {
    policy: &'p Policy,
    /// The policy for requests without their cookies, and the same with a lifetime.
    without: Policy,
    with_lifetime: Policy,
    pages: BTreeMap<u64, Vec<JudgedAnswer<'r>>>,
    refused: Option<(SharingRefusal, usize)>,
    all: u64,
    /// The cookies of hits, which may bypass the cache once the route names its private cookies.
    hits: Vec<(u32, Vec<&'r [u8]>)>,
}

/// A response to a request that may have cookies.
struct JudgedAnswer<'r> {
    answer: PageAnswer<'r>,
    /// It was withheld from the cache because of cookies.
    is_withheld: bool,
    needs_lifetime: bool,
}

impl<'p, 'r> CookieEvidence<'p, 'r> {
    /// For a route with this policy.
    #[must_use]
    pub fn new(policy: &'p Policy) -> Self {
        let without = policy.clone();
        let with_lifetime = Policy { default_ttl: without.default_ttl.or(Some(LIFETIME)), ..without.clone() };
        Self {
            policy,
            without,
            with_lifetime,
            pages: BTreeMap::new(),
            refused: None,
            all: 0,
            hits: Vec::new(),
        }
    }

    /// Notes the request `number`.
    pub fn note(&mut self, number: usize, request: &RecordedRequest<'r>) {
        if let ServedBy::Cache(_) = request.served {
            let names = cookies::of_visitor(request.fields, self.policy).map(|it| it.0).collect();
            self.hits.push((request.weight, names));
        }
        let Some(response) = request.response.filter(|_| request.served == ServedBy::Origin) else { return };
        if request.method != "GET" || cookies::is_public_file(self.policy, request.method, request.target) {
            return;
        }
        let facts = request.facts();
        let pairs: Vec<_> = cookies::of_visitor(request.fields, self.policy).collect();
        let is_bypass = cookies::are_private(facts.cookies, request.method, self.policy)
            && (self.policy.key.strict || !cookies::is_file(request.target));
        let stays = judge(request, &facts, self.policy, &response);
        let is_identified = facts.authorization || facts.has_identity_field(self.policy);
        let is_apart = stays != Storable::Store || varies_by_cookie(response.fields);
        let is_withheld = is_bypass || !pairs.is_empty() && is_apart || refuses_credentials(stays);
        if is_withheld {
            self.all += u64::from(request.weight);
        }
        if is_identified || response.status >= 500 || !response.is_whole() {
            return;
        }
        let plain: Vec<Field<'_>> = request.fields.iter().filter(|it| !it.is("cookie")).copied().collect();
        let plain = RecordedRequest { fields: &plain, ..*request };
        let facts = plain.facts();
        let needs_lifetime = match judge(&plain, &facts, &self.without, &response) {
            Storable::Store => false,
            Storable::Refuse(NotStorable::SetCookie) => {
                return self.refuse(SharingRefusal::SetsCookie, number);
            }
            Storable::Refuse(NotStorable::Private | NotStorable::NoStore | NotStorable::VaryStar) => {
                return self.refuse(SharingRefusal::Private, number);
            }
            Storable::Refuse(_) => {
                if judge(&plain, &facts, &self.with_lifetime, &response) != Storable::Store {
                    return;
                }
                true
            }
        };
        if let Some(mut answer) = PageAnswer::of(number, request, request.client) {
            answer.pairs = pairs;
            let judged = JudgedAnswer { answer, is_withheld, needs_lifetime };
            self.pages.entry(url_of(request)).or_default().push(judged);
        }
    }

    fn refuse(&mut self, why: SharingRefusal, number: usize) {
        self.refused.get_or_insert((why, number));
    }

    /// The judgement.
    #[must_use]
    pub fn verdict(&self) -> CookieSharing {
        if self.all == 0 {
            return CookieSharing::Unneeded;
        }
        if let Some((why, number)) = self.refused {
            return CookieSharing::Refused(why, number);
        }
        let names = frequent(self.pages.values().flatten().map(|it| &it.answer));
        let (mut compared, mut in_equal, mut withheld) = (BTreeMap::new(), 0, 0);
        for page in self.pages.values() {
            let all: Vec<&PageAnswer<'r>> = page.iter().map(|it| &it.answer).collect();
            let these =
                page.iter().filter(|it| it.is_withheld).map(|it| u64::from(it.answer.weight)).sum::<u64>();
            withheld += these;
            match compare(&all, &names, &mut compared) {
                PageComparison::Differs(number) => {
                    return CookieSharing::Refused(SharingRefusal::Differs, number);
                }
                PageComparison::Equal => in_equal += these,
                PageComparison::Single => {}
            }
        }
        if withheld < REQUESTS {
            return CookieSharing::Missing(MissingEvidence::Requests);
        }
        if in_equal.saturating_mul(2) < withheld {
            return CookieSharing::Missing(MissingEvidence::Clients);
        }
        self.equal(&names, &proven(&compared))
    }

    /// The pages are equal: the cookies that are proven, and the requests that have no other one.
    fn equal(&self, names: &BTreeSet<&'r [u8]>, proven: &BTreeSet<&'r [u8]>) -> CookieSharing {
        let pattern = |name: &[u8]| analytics::COOKIES.iter().find(|it| cookies::matches(it, name));
        let is_free = |it: &&JudgedAnswer<'r>| {
            it.is_withheld
                && it.answer.pairs.iter().all(|(name, _)| proven.contains(name) || pattern(name).is_some())
        };
        let free: Vec<Vec<&JudgedAnswer<'r>>> =
            self.pages.values().map(|page| page.iter().filter(is_free).collect()).collect();
        let sum = |needs: bool| -> u64 {
            let these = free.iter().flatten().filter(|it| it.needs_lifetime == needs);
            these.map(|it| u64::from(it.answer.weight)).sum()
        };
        let (declared, silent) = (sum(false), sum(true));
        let needs_lifetime = silent > declared;
        let could = if needs_lifetime { declared + silent } else { declared };
        let is_used =
            |page: &&Vec<&JudgedAnswer<'r>>| page.iter().any(|it| needs_lifetime || !it.needs_lifetime);
        let pages = free.iter().filter(is_used).count() as u64;
        let bypasses = |names: &[&[u8]]| names.iter().any(|it| !proven.contains(it) && pattern(it).is_none());
        let lost: u64 = match self.policy.private_cookies.is_empty() {
            true => self.hits.iter().filter(|it| bypasses(&it.1)).map(|it| u64::from(it.0)).sum(),
            false => 0,
        };
        if could < REQUESTS || could <= pages.saturating_add(lost) {
            return CookieSharing::Missing(MissingEvidence::Values);
        }
        let text = |it: &&[u8]| String::from_utf8(it.to_vec()).ok();
        let cookies = proven.iter().filter(|it| pattern(it).is_none()).filter_map(text).collect();
        let analytics: BTreeSet<&str> = names.iter().filter_map(|it| pattern(it)).copied().collect();
        CookieSharing::Equal(EqualForAll {
            cookies,
            analytics: analytics.into_iter().map(str::to_owned).collect(),
            needs_lifetime,
            could,
            pages,
            all: self.all,
        })
    }
}

fn refuses_credentials(it: Storable) -> bool {
    it == Storable::Refuse(NotStorable::Credentials)
}

fn varies_by_cookie(response: &[Field<'_>]) -> bool {
    all(response, "vary").flat_map(members).any(|it| it.eq_ignore_ascii_case(b"cookie"))
}
