//! The same after `larder warm`, with a visitor's session and without, and after RAM has evicted what it knew: the markers of pages that
//! are not shared go with the rest.

use super::applications::{Page, Site, pages};
use super::{FORMS, Trouble, Visitor, attack, origin};
use crate::harness::command::run;
use crate::harness::origin::{Script, response};
use crate::harness::tiers::disk;
use crate::harness::{Larder, Origin};

/// Every visitor asks for every page, whatever becomes of the origin.
fn all_ask(larder: &Larder, site: &Site, pages: &[Page]) {
    let mut client = larder.client();
    for trouble in [Trouble::None, Trouble::Status(500), Trouble::Close] {
        site.set(trouble);
        for (at, page) in pages.iter().enumerate() {
            for visitor in page.visitors {
                attack(&mut client, site, page, visitor, FORMS[0]);
                attack(&mut client, site, page, visitor, FORMS[at % FORMS.len()]);
            }
        }
    }
    site.set(Trouble::None);
}

#[test]
fn a_warmed_page_is_shown_to_no_other_visitor() {
    let pages = pages();
    let list: String = pages.iter().map(|it| format!("{}\n", it.target())).collect();
    // Those who ask for pages by a token or a password have none of the warmed ones either.
    for session in [None, Some(Visitor::Cookie("anna")), Some(Visitor::Bearer("anna"))] {
        let (origin, site) = origin();
        let larder = Larder::before(&origin, "");
        std::fs::write(larder.folder.path().join("urls"), &list).unwrap();
        let lines = session.map(|it| it.lines().trim_end().to_owned());
        let admin = larder.admin.to_string();
        let mut arguments = vec!["warm", "--admin", &admin, "--list", "urls", "-H", "Host: h"];
        if let Some(line) = &lines {
            arguments.extend(["-H", line]);
        }
        let ended = run(larder.folder.path(), &arguments);
        assert!(ended.code == 0 && origin.requests() >= pages.len(), "{ended:?}");
        let stored = larder.counter("cache_stores");
        assert_eq!(session.is_none(), stored > 0, "of a visitor's session nothing is stored: {stored}");
        all_ask(&larder, &site, &pages);
    }
}

#[test]
fn an_evicted_page_is_shown_to_no_other_visitor() {
    const FILLER: usize = 64 << 10;
    let pages = pages();
    let folder = tempfile::tempdir().unwrap();
    for below in [String::new(), disk(folder.path())] {
        let site = Site::default();
        let known = site.clone();
        let origin = Origin::scripted(move |request| match request.target().strip_prefix("/filler/") {
            Some(number) => {
                let body = number.repeat(FILLER / number.len());
                vec![Script::Send(response(&format!("HTTP/1.1 200 OK\nCache-Control: max-age=60\n\n{body}")))]
            }
            None => known.answer(request),
        });
        let larder = Larder::before_with(&origin, "", &format!("cache.ram.size = \"1MiB\"\n{below}"));
        let mut client = larder.client();
        for page in &pages {
            for visitor in [page.visitors[0], Visitor::Stranger] {
                attack(&mut client, &site, page, visitor, FORMS[0]);
            }
        }
        let before = larder.counter("cache_evictions");
        for number in 0..64 {
            client.get(&format!("/filler/{number}"));
        }
        let evicted = larder.counter("cache_evictions") - before;
        assert!(evicted >= 64, "the pages went before the fillers: {evicted}");
        all_ask(&larder, &site, &pages);
    }
}
