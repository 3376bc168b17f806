//! Sequential requests on persistent connections, with the duration of each: to the last byte of its response, which is
//! checked to be complete and for the requested page.

use larder_stdx::clock;
use larder_transport::http_client::{ClientRequest, HttpClient};
use larder_transport::listener::Listen;
use std::net::SocketAddr;
use std::time::Duration;

/// The limit of one request: a slower response on this machine is an error.
const TIMEOUT: Duration = Duration::from_secs(10);

/// The result of one measurement.
pub(super) struct MeasuredLoad {
    /// Microseconds of each response.
    pub micros: Vec<u32>,
    /// Requests without a response, or with a status other than 200.
    pub failed: u64,
}

/// Requests each page once.
pub(super) fn ask_each(larder: SocketAddr, pages: &[String]) -> Result<(), String> {
    let mut connection = LoadConnection::open(larder)?;
    for page in pages {
        match connection.get(page) {
            Ok(200) => {}
            Ok(status) => return Err(format!("{page}: status {status}.")),
            Err(error) => return Err(format!("{page}: no response: {error}.")),
        }
    }
    Ok(())
}

/// `concurrency` connections request the pages in turn, each from another one on, for the given time.
pub(super) fn measure(
    larder: SocketAddr,
    pages: &[String],
    concurrency: usize,
    time: Duration,
) -> Result<MeasuredLoad, String> {
    let connections: Vec<LoadConnection> =
        (0..concurrency).map(|_| LoadConnection::open(larder)).collect::<Result<_, _>>()?;
    let until = clock::precise_micros() + u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
    let loads: Vec<MeasuredLoad> = std::thread::scope(|scope| {
        let threads: Vec<_> = connections
            .into_iter()
            .enumerate()
            .map(|(number, mut connection)| {
                let first = number * pages.len() / concurrency;
                scope.spawn(move || connection.run(pages, first, until))
            })
            .collect();
        threads.into_iter().filter_map(|it| it.join().ok()).collect()
    });
    let mut all = MeasuredLoad { micros: Vec::new(), failed: 0 };
    for it in loads {
        all.micros.extend(it.micros);
        all.failed += it.failed;
    }
    Ok(all)
}

struct LoadConnection(HttpClient);

impl LoadConnection {
    fn open(larder: SocketAddr) -> Result<Self, String> {
        let open = HttpClient::connect(&Listen::Tcp(larder), TIMEOUT);
        open.map(Self).map_err(|it| format!("{larder} is unreachable: {it}."))
    }

    fn run(&mut self, pages: &[String], first: usize, until: u64) -> MeasuredLoad {
        let mut load = MeasuredLoad { micros: Vec::new(), failed: 0 };
        for page in pages.iter().cycle().skip(first) {
            let begin = clock::precise_micros();
            if begin >= until {
                break;
            }
            match self.get(page) {
                Ok(200) => {
                    let took = clock::precise_micros() - begin;
                    load.micros.push(u32::try_from(took).unwrap_or(u32::MAX));
                }
                Ok(_) => load.failed += 1,
                Err(_) => {
                    load.failed += 1;
                    break;
                }
            }
        }
        load
    }

    /// Requests one page; returns its status after the last byte.
    fn get(&mut self, page: &str) -> std::io::Result<u16> {
        let request = ClientRequest { method: "GET", target: page, host: "bench", fields: &[], body: None };
        let head = self.0.send(&request)?;
        self.0.skip_body()?;
        Ok(head.status)
    }
}
