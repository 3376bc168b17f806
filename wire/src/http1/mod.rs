//! HTTP/1.1 as bytes (RFC 9112): heads, framing, chunked coding. Strict with clients, strict with origins, and canonical
//! when it writes.

pub mod chunked;
mod lines;
pub mod request;
pub mod response;
pub mod write;
