//! The larder binary: hands the command line to the command it names.
fn main() {}
