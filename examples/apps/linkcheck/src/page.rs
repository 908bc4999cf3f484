//! The contents of a page: links, and parts that links can name.

use std::collections::HashSet;

use html5gum::emitters::default::DefaultEmitter;
use html5gum::{Token, Tokenizer};
use percent_encoding::percent_decode_str;

/// The parts of a page that a link checker reads.
#[derive(Debug, Default)]
pub struct Page {
    /// The links, each once, in their order.
    pub links: Vec<String>,
    /// The names of the parts.
    pub parts: HashSet<Box<str>>,
    /// The base of the links, if that is not the page.
    pub base: Option<String>,
    /// The target of an immediate refresh.
    pub refresh: Option<String>,
}

/// Parses a page; broken HTML is read as browsers read it.
pub fn read(html: &[u8]) -> Page {
    let mut emitter = DefaultEmitter::<()>::default();
    // The contents of scripts and styles are not tags.
    emitter.naively_switch_states(true);
    let (mut page, mut known) = (Page::default(), HashSet::new());
    for token in Tokenizer::new_with_emitter(html, emitter) {
        let Ok(Token::StartTag(tag)) = token else { continue };
        let text = |attribute: &[u8]| {
            let value = &tag.attributes.get(attribute)?.value;
            Some(String::from_utf8_lossy(value).into_owned())
        };
        if let Some(part) = text(b"id") {
            page.parts.insert(part.into());
        }
        let link = match &tag.name[..] {
            b"a" => {
                if let Some(part) = text(b"name") {
                    page.parts.insert(part.into());
                }
                text(b"href")
            }
            b"area" | b"link" => text(b"href"),
            b"audio" | b"embed" | b"iframe" | b"img" | b"input" | b"script" | b"source"
            | b"track" | b"video" => text(b"src"),
            b"base" => {
                page.base = page.base.take().or_else(|| text(b"href"));
                None
            }
            b"meta" => {
                let refreshes =
                    text(b"http-equiv").filter(|what| what.eq_ignore_ascii_case("refresh"));
                let to = refreshes.and_then(|_| sends_to(&text(b"content")?));
                page.refresh = page.refresh.take().or(to);
                None
            }
            _ => None,
        };
        page.links.extend(link.filter(|link| known.insert(link.clone())));
    }
    page
}

/// Returns the URL of `0; URL=there`.
fn sends_to(content: &str) -> Option<String> {
    let (time, url) = content.split_once([';', ','])?;
    let (name, url) = url.split_once('=')?;
    let at_once = time.trim() == "0" && name.trim().eq_ignore_ascii_case("url");
    at_once.then(|| url.trim().trim_matches(['"', '\'']).to_owned())
}

/// Returns true if the part of a URL exists: under its name as it is, or decoded; the top always
/// exists. A range of lines, `10-20`, exists if both lines do: scripts of documented sources show
/// it.
pub fn has(parts: &HashSet<Box<str>>, part: &str) -> bool {
    let line = |line: &str| line.bytes().all(|byte| byte.is_ascii_digit()) && parts.contains(line);
    let lines = || part.split_once('-').is_some_and(|(from, to)| line(from) && line(to));
    let decoded = percent_decode_str(part).decode_utf8_lossy();
    part.is_empty()
        || part.eq_ignore_ascii_case("top")
        || parts.contains(part)
        || parts.contains(&*decoded)
        || lines()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_and_parts_are_found_and_text_is_not() {
        let page = read(
            b"<!doctype html><title><a href=no1></title><base href='/x/'><base href='/y/'>
            <A HREF='one&amp;two' id=a>1</A> <a href=one&amp;two>again</a> <!-- <a href=no2> -->
            <script src=s.js>'<a href=no3>'</script><style>/*<a href=no4>*/</style>
            <img src=\"i.png\" alt='<a href=no5>'><a name=old></a><p id='b\xff'><p id=%3Cc>",
        );
        assert_eq!(page.links, ["one&two", "s.js", "i.png"]);
        assert_eq!(page.base.as_deref(), Some("/x/"));
        for part in ["", "top", "a", "%61", "old", "b\u{fffd}", "%3Cc"] {
            assert!(has(&page.parts, part), "{part}");
        }
        for part in ["c", "<c", "%63"] {
            assert!(!has(&page.parts, part), "{part}");
        }
    }

    #[test]
    fn pages_that_send_browsers_on_are_known() {
        let to = |html: &str| read(html.as_bytes()).refresh;
        let there = Some("../there.html".to_owned());
        assert_eq!(to("<meta http-equiv=refresh content='0;URL=../there.html'>"), there);
        assert_eq!(to("<META HTTP-EQUIV=Refresh CONTENT=\"0; url='../there.html'\">"), there);
        assert_eq!(to("<meta http-equiv=refresh content='60;URL=../there.html'>"), None);
        assert_eq!(to("<meta http-equiv=refresh content=60>"), None);
        assert_eq!(to("<meta name=refresh content='0;URL=there'>"), None);
    }

    #[test]
    fn ranges_of_lines_have_both_ends() {
        let parts = ["7", "9"].map(Box::from).into();
        assert!(has(&parts, "7-9"));
        assert!(!has(&parts, "7-10"));
        assert!(!has(&parts, "7-"));
    }
}
