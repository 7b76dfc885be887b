//! How many files and sockets may the process have open? As many as it is allowed to, not as many as it is given:
//! containers are often given 1,024 of half a million.

use rustix::{
    io,
    process::{Resource, Rlimit, getrlimit, setrlimit},
};

/// Raises the limit to the highest that is allowed. (Programs in Go do so at their start.)
///
/// # Errors
///
/// When the kernel refuses.
pub fn raise_limit() -> io::Result<()> {
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit })
}
