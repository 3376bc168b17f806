//! The scenarios, by what they are about.

mod coalescing;
mod first_page;
mod passing;
mod whole_program;
