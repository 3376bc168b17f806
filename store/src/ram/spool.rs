//! The spool of the RAM tier: bodies that are not kept use it for slow readers, and its reads are charged to the budget.

use super::Store;
use crate::device::syscalls::Syscalls;
use crate::memory_budget::BudgetCharge;
use crate::spool::{Spool, SpoolSettings};
use std::io;
use std::sync::Arc;

impl Store {
    /// From now on bodies that are not kept use this spool for slow readers. Called once.
    ///
    /// # Errors
    /// No file can be created in its directory; there is no spool then.
    pub fn spool_to(&self, settings: SpoolSettings) -> io::Result<()> {
        self.spool_with(settings, Syscalls::default())
    }

    pub(crate) fn spool_with(&self, settings: SpoolSettings, calls: Syscalls) -> io::Result<()> {
        let _ = self.spool.set(Arc::new(Spool::new(settings, calls, self.counters.clone())?));
        Ok(())
    }

    /// Charges `length` bytes that are about to be read from the spool, and makes room for them.
    pub(crate) fn charge_read(&self, length: usize) -> BudgetCharge {
        let charge = BudgetCharge::new(&self.budget, length as u64, |it| &it.fills);
        self.trim();
        charge
    }
}
