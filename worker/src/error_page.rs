//! Error pages that are pages of their site (`error_pages` with `url:`). Each worker requests them as a client of its own, without
//! credentials, and keeps the last one for the time when the application fails.

use crate::handler::RequestHandler;
use larder_observe::log::{Level, SubsystemLog};
use larder_semantics::error_page;
use larder_server::finish::SiteErrorPage;
use larder_transport::http_client::{ClientRequest, HttpClient};
use larder_transport::worker::TransportWorker;
use larder_transport::{Client, listener};
use std::cell::Cell;
use std::net::{Ipv4Addr, Shutdown, SocketAddr};
use std::os::unix::net::UnixStream;
use std::rc::Rc;
use std::time::Duration;
use tokio::task::JoinHandle;

/// The longest time of a request for a page.
const LONGEST: Duration = Duration::from_secs(2);
/// The time between two requests for a page.
const PAUSE: Duration = Duration::from_secs(5);
/// Bytes of the largest page.
const LARGEST: usize = 1 << 20;

/// The task of a worker that requests the pages of its configuration; it ends with this.
pub struct PageRefresher(JoinHandle<()>);

impl Drop for PageRefresher {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl PageRefresher {
    /// Requests each page now, and later whenever it was used or is still missing. `None` without pages.
    #[must_use]
    pub fn begin(
        pages: &[SiteErrorPage],
        front: &Rc<RequestHandler>,
        worker: &Rc<TransportWorker>,
        errors: SubsystemLog,
    ) -> Option<Self> {
        let (pages, front, worker) = (pages.to_vec(), front.clone(), worker.clone());
        let some = !pages.is_empty();
        some.then(|| {
            Self(tokio::task::spawn_local(async move {
                pages.iter().for_each(|it| it.page.note_use());
                loop {
                    for it in pages.iter().filter(|it| it.page.take_use()) {
                        if let Err(why) = refresh(it, &front, &worker).await {
                            it.page.note_use();
                            let values =
                                [("host", it.asker.host.as_str()), ("target", &it.target), ("why", &why)];
                            errors.seldom_of(Level::Warn, "error-page-failed", &it.target, &values);
                        }
                    }
                    tokio::time::sleep(PAUSE).await;
                }
            }))
        })
    }
}

/// Requests a page, and keeps it if it may stand in place of errors.
async fn refresh(
    it: &SiteErrorPage,
    front: &Rc<RequestHandler>,
    worker: &Rc<TransportWorker>,
) -> Result<(), String> {
    let text = |error: std::io::Error| error.to_string();
    let (ours, theirs) = UnixStream::pair().map_err(text)?;
    theirs.set_nonblocking(true).map_err(text)?;
    let client = Client {
        // No address list admits it by its address, and one that denies every client denies it: everybody gets the page.
        peer: Some(SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0))),
        hops: Vec::new(),
        local: None,
        listener: it.asker.listener.clone(),
        scheme: it.asker.scheme,
        tls: None,
        began: Cell::new(0),
        is_own: true,
        alternative: None,
    };
    if !listener::serve_own(theirs.into(), client, worker, front.clone()) {
        return Err("the limit of client connections is reached".to_owned());
    }
    let (end, host, target) = (ours.try_clone().map_err(text)?, it.asker.host.clone(), it.target.clone());
    let asked = tokio::task::spawn_blocking(move || fetch(ours, &host, &target));
    let answer = tokio::time::timeout(LONGEST, asked).await;
    let _ = end.shutdown(Shutdown::Both);
    let (media_type, body) = answer
        .map_err(|_| format!("no whole response within {} s", LONGEST.as_secs()))?
        .map_err(|error| error.to_string())??;
    it.page.replace(&media_type, body.into());
    Ok(())
}
/// The media type and body of a page.
fn fetch(stream: UnixStream, host: &str, target: &str) -> Result<(String, Vec<u8>), String> {
    let text = |it: std::io::Error| it.to_string();
    let mut client = HttpClient::over(stream, LONGEST).map_err(text)?;
    let fields: [(&str, &[u8]); 3] =
        [("User-Agent", b"larder"), ("Accept", b"text/html, */*;q=0.1"), ("Connection", b"close")];
    let request = ClientRequest { method: "GET", target, host, fields: &fields, body: None };
    let head = client.send(&request).map_err(text)?;
    if let Some(why) = error_page::refusal(head.status, &head.fields.view()) {
        return Err(why.to_owned());
    }
    let media_type = head.fields.get("content-type").unwrap_or(b"application/octet-stream");
    let media_type = String::from_utf8_lossy(media_type).into_owned();
    Ok((media_type, client.body(LARGEST).map_err(text)?))
}
