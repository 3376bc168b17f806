//! The page at the admin address if the admin page was not built into this binary.

use super::AdminResponse;
use larder_transport::Synthetic;

/// The note, as `GET /` answers it.
pub(super) fn answer() -> AdminResponse {
    AdminResponse::Whole(Synthetic::new(200, "text/html; charset=utf-8", PAGE))
}

/// The whole page: it loads nothing, and has no style of its own, which the policy of the admin's responses would forbid.
const PAGE: &str = "<!doctype html>\n<html lang=\"en\"><meta charset=\"utf-8\"><title>larder</title>\n\
<meta name=\"viewport\" content=\"width=device-width\"><meta name=\"color-scheme\" content=\"light dark\">\n\
<h1>larder is running</h1>\n\
<p>This binary was built without the admin page: that needs Node, and <code>make run</code> builds it in.\n\
<p>The statistics are at <code>/cache/stats</code>, which requires the token;\n\
<code>larder explain URL</code> explains why a page is or is not served from the cache.\n</html>\n";
