//! Runs a shell in a tmux terminal, so that tests can read what a user sees on the screen.

use crate::prelude::*;
use std::{process::id, sync::atomic::AtomicU32};

/// The time after which the wait for a text on the screen fails.
const PATIENCE: Duration = Duration::from_secs(240);
/// Maximum lifetime of a shell, in seconds: the shell and its tmux end even if the test is killed.
const LONGEST: &str = "600";

/// A terminal with a shell whose PATH contains the built programs. The terminal ends when this value is dropped.
pub struct Terminal {
    socket: String,
}

impl Terminal {
    pub fn new(width: u16, height: u16) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let socket = format!("spark-operator-{}-{}", id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let terminal = Self { socket };
        let programs = Path::new(sparkctl_program()).parent().unwrap().display().to_string();
        let path = format!("PATH={programs}:{}", std::env::var("PATH").unwrap());
        let size = [width, height].map(|length| length.to_string());
        let shell = ["timeout", "--foreground", LONGEST, "bash", "--norc", "--noprofile"];
        terminal.tmux(
            &[
                &[
                    "-f", "/dev/null", "new-session", "-d", "-x", &size[0], "-y", &size[1], "env", &path,
                    "PS1=$ ",
                ],
                &shell[..],
            ]
            .concat(),
        );
        terminal.until(|screen| screen.starts_with('$'));
        terminal
    }

    /// Types a line, and then Enter.
    pub fn types(&self, line: &str) {
        self.begins(line);
        self.presses("Enter");
    }

    /// Types text without Enter.
    pub fn begins(&self, line: &str) {
        self.tmux(&["send-keys", "-l", line]);
    }

    /// Presses a key, by the key's name in tmux.
    pub fn presses(&self, key: &str) {
        self.tmux(&["send-keys", key]);
    }

    pub fn resizes(&self, width: u16, height: u16) {
        let size = [width, height].map(|length| length.to_string());
        self.tmux(&["resize-window", "-x", &size[0], "-y", &size[1]]);
    }

    /// Returns the text on the screen, without colours.
    pub fn screen(&self) -> String {
        self.tmux(&["capture-pane", "-p"])
    }

    /// Returns the text on the screen, with colours.
    pub fn coloured(&self) -> String {
        self.tmux(&["capture-pane", "-p", "-e"])
    }

    /// Waits until the text on the screen fulfils the condition, and returns the text.
    pub fn until(&self, is_so: impl Fn(&str) -> bool) -> String {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let screen = self.screen();
            if is_so(&screen) {
                return screen;
            }
            assert!(
                Instant::now() < deadline,
                "the expected text has not appeared on the screen, which shows\n{screen}"
            );
            thread::sleep(Duration::from_millis(50));
        }
    }

    /// Writes the text on the screen into a file with this name, for people to look at.
    pub fn keeps(&self, name: &str) {
        fs::write(Path::new(env!("CARGO_TARGET_TMPDIR")).join(name), self.screen()).unwrap();
    }

    fn tmux(&self, arguments: &[&str]) -> String {
        let output = Command::new("tmux")
            .args(["-L", &self.socket])
            .args(arguments)
            .env("LC_ALL", "C.UTF-8")
            .output()
            .expect("tmux is installed by tests/tools/cluster");
        let said = program::said(output);
        said.unwrap_or_else(|complaint| panic!("tmux {}: {complaint}", arguments.join(" ")))
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        Command::new("tmux").args(["-L", &self.socket, "kill-server"]).status().ok();
    }
}
