//! Sets limits of the process at its start: as many open files as are allowed, and memory in small pages.

use rustix::{
    io,
    process::{Resource, Rlimit, getrlimit, setrlimit},
    thread::disable_transparent_huge_pages,
};

/// Raises the limit of open files and sockets to the highest that is allowed. Containers often start with a limit of
/// 1,024 where half a million would be allowed. (Programs in Go do the same at their start.)
///
/// # Errors
///
/// When the kernel refuses.
pub fn raise_open_files() -> io::Result<()> {
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit })
}

/// Makes the kernel give the process small pages from now on. The allocator asks for huge pages, and then a few
/// scattered objects keep 2 MiB each in memory: together a quarter of the memory of an operator that has little to do.
///
/// # Errors
///
/// When the kernel does not have this setting.
pub fn take_small_pages() -> io::Result<()> {
    disable_transparent_huge_pages(true)
}
