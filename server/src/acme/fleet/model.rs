//! The rules of the list, with a model of nodes that read and write it in any order and are killed at any step.

use super::super::challenge::ChallengeAnswer;
use super::orders::{ClaimResult, FleetOrders, LEASE, OrderingNode};

const NAME: &str = "a.test";
const NODES: [OrderingNode; 3] = [node(1, 1), node(2, 2), node(3, 3)];

const fn node(node: u64, process: u64) -> OrderingNode {
    OrderingNode { node, process }
}

fn answer() -> ChallengeAnswer {
    ChallengeAnswer::Http { token: "t".into(), text: "t.k".into() }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Claim,
    Publish,
    /// Until this time the CA works.
    Order(i64),
    Share,
    Release,
    Done,
}

struct ModelNode {
    who: OrderingNode,
    is_alive: bool,
    phase: Phase,
    /// The list that it has read, with its version, and has not written yet.
    read: Option<(u64, Vec<u8>)>,
    steps: usize,
}

struct World {
    now: i64,
    version: u64,
    list: Vec<u8>,
    has_certificate: bool,
    orders: usize,
    /// Seconds for which the CA works.
    slow: i64,
}

impl World {
    /// A change of the list: read in one step, written in another one. `None` until it is written.
    fn change<T>(
        &mut self,
        it: &mut ModelNode,
        change: impl Fn(&mut FleetOrders, OrderingNode, i64) -> T,
    ) -> Option<T> {
        let Some((version, text)) = it.read.take() else {
            it.read = Some((self.version, self.list.clone()));
            return None;
        };
        let mut list = FleetOrders::parse(&text).unwrap();
        let result = change(&mut list, it.who, self.now);
        if version != self.version {
            return None;
        }
        (self.version, self.list) = (self.version + 1, list.text());
        Some(result)
    }

    fn step(&mut self, it: &mut ModelNode) {
        it.steps += 1;
        it.phase = match it.phase {
            Phase::Claim if self.has_certificate => Phase::Done,
            Phase::Claim => match self.change(it, |list, who, now| list.claim(NAME, who, now)) {
                Some(ClaimResult::Ours) if self.has_certificate => Phase::Release,
                Some(ClaimResult::Ours) => Phase::Publish,
                _ => Phase::Claim,
            },
            Phase::Publish => {
                match self.change(it, |list, who, now| list.publish(NAME, Some(answer()), who, now)) {
                    Some(ClaimResult::Ours) => {
                        self.orders += 1;
                        Phase::Order(self.now + self.slow)
                    }
                    Some(_) => Phase::Claim,
                    None => Phase::Publish,
                }
            }
            Phase::Order(until) if self.now < until => {
                let list = FleetOrders::parse(&self.list).unwrap();
                if it.read.is_some() || list.is_ending(NAME, it.who, self.now) {
                    self.change(it, |list, who, now| list.publish(NAME, Some(answer()), who, now));
                }
                Phase::Order(until)
            }
            Phase::Order(_) => Phase::Share,
            Phase::Share => {
                self.has_certificate = true;
                it.read = None;
                Phase::Release
            }
            Phase::Release => match self.change(it, |list, who, _| list.release(NAME, who)) {
                Some(()) => Phase::Done,
                None => Phase::Release,
            },
            Phase::Done => Phase::Done,
        };
    }
}

/// Lets nodes go on in an order of `seed` until all are done; the first to order is killed after `kill` steps, and comes back after `back`
/// seconds, if at all. Returns the number of orders.
fn run(nodes: usize, slow: i64, seed: u64, kill: Option<usize>, back: Option<i64>) -> usize {
    let mut world = World {
        now: 1_000_000,
        version: 0,
        list: FleetOrders::default().text(),
        has_certificate: false,
        orders: 0,
        slow,
    };
    let new = |who| ModelNode { who, is_alive: true, phase: Phase::Claim, read: None, steps: 0 };
    let mut nodes: Vec<ModelNode> = NODES[..nodes].iter().map(|it| new(*it)).collect();
    let (mut random, mut killed) = (seed, None);
    let (start, at) = (world.now, |it: u64, count: usize| (it >> 33) as usize % count);
    while nodes.iter().any(|it| it.is_alive && it.phase != Phase::Done) {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        world.now += i64::from(random >> 62 == 0);
        let count = nodes.len();
        let it = &mut nodes[at(random, count)];
        if it.is_alive {
            world.step(it);
            if kill == Some(it.steps) && killed.is_none() {
                it.is_alive = false;
                killed = Some((world.now, it.who));
            }
        }
        if let Some((died, who)) = killed
            && back.is_some_and(|it| world.now >= died + it)
            && let Some(it) = nodes.iter_mut().find(|it| it.who == who && !it.is_alive)
        {
            *it = ModelNode { steps: usize::MAX / 2, ..new(node(who.node, 9)) };
        }
        let ordering =
            nodes.iter().filter(|it| it.is_alive && matches!(it.phase, Phase::Publish | Phase::Order(_)));
        assert!(ordering.count() <= 1, "two orders at once; seed {seed}, kill {kill:?}, back {back:?}");
        let bound = slow + killed.map_or(0, |_| LEASE + slow) + 60;
        assert!(world.now - start <= bound, "stuck for {} s; seed {seed}, kill {kill:?}", world.now - start);
    }
    assert!(world.has_certificate || nodes.iter().all(|it| !it.is_alive));
    world.orders
}

#[test]
fn nodes_order_once() {
    for nodes in [2, 3] {
        for seed in 0..20 {
            for slow in [0, 5, 3 * LEASE] {
                assert_eq!(1, run(nodes, slow, seed, None, None), "seed {seed}, {slow} s");
            }
        }
    }
}

#[test]
fn a_kill_at_any_step_delays_a_name_by_a_lease_at_most() {
    for nodes in [2, 3] {
        for kill in 1..12 {
            for back in [None, Some(1), Some(LEASE / 2), Some(2 * LEASE)] {
                for seed in 0..8 {
                    let orders = run(nodes, 5, seed, Some(kill), back);
                    assert!(
                        (1..=2).contains(&orders),
                        "{orders} orders; seed {seed}, kill {kill}, back {back:?}"
                    );
                }
            }
        }
    }
}

#[test]
fn other_processes_answer_a_challenge_until_the_lease_ends() {
    let [a, b, _] = NODES;
    let mut list = FleetOrders::default();
    assert_eq!(ClaimResult::Ours, list.claim(NAME, a, 0));
    assert_eq!(ClaimResult::Ours, list.publish(NAME, Some(answer()), a, 1));
    let asked = |list: &FleetOrders, who, now| {
        list.of_others(who, now).filter_map(|it| it.challenge.clone()).collect::<Vec<_>>()
    };
    assert_eq!(vec![answer()], asked(&list, b, 1));
    assert_eq!(vec![answer()], asked(&list, node(1, 9), 1), "after a restart of the node");
    assert_eq!(Vec::<ChallengeAnswer>::new(), asked(&list, a, 1));
    assert_eq!(Vec::<ChallengeAnswer>::new(), asked(&list, b, 1 + LEASE));
    assert!(
        list.is_held(NAME, b, LEASE) && !list.is_held(NAME, a, LEASE) && !list.is_held(NAME, b, 1 + LEASE)
    );
    assert!(!list.is_held(NAME, b, -2 * LEASE), "the clock of the other node is wrong");
    assert_eq!(ClaimResult::Theirs, list.claim(NAME, b, LEASE));
    list.release(NAME, b);
    assert_eq!(ClaimResult::Theirs, list.claim(NAME, b, LEASE), "only its node ends a lease");
    list.release(NAME, node(1, 9));
    assert_eq!(ClaimResult::Ours, list.claim(NAME, b, LEASE));
}

#[test]
fn the_list_is_bounded() {
    let [a, b, _] = NODES;
    let mut list = FleetOrders::default();
    let mut names = (0..).map(|it| format!("{it}.test"));
    while list.claim(&names.next().unwrap(), a, 0) == ClaimResult::Ours {}
    assert_eq!(Some("513.test".to_owned()), names.next(), "the 513th name finds no place");
    assert_eq!(Some(&list), FleetOrders::parse(&list.text()).as_ref());
    assert_eq!(ClaimResult::Ours, list.claim("0.test", a, 1), "one in the list");
    assert_eq!(ClaimResult::Ours, list.claim(NAME, b, LEASE), "ended leases leave it");
    for text in [&b""[..], b"[]", b"{}", b"{\"orders\":[{}]}", &[b' '; 2 << 20]] {
        assert_eq!(None, FleetOrders::parse(text));
    }
}
