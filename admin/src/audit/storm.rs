//! The choice of rejections to log in full or only to count: per client, so that one client's rejections cannot hide
//! another one's. The log lines are in `audit`. Everything is bounded: a second has at most [`KINDS`] + [`MORE`] full
//! lines, and at most one count per kind, plus one.

use std::net::IpAddr;

/// Kinds that are distinguished in a second; the first rejection of each is logged in full.
const KINDS: usize = 32;
/// Rejections logged in full in a second beyond the first of their kinds.
const MORE: u64 = 20;
/// Rejections of one kind logged in full in a second.
const OF_KIND: u64 = 5;

/// Equal rejections: of one client with one status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RefusalKind {
    /// The network of the client; `None` for the Unix socket.
    pub from: Option<IpAddr>,
    /// The status.
    pub status: u16,
}

impl RefusalKind {
    /// For a client's address. A client with IPv6 has all addresses with the same first 64 bits.
    pub fn of(peer: Option<IpAddr>, status: u16) -> Self {
        let from = peer.map(|it| match it.to_canonical() {
            IpAddr::V6(it) => IpAddr::V6((u128::from(it) >> 64 << 64).into()),
            it => it,
        });
        Self { from, status }
    }
}

/// Omitted rejections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OmittedRefusals {
    /// The kind; `None` for all beyond [`KINDS`].
    pub kind: Option<RefusalKind>,
    /// Their number.
    pub count: u64,
}

/// The rejections of one second.
#[derive(Debug, Default)]
pub struct Storm {
    second: u64,
    kinds: Vec<RefusalCount>,
    /// Logged in full beyond the first of their kinds.
    more: u64,
    /// Omitted ones of kinds beyond the limit.
    beyond: u64,
}

#[derive(Debug)]
struct RefusalCount {
    kind: RefusalKind,
    logged: u64,
    omitted: u64,
}

impl Storm {
    /// Whether a rejection is to be logged in full; otherwise it is counted. To be called after [`Storm::end_second`].
    pub fn admits(&mut self, kind: RefusalKind) -> bool {
        let Some(seen) = self.kinds.iter_mut().find(|it| it.kind == kind) else {
            let has_room = self.kinds.len() < KINDS;
            match has_room {
                true => self.kinds.push(RefusalCount { kind, logged: 1, omitted: 0 }),
                false => self.beyond += 1,
            }
            return has_room;
        };
        let admits = seen.logged < OF_KIND && self.more < MORE;
        if admits {
            (seen.logged, self.more) = (seen.logged + 1, self.more + 1);
        } else {
            seen.omitted += 1;
        }
        admits
    }

    /// The omitted rejections of a second that has ended at `now`; a new one begins then.
    pub fn end_second(&mut self, now: u64) -> Vec<OmittedRefusals> {
        if self.second == now {
            return Vec::new();
        }
        let last = std::mem::replace(self, Storm { second: now, ..Storm::default() });
        let of_kind = |it: &RefusalCount| OmittedRefusals { kind: Some(it.kind), count: it.omitted };
        let beyond = OmittedRefusals { kind: None, count: last.beyond };
        let all = last.kinds.iter().map(of_kind).chain([beyond]);
        all.filter(|it| it.count > 0).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(number: usize, status: u16) -> RefusalKind {
        RefusalKind::of(
            Some([10, 0, u8::try_from(number / 256).unwrap(), (number % 256) as u8].into()),
            status,
        )
    }

    /// The number of `count` refusals of a kind that have entries of their own.
    fn logged_in_full(storm: &mut Storm, kind: RefusalKind, count: usize) -> usize {
        (0..count).filter(|_| storm.admits(kind)).count()
    }

    #[test]
    fn a_storm_of_one_hides_nothing_of_another() {
        let mut storm = Storm::default();
        let (loud, quiet) = (kind(1, 401), kind(2, 401));
        assert!(storm.end_second(7).is_empty());
        assert_eq!(5, logged_in_full(&mut storm, loud, 1000));
        assert_eq!(1, logged_in_full(&mut storm, quiet, 1));
        assert_eq!(1, logged_in_full(&mut storm, kind(1, 413), 1), "of another status");
        assert!(storm.end_second(7).is_empty(), "the second is not over");
        assert_eq!(vec![OmittedRefusals { kind: Some(loud), count: 995 }], storm.end_second(8));
        assert!(storm.end_second(9).is_empty());
        assert_eq!(5, logged_in_full(&mut storm, loud, 6), "another second");
    }

    #[test]
    fn the_audit_entries_of_a_second_are_bounded() {
        let mut storm = Storm::default();
        storm.end_second(7);
        let whole: usize = (0..1000).map(|it| logged_in_full(&mut storm, kind(it, 401), 10)).sum();
        assert_eq!(KINDS + MORE as usize, whole);
        let left_out = storm.end_second(8);
        assert_eq!(KINDS + 1, left_out.len());
        assert_eq!(10_000 - whole as u64, left_out.iter().map(|it| it.count).sum::<u64>());
        assert_eq!(Some(&OmittedRefusals { kind: None, count: 10 * (1000 - KINDS as u64) }), left_out.last());
    }

    #[test]
    fn addresses_of_one_ipv6_network_are_one_client() {
        let of = |text: &str| RefusalKind::of(Some(text.parse().unwrap()), 401);
        assert_eq!(of("2001:db8:1:2::1"), of("2001:db8:1:2:ffff::9"));
        assert_ne!(of("2001:db8:1:2::1"), of("2001:db8:1:3::1"));
        assert_eq!(of("127.0.0.1"), of("::ffff:127.0.0.1"));
        assert_ne!(of("127.0.0.1"), of("127.0.0.2"));
    }
}
