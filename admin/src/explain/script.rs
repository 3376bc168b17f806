//! `explain`: the script of a request to a route with PHP, or the reason why none answers, with the key that decides.

use larder_config::{Decided, Source, dotted};
use larder_files::{FoundScript, ScriptRule};
use larder_gateway::GatewayRoute;
use larder_stdx::clock;
use serde_json::{Value, json};

/// The script for a target as origins get it; null for a route without scripts.
pub(super) async fn told(route: &GatewayRoute, target: &str, decided: &Decided) -> Value {
    let Some(scripts) = &route.scripts else { return Value::Null };
    let text = |it: &[u8]| String::from_utf8_lossy(it).into_owned();
    let (root, front) = ("site[].route[].php.root", "site[].route[].php.front_controller");
    let found = scripts.find(target, clock::monotonic()).await;
    let (key, sentence) = match &found {
        FoundScript::Script(it, rule) => {
            let file = text(&[it.root.as_slice(), &it.name].concat());
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
        FoundScript::None(why) => (front, format!("no script: {} {}", why.status(), why.sentence())),
    };
    let name = match &found {
        FoundScript::Script(it, _) => Some(text(&it.name)),
        _ => None,
    };
    let given = decided.by(key);
    let place = if given == Source::Default { decided.by(root) } else { given };
    json!({ "name": name, "sentence": sentence, "key": dotted(key), "where": place.to_string() })
}
