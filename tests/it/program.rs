//! Runs a program as a user does, in the checkout and with text on standard input.

use crate::prelude::*;
use std::{
    io::{Read, Write},
    net::TcpListener,
    process,
    sync::{OnceLock, atomic::AtomicU16},
};

/// Returns the path of `sparkctl`, which cargo puts beside `spark-operator`. Cargo builds only the programs of the
/// test's own package for it, so `sparkctl` exists if the whole workspace was built.
pub fn sparkctl_program() -> &'static str {
    static PATH: OnceLock<String> = OnceLock::new();
    PATH.get_or_init(|| {
        let path = Path::new(env!("CARGO_BIN_EXE_spark-operator")).with_file_name("sparkctl");
        assert!(
            path.exists(),
            "{} is missing: cargo build --package spark-operator-sparkctl",
            path.display()
        );
        path.to_str().unwrap().to_owned()
    })
}

/// Returns the number of a free port, another one at each call. All are below 32768: the kernel assigns those above to
/// outgoing connections, and one of the thousands of clients in these tests could get such a port before the program
/// that is to listen there.
pub fn free_port() -> u16 {
    static ASKED: AtomicU16 = AtomicU16::new(0);
    const FIRST: u16 = 20_000;
    const PORTS: u16 = 12_000;
    let begin = u16::try_from(process::id() % u32::from(PORTS)).unwrap();
    loop {
        let asked = ASKED.fetch_add(1, Ordering::Relaxed) % PORTS;
        let port = FIRST + (begin + asked) % PORTS;
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}

/// Creates an empty folder for a test.
pub fn empty_folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    fs::remove_dir_all(&folder).ok();
    fs::create_dir_all(&folder).unwrap();
    folder
}

/// Writes a kubeconfig for the API server at this URL, which needs no authentication, into `folder`. Returns its path.
pub fn kubeconfig(folder: &Path, server: &str, namespace: &str) -> PathBuf {
    let path = folder.join("kubeconfig");
    let config = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "it",
        "contexts": [{"name": "it", "context": {"cluster": "it", "user": "it", "namespace": namespace}}],
        "clusters": [{"name": "it", "cluster": {"server": server}}], "users": [{"name": "it", "user": {}}],
    });
    fs::write(&path, config.to_string()).unwrap();
    path
}

/// Runs `program` to its end. `input` is the text on its standard input.
pub fn run(program: &str, arguments: &[&str], input: &str) -> Output {
    begin(Command::new(program).args(arguments), input).wait_with_output().unwrap()
}

/// Returns the standard output of a program that has succeeded. Panics with its standard error if it has failed.
#[track_caller]
pub(crate) fn printed(output: Output) -> String {
    match said(output) {
        Ok(printed) => printed,
        Err(complaint) => panic!("{complaint}"),
    }
}

/// Returns the standard output of a program that has succeeded, or else its standard error.
pub(crate) fn said(output: Output) -> Result<String, String> {
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned());
    }
    Ok(String::from_utf8(output.stdout).unwrap())
}

/// Starts `program`, whose output is kept. `input` is the text on its standard input.
pub(crate) fn begin(program: &mut Command, input: &str) -> Child {
    let piped = program.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = piped.spawn().unwrap_or_else(|error| panic!("{program:?}: {error}"));
    // A program that has not read all input has ended already, and its output contains the reason.
    child.stdin.take().unwrap().write_all(input.as_bytes()).ok();
    child
}

/// A child process that is killed when this value is dropped.
pub(crate) struct EndedOnDrop(pub(crate) Child);

impl Drop for EndedOnDrop {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

/// Returns the status and the body of the answer of the server at the other end of `stream`.
pub(crate) fn answer(mut stream: impl Read + Write, path: &str) -> io::Result<(u16, String)> {
    write!(stream, "GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let (head, body) = answer.split_once("\r\n\r\n").ok_or(io::ErrorKind::InvalidData)?;
    Ok((head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned()))
}
