//! `Page`: how large a terminal is and what it can show, and texts that fit it.

use std::io::IsTerminal;

use console::{Term, measure_text_width, truncate_str};

/// What text for people is drawn on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Page {
    /// Columns.
    pub width: usize,
    /// Lines.
    pub height: usize,
    /// Whether letters may be bold, underlined or coloured.
    pub colour: bool,
}

impl Page {
    /// Returns the page of stdout, if it is a terminal.
    pub fn stdout() -> Option<Self> {
        std::io::stdout().is_terminal().then(|| Self::of(&Term::stdout(), !is_dumb() && !no_colour()))
    }

    /// Returns the page of stderr, if it is a terminal on which lines can be drawn again.
    pub fn stderr() -> Option<Self> {
        let able = std::io::stderr().is_terminal() && !is_dumb();
        able.then(|| Self::of(&Term::stderr(), !no_colour()))
    }

    fn of(term: &Term, colour: bool) -> Self {
        let (height, width) = term.size();
        Self { width: usize::from(width).max(1), height: usize::from(height).max(1), colour }
    }

    /// Cuts a line to the width.
    pub(super) fn cut(self, line: &str) -> String {
        truncate_str(line, self.width, "…").into_owned()
    }

    /// Returns a text in a style (an SGR code), if there are styles.
    pub(super) fn styled(self, code: &str, text: &str) -> String {
        if self.colour { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }

    /// Breaks lines that are too long where words begin, with all spaces between words; what is broken off is indented.
    pub fn folded(self, lines: &str, indent: usize) -> String {
        let indent = indent.min(self.width / 2);
        let mut folded = String::with_capacity(lines.len());
        for line in lines.split_inclusive('\n') {
            let mut width = 0;
            for word in line.split_inclusive(' ') {
                let of_word = width_of(word.trim_end());
                if width > indent && width + of_word > self.width {
                    folded.truncate(folded.trim_end_matches(' ').len());
                    folded += "\n";
                    folded += &" ".repeat(indent);
                    width = indent;
                    // Columns end where a line is broken.
                    folded += word.trim_start();
                    width += width_of(word.trim_start().trim_end_matches('\n'));
                } else {
                    folded += word;
                    width += width_of(word.trim_end_matches('\n'));
                }
            }
        }
        folded
    }

    /// Breaks a text into lines between words; later lines are indented.
    pub(super) fn wrapped(self, text: &str, indent: usize) -> Vec<String> {
        let mut lines = vec![String::new()];
        for word in text.split_whitespace() {
            let Some(line) = lines.last_mut() else { break };
            if !line.trim_start().is_empty() && width_of(line) + 1 + width_of(word) > self.width {
                lines.push(" ".repeat(indent) + word);
            } else {
                let space = if line.trim_start().is_empty() { "" } else { " " };
                *line += space;
                *line += word;
            }
        }
        lines
    }
}

/// Returns how many columns a text takes.
pub(super) fn width_of(text: &str) -> usize {
    measure_text_width(text)
}

/// Returns a text with spaces up to a width, after it or before it.
pub(super) fn padded(text: &str, width: usize, right: bool) -> String {
    let spaces = " ".repeat(width.saturating_sub(width_of(text)));
    if right { spaces + text } else { text.to_owned() + &spaces }
}

fn no_colour() -> bool {
    std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty())
}

fn is_dumb() -> bool {
    std::env::var_os("TERM").is_some_and(|term| term == "dumb")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_broken_between_words_and_no_word_is_lost() {
        let page = Page { width: 12, height: 5, colour: false };
        assert_eq!(
            page.wrapped("one two three extraordinarily four", 2),
            ["one two", "  three", "  extraordinarily", "  four"]
        );
        assert_eq!(page.cut("a line that is long"), "a line that…");
    }

    #[test]
    fn long_lines_are_folded_and_short_ones_stay_as_they_are() {
        let page = Page { width: 20, height: 5, colour: true };
        assert_eq!(page.folded("  Ran  [ 1 s ]  a\nb  c\n", 4), "  Ran  [ 1 s ]  a\nb  c\n");
        let long = "  \x1b[33mWarned\x1b[0m  load    texas (`k: 256` counts as 91)\n";
        assert_eq!(page.folded(long, 4), "  \x1b[33mWarned\x1b[0m  load\n    texas (`k: 256`\n    counts as 91)\n");
        assert_eq!(page.folded("abcdefghijklmnopqrstuvwxyz\n", 4), "abcdefghijklmnopqrstuvwxyz\n", "one word");
    }
}
