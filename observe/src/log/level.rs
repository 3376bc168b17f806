//! The severity of events, the subsystems that write them, and the minimum level of each.

/// The severity of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// A single operation of a subsystem, for debugging.
    Debug,
    /// Normal operation: started, reloaded, stopped.
    Info,
    /// Something was rejected, cut or degraded; the server continues.
    Warn,
    /// A failure that requires attention.
    Error,
}

impl Level {
    /// All, from the lowest to the highest.
    pub const ALL: [Level; 4] = [Level::Debug, Level::Info, Level::Warn, Level::Error];

    /// The name in lines and in the configuration.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Level::Debug => "debug",
            Level::Info => "info",
            Level::Warn => "warn",
            Level::Error => "error",
        }
    }
}

/// A part of larder whose events have a minimum level of their own: `log.levels.NAME`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subsystem {
    /// Starting, stopping, reloads, limits.
    Server,
    /// Purges.
    Purge,
    /// The disk tier.
    Disk,
    /// The memcached fleet.
    Fleet,
    /// The purge log that nodes share.
    Nodes,
    /// Origins.
    Origin,
    /// The logs themselves.
    Log,
    /// Changes through the admin, and rejected requests.
    Audit,
}

impl Subsystem {
    /// All, in the order of the configuration's table.
    pub const ALL: [Subsystem; 8] = [
        Subsystem::Server,
        Subsystem::Purge,
        Subsystem::Disk,
        Subsystem::Fleet,
        Subsystem::Nodes,
        Subsystem::Origin,
        Subsystem::Log,
        Subsystem::Audit,
    ];

    /// The name in the configuration.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Subsystem::Server => "server",
            Subsystem::Purge => "purge",
            Subsystem::Disk => "disk",
            Subsystem::Fleet => "fleet",
            Subsystem::Nodes => "nodes",
            Subsystem::Origin => "origin",
            Subsystem::Log => "log",
            Subsystem::Audit => "audit",
        }
    }
}

/// The minimum level of each subsystem; `None` if it is off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogLevels(pub(super) [Option<Level>; Subsystem::ALL.len()]);

impl LogLevels {
    /// The level that `least` returns for each subsystem.
    pub fn new(least: impl Fn(Subsystem) -> Option<Level>) -> Self {
        Self(Subsystem::ALL.map(least))
    }
}

impl Default for LogLevels {
    fn default() -> Self {
        Self::new(|_| Some(Level::Info))
    }
}
