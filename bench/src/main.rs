//! Runs larder beside its peers and writes the figures; nothing of the server is here.
fn main() {}
