//! The admin page: the files built from `ui/`, which `build.rs` puts into this binary. They are public: their data are
//! requested with a token. Without a built page there is a note instead (`note`).

use super::{Admin, AdminRequest, AdminResponse, note, problem_at};
use larder_semantics::coding::{AcceptedCodings, Coding};
use larder_semantics::entity_tag;
use larder_transport::Synthetic;
use larder_wire::message::Request;

/// A file of the page.
struct PageFile {
    /// Its name within the page, such as `index.html` or `assets/index-Cq1dU2.js`.
    name: &'static str,
    /// Its media type.
    content_type: &'static str,
    /// The hash of its contents.
    etag: &'static str,
    /// Uncompressed.
    plain: &'static [u8],
    /// In brotli; empty if it was not made.
    br: &'static [u8],
    /// In gzip; the same.
    gzip: &'static [u8],
}

/// Every file of the page; empty if it was not built.
static FILES: &[PageFile] = include!(concat!(env!("OUT_DIR"), "/page.rs"));

/// The content policy of the page: loading from and requests to this listener only; no frames.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

impl Admin {
    /// `GET /`.
    pub(super) fn page(&self, asked: AdminRequest<'_>) -> AdminResponse {
        match FILES.iter().find(|it| it.name == "index.html") {
            Some(file) => file.answer(asked.request),
            None => note::answer(),
        }
    }

    /// `GET /assets/{name}`.
    pub(super) fn asset(&self, asked: AdminRequest<'_>) -> AdminResponse {
        let named = asked.named.unwrap_or("");
        match FILES.iter().find(|it| it.name.strip_prefix("assets/") == Some(named)) {
            Some(file) => file.answer(asked.request),
            None => problem_at(404, format!("The page has no file {named:?}; reload the page."), "path"),
        }
    }
}

impl PageFile {
    fn answer(&self, request: &Request) -> AdminResponse {
        let (coding, bytes) = self.form(request);
        let etag = format!("\"{}{}\"", self.etag, coding.unwrap_or(""));
        let known = request.fields.get("if-none-match").unwrap_or_default();
        let is_known = entity_tag::entity_tags(known).any(|it| entity_tag::weak_eq(it, etag.as_bytes()));
        let whole = match is_known {
            true => Synthetic::empty(304),
            false => Synthetic::new(200, self.content_type, bytes),
        };
        // A name in assets/ has a hash of the contents; other files are validated each time.
        let is_hashed = self.name.starts_with("assets/");
        let whole = whole
            .with("ETag", &etag)
            .with("Vary", "Accept-Encoding")
            .with("Cache-Control", if is_hashed { "public, max-age=31536000, immutable" } else { "no-cache" })
            .with("Content-Security-Policy", POLICY)
            .with("Referrer-Policy", "no-referrer");
        AdminResponse::Whole(match coding.filter(|_| !is_known) {
            Some(coding) => whole.with("Content-Encoding", coding),
            None => whole,
        })
    }

    /// The smallest encoding that the client accepts, and its coding.
    fn form(&self, request: &Request) -> (Option<&'static str>, &'static [u8]) {
        if !request.fields.contains("accept-encoding") {
            return (None, self.plain);
        }
        let accepted = AcceptedCodings::read(&request.fields.view());
        let reads = |coding, bytes: &[u8]| !bytes.is_empty() && accepted.quality(coding) > 0;
        match () {
            () if reads(Coding::Brotli, self.br) => (Some("br"), self.br),
            () if reads(Coding::Gzip, self.gzip) => (Some("gzip"), self.gzip),
            () => (None, self.plain),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use larder_semantics::field::FieldList;
    use larder_transport::body::BodyPiece;
    use larder_wire::message::{Framing, Version};

    fn request(fields: &[(&str, &str)]) -> Request {
        let mut list = FieldList::new();
        for (name, value) in fields {
            list.push(name, value);
        }
        Request {
            scheme: Default::default(),
            method: "GET".to_owned(),
            target: "/".to_owned(),
            authority: "127.0.0.1:9180".to_owned(),
            version: Version::Http11,
            protocol: None,
            fields: list,
            framing: Framing::Empty,
            expects_continue: false,
        }
    }

    /// A file in all its forms, so that these tests hold without a built page, too.
    const FILE: PageFile = PageFile {
        name: "assets/a-1.js",
        content_type: "text/javascript; charset=utf-8",
        etag: "1",
        plain: b"plain",
        br: b"br",
        gzip: b"gzip",
    };

    /// Status, body and, where it is there, `Content-Encoding`.
    fn answer(file: &PageFile, fields: &[(&str, &str)]) -> (u16, String, Option<String>) {
        let AdminResponse::Whole(Synthetic { status, fields, body, .. }) = file.answer(&request(fields))
        else {
            panic!("is whole")
        };
        let body = match body.as_slice() {
            [] => &[],
            [BodyPiece::Bytes(bytes)] => &bytes[..],
            _ => panic!("is in memory"),
        };
        assert!(
            fields.contains("content-security-policy") && fields.contains("etag") && fields.contains("vary")
        );
        let text = |it: &[u8]| String::from_utf8_lossy(it).into_owned();
        (status, text(body), fields.get("content-encoding").map(text))
    }

    #[test]
    fn the_smallest_form_that_the_client_reads_is_sent() {
        #[track_caller]
        fn check(accepts: &[(&str, &str)], expect: &str, coding: Option<&str>) {
            assert_eq!((200, expect.to_owned(), coding.map(str::to_owned)), answer(&FILE, accepts));
        }
        check(&[], "plain", None);
        check(&[("Accept-Encoding", "gzip, deflate, br")], "br", Some("br"));
        check(&[("Accept-Encoding", "gzip")], "gzip", Some("gzip"));
        check(&[("Accept-Encoding", "br;q=0, gzip;q=0")], "plain", None);
    }

    #[test]
    fn a_form_that_was_not_made_is_not_sent() {
        let file = PageFile { br: b"", ..FILE };
        assert_eq!("gzip", answer(&file, &[("Accept-Encoding", "br, gzip")]).1);
    }

    #[test]
    fn a_file_that_the_client_has_is_answered_304() {
        let known = [("Accept-Encoding", "br"), ("If-None-Match", "\"0\", W/\"1br\"")];
        assert_eq!((304, String::new(), None), answer(&FILE, &known));
        assert_eq!(200, answer(&FILE, &[("If-None-Match", "\"1br\"")]).0, "another form is another entity");
    }

    #[test]
    fn only_a_name_that_has_a_hash_is_kept_for_good() {
        let control = |name| {
            let AdminResponse::Whole(whole) = PageFile { name, ..FILE }.answer(&request(&[])) else {
                panic!("is whole")
            };
            String::from_utf8(whole.fields.get("cache-control").unwrap().to_vec()).unwrap()
        };
        assert_eq!("public, max-age=31536000, immutable", control("assets/a-1.js"));
        assert_eq!("no-cache", control("index.html"));
    }

    /// The bytes of a file in its smallest form.
    fn sent(it: &PageFile) -> usize {
        it.br.len().min(it.gzip.len())
    }

    /// The bytes that a browser receives are few, and a page that was built is whole.
    #[test]
    fn the_page_is_at_most_110_kib() {
        let size: usize = FILES.iter().map(sent).sum();
        assert!(size <= 110 * 1024, "the page is {size} bytes compressed");
        assert!(FILES.iter().all(|it| !it.gzip.is_empty() && !it.br.is_empty()), "every file is compressed");
        let has = |suffix: &str| FILES.iter().any(|it| it.name.ends_with(suffix));
        assert!(FILES.is_empty() || ["index.html", ".js", ".css"].into_iter().all(has), "the page is whole");
    }

    /// The first view needs the files that the page itself names; the code of other views is loaded when they are opened.
    #[test]
    fn the_first_view_is_at_most_60_kib() {
        let Some(page) = FILES.iter().find(|it| it.name == "index.html") else { return };
        let text = std::str::from_utf8(page.plain).unwrap();
        let first: Vec<&PageFile> =
            FILES.iter().filter(|it| it.name == page.name || text.contains(it.name)).collect();
        assert_eq!(4, first.len(), "the page, its script, its style and its icon");
        let size: usize = first.iter().copied().map(sent).sum();
        assert!(size <= 60 * 1024, "the first view is {size} bytes compressed");
        let scripts = FILES.iter().filter(|it| it.name.ends_with(".js")).count();
        assert!(scripts > 6, "the other views are files of their own");
    }

    /// The policy forbids what stands in the page itself, so nothing may.
    #[test]
    fn the_page_has_no_inline_styles_or_scripts_and_no_foreign_urls() {
        for file in FILES.iter().filter(|it| it.name.ends_with(".html")) {
            let text = std::str::from_utf8(file.plain).unwrap();
            for bad in ["<style", "style=", "://", "onload="] {
                assert!(!text.contains(bad), "{}: {bad}", file.name);
            }
            let scripts = text.matches("<script").count();
            assert_eq!(scripts, text.matches("src=\"./assets/").count(), "every script is a file");
        }
    }
}
