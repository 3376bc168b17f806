//! Statements 3 and 19: each way of answering leaves the connection at the next request, or closes it.
