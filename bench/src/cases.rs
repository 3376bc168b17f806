//! The table of measurements and claims. This module runs nothing.

use crate::load::Manner::{
    self, Close, Datagrams, Distinct, KeepAlive, Pipelined, Sealed, SealedStreams, Streams,
};
use crate::servers::Server;
use crate::statistics::Bound::{self, AtLeast, AtMost, Between};

/// One server under one kind of load; lanes of a case take turns.
#[derive(Clone, Copy, Debug)]
pub struct Lane {
    /// Its name within the case.
    pub name: &'static str,
    /// The server of the lane.
    pub server: Server,
    /// The pattern of its requests.
    pub manner: Manner,
    /// Connections at once.
    pub connections: u32,
}

/// The compared figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Of {
    /// Requests per CPU-second of the lane, as a multiple of the other's.
    PerCpu,
    /// The same of all CPU: that of the lane and of its origin.
    PerWholeCpu,
    /// Requests per second of the lane, as a multiple of the other's.
    Rate,
    /// The estimated rate of two workers on two cores of their own, as a multiple of one: twice the ratio of CPU per
    /// request. It replaces `Rate` where the load generator takes a core itself.
    Scaling,
    /// Errors of the lane, all rounds together.
    Errors,
}

/// One comparison, with its target where it has one.
#[derive(Clone, Copy, Debug)]
pub struct Claim {
    /// The lane it is about.
    pub lane: &'static str,
    /// The lane it is compared with.
    pub against: &'static str,
    /// The compared figure.
    pub of: Of,
    /// The target.
    pub bound: Option<Bound>,
}

/// One row of the table of targets.
#[derive(Clone, Debug)]
pub struct Case {
    /// For `--only` and the files.
    pub name: &'static str,
    /// Its title in reports.
    pub title: &'static str,
    /// Bytes of the page.
    pub page: usize,
    /// The origin's storing directives.
    pub origin: Origin,
    /// The lanes that take turns.
    pub lanes: Vec<Lane>,
    /// The comparisons.
    pub claims: Vec<Claim>,
}

/// The storing directives of the origin's page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// It may be stored for a day.
    Storable,
    /// It may not be stored.
    NoStore,
    /// A script of php-fpm answers with the page, which may not be stored.
    Php,
    /// The page is a row of MariaDB as JSON, which larder or a script of php-fpm asks for.
    Rows,
}

impl Origin {
    /// The header lines with these directives.
    pub fn headers(self) -> &'static [&'static str] {
        match self {
            Origin::Storable => &["Cache-Control: max-age=86400", "ETag: \"page-1\""],
            Origin::NoStore | Origin::Php | Origin::Rows => &["Cache-Control: no-store"],
        }
    }
}

const LARDER: Server = Server::LarderProxy { workers: 1 };
const NGINX: Server = Server::NginxFiles { sendfile: true };
const NGINX_COPY: Server = Server::NginxFiles { sendfile: false };

/// All cases, in the order they run.
pub fn all() -> Vec<Case> {
    vec![
        hit_20(),
        hit_500(),
        hit_26k(),
        hit_1m(),
        pipelined(),
        close(),
        many(),
        streams(),
        sealed_streams(),
        datagrams(),
        large_streams(),
        sealed(),
        static_and_cached(),
        workers(),
        miss(),
        fill(),
        tiers(),
        disk(),
        counting(),
        tracing(),
        rules(),
        redirect(),
        php(),
        rows(),
    ]
}

fn lanes(manner: Manner, connections: u32, servers: &[(&'static str, Server)]) -> Vec<Lane> {
    servers.iter().map(|&(name, server)| Lane { name, server, manner, connections }).collect()
}

fn per_cpu(against: &'static str, bound: Bound) -> Claim {
    Claim { lane: "larder", against, of: Of::PerCpu, bound: Some(bound) }
}

/// The limit program's figure for the same comparison: how far a target can be reached on this machine.
fn limit(lane: &'static str, against: &'static str) -> Claim {
    Claim { lane, against, of: Of::PerCpu, bound: None }
}

fn hit_20() -> Case {
    Case {
        name: "hit-20",
        title: "RAM hit, 1,795 bytes, 20 keep-alive connections",
        page: 1795,
        origin: Origin::Storable,
        lanes: lanes(
            KeepAlive,
            20,
            &[
                ("larder", LARDER),
                ("canned", Server::Canned),
                ("haproxy", Server::HaproxyCache),
                ("nginx", NGINX_COPY),
                ("nginx sendfile", NGINX),
                ("nginx cache", Server::NginxCache),
                ("varnish", Server::Varnish),
                ("trafficserver", Server::Traffic),
            ],
        ),
        claims: vec![
            per_cpu("haproxy", AtLeast(1.15)),
            per_cpu("nginx", AtLeast(1.35)),
            per_cpu("canned", AtLeast(0.77)),
            limit("canned", "haproxy"),
            limit("canned", "nginx"),
        ],
    }
}

fn hit_500() -> Case {
    Case {
        name: "hit-500",
        title: "RAM hit, 1,795 bytes, 500 keep-alive connections",
        page: 1795,
        origin: Origin::Storable,
        lanes: lanes(
            KeepAlive,
            500,
            &[
                ("larder", LARDER),
                ("canned", Server::Canned),
                ("nginx", NGINX_COPY),
                ("haproxy", Server::HaproxyCache),
                ("varnish", Server::Varnish),
                ("trafficserver", Server::Traffic),
            ],
        ),
        claims: vec![
            per_cpu("nginx", AtLeast(1.6)),
            per_cpu("canned", AtLeast(0.77)),
            limit("canned", "nginx"),
        ],
    }
}

fn hit_26k() -> Case {
    Case {
        name: "hit-26k",
        title: "RAM hit, 26,510 bytes, 500 keep-alive connections",
        page: 26_510,
        origin: Origin::Storable,
        lanes: lanes(
            KeepAlive,
            500,
            &[
                ("larder", LARDER),
                ("sendfile loop", Server::CannedSendfile),
                ("nginx", NGINX),
                ("nginx cache", Server::NginxCache),
                ("varnish", Server::Varnish),
                ("haproxy", Server::HaproxyCache),
                ("trafficserver", Server::Traffic),
            ],
        ),
        claims: vec![per_cpu("nginx", AtLeast(1.5)), limit("sendfile loop", "nginx")],
    }
}

fn hit_1m() -> Case {
    Case {
        name: "hit-1m",
        title: "RAM hit, 1 MiB, 50 keep-alive connections",
        page: 1 << 20,
        origin: Origin::Storable,
        lanes: lanes(
            KeepAlive,
            50,
            &[
                ("larder", LARDER),
                ("sendfile loop", Server::CannedSendfile),
                ("nginx", NGINX),
                ("nginx cache", Server::NginxCache),
                ("varnish", Server::Varnish),
            ],
        ),
        claims: vec![per_cpu("nginx", AtLeast(1.25)), limit("sendfile loop", "nginx")],
    }
}

fn pipelined() -> Case {
    Case {
        name: "pipelined",
        title: "RAM hit, 1,795 bytes, 16 requests in one write, 20 connections",
        page: 1795,
        origin: Origin::Storable,
        lanes: lanes(
            Pipelined,
            20,
            &[
                ("larder", LARDER),
                ("canned", Server::Canned),
                ("haproxy", Server::HaproxyCache),
                ("nginx", NGINX_COPY),
                ("varnish", Server::Varnish),
            ],
        ),
        claims: vec![per_cpu("haproxy", AtLeast(7.0)), limit("canned", "haproxy")],
    }
}

fn close() -> Case {
    Case {
        name: "close",
        title: "RAM hit, 1,795 bytes, a connection for each request, 20 at once",
        page: 1795,
        origin: Origin::Storable,
        lanes: lanes(
            Close,
            20,
            &[
                ("larder", LARDER),
                ("canned", Server::Canned),
                ("nginx", NGINX_COPY),
                ("haproxy", Server::HaproxyCache),
                ("varnish", Server::Varnish),
            ],
        ),
        claims: vec![per_cpu("nginx", AtLeast(1.1)), limit("canned", "nginx")],
    }
}

fn many() -> Case {
    let few_and_many = [
        ("larder, 20", "larder, 2000", LARDER),
        ("nginx, 20", "nginx, 2000", NGINX_COPY),
        ("haproxy, 20", "haproxy, 2000", Server::HaproxyCache),
        ("varnish, 20", "varnish, 2000", Server::Varnish),
        ("canned, 20", "canned, 2000", Server::Canned),
    ];
    let lane = |name, server, connections| Lane { name, server, manner: KeepAlive, connections };
    let kept = |lane, against, bound| Claim { lane, against, of: Of::Rate, bound };
    Case {
        name: "many",
        title: "RAM hit, 1,795 bytes, 2,000 connections against 20",
        page: 1795,
        origin: Origin::Storable,
        lanes: few_and_many
            .iter()
            .flat_map(|&(few, many, server)| [lane(few, server, 20), lane(many, server, 2000)])
            .collect(),
        claims: vec![
            kept("larder, 2000", "larder, 20", Some(AtLeast(0.9))),
            Claim { lane: "larder, 2000", against: "", of: Of::Errors, bound: Some(AtMost(0.0)) },
            kept("nginx, 2000", "nginx, 20", None),
            kept("haproxy, 2000", "haproxy, 20", None),
            kept("varnish, 2000", "varnish, 20", None),
            kept("canned, 2000", "canned, 20", None),
            Claim { lane: "larder, 2000", against: "larder, 20", of: Of::PerCpu, bound: None },
            Claim { lane: "nginx, 2000", against: "nginx, 20", of: Of::PerCpu, bound: None },
        ],
    }
}

fn streams() -> Case {
    Case {
        name: "h2c-20x10",
        title: "RAM hit, 1,795 bytes, HTTP/2 in clear, 20 connections with 10 streams each",
        page: 1795,
        origin: Origin::Storable,
        lanes: lanes(
            Streams,
            20,
            &[("larder", LARDER), ("h2o", Server::H2o), ("haproxy", Server::HaproxyCache)],
        ),
        claims: vec![per_cpu("h2o", AtLeast(1.0)), per_cpu("haproxy", AtLeast(2.0))],
    }
}

fn sealed_streams() -> Case {
    Case {
        name: "h2-20x10",
        title: "RAM hit, 1,795 bytes, HTTP/2 by TLS 1.3, 20 connections with 10 streams each",
        page: 1795,
        origin: Origin::Storable,
        lanes: lanes(
            SealedStreams,
            20,
            &[
                ("larder", LARDER),
                ("h2o", Server::H2o),
                ("lighttpd", Server::Lighttpd),
                ("haproxy", Server::HaproxyCache),
                ("nginx", NGINX_COPY),
            ],
        ),
        claims: vec![per_cpu("h2o", AtLeast(1.0)), limit("larder", "lighttpd"), limit("larder", "haproxy")],
    }
}

fn datagrams() -> Case {
    let lane = |name, server, manner| Lane { name, server, manner, connections: 20 };
    Case {
        name: "h3-20x10",
        title: "RAM hit, 1,795 bytes, HTTP/3, 20 connections with 10 streams each",
        page: 1795,
        origin: Origin::Storable,
        lanes: vec![
            lane("larder", Server::LarderHttp3, Datagrams),
            lane("larder HTTP/2", Server::LarderHttp3, SealedStreams),
            lane("caddy", Server::Caddy, Datagrams),
        ],
        // A third of the CPU of Caddy, and at most three times that of larder's own HTTP/2 by TLS.
        claims: vec![per_cpu("caddy", AtLeast(3.33)), per_cpu("larder HTTP/2", AtLeast(0.33))],
    }
}

fn large_streams() -> Case {
    Case {
        name: "h2c-26k",
        title: "a cached page against a file of the same 26,510 bytes, HTTP/2 in clear, 20 connections with 10 streams each",
        page: 26_510,
        origin: Origin::Storable,
        lanes: lanes(
            Streams,
            20,
            &[("larder", LARDER), ("larder file", Server::LarderFiles), ("h2o", Server::H2o)],
        ),
        claims: vec![per_cpu("larder file", AtLeast(0.98)), limit("larder", "h2o")],
    }
}

fn sealed() -> Case {
    Case {
        name: "tls-20",
        title: "RAM hit, 1,795 bytes, HTTP/1.1 by TLS 1.3, 20 keep-alive connections",
        page: 1795,
        origin: Origin::Storable,
        lanes: lanes(
            Sealed,
            20,
            &[
                ("larder", LARDER),
                ("canned TLS", Server::CannedTls),
                ("h2o", Server::H2o),
                ("haproxy", Server::HaproxyCache),
                ("nginx", NGINX_COPY),
            ],
        ),
        claims: vec![
            per_cpu("h2o", AtLeast(1.0)),
            limit("larder", "canned TLS"),
            limit("larder", "nginx"),
            limit("canned TLS", "h2o"),
        ],
    }
}

fn static_and_cached() -> Case {
    let claim = |lane, against, bound| Claim { lane, against, of: Of::PerCpu, bound: Some(bound) };
    Case {
        name: "static",
        title: "a cached dynamic page against a static file of the same 1,795 bytes, 20 connections",
        page: 1795,
        origin: Origin::Storable,
        lanes: lanes(
            KeepAlive,
            20,
            &[
                ("larder cached", LARDER),
                ("larder file", Server::LarderFiles),
                ("lighttpd", Server::Lighttpd),
                ("h2o", Server::H2o),
                ("nginx", NGINX_COPY),
            ],
        ),
        claims: vec![
            claim("larder cached", "larder file", Between(0.98, 1.02)),
            claim("larder file", "lighttpd", AtLeast(1.0)),
        ],
    }
}

fn workers() -> Case {
    let claim = |of, bound| Claim { lane: "two workers", against: "one worker", of, bound };
    Case {
        name: "workers",
        title: "two workers on both cores against one, 1,795 bytes, 500 connections",
        page: 1795,
        origin: Origin::Storable,
        lanes: lanes(
            KeepAlive,
            500,
            &[("one worker", LARDER), ("two workers", Server::LarderProxy { workers: 2 })],
        ),
        claims: vec![claim(Of::Scaling, Some(AtLeast(1.7))), claim(Of::Rate, None)],
    }
}

fn miss() -> Case {
    Case {
        name: "miss",
        title: "miss: 1,795 bytes that may not be stored, keep-alive origin, 20 connections",
        page: 1795,
        origin: Origin::NoStore,
        lanes: lanes(
            KeepAlive,
            20,
            &[
                ("larder", LARDER),
                ("nginx", Server::NginxProxy),
                ("haproxy", Server::HaproxyProxy),
                ("varnish", Server::VarnishPass),
            ],
        ),
        claims: vec![
            per_cpu("nginx", AtLeast(1.0)),
            Claim { lane: "larder", against: "haproxy", of: Of::PerCpu, bound: None },
        ],
    }
}

/// A miss whose response is stored. nginx stores it in a file.
fn fill() -> Case {
    Case {
        name: "fill",
        title: "miss: 1,795 bytes that are stored, a URL of its own for each request, 20 connections",
        page: 1795,
        origin: Origin::Storable,
        lanes: lanes(
            Distinct,
            20,
            &[("larder", LARDER), ("nginx", Server::NginxCache), ("haproxy", Server::HaproxyCache)],
        ),
        claims: vec![limit("larder", "haproxy"), limit("larder", "nginx")],
    }
}

/// Row T4: the most that tiers below may cost the RAM tier.
fn tiers() -> Case {
    Case {
        name: "tiers",
        title: "RAM hit, 1,795 bytes, 20 connections, with tiers below and without",
        page: 1795,
        origin: Origin::Storable,
        lanes: lanes(
            KeepAlive,
            20,
            &[("larder", Server::LarderTiers(&["ram", "disk", "fleet"])), ("RAM alone", LARDER)],
        ),
        claims: vec![per_cpu("RAM alone", AtLeast(0.98))],
    }
}

/// Row C1: the most that counting each request by its route, and timing some, may cost.
fn counting() -> Case {
    let claim = |of| Claim { lane: "larder", against: "statistics off", of, bound: Some(AtLeast(0.99)) };
    Case {
        name: "statistics",
        title: "RAM hit, 1,795 bytes, 20 connections, with statistics and without",
        page: 1795,
        origin: Origin::Storable,
        lanes: lanes(KeepAlive, 20, &[("larder", LARDER), ("statistics off", Server::LarderUncounted)]),
        claims: vec![claim(Of::PerCpu), claim(Of::Rate)],
    }
}

/// Row I1: the most that timing the stages of one in a hundred requests may cost; and of every request, for comparison.
fn tracing() -> Case {
    let claim = |of| Claim { lane: "larder", against: "not traced", of, bound: Some(AtLeast(0.99)) };
    let each = Claim { lane: "each", against: "not traced", of: Of::PerCpu, bound: None };
    Case {
        name: "traces",
        title: "RAM hit, 1,795 bytes, 20 connections, one in 100 requests traced",
        page: 1795,
        origin: Origin::Storable,
        lanes: lanes(
            KeepAlive,
            20,
            &[
                ("larder", Server::LarderTraced { every: 100 }),
                ("not traced", LARDER),
                ("each", Server::LarderTraced { every: 1 }),
            ],
        ),
        claims: vec![claim(Of::PerCpu), claim(Of::Rate), each],
    }
}

/// Rows R2 and R16: the most that three rules of response fields and a list of clients may cost a hit.
fn rules() -> Case {
    let claim = |of| Claim { lane: "larder", against: "no rules", of, bound: Some(AtLeast(0.97)) };
    Case {
        name: "rules",
        title: "RAM hit, 1,795 bytes, 20 connections, with three rules of response fields and a list of clients",
        page: 1795,
        origin: Origin::Storable,
        lanes: lanes(KeepAlive, 20, &[("larder", Server::LarderRules), ("no rules", LARDER)]),
        claims: vec![claim(Of::PerCpu)],
    }
}

/// Row R1: a redirect costs at most 0.9 times that of nginx.
fn redirect() -> Case {
    Case {
        name: "redirect",
        title: "a redirect, 20 keep-alive connections",
        page: 1795,
        origin: Origin::Storable,
        lanes: lanes(KeepAlive, 20, &[("larder", Server::LarderRedirect), ("nginx", Server::NginxRedirect)]),
        claims: vec![per_cpu("nginx", AtLeast(1.11))],
    }
}

/// Row O2: a page of PHP, a connection to php-fpm for each request.
fn php() -> Case {
    Case {
        name: "php",
        title: "a page of PHP, 1,795 bytes that may not be stored, 4 processes of php-fpm, 20 connections",
        page: 1795,
        origin: Origin::Php,
        lanes: lanes(
            KeepAlive,
            20,
            &[("larder", Server::LarderPhp), ("nginx", Server::NginxPhp { script: "page" })],
        ),
        claims: vec![per_cpu("nginx", AtLeast(1.0))],
    }
}

/// Row O7: a query as JSON, and the same by a script of PHP behind nginx.
fn rows() -> Case {
    let claim = |of, bound| Claim { lane: "larder", against: "PHP", of, bound };
    Case {
        name: "rows",
        title: "a row of MariaDB as JSON, 20 connections",
        page: 0,
        origin: Origin::Rows,
        lanes: lanes(
            KeepAlive,
            20,
            &[("larder", Server::LarderRows), ("PHP", Server::NginxPhp { script: "row" })],
        ),
        claims: vec![claim(Of::PerWholeCpu, Some(AtLeast(3.3))), claim(Of::Rate, None)],
    }
}

fn disk() -> Case {
    Case {
        name: "disk",
        title: "disk hit, 26,510 bytes, 50 connections",
        page: 26_510,
        origin: Origin::Storable,
        lanes: lanes(
            KeepAlive,
            50,
            &[
                ("larder", Server::LarderTiers(&["disk"])),
                ("nginx", Server::NginxCache),
                ("larder fleet", Server::LarderTiers(&["fleet"])),
                ("larder RAM", LARDER),
            ],
        ),
        claims: vec![
            per_cpu("nginx", AtLeast(1.0)),
            limit("larder RAM", "larder"),
            Claim { lane: "larder RAM", against: "larder fleet", of: Of::PerCpu, bound: Some(AtLeast(10.0)) },
        ],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn claims_name_lanes_that_exist() {
        for case in all() {
            let known = |name: &str| case.lanes.iter().any(|it| it.name == name);
            for claim in &case.claims {
                assert!(known(claim.lane), "{}: {}", case.name, claim.lane);
                assert!(claim.of == Of::Errors || known(claim.against), "{}: {}", case.name, claim.against);
            }
            for (at, lane) in case.lanes.iter().enumerate() {
                assert!(case.lanes.iter().skip(at + 1).all(|it| it.name != lane.name), "{}", lane.name);
            }
        }
    }
}
