//! The parts that a process has from the one that started it: sockets of a service manager, or a larder that it is to replace.

use crate::upgrade::new_process::{self, Predecessor};
use crate::{landlock_rules, service_manager};
use larder_server::inherited::InheritedSockets;
use std::os::unix::net::UnixStream;

/// The parts that this process has from the one that started it.
pub struct Inheritance {
    /// Sockets of a service manager.
    pub sockets: InheritedSockets,
    /// The larder that this one replaces, which has other sockets.
    pub predecessor: Option<Predecessor>,
}

/// Reports to the larder that is not replaced.
pub struct FailureReporter(Option<UnixStream>);

impl FailureReporter {
    /// This process ends for this reason.
    pub fn log(&self, sentence: &str) {
        if let Some(stream) = &self.0 {
            new_process::refuse(stream, sentence);
        }
    }
}

impl Inheritance {
    /// Nothing: every address is opened.
    #[must_use]
    pub fn none() -> Self {
        Self { sockets: InheritedSockets::none(), predecessor: None }
    }

    /// That of the environment. To be called once.
    ///
    /// # Errors
    /// One sentence: the sockets of the service manager, or the connection to the larder that is to be replaced, cannot be used.
    pub fn of_environment() -> Result<Self, String> {
        match Predecessor::of_environment()? {
            None => Ok(Self { sockets: service_manager::passed_sockets()?, predecessor: None }),
            predecessor => {
                landlock_rules::inherit();
                Ok(Self { sockets: InheritedSockets::none(), predecessor })
            }
        }
    }

    /// For a failure of the start.
    #[must_use]
    pub fn reporter(&self) -> FailureReporter {
        FailureReporter(self.predecessor.as_ref().and_then(Predecessor::reporter))
    }
}
