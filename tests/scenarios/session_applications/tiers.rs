//! The same with a disk and a fleet: nothing of one visitor's goes into a tier, and a second node, or the same one after a restart, shows
//! nothing of it.

use super::applications::pages;
use super::{FORMS, Trouble, Visitor, attack, origin};
use crate::harness::tiers::{disk, fleet, killed};
use crate::harness::{Larder, Memcached};

#[test]
fn no_tier_and_no_second_node_has_a_visitors_page() {
    let memcached = Memcached::start();
    let folder = tempfile::tempdir().unwrap();
    let (origin, site) = origin();
    let tiers = fleet(&[&memcached], "timeout = \"60s\"");
    let a = Larder::before_with(&origin, "", &(disk(folder.path()) + &tiers));
    let b = Larder::before_with(&origin, "", &tiers);
    let pages: Vec<_> = pages().into_iter().filter(|it| it.visitors[0] == Visitor::Cookie("anna")).collect();
    let mut client = a.client();
    for page in &pages {
        for visitor in &page.visitors[..2] {
            attack(&mut client, &site, page, *visitor, FORMS[0]);
        }
    }
    assert_eq!(
        (0, 0),
        (a.counter("cache_stores"), a.counter("disk_writes")),
        "of visitors with sessions nothing is stored"
    );
    for trouble in [Trouble::None, Trouble::Status(500), Trouble::Close] {
        site.set(trouble);
        for node in [&a, &b] {
            let mut client = node.client();
            for page in &pages {
                for visitor in page.visitors {
                    attack(&mut client, &site, page, visitor, FORMS[0]);
                }
            }
        }
    }
    drop(client);
    killed(a);
    // The pages of strangers, which may be there, are not shown to those with sessions either.
    let again = Larder::before_with(&origin, "", &(disk(folder.path()) + &tiers));
    let mut client = again.client();
    for trouble in [Trouble::Status(503), Trouble::Close, Trouble::None] {
        site.set(trouble);
        for page in &pages {
            for visitor in page.visitors {
                attack(&mut client, &site, page, visitor, FORMS[0]);
            }
        }
    }
}
