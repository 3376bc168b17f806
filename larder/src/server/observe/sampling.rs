//! Which requests are traced: one in so many, per route; said by the configuration, and changed while running. What becomes
//! of a trace is in `traces`.

use crate::config::Config;
use std::cell::{Cell, RefCell};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};

/// How often the requests of one route are traced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rate {
    /// The route's name, as it is in logs.
    pub route: String,
    /// One in so many; 0 is none.
    pub every: u32,
}

/// The rates of all routes: by site, by route.
type Rates = Vec<Vec<Rate>>;

/// What all workers and the admin share of it.
#[derive(Default)]
pub struct Sampling {
    rates: Mutex<Rates>,
    /// Changes with every change of the rates.
    generation: AtomicU64,
    /// Whether any route is traced: the transport stamps heads then.
    pub any: Arc<AtomicBool>,
    /// Whether some route measures for `Server-Timing`, which wants the stamps, too.
    timed: AtomicBool,
}

impl Sampling {
    /// Takes over what a configuration says; what was said while running is forgotten.
    pub fn configure(&self, config: &Config) {
        let rates = config.sites.iter().map(|site| {
            let rate = |it: &crate::config::Route| Rate { route: it.name.clone(), every: it.trace };
            site.routes.iter().map(rate).collect()
        });
        let timed = config.sites.iter().flat_map(|it| &it.routes).any(|it| it.server_timing);
        self.timed.store(timed, Relaxed);
        self.change(|all| *all = rates.collect());
    }

    /// Traces one in `every` requests of the routes of this name, or of all where it is `*`. Returns how many routes that
    /// are.
    pub fn set(&self, route: &str, every: u32) -> usize {
        let mut found = 0;
        self.change(|all| {
            for it in all.iter_mut().flatten().filter(|it| route == "*" || it.route == route) {
                it.every = every;
                found += 1;
            }
        });
        found
    }

    /// The rates now, in the order of the configuration.
    pub fn rates(&self) -> Vec<Rate> {
        self.rates.lock().unwrap_or_else(PoisonError::into_inner).iter().flatten().cloned().collect()
    }

    fn change(&self, change: impl FnOnce(&mut Rates)) {
        let mut rates = self.rates.lock().unwrap_or_else(PoisonError::into_inner);
        change(&mut rates);
        let timed = self.timed.load(Relaxed);
        self.any.store(timed || rates.iter().flatten().any(|it| it.every > 0), Relaxed);
        self.generation.fetch_add(1, Relaxed);
    }
}

/// One route as a worker counts.
struct Turn {
    every: u32,
    /// Requests until the next that is traced, itself included.
    left: Cell<u32>,
}

/// One worker's counting.
pub struct Sampler {
    shared: Arc<Sampling>,
    seen: Cell<u64>,
    any: Cell<bool>,
    turns: RefCell<Vec<Vec<Turn>>>,
}

impl Sampler {
    /// Counts by what `shared` says.
    pub fn new(shared: Arc<Sampling>) -> Self {
        Self { shared, seen: Cell::new(u64::MAX), any: Cell::new(false), turns: RefCell::default() }
    }

    /// Whether the next request of this route is to be traced. Costs a look where nothing is.
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

    /// A reload may have made routes fewer than a request that is under way knows.
    #[inline]
    fn with(&self, (site, route): (usize, usize), ask: impl FnOnce(&Turn) -> bool) -> bool {
        self.turns.borrow().get(site).and_then(|it| it.get(route)).is_some_and(ask)
    }

    #[cold]
    fn refresh(&self) {
        let rates = self.shared.rates.lock().unwrap_or_else(PoisonError::into_inner);
        self.seen.set(self.shared.generation.load(Relaxed));
        self.any.set(rates.iter().flatten().any(|it| it.every > 0));
        let turn = |it: &Rate| Turn { every: it.every, left: Cell::new(it.every) };
        *self.turns.borrow_mut() = rates.iter().map(|it| it.iter().map(turn).collect()).collect();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sampling(rates: &[(&str, u32)]) -> Arc<Sampling> {
        let it = Arc::new(Sampling::default());
        it.change(|all| {
            let rate = |(route, every): &(&str, u32)| Rate { route: (*route).to_owned(), every: *every };
            *all = vec![rates.iter().map(rate).collect()];
        });
        it
    }

    fn take(sampler: &Sampler, route: usize) -> bool {
        let due = sampler.is_due((0, route));
        sampler.count((0, route));
        due
    }

    #[test]
    fn one_in_so_many_of_each_route() {
        let sampling = sampling(&[("a", 3), ("b", 0), ("c", 1)]);
        let sampler = Sampler::new(sampling.clone());
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
        let sampler = Sampler::new(sampling.clone());
        assert!(!take(&sampler, 0) && !sampling.any.load(Relaxed));
        assert_eq!(2, sampling.set("a", 1));
        assert!(take(&sampler, 0) && !take(&sampler, 1) && take(&sampler, 2));
        assert_eq!(0, sampling.set("nobody", 1));
        assert_eq!(3, sampling.set("*", 0));
        assert!(!take(&sampler, 0) && !sampling.any.load(Relaxed));
    }
}
