//! `Screen`: lines that scroll, and below them a few that are drawn again and again.
//!
//! The cursor stays visible and rests at the start of the line below, so that whatever ends the program leaves a terminal that
//! can be used. A frame is one write. What cannot be written is dropped, and nothing is drawn from then on.

use std::io::Write;

use super::page::width_of;

/// The lower lines of a terminal.
pub(super) struct Screen {
    out: Box<dyn Write + Send>,
    /// Columns and lines of the terminal, asked for at every draw: it may have been resized.
    size: fn() -> (usize, usize),
    frame: Vec<String>,
    broken: bool,
}

impl Screen {
    pub(super) fn new(out: Box<dyn Write + Send>, size: fn() -> (usize, usize)) -> Self {
        Self { out, size, frame: Vec::new(), broken: false }
    }

    /// Draws a frame instead of the last one. Its lines must fit the terminal.
    pub(super) fn draw(&mut self, frame: Vec<String>) {
        if frame != self.frame {
            self.replace("", frame);
        }
    }

    /// Writes lines that stay, above the frame.
    pub(super) fn write_above(&mut self, lines: &str) {
        let frame = self.frame.clone();
        self.replace(lines, frame);
    }

    /// The frame is not where it was: another program has written below it.
    pub(super) fn forget(&mut self) {
        self.frame.clear();
    }

    fn replace(&mut self, lines: &str, frame: Vec<String>) {
        let mut text = self.back();
        text += lines;
        for line in &frame {
            text += line;
            text += "\n";
        }
        self.frame = frame;
        if !self.broken {
            self.broken = self.out.write_all(text.as_bytes()).and_then(|()| self.out.flush()).is_err();
        }
    }

    /// Goes back to the start of the frame and clears it. A terminal that became narrower has broken its lines. They are cleared
    /// one by one, with that of the cursor, where keys are echoed: tmux keeps what is cleared all at once in its history.
    fn back(&self) -> String {
        let (width, height) = (self.size)();
        let broken = self.frame.iter().map(|line| width_of(line).div_ceil(width.max(1)).max(1));
        match broken.sum::<usize>().min(height.saturating_sub(1)) {
            0 => String::new(),
            lines => format!("\r\x1b[K\x1b[{lines}A{}\x1b[{lines}A", "\x1b[K\n".repeat(lines)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::testing::Shared;

    fn screen(size: fn() -> (usize, usize)) -> (Screen, Shared) {
        let out = Shared::default();
        (Screen::new(Box::new(out.clone()), size), out)
    }

    fn frame(lines: &[&str]) -> Vec<String> {
        lines.iter().map(|line| (*line).to_owned()).collect()
    }

    #[test]
    fn a_frame_replaces_the_last_one_and_lines_scroll_above_it() {
        let (mut screen, out) = screen(|| (80, 24));
        screen.draw(frame(&["one", "two"]));
        screen.draw(frame(&["one", "two"]));
        assert_eq!(out.text(), "one\ntwo\n", "the same frame is not drawn again");
        screen.write_above("failed\n");
        screen.draw(Vec::new());
        let back = "\r\x1b[K\x1b[2A\x1b[K\n\x1b[K\n\x1b[2A";
        assert_eq!(out.text(), format!("one\ntwo\n{back}failed\none\ntwo\n{back}"));
        screen.write_above("end\n");
        assert!(out.text().ends_with("\x1b[2Aend\n"), "nothing is left to clear");
    }

    #[test]
    fn lines_that_a_narrower_terminal_has_broken_are_cleared_as_well() {
        let (mut screen, out) = screen(|| (4, 24));
        screen.draw(frame(&["123456789", "", "1234"]));
        screen.draw(Vec::new());
        assert!(out.text().ends_with("\n\x1b[5A") && out.text().matches("\x1b[K\n").count() == 5, "{:?}", out.text());
        let (mut low, out) = super::tests::screen(|| (4, 3));
        low.draw(frame(&["123456789", "", "1234"]));
        low.draw(Vec::new());
        assert!(out.text().ends_with("\x1b[2A"), "no further than to the first line: {:?}", out.text());
    }

    #[test]
    fn what_other_programs_wrote_is_left_alone() {
        let (mut screen, out) = screen(|| (80, 24));
        screen.draw(frame(&["one"]));
        screen.forget();
        screen.draw(frame(&["one"]));
        assert_eq!(out.text(), "one\none\n");
    }
}
