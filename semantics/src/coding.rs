//! Content codings and quality values (RFC 9110 §12.5.3), and their normal form for keys.
