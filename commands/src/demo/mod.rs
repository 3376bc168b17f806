//! The demo: a small, deliberately slow site in the same binary, and examples to try with larder in front of it. It is an
//! origin like any other, without special treatment.

mod file;
mod image;
mod pages;
mod server;
mod shell;
#[cfg(test)]
mod tests;
mod words;

pub use file::DemoFile;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::time::Duration;

/// The time that the site takes for a page.
pub const SLOWNESS: Duration = Duration::from_millis(300);

/// Starts the site on a free port of 127.0.0.1, on a thread of its own that ends with the process.
///
/// # Errors
/// There is no port, or no thread.
pub fn start() -> io::Result<SocketAddr> {
    start_with(SLOWNESS)
}

/// As [`start`], with a given page time: zero for tests.
///
/// # Errors
/// As [`start`].
pub fn start_with(slowness: Duration) -> io::Result<SocketAddr> {
    let listener = TcpListener::bind(("127.0.0.1", 0))?;
    listener.set_nonblocking(true)?;
    let address = listener.local_addr()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    std::thread::Builder::new().name("demo-site".to_owned()).spawn(move || {
        tokio::task::LocalSet::new().block_on(&runtime, server::serve(listener, slowness));
    })?;
    Ok(address)
}

/// The output of `larder demo` below the addresses; `larder` is larder's own, `http://HOST:PORT`, and `site` the slow
/// site's. `explain` is the command for this larder, `larder explain` or longer; there is none if the admin is off.
/// `file` is the configuration, if there is one.
#[must_use]
pub fn hints(larder: &str, site: SocketAddr, explain: Option<&str>, file: Option<&Path>) -> String {
    let why = explain.map_or(String::new(), |it| WHY.replace("EXPLAIN", it));
    let own = file.map_or(String::new(), |it| CONFIGURATION.replace("FILE", &it.display().to_string()));
    (HINTS.to_owned() + &own + &why).replace("LARDER", larder).replace("SITE", &format!("http://{site}"))
}

/// The middle of [`hints`], with `FILE` in place of the configuration's path.
const CONFIGURATION: &str = r#"
  Change its configuration, with an editor or in the page above; it goes when this ends.
  $EDITOR FILE
"#;

/// The end of [`hints`], with `EXPLAIN` in place of the command.
const WHY: &str = r#"
  Why?  EXPLAIN LARDER/recipes/1
        EXPLAIN LARDER/me -H 'Cookie: session=Ada'
"#;

/// The text of [`hints`], with `LARDER` and `SITE` in place of the addresses.
const HINTS: &str = r#"
Open LARDER/ in a browser, and reload: the first time takes 300 ms, then none.
Every page says at its foot when it was made, and how slowly. The site without larder: SITE/

Try, in this order (-sD- prints the head; look at Cache-Status and Age):

  curl -sD- -o /dev/null LARDER/recipes/1          larder; fwd=uri-miss; fwd-status=200; stored
  curl -sD- -o /dev/null LARDER/recipes/1          larder; hit; ttl=…
  curl -sD- -o /dev/null LARDER/photos/1.png       an image of 58 KB; the second time from the arena
  curl -sD- -o /dev/null 'LARDER/search?q=pear'    every query is a page of its own
  curl -sD- -o /dev/null LARDER/now                changes every 3 s: a hit, or stale while it is made anew
  curl -sD- -o /dev/null LARDER/me -b session=Ada  private: never stored
  curl -sD- -o /dev/null LARDER/basket             no-store: passed each time
  curl -sD- -o /dev/null LARDER/hello -H 'Accept-Language: de'   Vary: one page for each language

  A form that invalidates: the guest book is a hit until somebody writes in it.
  curl -sD- -o /dev/null LARDER/guestbook
  curl -sD- -o /dev/null LARDER/guestbook -d 'name=Ada&text=Hello'
  curl -sD- -o /dev/null LARDER/guestbook          fwd=uri-miss again, with the new line in it

  An origin that fails: the dish of the day is kept for 5 s, and served stale once the kitchen is shut.
  curl -s -o /dev/null LARDER/special; curl -s -o /dev/null LARDER/kitchen -d 'is=shut'
  sleep 6; curl -sD- -o /dev/null LARDER/special   still 200, from the store: fwd=stale; fwd-status=503
  curl -s -o /dev/null LARDER/kitchen -d 'is=open'

  Compressed: kept once, made once for each coding; the first hit has it made, the next ones get it.
  for i in 1 2 3; do curl -sD- -o /dev/null LARDER/recipes/5 -H 'Accept-Encoding: br' | grep -i content-; done

  Many at once: one request reaches the site.
  for i in 1 2 3 4 5 6 7 8; do curl -sD- -o /dev/null LARDER/recipes/77 | grep -i cache-status & done; wait
"#;
