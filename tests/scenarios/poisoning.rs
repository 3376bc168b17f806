//! Statements 8 and 9: what one client provokes is not what the next one gets.
