//! Clients bound to an origin by a cookie (`proxy.sticky`): the cookie is taken from a request before the cache and the origin
//! see it (`request_cookies.rs`), and added to a response for this client alone when it is sent. It is in no stored response.

use super::Machine;
use larder_semantics::cache_status::CacheReport;
use larder_semantics::field::FieldList;
use larder_semantics::sticky;
use larder_stdx::clock;

impl Machine<'_, '_> {
    /// Adds the cookie to a response that is forwarded to this client alone.
    pub fn set_sticky_cookie(&self, report: Option<CacheReport>, fields: &mut FieldList) {
        let is_unshared =
            matches!(report, Some(CacheReport::Forwarded { stored: false, collapsed: false, .. }));
        if is_unshared && self.starter.answered_by.get().is_some() {
            let is_for_others =
                sticky::is_for_others(&self.input.request.method, &fields.view(), clock::wall());
            if !is_for_others {
                self.bind(fields);
            }
        }
    }

    /// Adds the cookie to a response, if it is due.
    pub fn bind(&self, fields: &mut FieldList) {
        if let (Some(cookie), Some(origin)) = (&self.input.route.sticky, self.starter.answered_by.get())
            && cookie.is_due(self.starter.bound.get(), origin)
        {
            fields.push("Set-Cookie", cookie.line(origin, self.input.request.scheme));
        }
    }
}
