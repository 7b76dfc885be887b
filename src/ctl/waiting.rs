//! Shows that a command waits: by a moving line on a terminal, and otherwise by a line for each thing that it waits
//! for.

use super::show;
use crossterm::terminal::size;
use std::io::{self, IsTerminal, Write};

const FRAMES: [char; 10] = ['⠋', '⠙', '⠹', '⠸', '⠼', '⠴', '⠦', '⠧', '⠇', '⠏'];

/// What is waited for; gone from the terminal with this value.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    said: String,
    frame: usize,
}

impl Waiting {
    /// It is `what` now; said again and again.
    pub(super) fn say(&mut self, what: &str) {
        let what = show::line(what.trim_end());
        let mut stderr = io::stderr();
        let is_news = self.said != what;
        // Where stderr is closed nobody wants to know.
        if stderr.is_terminal() {
            self.frame = (self.frame + 1) % FRAMES.len();
            // What does not fit in one line could not be taken back.
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
