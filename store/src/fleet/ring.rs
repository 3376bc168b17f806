//! The mapping of keys to servers: the same as libmemcached's, so that applications that use it find larder's records,
//! and larder theirs. `keys` defines the form of a key; this module does not know whether a server answers.

use super::hash::{KeyHashFunction, md5_word};
use super::settings::{FleetAddress, MemcachedAddress, RingDistribution};

/// Points of each server on the ring without weights.
const POINTS: u32 = 100;

/// Points of each server with weights, if all have the same.
const WEIGHTED_POINTS: f32 = 160.0;

/// memcached's port, which names of points omit.
const DEFAULT_PORT: u16 = 11211;

/// The mapping for the servers in use. Rebuilt when one is ejected or readmitted.
#[derive(Clone, Debug)]
pub struct ServerRing {
    hash: KeyHashFunction,
    places: RingPlaces,
}

#[derive(Clone, Debug)]
enum RingPlaces {
    /// Points in ascending order, each with its server.
    Points(Box<[(u32, u32)]>),
    /// The server of each remainder.
    Remainders(Box<[usize]>),
}

impl ServerRing {
    /// The ring of those of `servers` for which `is_live` holds, by their index in the list.
    ///
    /// A ring of points has no points of the others, as with libmemcached's `AUTO_EJECT_HOSTS`. By remainder, the keys of
    /// an ejected server go to the next live one, so that the other keys do not move (libmemcached does not eject there).
    #[must_use]
    pub fn new(
        servers: &[FleetAddress],
        distribution: RingDistribution,
        hash: KeyHashFunction,
        is_live: impl Fn(usize) -> bool,
    ) -> ServerRing {
        let live: Vec<usize> = (0..servers.len()).filter(|it| is_live(*it)).collect();
        let places = match distribution {
            RingDistribution::Modula => RingPlaces::Remainders(remainders(servers.len(), &live)),
            RingDistribution::Ketama => RingPlaces::Points(points(servers, &live, hash)),
            RingDistribution::KetamaWeighted => RingPlaces::Points(weighted_points(servers, &live)),
        };
        ServerRing { hash, places }
    }

    /// The server of a key, by its index in the list; `None` where no server is live.
    ///
    /// The whole key is hashed, its prefix included, as in libmemcached where the prefix is part of the key, or with
    /// `HASH_WITH_PREFIX_KEY`.
    #[must_use]
    pub fn server(&self, key: &[u8]) -> Option<usize> {
        let hash = self.hash.of(key);
        match &self.places {
            RingPlaces::Points(points) => {
                let at = points.partition_point(|it| it.0 < hash);
                points.get(at).or(points.first()).map(|it| it.1 as usize)
            }
            RingPlaces::Remainders(servers) => {
                let count = u32::try_from(servers.len()).ok().filter(|it| *it > 0)?;
                servers.get((hash % count) as usize).copied()
            }
        }
    }
}

fn remainders(count: usize, live: &[usize]) -> Box<[usize]> {
    let next = |it: usize| live.iter().copied().find(|live| *live >= it).or(live.first().copied());
    (0..count).filter_map(next).collect()
}

fn points(servers: &[FleetAddress], live: &[usize], hash: KeyHashFunction) -> Box<[(u32, u32)]> {
    let of_one = |at: usize| {
        let name = point_name(&servers[at].at);
        (0..POINTS).map(move |it| (hash.of(format!("{name}-{it}").as_bytes()), place(at)))
    };
    sorted(live.iter().copied().flat_map(of_one))
}

/// Four points of each MD5 sum. The number of points is computed in single precision, as in C: it decides where the last
/// points are.
#[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss)]
fn weighted_points(servers: &[FleetAddress], live: &[usize]) -> Box<[(u32, u32)]> {
    let weight = |at: usize| u64::from(servers[at].weight.max(1));
    let all: u64 = live.iter().map(|it| weight(*it)).sum();
    let of_one = |at: usize| {
        let share = weight(at) as f32 / all as f32;
        let sums = (share * WEIGHTED_POINTS / 4.0 * live.len() as f32 + 0.000_000_000_1).floor() as u32;
        let name = point_name(&servers[at].at);
        (0..sums).flat_map(move |it| {
            let point = format!("{name}-{it}");
            (0..4).map(move |word| (md5_word(point.as_bytes(), word), place(at)))
        })
    };
    sorted(live.iter().copied().flat_map(of_one))
}

/// The prefix of the names of a server's points.
fn point_name(at: &MemcachedAddress) -> String {
    match at {
        MemcachedAddress::Tcp(host, DEFAULT_PORT) => host.clone(),
        MemcachedAddress::Tcp(host, port) => format!("{host}:{port}"),
        MemcachedAddress::Unix(path) => format!("{}:0", path.display()),
    }
}

fn place(at: usize) -> u32 {
    u32::try_from(at).unwrap_or(u32::MAX)
}

fn sorted(points: impl Iterator<Item = (u32, u32)>) -> Box<[(u32, u32)]> {
    let mut points: Box<[(u32, u32)]> = points.collect();
    points.sort_unstable();
    points
}

#[cfg(test)]
mod tests {
    use super::*;

    fn servers(count: u16) -> Vec<FleetAddress> {
        let at = |it| MemcachedAddress::Tcp("127.0.0.1".to_owned(), 11211 + it);
        (0..count).map(|it| FleetAddress { at: at(it), weight: 1 }).collect()
    }

    fn keys() -> impl Iterator<Item = String> {
        (0..2000).map(|it| format!("http://example.com/{it}"))
    }

    #[test]
    fn an_excluded_server_moves_only_its_own_keys() {
        let servers = servers(5);
        for (name, distribution) in RingDistribution::ALL {
            let all = ServerRing::new(&servers, distribution, KeyHashFunction::Default, |_| true);
            let some = ServerRing::new(&servers, distribution, KeyHashFunction::Default, |it| it != 2);
            let mut moved = 0;
            for key in keys() {
                let (before, after) = (all.server(key.as_bytes()), some.server(key.as_bytes()));
                assert_ne!(Some(2), after);
                assert!(before == Some(2) || before == after, "{name}: {key} moved from {before:?}");
                moved += usize::from(before == Some(2));
            }
            assert!(moved > 100, "{name}: {moved}");
        }
    }

    #[test]
    fn no_server_is_no_place() {
        for (_, distribution) in RingDistribution::ALL {
            assert_eq!(
                None,
                ServerRing::new(&servers(3), distribution, KeyHashFunction::Md5, |_| false).server(b"a")
            );
            assert_eq!(None, ServerRing::new(&[], distribution, KeyHashFunction::Md5, |_| true).server(b"a"));
            assert_eq!(
                Some(0),
                ServerRing::new(&servers(1), distribution, KeyHashFunction::Md5, |_| true).server(b"a")
            );
        }
    }

    #[test]
    fn weights_are_shares() {
        let mut servers = servers(3);
        servers[1].weight = 2;
        let ring =
            ServerRing::new(&servers, RingDistribution::KetamaWeighted, KeyHashFunction::Md5, |_| true);
        let mut counts = [0; 3];
        keys().for_each(|it| counts[ring.server(it.as_bytes()).unwrap()] += 1);
        assert!(counts[1] > counts[0] * 3 / 2 && counts[1] > counts[2] * 3 / 2, "{counts:?}");
    }

    #[test]
    fn every_distribution_has_its_name() {
        for (name, distribution) in RingDistribution::ALL {
            assert_eq!(Some(distribution), RingDistribution::named(name));
        }
    }
}
