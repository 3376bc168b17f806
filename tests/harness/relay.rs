//! A network between a larder and one memcached that can fail: bytes stop, or connections are dropped.

use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex};

/// How the network is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// Everything passes.
    Open,
    /// Nothing passes, without an error; sent bytes arrive when it is open again.
    Silent,
    /// Connections end, and new ones end at once.
    Dropped,
}

/// A socket that passes everything on to another, while it is open.
pub struct Relay {
    folder: tempfile::TempDir,
    state: Arc<State>,
}

struct State {
    way: Mutex<Way>,
    changed: Condvar,
    streams: Mutex<Vec<UnixStream>>,
}

impl Relay {
    /// To the socket `target`.
    pub fn to(target: PathBuf) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let listener = UnixListener::bind(folder.path().join("socket")).unwrap();
        let state = Arc::new(State {
            way: Mutex::new(Way::Open),
            changed: Condvar::new(),
            streams: Mutex::default(),
        });
        let of_all = state.clone();
        std::thread::spawn(move || {
            for near in listener.incoming().flatten() {
                // Nobody holds the relay any more: the scenario is over.
                if Arc::strong_count(&of_all) == 1 {
                    return;
                }
                if of_all.way() != Way::Dropped
                    && let Ok(far) = UnixStream::connect(&target)
                {
                    of_all.join(near, far);
                }
            }
        });
        Self { folder, state }
    }

    /// As the configuration names it.
    pub fn name(&self) -> String {
        format!("unix:{}", self.folder.path().join("socket").display())
    }

    /// From now on it is so.
    pub fn set(&self, way: Way) {
        *self.state.way.lock().unwrap() = way;
        if way == Way::Dropped {
            for it in self.state.streams.lock().unwrap().drain(..) {
                let _ = it.shutdown(Shutdown::Both);
            }
        }
        self.state.changed.notify_all();
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.set(Way::Dropped);
        // Wakes the one that accepts; its count of the state is the last then.
        let socket = self.folder.path().join("socket");
        self.state = Arc::new(State {
            way: Mutex::new(Way::Dropped),
            changed: Condvar::new(),
            streams: Mutex::default(),
        });
        let _ = UnixStream::connect(socket);
    }
}

impl State {
    fn way(&self) -> Way {
        *self.way.lock().unwrap()
    }

    /// Passes bytes both ways; the threads end with the connection.
    fn join(self: &Arc<Self>, near: UnixStream, far: UnixStream) {
        let copies = [near.try_clone(), far.try_clone(), near.try_clone(), far.try_clone()];
        let Ok([to_near, to_far, kept_near, kept_far]) = copies
            .into_iter()
            .collect::<Result<Vec<_>, _>>()
            .map(|it| <[UnixStream; 4]>::try_from(it).unwrap())
        else {
            return;
        };
        self.streams.lock().unwrap().extend([kept_near, kept_far]);
        for (from, to) in [(near, to_far), (far, to_near)] {
            let state = Arc::downgrade(self);
            std::thread::spawn(move || {
                pass(from, to, || {
                    let Some(state) = state.upgrade() else { return Way::Dropped };
                    let way = state.way.lock().unwrap();
                    *state.changed.wait_while(way, |it| *it == Way::Silent).unwrap()
                });
            });
        }
    }
}

fn pass(mut from: UnixStream, mut to: UnixStream, way: impl Fn() -> Way) {
    let mut buffer = [0; 16 << 10];
    while let Ok(count @ 1..) = from.read(&mut buffer) {
        if way() == Way::Dropped || to.write_all(&buffer[..count]).is_err() {
            break;
        }
    }
    let _ = (from.shutdown(Shutdown::Both), to.shutdown(Shutdown::Both));
}
