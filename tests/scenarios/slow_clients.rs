//! Statements 11 and 18: whoever is slow is cut off, and nobody else notices.
