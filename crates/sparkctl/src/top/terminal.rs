//! Draws the screen on the terminal, and restores the terminal at the end.

use super::{Style, screen::Screen};
use crate::failure::of_output;
use crossterm::{
    cursor::{Hide, MoveTo, Show},
    execute, queue,
    style::Print,
    terminal::{
        BeginSynchronizedUpdate, Clear, ClearType, EndSynchronizedUpdate, EnterAlternateScreen,
        LeaveAlternateScreen, disable_raw_mode, enable_raw_mode, size,
    },
};
use std::io::{self, Write};

/// The terminal in raw mode and on its alternate screen. Dropping this value restores the terminal.
pub(super) struct Terminal;

impl Terminal {
    pub(super) fn new() -> anyhow::Result<Self> {
        enable_raw_mode()?;
        let terminal = Self;
        execute!(io::stdout(), EnterAlternateScreen, Hide)?;
        Ok(terminal)
    }

    pub(super) fn draw(&mut self, screen: &mut Screen, style: Style) -> anyhow::Result<()> {
        let (width, height) = size()?;
        let lines = screen.lines(width.into(), height.into(), style)?;
        of_output(put(&lines))
    }
}

/// Writes each line over the old one, without clearing the screen first, so that it does not flicker.
fn put(lines: &[String]) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    queue!(stdout, BeginSynchronizedUpdate)?;
    for (row, line) in (0..).zip(lines) {
        queue!(stdout, MoveTo(0, row), Print(line), Clear(ClearType::UntilNewLine))?;
    }
    queue!(stdout, Clear(ClearType::FromCursorDown), EndSynchronizedUpdate)?;
    stdout.flush()
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // Errors are ignored: if the terminal does not exist any more, nothing has to be restored.
        execute!(io::stdout(), Show, LeaveAlternateScreen).ok();
        disable_raw_mode().ok();
    }
}
