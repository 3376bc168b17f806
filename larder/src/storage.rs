//! The second phase of a start: all stores of responses. RAM with its arena, the spool, the tiers below, the coders, the
//! overlays, and the plan by which this node joins the others of its fleet.

use crate::upgrade::switched_state::HandedPurges;
use larder_config::Config;
use larder_counters::Counters;
use larder_gateway::coding::pool::Coders;
use larder_observe::log::ErrorLog;
use larder_server::cluster::NodesPlan;
use larder_server::counter_sum::CounterSums;
use larder_server::overlay::Overlays;
use larder_server::tiers::{self, SharedTiers};
use larder_stdx::error::plain;
use larder_store::Store;
use std::sync::Arc;

/// The stores of responses.
pub struct Storage {
    /// RAM.
    pub store: Arc<Store>,
    /// The pool that makes encodings of stored responses.
    pub coders: Arc<Coders>,
    /// The overlay pages.
    pub overlays: Arc<Overlays>,
}

/// Storage that other processes may use, too. Opened last: during an upgrade the old process serves without its disk tier until
/// the new one serves.
pub struct SharedStorage {
    /// The tiers below RAM.
    pub lower: SharedTiers,
    /// The plan for joining other nodes; `None` for a single node.
    pub nodes: Option<NodesPlan>,
}

impl Storage {
    /// Opens new and empty storage.
    ///
    /// # Errors
    /// One sentence with the tier that is not available.
    pub fn open(
        config: &Config,
        totals: &CounterSums,
        own: &Arc<Counters>,
        errors: &ErrorLog,
    ) -> Result<Self, String> {
        let store = Store::new(config.ram, totals.add_part()).map_err(|it| no_ram(&it))?;
        tiers::open_spool(config, &store, errors);
        let coders = Coders::new(store.clone(), totals.add_part(), config.coding);
        let overlays = Overlays::new(store.clone(), own.clone());
        Ok(Self { store, coders, overlays })
    }
}

impl SharedStorage {
    /// Opens the tiers below RAM. `public` is the first address for clients. Of the purges of a larder that is replaced, the disk
    /// tier has those that it needs itself; RAM may need others.
    ///
    /// # Errors
    /// One sentence with the tier that is not available.
    pub fn open(
        config: &Config,
        store: &Arc<Store>,
        totals: &CounterSums,
        errors: &ErrorLog,
        public: Option<&str>,
        handed: Option<HandedPurges>,
    ) -> Result<Self, String> {
        let lower = SharedTiers::open(config, store, || totals.add_part(), errors)?;
        if let Some(HandedPurges { last, rules }) = handed {
            store.restore(last, rules);
            store.set_peer(true);
        }
        let nodes = NodesPlan::new(config.fleet.as_ref(), public, store);
        Ok(Self { lower, nodes })
    }
}

/// The error without a RAM tier, with the remedy.
fn no_ram(error: &std::io::Error) -> String {
    let help = match error.kind() {
        std::io::ErrorKind::FileTooLarge => {
            "; its arena is a file in memory that exceeds `ulimit -f`: raise that limit"
        }
        _ => "",
    };
    format!("The RAM tier cannot be created: {}{help}.", plain(error))
}
