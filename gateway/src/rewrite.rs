//! The target that an origin sees in place of the client's (`site.route.strip` and the like). The rules are in
//! `semantics::rewrite`; the key stays that of the client's target.

use larder_semantics::policy::Policy;
use larder_semantics::rewrite::{Rewrite, Rewritten};
use std::borrow::Cow;
use std::sync::Arc;

/// The rewrites of a route.
#[derive(Clone, Debug, Default)]
pub struct RewriteSettings {
    /// The changes of the target; `None` where it stays.
    pub target: Option<Arc<Rewrite>>,
}

impl RewriteSettings {
    /// The target for the origin; `None` where it stays.
    pub(crate) fn rewritten(&self, target: &str) -> Option<Rewritten> {
        self.target.as_ref().map(|it| it.target(target))
    }
}

/// Why a target is refused that an application may read as one outside of the base path.
pub(crate) const LEAVES: &str = "Its path leads out of the base path of the origin (proxy.to, site.route.add_prefix) in one of its readings.";

/// The target that an origin gets in place of the client's; for `explain`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SentTarget {
    /// The target.
    pub target: String,
    /// The changes: the beginning of a sentence.
    pub changes: String,
}

impl SentTarget {
    /// Of a request to a route; one that bypasses the cache has parameters that the key lacks.
    #[must_use]
    pub fn of(settings: &RewriteSettings, policy: &Policy, target: &str, passes: bool) -> Option<Self> {
        let rewrite = settings.target.as_ref()?;
        let sent = if passes { Cow::Borrowed(target) } else { policy.key.target(target) };
        Some(Self { target: rewrite.target(&sent).target, changes: rewrite.describe() })
    }
}
