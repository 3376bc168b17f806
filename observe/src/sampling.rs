//! The selection of traced requests: one in N, per route; set by the configuration, changed at run time until the next
//! reload, or for a limited time by each recorder. Traces themselves are in `traces`.

use larder_stdx::clock::Monotonic;
use std::cell::{Cell, RefCell};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};

/// The most leases of one route at the same time.
pub const OWNERS: usize = 64;

/// The sampling rate of one route.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceRate {
    /// The route's name, as in logs.
    pub route: String,
    /// The rate of the configuration, or an operator's later value: one in this many; 0 is none.
    pub every: u32,
    /// Additional rates for a limited time: one of each owner.
    leases: Vec<TraceLease>,
}

/// A rate that expires by itself, so that its owner may disappear without releasing it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceLease {
    /// The owner: renews or ends it by the same name.
    pub owner: Arc<str>,
    /// One in this many.
    pub every: u32,
    /// Its expiry.
    pub until: Monotonic,
}

impl TraceRate {
    /// The rate in force: one in this many; 0 is none. It is the highest of all rates, so that no recorder of a route
    /// reduces another one's.
    #[must_use]
    pub fn now(&self) -> u32 {
        let all = self.leases.iter().map(|it| it.every).chain([self.every]);
        all.filter(|it| *it > 0).min().unwrap_or(0)
    }

    /// The earliest end of that rate, if it is a lease's.
    #[must_use]
    pub fn until(&self) -> Option<Monotonic> {
        let now = self.now();
        let of_leases = self.leases.iter().filter(|it| it.every == now && self.every != now);
        of_leases.map(|it| it.until).max()
    }
}

/// The result of a request for a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leased {
    /// It is in force.
    Yes,
    /// [`OWNERS`] leases of such a route exist already: no change.
    NoRoom,
}

/// The rates of all routes: by site, by route.
type Rates = Vec<Vec<TraceRate>>;

/// The tracing settings of a configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TraceRates {
    /// For each site its routes in order: the name, and one in how many requests is traced (0 is none).
    pub routes: Vec<Vec<(String, u32)>>,
    /// Whether some route sends `Server-Timing`.
    pub timed: bool,
}

/// The state that all workers and the admin share.
#[derive(Default)]
pub struct Sampling {
    rates: Mutex<Rates>,
    /// Incremented with every change of the rates.
    generation: AtomicU64,
    /// Whether any route is traced: then the transport stamps heads.
    pub any: Arc<AtomicBool>,
    /// Whether some route sends `Server-Timing`, which requires the stamps, too.
    timed: AtomicBool,
}

impl Sampling {
    /// Takes over a configuration; rates set at run time are dropped. Leases continue.
    pub fn configure(&self, rates: TraceRates) {
        self.timed.store(rates.timed, Relaxed);
        self.set_routes(rates.routes);
    }

    fn set_routes(&self, routes: Vec<Vec<(String, u32)>>) {
        self.change(|all| {
            let before: Vec<TraceRate> = all.iter().flatten().cloned().collect();
            let rate = |(route, every): (String, u32)| {
                let same = before.iter().find(|it| it.route == route);
                TraceRate { route, every, leases: same.map_or_else(Vec::new, |it| it.leases.clone()) }
            };
            *all = routes.into_iter().map(|it| it.into_iter().map(rate).collect()).collect();
        });
    }

    /// Traces one in `every` requests of the routes of this name, or of all for `*`, until the next reload; more often if
    /// a lease has a higher rate. Returns the number of these routes.
    pub fn set(&self, route: &str, every: u32) -> usize {
        let mut found = 0;
        self.change(|all| {
            for it in of_name(all, route) {
                it.every = every;
                found += 1;
            }
        });
        found
    }

    /// Sets a minimum rate of the routes of this name, or of all, until the lease ends, in place of its owner's earlier
    /// lease. An expired one is removed at the next [`Sampling::expire`].
    pub fn lease(&self, route: &str, lease: &TraceLease) -> Leased {
        let mut leased = Leased::Yes;
        self.change(|all| {
            let others = |it: &TraceRate| it.leases.iter().filter(|it| it.owner != lease.owner).count();
            if of_name(all, route).any(|it| others(it) >= OWNERS) {
                leased = Leased::NoRoom;
                return;
            }
            for it in of_name(all, route) {
                it.leases.retain(|it| it.owner != lease.owner);
                it.leases.push(lease.clone());
            }
        });
        leased
    }

    /// Ends the lease of `owner` on the routes of this name, or on all; leases of other owners continue.
    pub fn release(&self, route: &str, owner: &str) {
        self.change(|all| of_name(all, route).for_each(|it| it.leases.retain(|it| &*it.owner != owner)));
    }

    /// Removes expired leases; to be called about once a second.
    pub fn expire(&self, now: Monotonic) {
        let is_over = |it: &TraceLease| it.until <= now;
        let rates = self.rates.lock().unwrap_or_else(PoisonError::into_inner);
        let any = rates.iter().flatten().flat_map(|it| &it.leases).any(is_over);
        drop(rates);
        if any {
            self.change(|all| all.iter_mut().flatten().for_each(|it| it.leases.retain(|it| !is_over(it))));
        }
    }

    /// The current rates, in the order of the configuration.
    pub fn rates(&self) -> Vec<TraceRate> {
        self.rates.lock().unwrap_or_else(PoisonError::into_inner).iter().flatten().cloned().collect()
    }

    fn change(&self, change: impl FnOnce(&mut Rates)) {
        let mut rates = self.rates.lock().unwrap_or_else(PoisonError::into_inner);
        let holds = |it: &Rates| -> Vec<Vec<u32>> {
            it.iter().map(|it| it.iter().map(TraceRate::now).collect()).collect()
        };
        let before = holds(&rates);
        change(&mut rates);
        let timed = self.timed.load(Relaxed);
        self.any.store(timed || rates.iter().flatten().any(|it| it.now() > 0), Relaxed);
        // Workers restart their count with each change: a recorder that renews the same rate must not keep them from
        // reaching N.
        if holds(&rates) != before {
            self.generation.fetch_add(1, Relaxed);
        }
    }
}

/// The routes of a name, or all for `*`.
fn of_name<'a>(all: &'a mut Rates, route: &'a str) -> impl Iterator<Item = &'a mut TraceRate> {
    all.iter_mut().flatten().filter(move |it| route == "*" || it.route == route)
}

/// One route in a worker's count.
struct RouteSample {
    every: u32,
    /// Requests until the next traced one, inclusive.
    left: Cell<u32>,
}

/// One worker's counting.
pub struct TraceSampler {
    shared: Arc<Sampling>,
    seen: Cell<u64>,
    any: Cell<bool>,
    turns: RefCell<Vec<Vec<RouteSample>>>,
}

impl TraceSampler {
    /// Counts by the rates of `shared`.
    pub fn new(shared: Arc<Sampling>) -> Self {
        Self { shared, seen: Cell::new(u64::MAX), any: Cell::new(false), turns: RefCell::default() }
    }

    /// Whether the next request of this route is to be traced. Costs a load if none is.
    #[inline]
    pub fn is_due(&self, at: (usize, usize)) -> bool {
        if self.shared.generation.load(Relaxed) != self.seen.get() {
            self.refresh();
        }
        self.any.get() && self.with(at, |it| it.every > 0 && it.left.get() <= 1)
    }

    /// Counts a request of this route; to be called once for each.
    #[inline]
    pub fn count(&self, at: (usize, usize)) {
        if self.any.get() {
            self.with(at, |it| {
                let left = it.left.get();
                it.left.set(if left <= 1 { it.every } else { left - 1 });
                false
            });
        }
    }

    /// After a reload there may be fewer routes than a request in progress refers to.
    #[inline]
    fn with(&self, (site, route): (usize, usize), test: impl FnOnce(&RouteSample) -> bool) -> bool {
        self.turns.borrow().get(site).and_then(|it| it.get(route)).is_some_and(test)
    }

    #[cold]
    fn refresh(&self) {
        let rates = self.shared.rates.lock().unwrap_or_else(PoisonError::into_inner);
        self.seen.set(self.shared.generation.load(Relaxed));
        self.any.set(rates.iter().flatten().any(|it| it.now() > 0));
        let turn = |it: &TraceRate| RouteSample { every: it.now(), left: Cell::new(it.now()) };
        *self.turns.borrow_mut() = rates.iter().map(|it| it.iter().map(turn).collect()).collect();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sampling(rates: &[(&str, u32)]) -> Arc<Sampling> {
        let it = Arc::new(Sampling::default());
        it.set_routes(vec![rates.iter().map(|it| (it.0.to_owned(), it.1)).collect()]);
        it
    }

    /// The rate in force of each route.
    fn hold(sampling: &Sampling) -> Vec<u32> {
        sampling.rates().iter().map(TraceRate::now).collect()
    }

    /// Has one who is called so lease.
    fn lease(sampling: &Sampling, route: &str, owner: &str, every: u32, until: u64) {
        let lease = TraceLease { owner: owner.into(), every, until: Monotonic(until) };
        assert_eq!(Leased::Yes, sampling.lease(route, &lease));
    }

    fn take(sampler: &TraceSampler, route: usize) -> bool {
        let due = sampler.is_due((0, route));
        sampler.count((0, route));
        due
    }

    #[test]
    fn the_sampling_rates_of_routes_are_independent() {
        let sampling = sampling(&[("a", 3), ("b", 0), ("c", 1)]);
        let sampler = TraceSampler::new(sampling.clone());
        let taken = |route| (0..7).map(|_| u32::from(take(&sampler, route))).collect::<Vec<_>>();
        assert_eq!(vec![0, 0, 1, 0, 0, 1, 0], taken(0));
        assert_eq!(vec![0; 7], taken(1));
        assert_eq!(vec![1; 7], taken(2));
        assert!(!take(&sampler, 9), "of a configuration that is gone");
        assert!(sampling.any.load(Relaxed));
    }

    #[test]
    fn is_changed_while_running() {
        let sampling = sampling(&[("a", 0), ("b", 0), ("a", 0)]);
        let sampler = TraceSampler::new(sampling.clone());
        assert!(!take(&sampler, 0) && !sampling.any.load(Relaxed));
        assert_eq!(2, sampling.set("a", 1));
        assert!(take(&sampler, 0) && !take(&sampler, 1) && take(&sampler, 2));
        assert_eq!(0, sampling.set("nobody", 1));
        assert_eq!(3, sampling.set("*", 0));
        assert!(!take(&sampler, 0) && !sampling.any.load(Relaxed));
    }

    #[test]
    fn an_expired_lease_restores_the_earlier_sampling_rate() {
        let sampling = sampling(&[("a", 5), ("b", 0)]);
        lease(&sampling, "*", "x", 1, 1000);
        assert_eq!(vec![1, 1], hold(&sampling));
        sampling.expire(Monotonic(999));
        assert_eq!(vec![1, 1], hold(&sampling));
        lease(&sampling, "b", "x", 2, 3000); // Renewed by its owner.
        sampling.expire(Monotonic(1000));
        assert_eq!(vec![5, 2], hold(&sampling));
        assert!(sampling.any.load(Relaxed));
        sampling.set("a", 0);
        sampling.expire(Monotonic(3000));
        assert_eq!((vec![0, 0], false), (hold(&sampling), sampling.any.load(Relaxed)));
    }

    #[test]
    fn the_densest_lease_holds_and_an_ended_lease_leaves_those_of_other_owners() {
        let sampling = sampling(&[("a", 0)]);
        let holds = |every, until: Option<u64>| {
            let rate = &sampling.rates()[0];
            assert_eq!((every, until.map(Monotonic)), (rate.now(), rate.until()));
        };
        lease(&sampling, "a", "x", 10, 1000);
        holds(10, Some(1000));
        lease(&sampling, "a", "y", 2, 2000);
        holds(2, Some(2000));
        lease(&sampling, "a", "x", 10, 3000);
        holds(2, Some(2000));
        sampling.release("a", "y");
        holds(10, Some(3000));
        sampling.release("*", "nobody");
        holds(10, Some(3000));
        lease(&sampling, "a", "y", 10, 4000);
        holds(10, Some(4000));
        sampling.expire(Monotonic(3000)); // x is gone without a word.
        holds(10, Some(4000));
        sampling.expire(Monotonic(4000));
        holds(0, None);
    }

    #[test]
    fn leases_leave_the_rate_that_an_operator_has_set() {
        let sampling = sampling(&[("a", 100)]);
        lease(&sampling, "a", "x", 10, 1000);
        sampling.set("a", 50);
        assert_eq!(vec![10], hold(&sampling), "the recorder still gets what it wants");
        sampling.set("a", 5);
        assert_eq!((vec![5], None), (hold(&sampling), sampling.rates()[0].until()), "and more");
        sampling.release("a", "x");
        assert_eq!(vec![5], hold(&sampling));
    }

    #[test]
    fn the_owners_of_leases_are_bounded() {
        let sampling = sampling(&[("a", 0), ("b", 0)]);
        (0..OWNERS).for_each(|it| lease(&sampling, "a", &it.to_string(), 7, 1000));
        let one_more = TraceLease { owner: "more".into(), every: 1, until: Monotonic(1000) };
        assert_eq!(Leased::NoRoom, sampling.lease("*", &one_more));
        assert_eq!(vec![7, 0], hold(&sampling), "nothing of it is done");
        lease(&sampling, "a", "0", 3, 1000); // The owner of a lease may change it.
        sampling.release("a", "1");
        assert_eq!(Leased::Yes, sampling.lease("*", &one_more));
        assert_eq!(vec![1, 1], hold(&sampling));
    }

    #[test]
    fn a_reload_takes_the_rates_of_the_file_and_leaves_the_leases() {
        let sampling = sampling(&[("a", 5), ("b", 0)]);
        sampling.set("b", 9);
        lease(&sampling, "a", "x", 1, 1000);
        sampling
            .set_routes(vec![vec![("new".to_owned(), 3)], vec![("a".to_owned(), 7), ("b".to_owned(), 0)]]);
        assert_eq!(vec![3, 1, 0], hold(&sampling));
        sampling.expire(Monotonic(1000));
        assert_eq!(vec![3, 7, 0], hold(&sampling), "what the file says now, not what it said before");
    }

    #[test]
    fn a_renewed_lease_does_not_restart_the_count_of_samples() {
        let sampling = sampling(&[("a", 0)]);
        let sampler = TraceSampler::new(sampling.clone());
        let taken = (1..=6).map(|it| {
            lease(&sampling, "a", "x", 3, 1000 * it);
            take(&sampler, 0)
        });
        assert_eq!(vec![false, false, true, false, false, true], taken.collect::<Vec<_>>());
    }
}
