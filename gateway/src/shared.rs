//! The state that the gateways of all workers share, in addition to the store.

use crate::recent_failures::RecentFailures;
use crate::removed_cookies::RemovedCookies;
use crate::revalidation_pauses::RevalidationPauses;
use crate::unstored_responses::UnstoredResponses;

/// The shared state of all gateways.
#[derive(Default)]
pub struct GatewayShared {
    /// Responses that were not stored, lately.
    pub unstored: UnstoredResponses,
    /// Pages whose origin recently failed waiting requests.
    pub recent_failures: RecentFailures,
    /// Background revalidations without success.
    pub revalidation_pauses: RevalidationPauses,
    /// Cookies that routes remove although their applications set them.
    pub removed_cookies: RemovedCookies,
}
