//! Requests and trailers from field sections (RFC 9114 §4.2, §4.3): by the same functions as those of HTTP/2, so that no rule
//! holds for one of them alone.

use crate::http2::head;
use crate::http2::hpack::Section;
use crate::message::{FieldStorage, HeadLimits, Reject, RequestHead, Version};

pub use head::trailers;

/// The request of a field section. A body follows unless the section ended its stream.
///
/// # Errors
/// The first error. Those with status 400 make the request malformed (RFC 9114 §4.1.2): its stream is reset.
pub fn parse<'a>(
    section: &'a Section,
    end_stream: bool,
    limits: &HeadLimits,
    storage: &'a mut FieldStorage<'a>,
) -> Result<RequestHead<'a>, Reject> {
    head::parse_over(Version::Http3, section, end_stream, limits, storage)
}
