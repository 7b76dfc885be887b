//! Sets limits of the process at its start: as many open files as it may have, and memory in small pages.

use rustix::{
    io,
    process::{Resource, Rlimit, getrlimit, setrlimit},
    thread::disable_transparent_huge_pages,
};

/// Raises the limit of open files and sockets to the highest that is allowed: containers are often given 1,024 of half
/// a million. (Programs in Go do so at their start.)
///
/// # Errors
///
/// When the kernel refuses.
pub fn raise_open_files() -> io::Result<()> {
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit })
}

/// Takes memory in small pages from now on. The allocator asks for huge ones: then a few objects here and there keep
/// 2 MiB each, which is a quarter of what an operator with little to do has.
///
/// # Errors
///
/// When the kernel has none.
pub fn take_small_pages() -> io::Result<()> {
    disable_transparent_huge_pages(true)
}
