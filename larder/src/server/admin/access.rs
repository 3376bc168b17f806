//! Who may ask the admin: whoever means it, and nobody who was lured.

use larder_transport::http1::Client;
use larder_wire::http1::request::Request;

/// Whether the request names us as its host: a web page that was lured here by a name of its own does not
/// (DNS rebinding), and one that writes from another origin says so in `Origin`.
pub fn is_for_us(request: &Request, client: &Client) -> bool {
    let Some(local) = client.local else { return true };
    let named = |authority: &str| {
        let (host, port) = authority.rsplit_once(':').unwrap_or((authority, "80"));
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let ours = host.eq_ignore_ascii_case("localhost")
            || host
                .parse()
                .is_ok_and(|ip: std::net::IpAddr| ip == local.ip().to_canonical() || ip.is_loopback());
        ours && port.parse() == Ok(local.port())
    };
    let origin = request.fields.get("origin").map(|it| String::from_utf8_lossy(it).into_owned());
    let same_origin = origin.is_none_or(|it| it.strip_prefix("http://").is_some_and(named));
    named(&request.authority) && same_origin
}
