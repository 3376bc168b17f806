//! Many proposals for the same texts, each on its own: the texts are parsed once. An edit of a route is made in the lines of that route, so that
//! it costs no reading of the others.

use super::files::ConfigTexts;
use super::node::{TomlHeader, TomlNode};
use super::{Edit, PathStep, apply};
use serde_json::Value as Json;
use std::ops::Range;
use toml_edit::Document;

/// A header that makes the lines of one route a text of their own.
const SITE: &str = "[[site]]\n";

/// Texts of which copies are edited.
pub struct EditedCopies {
    texts: ConfigTexts,
    documents: Vec<Json>,
    headers: Vec<Vec<TomlHeader>>,
}

impl EditedCopies {
    /// Copies of these texts.
    #[must_use]
    pub fn of(texts: ConfigTexts) -> Self {
        let headers = texts.texts.iter().map(|it| {
            let document = Document::parse(it.as_str());
            document.map_or_else(|_| Vec::new(), |it| TomlNode::Table(it.as_table()).headers())
        });
        Self { documents: texts.documents(), headers: headers.collect(), texts }
    }

    /// The numbers of the files that edits change, each with its text before and after.
    ///
    /// # Errors
    /// One sentence, as for [`ConfigTexts::apply`].
    pub fn edited(&self, edits: &[Edit]) -> Result<Vec<(usize, &str, String)>, String> {
        if let Some((file, text)) = self.in_lines_of_route(edits)? {
            return Ok(vec![(file, &self.texts.texts[file], text)]);
        }
        let mut after = self.texts.clone();
        after.apply(edits)?;
        let pairs = self.texts.texts.iter().zip(after.texts).enumerate();
        Ok(pairs
            .filter(|(_, (old, new))| *old != new)
            .map(|(file, (old, new))| (file, &**old, new))
            .collect())
    }

    /// The file of one route, edited in the lines of the route; none if the edits are not of one route with lines of its own.
    fn in_lines_of_route(&self, edits: &[Edit]) -> Result<Option<(usize, String)>, String> {
        let Some(whole) = edits.first().and_then(|it| route_of(&it.path)) else { return Ok(None) };
        if edits.iter().any(|it| route_of(&it.path) != Some(whole)) {
            return Ok(None);
        }
        let (file, path) = self.texts.locate(&self.documents, &edits[0])?;
        let Some(lines) = route_of(&path).and_then(|it| self.lines(file, it)) else { return Ok(None) };
        let text = &self.texts.texts[file];
        let own = |it: &Edit| {
            let names = [PathStep::Name("site".into()), PathStep::At(0), PathStep::Name("route".into())];
            let path =
                names.into_iter().chain([PathStep::At(0)]).chain(it.path[whole.len()..].iter().cloned());
            Edit { path: path.collect(), change: it.change.clone(), file: None }
        };
        let own: Vec<Edit> = edits.iter().map(own).collect();
        let edited = apply(&format!("{SITE}{}", &text[lines.clone()]), &own).ok();
        let edited = edited.as_ref().and_then(|it| it.strip_prefix(SITE));
        Ok(edited.map(|it| (file, [&text[..lines.start], it, &text[lines.end..]].concat())))
    }

    /// The lines from the header of a route to the next header that is not of it.
    fn lines(&self, file: usize, route: &[PathStep]) -> Option<Range<usize>> {
        let (text, headers) = (&self.texts.texts[file], &self.headers[file]);
        let first = headers.iter().position(|it| it.path == route)?;
        let is_of_route = |it: &&TomlHeader| it.path.starts_with(route);
        let after = first + headers[first..].iter().take_while(is_of_route).count();
        if headers[after..].iter().any(|it| it.path.starts_with(route)) {
            return None;
        }
        let line = |it: &TomlHeader| text[..it.start].rfind('\n').map_or(0, |at| at + 1);
        Some(line(&headers[first])..headers.get(after).map_or(text.len(), line))
    }
}

/// The beginning of a path that names a route.
fn route_of(path: &[PathStep]) -> Option<&[PathStep]> {
    match path {
        [PathStep::Name(site), PathStep::At(_), PathStep::Name(route), PathStep::At(_), _, ..]
            if site == "site" && route == "route" =>
        {
            Some(&path[..4])
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const ROUTES: [&str; 6] = [
        "[[site.route]] # first\npath = \"/a\"\n\n# of the next\n",
        "[[site.route]]\npath = \"/b\"\ncache = { default_ttl = \"1s\" }\n",
        "[[site.route]]\npath = \"/c\"\n[site.route.cache]\ndefault_ttl = \"1s\" # short\n[site.route.cache.key]\nquery = [\"a\"]\n\n",
        "[[site.route]]\npath = \"/d\"\ncache.default_ttl = \"1s\"\n",
        "[[site.route]]\npath = \"/e\"\n[site.route.cache.key]\nquery = [\"a\"]\n",
        "  [[site.route]]\n  path = \"/f\"",
    ];

    fn texts() -> ConfigTexts {
        let main = format!("workers = 1\n[[site]]\nhosts = \"a\"\n{}", ROUTES.concat());
        let crlf = format!("[[site]]\nhosts = \"b\"\n{}\n[log]\naccess = \"-\"\n", ROUTES.concat())
            .replace('\n', "\r\n");
        let inline = "[[site]]\nhosts = \"c\"\nroute = [{ path = \"/g\" }, { path = \"/h\", cache = {} }]\n";
        ConfigTexts { texts: vec![main, "not TOML =".to_owned(), crlf, inline.to_owned()] }
    }

    fn edit(path: Json, value: Json) -> Edit {
        Edit::read(&json!({ "path": path, "value": value })).unwrap()
    }

    #[test]
    fn a_proposal_changes_the_texts_as_the_editor_does() {
        let (texts, mut made) = (texts(), 0);
        let copies = EditedCopies::of(texts.clone());
        for (site, route) in (0..3).flat_map(|site| (0..6).map(move |route| (site, route))) {
            let at = |key: &[&str]| -> Json {
                let start = [json!("site"), site.into(), json!("route"), route.into()];
                start.into_iter().chain(key.iter().map(|it| json!(it))).collect()
            };
            let ttl = edit(at(&["cache", "default_ttl"]), json!("60s"));
            let cookies = edit(at(&["cache", "private_cookies"]), json!(["*"]));
            let below = edit(at(&["cache", "key", "query_without"]), json!(["utm_*"]));
            for edits in [vec![ttl.clone()], vec![below], vec![ttl, cookies]] {
                let mut whole = texts.clone();
                let (Ok(()), Ok(found)) = (whole.apply(&edits), copies.edited(&edits)) else { continue };
                let mut own = texts.clone();
                found.into_iter().for_each(|(file, _, text)| own.texts[file] = text);
                assert_eq!(whole, own, "site {site}, route {route}: {edits:?}");
                made += 1;
            }
        }
        assert!(made > 30, "{made} edits were compared");
    }

    #[test]
    fn a_route_is_edited_without_the_text_of_the_others() {
        let copies = EditedCopies::of(texts());
        for (route, expect) in ROUTES.iter().enumerate() {
            let path = route_of(&edit(json!(["site", 0, "route", route, "path"]), Json::Null).path)
                .map(<[PathStep]>::to_vec);
            let lines = copies.lines(0, &path.unwrap()).unwrap();
            assert_eq!(*expect, &copies.texts.texts[0][lines]);
        }
        let server = edit(json!(["cache", "compress", "types"]), json!(["text/html"]));
        assert!(copies.in_lines_of_route(std::slice::from_ref(&server)).unwrap().is_none());
        assert_eq!(1, copies.edited(&[server]).unwrap().len());
        assert!(copies.edited(&[edit(json!(["site", 9, "route", 0, "path"]), json!("/"))]).is_err());
    }
}
