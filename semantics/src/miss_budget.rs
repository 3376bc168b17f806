//! The budget of a route (`access.budget`): the classes of clients that share one, its settings, and the arithmetic of the origin's
//! time. Misses are charged where a request is sent to the origin (`rate`), and its time when the response has ended.

use crate::cookie_pairs;
use crate::field;
use crate::network::{client_network, wider_network};
use crate::rate::{Gcra, RefusedFor, TICKS};
use crate::request_view::RequestView;
use larder_stdx::duration;
use std::net::IpAddr;
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// The requests that share a budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BudgetClass {
    /// Those of an address; of IPv6 a /64.
    Client,
    /// Those of a /24 or /48.
    Network,
    /// Those of a country.
    Country,
    /// Those of an autonomous system.
    Asn,
    /// Those of a crawler that names itself in `User-Agent`; the rest by network.
    Agent,
    /// Those without a cookie by network, those with a cookie by address.
    Anonymous,
}

impl BudgetClass {
    /// All, with their names in the configuration.
    pub const NAMES: [&str; 6] = ["client", "network", "country", "asn", "agent", "anonymous"];

    /// The class of a name.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        use BudgetClass::{Agent, Anonymous, Asn, Client, Country, Network};
        let all = [Client, Network, Country, Asn, Agent, Anonymous];
        Self::NAMES.iter().position(|it| *it == name).map(|at| all[at])
    }

    /// Its name in the configuration.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            BudgetClass::Client => "client",
            BudgetClass::Network => "network",
            BudgetClass::Country => "country",
            BudgetClass::Asn => "asn",
            BudgetClass::Agent => "agent",
            BudgetClass::Anonymous => "anonymous",
        }
    }

    /// The key of a request's budget. A client whose country, number or name is unknown is counted by its network.
    #[must_use]
    pub fn key(self, view: &RequestView<'_>, seed: u64) -> u64 {
        let network = || by_address(view.client.map(wider_network), seed ^ 16);
        match self {
            BudgetClass::Client => by_address(view.client, seed),
            BudgetClass::Network => network(),
            BudgetClass::Country => match view.country() {
                Some(it) => xxh3_64_with_seed(it.bytes(), seed ^ 4),
                None => network(),
            },
            BudgetClass::Asn => match view.asn() {
                Some(it) => xxh3_64_with_seed(&it.to_ne_bytes(), seed ^ 5),
                None => network(),
            },
            BudgetClass::Agent => match field::first(view.fields, "user-agent").and_then(crawler) {
                Some(name) => xxh3_64_with_seed(&name.to_ascii_lowercase(), seed ^ 6),
                None => network(),
            },
            BudgetClass::Anonymous if cookie_pairs::pairs(view.fields).next().is_some() => {
                by_address(view.client, seed)
            }
            BudgetClass::Anonymous => network(),
        }
    }
}

fn by_address(address: Option<IpAddr>, seed: u64) -> u64 {
    let kind = address.map_or(2, |it| u64::from(it.to_canonical().is_ipv6()));
    xxh3_64_with_seed(&address.map_or(0, client_network).to_ne_bytes(), seed ^ kind)
}

/// The name of a program that does not claim to be a browser: its first product (RFC 9110 §10.1.5), or the one that browsers'
/// imitators write behind `compatible;`.
#[must_use]
pub fn crawler(agent: &[u8]) -> Option<&[u8]> {
    let is_end = |it: &u8| matches!(it, b'/' | b';' | b')' | b' ' | b',' | b'(');
    let until = |text: &[u8]| text.iter().position(is_end).unwrap_or(text.len());
    let agent = agent.trim_ascii();
    let first = &agent[..until(agent)];
    if !first.is_empty() && !first.eq_ignore_ascii_case(b"mozilla") {
        return Some(first);
    }
    const MARK: &[u8] = b"compatible;";
    let at = agent.windows(MARK.len()).position(|it| it.eq_ignore_ascii_case(MARK))?;
    let rest = agent[at + MARK.len()..].trim_ascii_start();
    let name = &rest[..until(rest)];
    (!name.is_empty() && !name.eq_ignore_ascii_case(b"msie")).then_some(name)
}

/// The longest refusal because of one long response, periods.
const DEBT: u64 = 10;

/// A part of the origin's time: an account that fills evenly, from which each response takes its time. An overdrawn account admits no
/// request. The stored number is the time at which the account is full again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimeShare {
    /// Milliseconds of the origin, 1 at least.
    pub millis: u64,
    /// Milliseconds in which they come back, from a second to a day.
    pub period: u64,
}

impl TimeShare {
    /// The allowed form, as the end of a sentence.
    pub const ALLOWED: &str =
        "a time of the origin and the time in which it may be used, from 1s to 1d, such as \"30s/1m\"";

    /// Parses `30s/1m` or `30s/m`.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (time, period) = text.split_once('/')?;
        let is_unit = period.bytes().all(|it| it.is_ascii_lowercase());
        let period = if is_unit { format!("1{period}") } else { period.to_owned() };
        let millis = |it: &str| u64::try_from(duration::parse(it).ok()?.as_millis()).ok();
        let (millis, period) = (millis(time)?, millis(&period)?);
        let fits = (1..=100 * period).contains(&millis) && (1000..=86_400_000).contains(&period);
        fits.then_some(Self { millis, period })
    }

    /// Judges a request at `now`, in ticks, where `full` is the stored number.
    ///
    /// # Errors
    /// The account is overdrawn.
    pub fn judge(self, full: u64, now: u64) -> Result<(), RefusedFor> {
        match full.saturating_sub(now).checked_sub(self.period * TICKS).filter(|it| *it > 0) {
            None => Ok(()),
            Some(ticks) => Err(RefusedFor { ticks }),
        }
    }

    /// The number after a response that took `millis`. The debt is bounded, however long the response took.
    #[must_use]
    pub fn charge(self, full: u64, now: u64, millis: u64) -> u64 {
        let period = self.period * TICKS;
        let cost = u128::from(millis) * u128::from(period) / u128::from(self.millis);
        let cost = u64::try_from(cost).unwrap_or(u64::MAX);
        full.max(now).saturating_add(cost).min(now + (1 + DEBT) * period)
    }

    /// In the notation of the configuration.
    #[must_use]
    pub fn describe(self) -> String {
        let spell = |millis| duration::spell(std::time::Duration::from_millis(millis));
        format!("{}/{}", spell(self.millis), spell(self.period))
    }
}

/// A bound of a budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BudgetBound {
    /// That of requests.
    Misses,
    /// That of the origin's time.
    Seconds,
}

/// The settings of a budget; it has one bound at least.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BudgetSettings {
    /// The site or route that declares it: all routes that inherit it share it.
    pub scope: String,
    /// The rate of requests to the origin.
    pub misses: Option<Gcra>,
    /// The time of the origin.
    pub seconds: Option<TimeShare>,
    /// Requests that may exceed the rate at once.
    pub burst: u32,
    /// The requests that share it.
    pub by: BudgetClass,
}

impl BudgetSettings {
    /// The fields of a response to a request beyond the budget (RFC 6585 §4, draft-ietf-httpapi-ratelimit-headers-10).
    #[must_use]
    pub fn refusal(&self, bound: BudgetBound, wait: RefusedFor) -> [(&'static str, String); 3] {
        let seconds = wait.seconds();
        let (name, quota, window) = match bound {
            BudgetBound::Misses => {
                let rate = self.misses.map(|it| it.rate);
                let (count, window) = rate.map_or((0, 0), |it| (it.count, u64::from(it.seconds)));
                ("misses", u64::from(count) + u64::from(self.burst), window)
            }
            BudgetBound::Seconds => {
                let (millis, period) = self.seconds.map_or((0, 0), |it| (it.millis, it.period));
                ("seconds", millis.div_ceil(1000), period.div_ceil(1000))
            }
        };
        [
            ("Retry-After", seconds.to_string()),
            ("RateLimit", format!("\"{name}\";r=0;t={seconds}")),
            ("RateLimit-Policy", format!("\"{name}\";q={quota};w={window}")),
        ]
    }

    /// The budget in words.
    #[must_use]
    pub fn describe(&self) -> String {
        let misses = self.misses.map(|it| {
            let unit = match it.rate.seconds {
                1 => "s",
                60 => "m",
                3600 => "h",
                _ => "d",
            };
            format!("{}/{unit} misses, burst {}, ", it.rate.count, self.burst)
        });
        let seconds = self.seconds.map(|it| format!("{} of the origin, ", it.describe()));
        format!("{}{}by {}", misses.unwrap_or_default(), seconds.unwrap_or_default(), self.by.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::field::Field;

    #[test]
    fn shares_of_time() {
        for (text, expect) in [
            ("30s/1m", Some((30_000, 60_000))),
            ("30s/m", Some((30_000, 60_000))),
            ("500ms/10s", Some((500, 10_000))),
            ("2m/1m", Some((120_000, 60_000))),
            ("1h/d", Some((3_600_000, 86_400_000))),
            ("0s/1m", None),
            ("30s", None),
            ("30s/", None),
            ("30/1m", None),
            ("30s/500ms", None),
            ("30s/2d", None),
            ("2h/1m", None),
        ] {
            assert_eq!(expect, TimeShare::parse(text).map(|it| (it.millis, it.period)), "{text}");
        }
    }

    #[test]
    fn an_overdrawn_account_admits_nothing_until_it_has_filled() {
        let share = TimeShare::parse("2s/10s").unwrap();
        let at = |seconds: u64| seconds * 1000 * TICKS;
        let waits = |full: u64, now: u64| share.judge(full, now).err().map(RefusedFor::seconds);
        let mut full = 0;
        assert_eq!(None, waits(full, at(100)));
        full = share.charge(full, at(100), 1000);
        full = share.charge(full, at(100), 1000);
        assert_eq!(None, waits(full, at(100)), "used up, and not overdrawn");
        full = share.charge(full, at(100), 500);
        assert_eq!(Some(3), waits(full, at(100)), "2.5 seconds of the time that fills in 12.5");
        assert_eq!(None, waits(full, at(103)));
        full = share.charge(full, at(103), 3_600_000);
        assert_eq!(Some(100), waits(full, at(103)), "ten periods at most");
        assert_eq!(None, waits(full, at(203)));
    }

    proptest::proptest! {
        /// Over a long time the admitted responses take no more than the share and what one may exceed it by.
        #[test]
        fn the_share_is_kept(length in 1_u64..3000, millis in 1000_u64..20_000) {
            let share = TimeShare { millis, period: 10_000 };
            let (mut full, mut used) = (0, 0);
            let mut now = 1000;
            while now < 201_000 {
                if share.judge(full, now * TICKS).is_ok() {
                    now += length;
                    used += length;
                    full = share.charge(full, now * TICKS, length);
                } else {
                    now += 100;
                }
            }
            proptest::prop_assert!(used <= millis * 21 + length + 1, "{} of {}", used, millis * 20);
        }
    }

    #[test]
    fn names_of_crawlers() {
        for (agent, expect) in [
            ("GPTBot/1.2", Some("GPTBot")),
            ("curl/8.5.0", Some("curl")),
            ("python-requests/2.31", Some("python-requests")),
            ("facebookexternalhit", Some("facebookexternalhit")),
            ("Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)", Some("Googlebot")),
            (
                "Mozilla/5.0 AppleWebKit/537.36 (KHTML, like Gecko; compatible; GPTBot/1.2; +x)",
                Some("GPTBot"),
            ),
            ("Mozilla/4.0 (compatible; MSIE 6.0; Windows NT 5.1)", None),
            ("Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 Chrome/120.0 Safari/537.36", None),
            ("Mozilla/5.0 (compatible;", None),
            ("Mozilla", None),
            ("/", None),
            ("", None),
        ] {
            assert_eq!(expect.map(str::as_bytes), crawler(agent.as_bytes()), "{agent}");
        }
    }

    /// Whether two requests, each `ADDRESS NAME: VALUE`, share a budget.
    #[track_caller]
    fn check(by: BudgetClass, one: &str, other: &str, expect: bool) {
        let key = |text: &str| {
            let (address, rest) = text.split_once(' ').unwrap_or((text, ""));
            let field = rest.split_once(": ").map(|it| Field { name: it.0, value: it.1.as_bytes() });
            let fields: Vec<_> = field.into_iter().collect();
            let view =
                RequestView { client: address.parse().ok(), fields: &fields, ..RequestView::default() };
            by.key(&view, 7)
        };
        assert_eq!(expect, key(one) == key(other), "{by:?}: {one} and {other}");
    }

    #[test]
    fn classes_of_clients() {
        use BudgetClass::{Agent, Anonymous, Asn, Client, Country, Network};
        check(Client, "192.0.2.1", "::ffff:192.0.2.1", true);
        check(Client, "192.0.2.1", "192.0.2.2", false);
        check(Client, "2001:db8::1", "2001:db8::2", true);
        check(Network, "192.0.2.1", "192.0.2.2", true);
        check(Network, "192.0.2.1", "192.0.3.1", false);
        check(Network, "2001:db8:1:2::1", "2001:db8:1:3::1", true);
        check(Network, "2001:db8:1::1", "2001:db8:2::1", false);
        check(Network, "unix", "0.0.0.0", false);
        check(Agent, "192.0.2.1 User-Agent: Bot/1", "198.51.100.1 User-Agent: bot/2 (x)", true);
        check(Agent, "192.0.2.1 User-Agent: Bot/1", "192.0.2.1 User-Agent: Other/1", false);
        check(Agent, "192.0.2.1 User-Agent: Mozilla/5.0", "192.0.2.9", true);
        check(Anonymous, "192.0.2.1", "192.0.2.9", true);
        check(Anonymous, "192.0.2.1 Cookie: a=b", "192.0.2.9 Cookie: a=b", false);
        check(Anonymous, "192.0.2.1 Cookie: a=b", "192.0.2.1 Cookie: c=d", true);
        check(Anonymous, "192.0.2.0 Cookie: a=b", "192.0.2.0", false);
        // Clients in no country have no budget in common.
        check(Country, "192.0.2.1", "192.0.2.9", true);
        check(Country, "192.0.2.1", "198.51.100.1", false);
        check(Country, "10.0.0.1", "2001:db8::1", false);
        check(Asn, "192.0.2.1", "192.0.3.9", false);
        for name in BudgetClass::NAMES {
            assert_eq!(name, BudgetClass::parse(name).unwrap().name());
        }
    }
}
