//! The scenarios, by what they are about.

mod aborts;
mod bad_origins;
mod coalescing;
mod files_attacks;
mod first_page;
mod framing;
mod limits;
mod passing;
mod poisoning;
mod slow_clients;
mod smuggling;
mod whole_program;
