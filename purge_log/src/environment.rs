//! The clocks and the randomness of the machine, for the protocol.

use crate::LogEnvironment;
use larder_stdx::clock;
use std::time::Duration;

/// The clocks of this machine, and its randomness.
pub struct LocalEnvironment;

impl LogEnvironment for LocalEnvironment {
    fn now(&self) -> u64 {
        clock::tick();
        clock::monotonic().0
    }

    fn wall(&self) -> u64 {
        clock::wall().0
    }

    fn random(&self) -> u64 {
        random()
    }

    async fn sleep(&self, millis: u64) {
        tokio::time::sleep(Duration::from_millis(millis)).await;
    }
}

/// Random bits from the kernel.
#[must_use]
pub fn random() -> u64 {
    let mut bytes = [0; 8];
    // Eight bytes come completely, or not at all where the kernel has no randomness: then the time is used.
    match rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty()) {
        Ok(8) => u64::from_ne_bytes(bytes),
        _ => clock::precise_micros().wrapping_mul(0x9e37_79b9_7f4a_7c15),
    }
}
