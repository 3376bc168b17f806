//! The part of admission that belongs to one route.

use crate::access::AccessRules;
use std::sync::Arc;

/// A route's part of admission.
#[derive(Default)]
pub struct RouteAdmission {
    /// The rules of `site.route.access`.
    pub access: Option<Arc<AccessRules>>,
}

impl RouteAdmission {
    /// Whether there is anything to do.
    #[must_use]
    pub fn is_something(&self) -> bool {
        self.access.is_some()
    }
}
