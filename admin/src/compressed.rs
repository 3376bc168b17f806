//! JSON answers in gzip, for clients that accept it: readings of many routes are long and repeat their names. The compression
//! of responses of routes is in `larder_gateway::coding`, whose codec this uses.

use larder_gateway::coding::codec::{CodecLevels, encode};
use larder_semantics::coding::{AcceptedCodings, Coding};
use larder_transport::Synthetic;
use larder_wire::message::Request;

/// Bytes from which an answer is compressed: below, it fits into a packet or two.
const LEAST: usize = 2 << 10;

/// Bytes above which it is not: compression would delay the other requests of the admin listener. 4 MiB take 30 ms.
const MOST: usize = 4 << 20;

/// The fastest level: names repeat so often that the others gain little.
pub(super) const LEVELS: CodecLevels = CodecLevels { gzip: 1, brotli: 0, zstd: 1 };

/// A JSON answer, in gzip if the client accepts it and that is worth its time.
pub fn json(status: u16, text: Vec<u8>, request: &Request) -> Synthetic {
    let accepts = || {
        // Without the field every coding is acceptable, but programs that omit it rarely decode one.
        request.fields.contains("accept-encoding")
            && AcceptedCodings::read(&request.fields.view()).quality(Coding::Gzip) > 0
    };
    if (LEAST..=MOST).contains(&text.len())
        && accepts()
        && let Ok(Some(coded)) = encode(Coding::Gzip, LEVELS, &text)
    {
        return Synthetic::new(status, "application/json", coded)
            .with("Content-Encoding", "gzip")
            .with("Vary", "Accept-Encoding");
    }
    Synthetic::new(status, "application/json", text)
}
