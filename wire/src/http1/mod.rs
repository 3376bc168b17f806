//! HTTP/1.1 as bytes (RFC 9112): heads, framing, chunked coding. Strict when it reads from a client,
//! strict when it reads from an origin, and canonical when it writes.

pub mod chunked;
mod lines;
pub mod request;
pub mod response;
pub mod write;
