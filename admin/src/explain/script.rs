//! `explain`: the script of a request to a route with PHP, or the reason why none answers, with the key that decides.

use larder_config::{Decided, SiteConfig, Source, dotted};
use larder_files::{FoundScript, ScriptRule};
use larder_gateway::GatewayRoute;
use larder_semantics::cgi::Script;
use larder_stdx::clock;
use serde_json::{Value, json};

/// Adds the script for a target as origins get it, on a route with scripts. Where there is none, the verdict about a request for the
/// application becomes that of larder's own answer.
pub(super) async fn add_script(
    explained: &mut Value,
    route: &GatewayRoute,
    (method, target): (&str, &str),
    site: &SiteConfig,
    decided: &Decided,
) {
    let Some(scripts) = &route.scripts else { return };
    let text = |it: &[u8]| String::from_utf8_lossy(it).into_owned();
    let (root, front) = ("site[].route[].php.root", "site[].route[].php.front_controller");
    let file = |it: &Script| text(&[it.root.as_slice(), &it.name].concat());
    let found = scripts.find(method, target, clock::monotonic()).await;
    let (key, sentence) = match &found {
        FoundScript::Script(it, rule) => {
            let file = file(it);
            let info = it.info.as_ref().map_or(String::new(), |it| format!(" with PATH_INFO {}", text(it)));
            match rule {
                ScriptRule::Named => (root, format!("the path names the script {file}{info}")),
                ScriptRule::Index => (root, format!("the script of the directory is {file}")),
                ScriptRule::Front => (front, format!("the path names no script, so {file} answers")),
            }
        }
        FoundScript::Redirect(to) => (
            root,
            format!("redirected to {}: the directory has an index.php, and its path a slash", text(to)),
        ),
        FoundScript::OfOtherRoute(it, name) => {
            let earlier = site.routes.iter().find(|it| it.name == *name);
            let place = earlier.map_or(String::new(), |it| format!(" ({})", it.source));
            let file = file(it);
            (
                root,
                format!(
                    "404: {file} belongs to the earlier route {name}{place}, whose rules do not apply to this path"
                ),
            )
        }
        FoundScript::None(why) => (front, format!("no script: {} {}", why.status(), why.sentence())),
    };
    let name = match &found {
        FoundScript::Script(it, _) => Some(text(&it.name)),
        _ => None,
    };
    let verdict = match &found {
        FoundScript::Script(..) => None,
        FoundScript::Redirect(to) => Some((
            "redirect",
            301,
            format!("Redirected to {}: the path of a directory ends with a slash.", text(to)),
        )),
        FoundScript::OfOtherRoute(..) => Some(("refused", 404, format!("No script answers: {sentence}."))),
        FoundScript::None(why) => {
            Some(("refused", why.status(), format!("No script answers: {} {}", why.status(), why.sentence())))
        }
    };
    // A stored page answers without a look at the disk.
    let asks = ["miss", "revalidate", "pass"].iter().any(|it| explained["verdict"]["name"] == *it);
    if let Some((name, status, sentence)) = verdict.filter(|_| asks) {
        explained["verdict"] = json!({ "name": name, "status": status, "sentence": sentence });
    }
    let given = decided.by(key);
    let place = if given == Source::Default { decided.by(root) } else { given };
    explained["script"] =
        json!({ "name": name, "sentence": sentence, "key": dotted(key), "where": place.to_string() });
}
