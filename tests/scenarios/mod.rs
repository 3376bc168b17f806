//! The scenarios, by what they are about.

mod aborts;
mod age;
mod bad_origins;
mod cache_control;
mod coalescing;
mod conditionals;
mod expires;
mod files_attacks;
mod first_page;
mod framing;
mod heuristics;
mod limits;
mod memory;
mod operations;
mod passing;
mod poisoning;
mod slow_clients;
mod smuggling;
mod validation;
mod vary;
mod whole_program;
