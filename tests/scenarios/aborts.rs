//! Statement 18: clients that go away, and a server that is told to.
