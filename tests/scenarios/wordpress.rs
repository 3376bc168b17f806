//! A real WordPress with MariaDB and php-fpm behind `preset = "wordpress"`: anonymous visitors get stored pages, an editor gets pages of
//! his own, and a new post is on the home page at once.

use crate::harness::http2::{END_STREAM, Http2, request};
use crate::harness::mariadb::MariaDb;
use crate::harness::origin::Place;
use crate::harness::php::PhpFpm;
use crate::harness::{Larder, Response};
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

const PLUGIN: &str = include_str!("../apps/wordpress.php");
const STYLE: &str = "/wp-content/themes/twentytwentythree/style.css";
/// The bar of WordPress above the pages of a user who is logged in.
const ADMIN_BAR: &str = "id=\"wpadminbar\"";

/// A site, which is installed.
struct Blog {
    larder: Larder,
    _fpm: PhpFpm,
    _maria: MariaDb,
    folder: tempfile::TempDir,
}

/// Debian's WordPress without its configuration, which is for the whole machine.
fn copy(to: &Path) {
    let copied = Command::new("cp").args(["-rL", "/usr/share/wordpress/.", "."]).current_dir(to).status();
    let is_whole = copied.unwrap().success() && to.join(&STYLE[1..]).exists();
    assert!(is_whole, "this test runs a real application: install the Debian packages of tests/install");
    let plugins = to.join("wp-content/mu-plugins");
    std::fs::create_dir(&plugins).unwrap();
    std::fs::write(plugins.join("purge.php"), PLUGIN).unwrap();
}

fn configure(root: &Path, socket: PathBuf, address: SocketAddr) {
    let text = format!(
        "<?php\ndefine('DB_NAME', 'shop'); define('DB_USER', 'larder'); define('DB_PASSWORD', 'geheim');\n\
         define('DB_HOST', 'localhost:{}'); define('DB_CHARSET', 'utf8mb4'); define('DB_COLLATE', '');\n\
         define('WP_HOME', 'http://{address}'); define('WP_SITEURL', WP_HOME);\n\
         foreach (['AUTH', 'SECURE_AUTH', 'LOGGED_IN', 'NONCE'] as $it) {{ define($it . '_KEY', $it . 'a'); define($it . '_SALT', $it . 'b'); }}\n\
         define('WP_HTTP_BLOCK_EXTERNAL', true); define('DISABLE_WP_CRON', true); define('AUTOMATIC_UPDATER_DISABLED', true);\n\
         $table_prefix = 'wp_';\ndefined('ABSPATH') || define('ABSPATH', __DIR__ . '/');\nrequire ABSPATH . 'wp-settings.php';\n",
        socket.display()
    );
    std::fs::write(root.join("wp-config.php"), text).unwrap();
}

impl Blog {
    /// Installs it with the form of WordPress.
    fn install() -> Self {
        let (maria, fpm, folder) = (MariaDb::start(""), PhpFpm::start(3), tempfile::tempdir().unwrap());
        copy(folder.path());
        let larder = Larder::configured(format!(
            "listen = [\"127.0.0.1:0\"]\nworkers = 2\n[[site]]\nhosts = [\"*\"]\n[[site.route]]\npath = \"/*\"\n\
             php = {{ root = {:?}, to = {:?} }}\nproxy.first_byte_timeout = \"10m\"\n\
             cache = {{ preset = \"wordpress\", purge = {{ method = true, from = [\"127.0.0.1\"] }} }}\n",
            folder.path(),
            fpm.name()
        ));
        configure(folder.path(), maria.socket(), larder.address);
        let it = Self { larder, _fpm: fpm, _maria: maria, folder };
        let form = "weblog_title=Lighthouse&user_name=editor&admin_password=geheim&admin_password2=geheim&pw_weak=on\
                    &admin_email=editor@blog.test&blog_public=1&language=&Submit=Install";
        let installed = it.send("POST", "/wp-admin/install.php?step=2", FORM, form);
        assert!(installed.text().contains("<h1>Success!</h1>"), "{}", installed.text());
        it
    }

    /// The response to a request for its host.
    fn send(&self, method: &str, target: &str, lines: &str, body: &str) -> Response {
        let mut client = self.larder.client();
        let (host, length) = (self.larder.address, body.len());
        client.send(format!(
            "{method} {target} HTTP/1.1\r\nHost: {host}\r\n{lines}Content-Length: {length}\r\n\r\n{body}"
        ));
        client.read_for(method)
    }

    fn get(&self, target: &str, lines: &str) -> Response {
        self.send("GET", target, lines, "")
    }

    /// Logs the editor in: the line with his cookies.
    fn log_in(&self) -> String {
        let form = "log=editor&pwd=geheim&wp-submit=Log+In";
        let answer = self.send("POST", "/wp-login.php", FORM, form);
        assert_eq!(302, answer.status, "{}", answer.text());
        let set = answer.fields.iter().filter(|it| it.0.eq_ignore_ascii_case("set-cookie"));
        let cookies: Vec<&str> = set.filter_map(|it| it.1.split(';').next()).collect();
        assert!(cookies.iter().any(|it| it.starts_with("wordpress_logged_in_")), "{answer:?}");
        format!("Cookie: {}\r\n", cookies.join("; "))
    }

    /// A request of the editor to the API of WordPress, with the status that it must have.
    #[track_caller]
    fn api(&self, editor: &str, method: &str, path: &str, body: &Value, status: u16) -> Value {
        let nonce = self.get("/wp-admin/admin-ajax.php?action=rest-nonce", editor).text();
        let lines = format!("{editor}X-WP-Nonce: {nonce}\r\nContent-Type: application/json\r\n");
        let answer = self.send(method, &format!("/wp-json/wp/v2/{path}"), &lines, &body.to_string());
        assert_eq!(status, answer.status, "{}", answer.text());
        serde_json::from_str(&answer.text()).unwrap()
    }

    /// The home page for an anonymous visitor.
    fn home(&self) -> Response {
        let page = self.get("/", "");
        assert!(page.status == 200 && page.text().contains("Lighthouse"), "{page:?}");
        assert!(!page.text().contains(ADMIN_BAR));
        page
    }

    #[track_caller]
    fn check_that_home_is_a_hit(&self) {
        self.home();
        for cookies in ["", "Cookie: _ga=GA1.1; theme=dark\r\n"] {
            let page = self.get("/", cookies);
            assert!(page.is_hit() && !page.text().contains(ADMIN_BAR), "{cookies}: {}", page.cache());
        }
    }
}

const FORM: &str = "Content-Type: application/x-www-form-urlencoded\r\n";

#[test]
fn wordpress() {
    let blog = Blog::install();
    blog.check_that_home_is_a_hit();
    let host = blog.larder.address.to_string();
    let mut http2 = Http2::connect(&blog.larder);
    let mut fields = request("GET", "/", &[]);
    fields[3].1 = &host;
    let id = http2.head(&fields, END_STREAM);
    assert!(http2.answer(id).field("cache-status").unwrap().contains("hit"));
    let editor = blog.log_in();
    pages_of_an_editor_are_his(&blog, &editor);
    posts_are_on_the_home_page_at_once(&blog, &editor);
    files_of_themes_are_for_all_visitors(&blog, &editor);
}

fn pages_of_an_editor_are_his(blog: &Blog, editor: &str) {
    let forged = "Cookie: wordpress_logged_in_0=editor|1|2|3\r\n";
    for _ in 0..2 {
        let own = blog.get("/", editor);
        assert!(own.text().contains(ADMIN_BAR) && !own.is_hit(), "{}", own.cache());
        assert!(!blog.get("/", forged).text().contains(ADMIN_BAR));
        blog.check_that_home_is_a_hit();
        for (lines, path, status) in [
            ("", "/wp-login.php", 200),
            (editor, "/wp-login.php", 302),
            (editor, "/wp-admin/", 200),
            ("", "/wp-admin/", 302),
            (forged, "/wp-admin/", 302),
        ] {
            let page = blog.get(path, lines);
            assert!(
                page.status == status && !page.is_hit(),
                "{path} {lines}: {} {}",
                page.status,
                page.cache()
            );
        }
    }
}

fn posts_are_on_the_home_page_at_once(blog: &Blog, editor: &str) {
    assert!(!blog.home().text().contains("Second light"));
    let draft =
        json!({ "title": "Second light", "content": "It burns.", "status": "draft", "slug": "second" });
    let made = blog.api(editor, "POST", "posts", &draft, 201);
    assert!(blog.home().is_hit(), "a draft purges nothing");
    let path = format!("posts/{}", made["id"]);
    blog.api(editor, "POST", &path, &json!({ "status": "publish" }), 200);
    let page = blog.home();
    assert!(page.text().contains("Second light") && !page.is_hit(), "{}", page.cache());
    blog.check_that_home_is_a_hit();
    assert!(blog.get("/second/", "").text().contains("It burns."));
    assert!(blog.get("/second/", "").is_hit());
    blog.api(editor, "POST", &path, &json!({ "content": "It is dark." }), 200);
    assert!(blog.get("/second/", "").text().contains("It is dark."), "a change of an article");
    blog.api(editor, "DELETE", &path, &json!({}), 200);
    assert!(!blog.home().text().contains("Second light"), "an article that was removed");
}

/// larder sends files of the directory itself; before another web server it stores them.
fn files_of_themes_are_for_all_visitors(blog: &Blog, editor: &str) {
    let before = Larder::before(&Place { address: blog.larder.address }, "preset = \"wordpress\"");
    let file = std::fs::read(blog.folder.path().join(&STYLE[1..])).unwrap();
    assert_eq!(file, before.get(STYLE).body);
    for lines in ["", editor, "Cookie: comment_author_0=ann; PHPSESSID=1\r\n"] {
        assert_eq!(file, blog.get(STYLE, lines).body, "{lines}");
        let stored = before.client().get_with(STYLE, lines);
        assert!(stored.is_hit() && stored.body == file, "{lines}: {}", stored.cache());
    }
}
