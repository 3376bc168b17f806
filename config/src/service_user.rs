//! The user to which a start as root changes, by name or number, and its numbers on this machine.

use crate::{Config, Problem, RouteConfig, Source};
use larder_origin::OriginAddress;
use larder_stdx::error::plain;
use larder_transport::listener::{Listen, ListenerAddress};
use nix::unistd::{Gid, Group, Uid, User};

/// The values of `user` and `group`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceUser {
    /// A name or a number, not that of root.
    pub user: String,
    /// A name or a number; `None` is the primary group of the user.
    pub group: Option<String>,
}

/// Whether the process is restricted beyond the rights of its user, as far as the kernel can.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sandbox {
    /// After a change from root to `user`.
    Auto,
    /// Whatever its user is.
    On,
    /// Not at all.
    Off,
}

/// A user of this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Account {
    /// Its name; `None` for a number without an entry, which has no supplementary groups.
    pub name: Option<String>,
    /// Its number, which is not 0.
    pub uid: u32,
    /// The number of its group.
    pub gid: u32,
}

impl ServiceUser {
    /// The user on this machine.
    ///
    /// # Errors
    /// One sentence: it does not exist, it is root under another name, or it has no group.
    pub fn find(&self) -> Result<Account, String> {
        let Self { user, group } = self;
        let failed = |it: nix::Error| format!("user {user:?} cannot be looked up: {}", plain(&it.into()));
        let number = user.parse::<u32>().ok();
        let entry = match User::from_name(user).map_err(failed)? {
            None => number.map(|it| User::from_uid(Uid::from_raw(it))).transpose().map_err(failed)?.flatten(),
            entry => entry,
        };
        let uid = entry.as_ref().map(|it| it.uid.as_raw()).or(number);
        let uid = uid.ok_or_else(|| {
            format!("there is no user {user:?} on this machine; create it (useradd --system {user}), or name another one")
        })?;
        if uid == 0 {
            return Err(format!("user {user:?} has the number of root; name another one"));
        }
        let gid = match group {
            Some(group) => group_number(group)?,
            None => entry.as_ref().map(|it| it.gid.as_raw()).ok_or_else(|| {
                format!(
                    "user {user:?} has no entry, and so no primary group, on this machine; set group as well"
                )
            })?,
        };
        Ok(Account { name: entry.map(|it| it.name), uid, gid })
    }

    /// As in a message: `larder`, or `larder:www-data`.
    #[must_use]
    pub fn shown(&self) -> String {
        self.group.as_ref().map_or_else(|| self.user.clone(), |it| format!("{}:{it}", self.user))
    }
}

fn group_number(group: &str) -> Result<u32, String> {
    let failed = |it: nix::Error| format!("group {group:?} cannot be looked up: {}", plain(&it.into()));
    let entry = Group::from_name(group).map_err(failed)?.map(|it| it.gid);
    entry.map(Gid::as_raw).or_else(|| group.parse().ok()).ok_or_else(|| {
        format!("there is no group {group:?} on this machine; create it (groupadd --system {group}), or name another one")
    })
}

/// The warning for a user that this machine does not have: the server may be another one.
pub fn missing(config: &Config) -> Option<Problem> {
    let text = config.service_user.as_ref()?.find().err()?;
    let text = format!("{text}; a start as root fails");
    Some(Problem { source: config.decided.by("user"), key: "user".to_owned(), text })
}

/// The warning for a start as root without `user`.
pub fn keeps_root(config: &Config, is_root: bool) -> Option<Problem> {
    let (source, why) = config.reach_of_root().filter(|_| is_root)?;
    let text = format!(
        "not set: a start as root keeps every right of root, and {why}; set user = \"larder\", or start larder as another user"
    );
    Some(Problem { source, key: "user".to_owned(), text })
}

impl Config {
    /// Why root is a danger to the machine where the process keeps it, with the place in the file: programs of `cgi`, or clients
    /// of other machines. `None` with `user`.
    #[must_use]
    pub fn reach_of_root(&self) -> Option<(Source, String)> {
        if self.service_user.is_some() {
            return None;
        }
        let runs = |it: &&RouteConfig| it.origins().any(|it| matches!(it.at, OriginAddress::Programs(_)));
        if let Some(it) = self.sites.iter().flat_map(|it| &it.routes).find(runs) {
            return Some((it.source.clone(), format!("the programs of route {} run as root", it.name)));
        }
        let is_public = |it: &&ListenerAddress| match &it.at {
            Listen::Tcp(at) | Listen::Tls(at) => !at.ip().to_canonical().is_loopback(),
            Listen::Unix(_) => false,
        };
        let at = self.listen.iter().find(is_public)?;
        Some((self.decided.by("listen"), format!("clients of other machines reach {}", at.at)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_start_as_root_without_user_is_warned_of_if_programs_or_other_machines_profit() {
        let warning = |keys: &str, route: &str| {
            let text = format!("{keys}\n[[site]]\nhosts = \"*\"\n[[site.route]]\n{route}\n");
            let config = Config::from_text(&text, "t.toml", std::path::Path::new("."), &[]).unwrap();
            assert_eq!(None, keeps_root(&config, false));
            keeps_root(&config, true).map(|it| it.to_string())
        };
        let (public, plain, cgi) =
            ("listen = \"0.0.0.0:80\"", "proxy = { to = \":1\" }", "name = \"bin\"\ncgi = { root = \"/\" }");
        let expect = |at: &str, why: &str| {
            Some(format!(
                "t.toml:{at}: user: not set: a start as root keeps every right of root, and {why}; set user = \"larder\", or start larder as another user"
            ))
        };
        assert_eq!(expect("1", "clients of other machines reach http://0.0.0.0:80"), warning(public, plain));
        assert_eq!(expect("4", "the programs of route bin run as root"), warning("", cgi));
        assert_eq!(None, warning("listen = [\"127.0.0.1:80\", \"[::1]:80\", \"unix:/x\"]", plain));
        assert_eq!(None, warning("user = \"larder\"\nlisten = \"0.0.0.0:80\"", cgi));
    }

    #[track_caller]
    fn find(user: &str, group: Option<&str>) -> Result<Account, String> {
        ServiceUser { user: user.to_owned(), group: group.map(str::to_owned) }.find()
    }

    #[test]
    fn a_user_is_found_by_name_and_by_number() {
        let nobody = find("nobody", None).unwrap();
        assert_eq!(Some("nobody"), nobody.name.as_deref());
        assert_eq!(Ok(nobody.clone()), find(&nobody.uid.to_string(), None));
        let other = Account { name: None, uid: 4_000_000_001, gid: 4_000_000_002 };
        assert_eq!(Ok(other), find("4000000001", Some("4000000002")));
        assert_eq!(Ok(Account { gid: 7, ..nobody }), find("nobody", Some("7")));
    }

    #[test]
    fn a_user_that_cannot_be_used_is_an_error() {
        let why = find("no-such-user", None).unwrap_err();
        assert!(why.starts_with("there is no user \"no-such-user\" on this machine; create it"), "{why}");
        let why = find("nobody", Some("no-such-group")).unwrap_err();
        assert!(why.starts_with("there is no group \"no-such-group\" on this machine; create it"), "{why}");
        let why = find("4000000001", None).unwrap_err();
        assert!(why.ends_with("set group as well"), "{why}");
        for root in ["00", "root"] {
            assert_eq!(
                Err(format!("user {root:?} has the number of root; name another one")),
                find(root, None)
            );
        }
    }

    #[test]
    fn root_and_a_group_alone_are_refused_or_named() {
        let of = |keys: &str| {
            let text =
                format!("{keys}\n[[site]]\nhosts = \"*\"\nroute = [{{ proxy = {{ to = \":1\" }} }}]\n");
            Config::from_text(&text, "t.toml", std::path::Path::new("."), &[])
        };
        for root in ["root", "0", "000"] {
            let why = of(&format!("user = \"{root}\"")).unwrap_err().to_string();
            let expect = format!(
                "t.toml:1: user: \"{root}\" keeps every privilege; name another user, such as \"larder\", or remove this key"
            );
            assert_eq!(expect, why);
        }
        let given = of("group = \"www-data\"").unwrap();
        assert_eq!(None, given.service_user);
        let warnings: Vec<String> = given.warnings.iter().map(ToString::to_string).collect();
        assert_eq!(vec!["t.toml:1: group: no effect without user; set user, or remove group"], warnings);
        let given = of("sandbox = \"off\"").unwrap();
        assert!(
            given.warnings[0].to_string().ends_with("set user, write sandbox = \"on\", or remove sandbox"),
            "{:?}",
            given.warnings
        );
        let both = of("user = \"larder\"\ngroup = \"33\"").unwrap();
        assert_eq!("larder:33", both.service_user.as_ref().unwrap().shown());
        assert_eq!(Sandbox::Auto, both.sandbox);
        assert_eq!(Sandbox::Off, of("user = \"larder\"\nsandbox = \"off\"").unwrap().sandbox);
        let on = of("sandbox = \"on\"\nsandbox_paths = [\"/etc\"]").unwrap();
        assert_eq!((Sandbox::On, 0), (on.sandbox, on.warnings.len()), "{:?}", on.warnings);
        let unused = of("user = \"larder\"\nsandbox = \"off\"\nsandbox_paths = [\"/srv\"]").unwrap();
        assert!(
            unused.warnings[0]
                .to_string()
                .ends_with("sandbox_paths: no effect with sandbox = \"off\"; remove one of them")
        );
        let missing = of("user = \"larder\"\nsandbox_paths = [\"/etc\", \"missing\"]").unwrap();
        let expect = "t.toml:2: sandbox_paths: ./missing does not exist, and is not opened; create it, or remove it here";
        assert_eq!(vec![expect], missing.warnings.iter().map(ToString::to_string).collect::<Vec<_>>());
        let absent = of("user = \"no-such-user\"").unwrap().fit().unwrap();
        let warning =
            absent.warnings.iter().map(ToString::to_string).find(|it| it.contains("t.toml:1: user: "));
        assert!(warning.unwrap().ends_with("; a start as root fails"));
    }
}
