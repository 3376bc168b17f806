//! Other forms of stored responses: made on a few threads of their own.

pub mod codec;
