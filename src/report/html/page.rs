//! The frame of a page: head, style, script, and a policy under which a browser loads nothing and runs no other script.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use maud::{DOCTYPE, Markup, PreEscaped, html};
use sha2::{Digest as _, Sha256};

/// The fingerprint stands in the first bytes of a page.
pub(super) const HEAD: usize = 1024;

const STYLE: &str = include_str!("style.css");
const REPORT_SCRIPT: &str = include_str!("report.js");
const LIVE_SCRIPT: &str = include_str!("live.js");

/// Returns the page of a report.
pub(super) fn report(title: &str, fingerprint: &str, body: &Markup) -> String {
    let policy = policy(REPORT_SCRIPT, "");
    let head = html! {
        meta name="ppgnn-report" content=(fingerprint);
        meta http-equiv="Content-Security-Policy" content=(policy);
    };
    page(title, &head, body, REPORT_SCRIPT)
}

/// Returns a page that asks the server where it came from for what has changed.
pub(super) fn live(title: &str, body: &Markup) -> String {
    page(title, &html! {}, body, LIVE_SCRIPT)
}

/// What a browser may load for a page that asks its server.
pub fn live_policy() -> String {
    policy(LIVE_SCRIPT, "; connect-src 'self'; frame-ancestors 'none'")
}

/// Only what the page itself has, and this script.
fn policy(script: &str, further: &str) -> String {
    let digest = STANDARD.encode(Sha256::digest(script));
    format!(
        "default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'sha256-{digest}'; base-uri 'none'; \
         form-action 'none'{further}"
    )
}

fn page(title: &str, head: &Markup, body: &Markup, script: &str) -> String {
    let whole = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                (head)
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                meta name="referrer" content="no-referrer";
                title { (title) }
                link rel="icon" href="data:,";
                style { (PreEscaped(STYLE)) }
            }
            body {
                (body)
                script { (PreEscaped(script)) }
            }
        }
    };
    visible(&whole.into_string())
}

/// How a page says what it was made of.
pub(super) fn fingerprint_text(fingerprint: &str) -> String {
    format!("<meta name=\"ppgnn-report\" content=\"{fingerprint}\">")
}

/// A file as a link that holds all of it.
pub(super) fn data_uri(kind: &str, bytes: &[u8]) -> String {
    format!("data:{kind};base64,{}", STANDARD.encode(bytes))
}

/// Shows characters that nobody sees and that change how the text around them is read: control characters and marks of direction.
pub(super) fn visible(page: &str) -> String {
    let hidden = |c: char| {
        let directs =
            matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
        directs || matches!(c, '\u{2028}' | '\u{2029}' | '\u{feff}') || c.is_control() && c != '\n'
    };
    let mut shown = String::with_capacity(page.len());
    for c in page.chars() {
        if hidden(c) { shown.extend(c.escape_unicode()) } else { shown.push(c) }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn characters_that_mislead_are_shown_and_others_stay() {
        assert_eq!(visible("a\u{202e}b\u{7}\u{200f}\nשלום ü"), "a\\u{202e}b\\u{7}\\u{200f}\nשלום ü");
    }

    #[test]
    fn a_page_says_what_it_was_made_of_and_runs_its_own_script_alone() {
        let page = report("<t>", "abc", &html! { p { "</script><script>" } });
        assert!(super::super::is_of(page.as_bytes(), "abc") && !super::super::is_of(page.as_bytes(), "abd"));
        let digest = STANDARD.encode(Sha256::digest(REPORT_SCRIPT));
        assert!(page.contains(&format!("script-src 'sha256-{digest}'")) || page.contains(&digest));
        assert_eq!(page.matches("<script>").count(), 1);
        assert!(page.contains("<title>&lt;t&gt;</title>"));
    }
}
