//! Statement 20: each limit that is hit has a status, a counter and a line in the log.
