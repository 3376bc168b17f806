//! The step `Error`: a response of larder's own.

use super::Machine;
use super::deliver::Delivery;
use super::machine::Step;
use crate::own_page;
use larder_semantics::cache_status::CacheReport;

/// The reason for a response of larder's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OwnError {
    /// This status.
    Status(u16),
    /// Another request failed with this status.
    OfAnother(u16),
    /// No stored response may be served, and the request forbids asking.
    OnlyIfCached,
    /// No stored response may be served, and the budget of the client is exceeded.
    OverBudget,
}

impl Machine<'_, '_> {
    /// `Error`: a response of larder's own.
    pub(super) fn error(&mut self) -> Step {
        let asked = self.starter.origin_status.get();
        let (status, sentence, report) = match self.response.error {
            OwnError::OnlyIfCached => (504, own_page::ONLY_IF_CACHED, Some(CacheReport::OnlyIfCached)),
            OwnError::OverBudget => (429, own_page::OVER_BUDGET, Some(CacheReport::OverBudget { ttl: None })),
            OwnError::OfAnother(status) => {
                let report = CacheReport::SharedFailure { reason: self.plan.reason };
                (status, own_page::FAILED_FOR_ANOTHER, Some(report))
            }
            OwnError::Status(503)
                if self.input.route.maker.is_none() && self.input.route.origins.is_drained() =>
            {
                (503, own_page::DRAINED, Some(self.plan.forwarded(asked)))
            }
            // The origin should have answered.
            OwnError::Status(status @ 502..=504) => {
                (status, own_page::error_sentence(status), Some(self.plan.forwarded(asked)))
            }
            OwnError::Status(status) => (status, own_page::error_sentence(status), None),
        };
        self.response.answer = Some(Delivery::Own { status, sentence, report });
        Step::Deliver
    }
}

/// larder's status for a failure of the origin, or of the way to it.
pub(super) fn gateway_status(status: u16) -> u16 {
    if matches!(status, 431 | 502..=504) { status } else { 502 }
}
