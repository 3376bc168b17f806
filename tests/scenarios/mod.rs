//! The scenarios, by what they are about.

mod coalescing;
mod first_page;
mod passing;
