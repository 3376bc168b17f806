//! A real, unmodified application behind larder: a shop in Flask under gunicorn, with sessions, uploads, redirects,
//! a streamed page and pages that fail.

use crate::harness::application::Application;
use crate::harness::{Client, Larder, Response};

fn before(origin: &str) -> Larder {
    Larder::command(&["proxy", origin, "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--workers", "2"])
}

fn shop() -> (Application, Larder) {
    let shop = Application::start("shop");
    let larder = before(&format!("http://{}", shop.address));
    (shop, larder)
}

/// The fields that go from end to end, without the two that say when.
fn end_to_end(response: &Response) -> Vec<(String, String)> {
    let hops = ["connection", "keep-alive", "transfer-encoding", "date", "age", "via", "cache-status"];
    let mut fields = response.fields.clone();
    fields.retain(|it| !hops.contains(&it.0.to_ascii_lowercase().as_str()));
    fields.iter_mut().for_each(|it| it.0.make_ascii_lowercase());
    fields.sort();
    fields
}

fn post_form(client: &mut Client, target: &str, cookie: &str, form: &str) -> Response {
    let lines = format!("Content-Type: application/x-www-form-urlencoded\r\n{cookie}");
    client.request("POST", target, &lines, form)
}

/// What a browser would send back.
fn cookie_of(response: &Response) -> String {
    let set = response.field("set-cookie").unwrap_or_else(|| panic!("a cookie is set: {response:?}"));
    format!("Cookie: {}\r\n", set.split(';').next().unwrap())
}

#[test]
fn pages_equal_those_of_the_application() {
    let (shop, larder) = shop();
    let mut client = larder.client();
    for target in ["/", "/item/1", "/item/2", "/search?q=pear", "/search?q=plum&x=%20"] {
        let direct = shop.direct().get(target);
        let (miss, hit) = (client.get(target), client.get(target));
        assert!(!miss.is_hit() && hit.is_hit(), "{target}: {miss:?} {hit:?}");
        for it in [&miss, &hit] {
            assert_eq!((200, &direct.body), (it.status, &it.body), "{target}");
            assert_eq!(end_to_end(&direct), end_to_end(it), "{target}");
        }
        assert_eq!(miss.field("date"), hit.field("date"), "{target}");
        let head = client.request("HEAD", target, "", "");
        assert_eq!((200, 0, hit.field("etag")), (head.status, head.body.len(), head.field("etag")));
        let same = client.get_with(target, &format!("If-None-Match: {}\r\n", hit.field("etag").unwrap()));
        assert_eq!((304, 0), (same.status, same.body.len()), "{target}");
    }
    assert_ne!(client.get("/search?q=pear").body, client.get("/search?q=plum&x=%20").body);
}

#[test]
fn ten_thousand_gets_reach_it_once() {
    let (shop, larder) = shop();
    let expect = shop.direct().get("/item/7");
    let mut client = larder.client();
    client.get("/item/7");
    let before = shop.requests();
    for _ in 0..10_000 {
        let hit = client.get("/item/7");
        assert!(hit.is_hit() && hit.body == expect.body, "{hit:?}");
    }
    assert_eq!(before, shop.requests());
}

#[test]
fn a_login_is_never_shared() {
    let (_shop, larder) = shop();
    let (mut ada, mut bob) = (larder.client(), larder.client());
    let landed = post_form(&mut ada, "/login", "", "name=Ada");
    assert_eq!((302, Some("/me")), (landed.status, landed.field("location")));
    let cookie = cookie_of(&landed);
    for _ in 0..3 {
        let page = ada.get_with("/me", &cookie);
        assert!(page.text().contains("Hello Ada.") && !page.is_hit(), "{page:?}");
        let page = bob.get("/me");
        assert!(page.text().contains("Hello stranger.") && page.field("set-cookie").is_none(), "{page:?}");
    }
    // A page that is cacheable stays shared for those who are logged in.
    ada.get_with("/item/3", &cookie);
    assert!(bob.get("/item/3").is_hit());
    let gone = cookie_of(&post_form(&mut ada, "/logout", &cookie, "x=1"));
    assert!(ada.get_with("/me", &gone).text().contains("Hello stranger."));
}

#[test]
fn a_cookie_that_is_set_reaches_one_client() {
    let (_shop, larder) = shop();
    let mut seen = Vec::new();
    for _ in 0..5 {
        let page = larder.get("/visit");
        let cookie = page.field("set-cookie").expect("each visitor gets a cookie").to_owned();
        assert!(!seen.contains(&cookie), "{cookie} twice");
        seen.push(cookie);
    }
}

#[test]
fn an_upload_arrives_as_it_was_sent() {
    let (_shop, larder) = shop();
    let content: String = (0..1_100_000_u64).map(|it| char::from(b' ' + (it * it % 89) as u8)).collect();
    let body = format!(
        "--fence\r\nContent-Disposition: form-data; name=\"note\"\r\n\r\nfor the shelf\r\n--fence\r\n\
         Content-Disposition: form-data; name=\"file\"; filename=\"list.txt\"\r\nContent-Type: text/plain\r\n\r\n\
         {content}\r\n--fence--\r\n"
    );
    let mut client = larder.client();
    let missing = client.get("/uploaded/list.txt");
    assert_eq!(404, missing.status);
    let lines = "Content-Type: multipart/form-data; boundary=fence\r\n";
    let taken = client.request("POST", "/upload", lines, &body);
    assert_eq!(201, taken.status, "{taken:?}");
    assert!(taken.text().contains("1100000") && taken.text().contains("for the shelf"), "{}", taken.text());
    for cache in ["from the shop", "from the cache"] {
        let back = client.get("/uploaded/list.txt");
        assert!(back.body == content.as_bytes(), "{cache}: {} bytes", back.body.len());
        assert_eq!(cache == "from the cache", back.is_hit());
    }
}

#[test]
fn a_change_is_seen_at_once_after_a_post() {
    let (_shop, larder) = shop();
    let mut client = larder.client();
    client.get("/item/5");
    assert!(client.get("/item/5").text().contains("It costs 105."));
    let changed = post_form(&mut client, "/item/5", "", "price=99");
    assert_eq!((303, Some("/item/5")), (changed.status, changed.field("location")));
    let page = client.get("/item/5");
    assert!(!page.is_hit() && page.text().contains("It costs 99."), "{page:?}");
    assert!(client.get("/item/5").is_hit());
}

#[test]
fn redirects_and_failures_pass() {
    let (_shop, larder) = shop();
    let mut client = larder.client();
    let moved = client.get("/old");
    assert_eq!((301, Some("/item/1")), (moved.status, moved.field("location")));
    for _ in 0..2 {
        let missing = client.get("/nowhere");
        assert_eq!(404, missing.status);
        assert!(missing.text().contains("no such page"));
        let broken = client.get("/broken");
        assert!(broken.status == 500 && !broken.is_hit(), "{broken:?}");
        assert!(broken.text().contains("closed for a moment"));
    }
}

#[test]
fn a_page_streams_while_it_is_made() {
    let (shop, larder) = shop();
    let mut client = larder.client();
    client.send("GET /stream/a HTTP/1.1\r\nHost: h\r\n\r\n");
    let mut arrived = String::new();
    while !arrived.contains("first half\n") {
        let more = client.read_bytes(1);
        assert!(!more.is_empty(), "the first half comes before the second is made: {arrived}");
        arrived.push_str(&String::from_utf8_lossy(&more));
    }
    assert_eq!(204, larder.client().request("POST", "/stream/a/go", "", "x").status);
    while !arrived.contains("second half\n") {
        let more = client.read_bytes(1);
        assert!(!more.is_empty(), "{arrived}");
        arrived.push_str(&String::from_utf8_lossy(&more));
    }
    let before = shop.requests();
    let again = larder.get("/stream/a");
    assert!(again.is_hit() && again.text() == "first half\nsecond half\n", "{again:?}");
    assert_eq!(before, shop.requests());
}

#[test]
fn larder_listens_on_a_unix_socket() {
    let shop = Application::start("shop");
    let larder = before(&format!("unix:{}", shop.socket.display()));
    let direct = shop.direct().get("/item/9");
    let (miss, hit) = (larder.get("/item/9"), larder.get("/item/9"));
    assert!(!miss.is_hit() && hit.is_hit(), "{miss:?} {hit:?}");
    assert_eq!((&direct.body, end_to_end(&direct)), (&hit.body, end_to_end(&hit)));
}
