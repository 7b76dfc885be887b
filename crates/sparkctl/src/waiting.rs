//! Shows the user that the command waits: on a terminal by one line with a spinner, elsewhere by one line for each new
//! text.

use super::yaml;
use crossterm::terminal::size;
use std::io::{self, IsTerminal, Write};

const FRAMES: [char; 10] = ['⠋', '⠙', '⠹', '⠸', '⠼', '⠴', '⠦', '⠧', '⠇', '⠏'];

/// The line that says what is waited for. Dropping this value removes the line from the terminal.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    said: String,
    frame: usize,
}

impl Waiting {
    /// Shows that `what` is waited for. Called again and again while waiting.
    pub(super) fn say(&mut self, what: &str) {
        let what = yaml::line(what.trim_end());
        let mut stderr = io::stderr();
        let is_news = self.said != what;
        // If stderr is closed, the text has no reader, so the failure to write it is ignored.
        if stderr.is_terminal() {
            self.frame = (self.frame + 1) % FRAMES.len();
            // Only as much as fits into one line is written, because more could not be overwritten.
            let room = size().map_or(usize::MAX, |(width, _)| usize::from(width).saturating_sub(3));
            let begin: String = what.chars().take(room).collect();
            write!(stderr, "\r{} {begin}\u{1b}[K", FRAMES[self.frame]).ok();
        } else if is_news {
            writeln!(stderr, "{what}").ok();
        }
        self.said = what;
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        if !self.said.is_empty() && io::stderr().is_terminal() {
            write!(io::stderr(), "\r\u{1b}[K").ok();
        }
    }
}
