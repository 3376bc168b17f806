//! The effect of passwords on the hits of other clients: of users whose password was verified, and of a flood of wrong ones.

use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread::{scope, sleep};
use std::time::Duration;

use larder_stdx::clock::precise_micros;
use socket2::{Domain, Socket, Type};

use crate::cases::Origin;
use crate::fetch;
use crate::process::{Cores, Running, free_port};
use crate::run::Settings;
use crate::servers::Plan;
use crate::statistics::{Bound, Verdict, paired_ratio};
use crate::steady::{self, ASKERS, Hits, within};

/// The password "open sesame" as argon2id, with the parameters of RFC 9106 for little memory.
const USERS: &str = include_str!("../load/users");
/// `Authorization` of the user with the right password: `Aladdin:open sesame`.
const RIGHT: &str = "QWxhZGRpbjpvcGVuIHNlc2FtZQ==";
/// Connections of users; each sends a request every [`EACH`] microseconds: 1,000 a second together.
const USERS_AT_ONCE: u64 = 10;
const EACH: u64 = 10_000;
/// Connections of the flood, each as fast as it is answered, from an address of its own each time.
const FLOOD: u8 = 16;

/// How much longer 99 of 100 hits may take during requests of verified users: not at all, within the noise.
const KNOWN: Bound = Bound::AtMost(1.05);
/// And during a flood of wrong passwords.
const WRONG: Bound = Bound::AtMost(1.1);

/// The figures of the rounds.
#[derive(Clone, Debug, Default)]
pub struct Passwords {
    /// Hits alone.
    pub alone: Vec<Hits>,
    /// Hits during 1,000 requests a second with a verified password, and how many these were.
    pub known: Vec<(Hits, u64)>,
    /// Hits during a flood of wrong passwords, and how many these were.
    pub wrong: Vec<(Hits, u64)>,
}

impl Passwords {
    /// The figures as lines of the table of targets.
    pub fn judged(seen: Option<&Passwords>) -> Vec<(String, Bound, Option<f64>, Verdict)> {
        let alone = |it: &Passwords| it.alone.iter().map(p99).collect::<Vec<_>>();
        let ratio = |of: fn(&Passwords) -> &Vec<(Hits, u64)>| {
            seen.and_then(|it| {
                let with: Vec<f64> = of(it).iter().map(|it| p99(&it.0)).collect();
                paired_ratio(&with, &alone(it))
            })
        };
        let lines = [
            (
                "p99 of hits beside 1,000 requests a second with a verified password ÷ alone",
                KNOWN,
                ratio(|it| &it.known),
            ),
            ("p99 of hits beside a flood of wrong passwords ÷ alone", WRONG, ratio(|it| &it.wrong)),
        ];
        lines.map(|(what, bound, figure)| (what.to_owned(), bound, figure, bound.judge(figure))).into()
    }

    /// One line for a report.
    pub fn sentence(&self) -> String {
        let last = |it: &[(Hits, u64)]| it.last().map_or((0, 0), |it| (it.0.most, it.1));
        let (known, wrong) = (last(&self.known), last(&self.wrong));
        format!(
            "In the last round 99 of 100 hits took {} µs alone, {} µs beside {} requests with a verified password, and {} µs beside {} wrong \
             passwords.",
            self.alone.last().map_or(0, |it| it.most),
            known.0,
            known.1,
            wrong.0,
            wrong.1,
        )
    }
}

#[allow(clippy::cast_precision_loss, reason = "microseconds")]
fn p99(it: &Hits) -> f64 {
    it.most as f64
}

/// Runs the rounds: hits alone, during requests of users, and during the flood.
///
/// # Errors
/// A part is missing, or an answer is wrong.
pub fn run(settings: &Settings) -> Result<Passwords, String> {
    let root = settings.page(1795)?;
    let origin = settings.origin(Origin::Storable.headers(), &root)?;
    let larder = start(settings, origin.port)?;
    let first = ask_as(&mut fetch::connect(larder.port)?, RIGHT)?;
    if first != 200 {
        return Err(format!("the right password was answered {first}"));
    }
    let mut seen = Passwords::default();
    for round in 0..settings.rounds.min(5) {
        seen.alone.push(hits(settings, larder.port, &|_| {})?);
        let sent = AtomicU64::new(0);
        let known = hits(settings, larder.port, &|ended| known_users(larder.port, &sent, ended))?;
        seen.known.push((known, sent.swap(0, Relaxed)));
        let wrong = hits(settings, larder.port, &|ended| flood(larder.port, round, &sent, ended))?;
        seen.wrong.push((wrong, sent.load(Relaxed)));
        eprintln!("  passwords: round {}", round + 1);
    }
    Ok(seen)
}

fn start(settings: &Settings, origin: u16) -> Result<Running, String> {
    let port = free_port().map_err(|it| it.to_string())?;
    let dir = settings.dir.join(format!("passwords-{port}"));
    let text = format!(
        "listen = [\"127.0.0.1:{port}\"]\nworkers = 1\n\n[admin]\nenabled = false\n\n[log]\naccess = \"off\"\n\n[[site]]\nhosts = [\"*\"]\n\n\
         [[site.route]]\npath = \"/users/*\"\naccess = {{ basic = {{ file = \"users\" }}, shared = true }}\nrespond = {{ body = \"user\" }}\n\n\
         [[site.route]]\npath = \"/*\"\nproxy = {{ to = [\"http://127.0.0.1:{origin}\"] }}\n",
    );
    let files = vec![("larder.toml", text), ("users", USERS.to_owned())];
    Plan { files, ..Plan::default() }.write(&dir)?;
    let mut argv = vec![settings.ours.larder.display().to_string(), "run".to_owned(), "-c".to_owned()];
    argv.push(dir.join("larder.toml").display().to_string());
    Running::start(&argv, Cores::Server, settings.nice, port, &dir.join("log"))
}

/// Hits for the time of a turn, while another load runs until the turn has ended.
fn hits(settings: &Settings, port: u16, beside: &(dyn Fn(&AtomicBool) + Sync)) -> Result<Hits, String> {
    let (seen, ended) = (Mutex::new(Vec::new()), AtomicBool::new(false));
    scope(|scope| {
        let (seen, ended) = (&seen, &ended);
        for asker in 0..ASKERS {
            scope.spawn(move || steady::send(port, asker, |_| "/page.html".to_owned(), seen, ended));
        }
        scope.spawn(move || beside(ended));
        sleep(Duration::from_secs(u64::from(settings.seconds)));
        ended.store(true, Relaxed);
    });
    let seen = seen.into_inner().unwrap_or_default();
    match seen.len() {
        0 => Err("no hit was answered".to_owned()),
        _ => Ok(within(seen.into_iter().map(|it| it.1).collect())),
    }
}

/// Users with the right password, at a fixed rate.
fn known_users(port: u16, sent: &AtomicU64, ended: &AtomicBool) {
    scope(|scope| {
        for user in 0..USERS_AT_ONCE {
            scope.spawn(move || {
                let Ok(mut stream) = fetch::connect(port) else { return };
                let mut due = precise_micros() + user * (EACH / USERS_AT_ONCE);
                while !ended.load(Relaxed) {
                    sleep(Duration::from_micros(due.saturating_sub(precise_micros())));
                    due += EACH;
                    match ask_as(&mut stream, RIGHT) {
                        Ok(200) => sent.fetch_add(1, Relaxed),
                        _ => break,
                    };
                }
            });
        }
    });
}

/// Clients with wrong passwords, each from another address every time: no limit of a network ends them.
fn flood(port: u16, round: u32, sent: &AtomicU64, ended: &AtomicBool) {
    let round = u8::try_from(round % 200).unwrap_or(0);
    scope(|scope| {
        for client in 0..FLOOD {
            scope.spawn(move || {
                for at in 0..u32::MAX {
                    if ended.load(Relaxed) {
                        break;
                    }
                    let [.., high, low] = at.to_be_bytes();
                    let from = Ipv4Addr::new(127, 16 + client, round.wrapping_add(high), low.max(1));
                    let Ok(mut stream) = connect_from(from, port) else { break };
                    // "user:wrong"
                    if ask_as(&mut stream, "dXNlcjp3cm9uZw==").is_ok() {
                        sent.fetch_add(1, Relaxed);
                    }
                }
            });
        }
    });
}

/// The status of a request with these credentials.
fn ask_as(stream: &mut TcpStream, credentials: &str) -> Result<u16, String> {
    let request = format!("GET /users/x HTTP/1.1\r\nHost: x\r\nAuthorization: Basic {credentials}\r\n\r\n");
    let (head, _) = fetch::exchange(stream, &request)?;
    let status = String::from_utf8_lossy(&head).split(' ').nth(1).and_then(|it| it.parse().ok());
    status.ok_or_else(|| "answered no status".to_owned())
}

fn connect_from(address: Ipv4Addr, port: u16) -> std::io::Result<TcpStream> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
    socket.bind(&SocketAddr::from((address, 0)).into())?;
    socket.set_read_timeout(Some(Duration::from_secs(10)))?;
    socket.connect(&SocketAddr::from((Ipv4Addr::LOCALHOST, port)).into())?;
    Ok(socket.into())
}
