//! The frame of every page: head, style, navigation, and the footer with the time of its generation.

use larder_stdx::html::escape;
use std::fmt::Write as _;

const STYLE: &str = r#"
:root{--bg:#faf7f2;--card:#fff;--ink:#26211b;--dim:#7a7066;--line:#e6dfd5;--accent:#a3461d;--fresh:#2d6a4f;color-scheme:light dark}
@media(prefers-color-scheme:dark){:root{--bg:#171412;--card:#211d1a;--ink:#ece5dc;--dim:#a0958a;--line:#352f2a;--accent:#f0956a;--fresh:#7fc8a2}}
*{box-sizing:border-box}body{margin:0;background:var(--bg);color:var(--ink);font:16px/1.55 system-ui,sans-serif}
a{color:var(--accent);text-decoration:none}a:hover{text-decoration:underline}
header{border-bottom:1px solid var(--line);background:var(--card)}header div,main,footer div{max-width:62rem;margin:auto;padding:.8rem 1.2rem}
header div{display:flex;gap:1.1rem;flex-wrap:wrap;align-items:baseline}header b{font:600 1.25rem Georgia,serif}header b a{color:var(--ink)}
main{min-height:70vh;padding-top:1.4rem}h1{font:600 2rem/1.2 Georgia,serif;margin:.2rem 0 1rem}h2{font:600 1.2rem Georgia,serif}
.grid{display:grid;grid-template-columns:repeat(auto-fill,minmax(13rem,1fr));gap:1rem;padding:0;list-style:none}
.grid li,.card{background:var(--card);border:1px solid var(--line);border-radius:.7rem;overflow:hidden}.grid span{display:block;padding:.6rem .8rem}
.grid img{width:100%;display:block;aspect-ratio:10/7;object-fit:cover}.card{padding:1rem 1.2rem;margin:1rem 0}
.two{display:grid;grid-template-columns:1fr 1fr;gap:1.4rem}.two img{width:100%;border-radius:.7rem}@media(max-width:44rem){.two{grid-template-columns:1fr}}
.big{font:600 3.4rem Georgia,serif;color:var(--accent);margin:0}.dim{color:var(--dim)}code{font-size:.9em;background:var(--line);padding:.1em .35em;border-radius:.3em}
input,button,textarea{font:inherit;color:inherit;background:var(--bg);border:1px solid var(--line);border-radius:.45rem;padding:.45rem .7rem}button{background:var(--accent);color:var(--card);border:0;cursor:pointer}
footer{border-top:1px solid var(--line);background:var(--card);position:sticky;bottom:0;font-size:.92rem}footer strong{color:var(--fresh)}
"#;

/// Shows how long the browser waited and the age of the page, which the site itself cannot know.
const SCRIPT: &str = r#"
addEventListener('load',()=>setTimeout(()=>{const n=performance.getEntriesByType('navigation')[0],w=document.getElementById('made');
const ms=n?Math.max(0,n.responseStart-n.requestStart):0,age=Math.max(0,Math.round(Date.now()/1000-w.dataset.at));
document.getElementById('wait').textContent='Your browser waited '+(ms<10?ms.toFixed(1):Math.round(ms))+' ms'+(age>0?'; the page is '+age+' s old.':'.')},0));
"#;

/// A page before it is sent: its duration is then known.
pub struct PageShell {
    /// For the window's title, unescaped.
    pub title: String,
    /// The content between navigation and footer: HTML.
    pub main: String,
}

/// The generation of a page.
pub struct Making {
    /// Seconds since 1970.
    pub at: u64,
    /// Its duration, milliseconds.
    pub took: u64,
    /// The number of pages that the site has generated since its start.
    pub count: u64,
    /// `Cache-Control` of the page.
    pub cache_control: &'static str,
}

/// The whole document.
pub fn document(page: &PageShell, making: &Making) -> String {
    let (hour, minute, second) = (making.at / 3600 % 24, making.at / 60 % 60, making.at % 60);
    let mut out = String::with_capacity(page.main.len() + 6000);
    let _ = write!(
        out,
        "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><meta name=\"viewport\" \
         content=\"width=device-width,initial-scale=1\"><title>{} · The Larder</title><link rel=\"icon\" \
         href=\"/drawings/7.svg\"><style>{STYLE}</style><header><div><b><a href=\"/\">The Larder</a></b>\
         <a href=\"/shelves\">Shelves</a><a href=\"/search?q=pear\">Search</a><a href=\"/now\">Now</a>\
         <a href=\"/special\">Dish of the day</a><a href=\"/guestbook\">Guest book</a><a href=\"/me\">Your page</a>\
         <a href=\"/basket\">Basket</a></div></header><main>{}</main>",
        escape(&page.title),
        page.main
    );
    let _ = writeln!(
        out,
        "<footer><div><strong id=\"made\" data-at=\"{}\">Made at {hour:02}:{minute:02}:{second:02} UTC in {} ms</strong>, the site's \
         page number {}. <code>Cache-Control: {}</code> <span id=\"wait\" class=\"dim\">If this line stays the same when you \
         reload, the page came from the cache.</span></div></footer><script>{SCRIPT}</script></html>",
        making.at, making.took, making.count, making.cache_control
    );
    out
}
