//! The processes of this machine, as `/proc` lists them.

use procfs::process::{Process, Stat, all_processes};
use rustix::process::Pid;

/// Returns all processes except zombies.
fn processes() -> impl Iterator<Item = Stat> {
    let processes = all_processes().unwrap().filter_map(|process| process.ok()?.stat().ok());
    processes.filter(|process| process.state != 'Z')
}

/// Returns whether a process of this group exists.
pub(super) fn is_group_alive(group: Pid) -> bool {
    processes().any(|process| process.pgrp == group.as_raw_nonzero().get())
}

/// Returns whether the process with this id has a child, or has ever waited for one: Linux adds the page faults of
/// children that were waited for, and every process has page faults.
pub(super) fn has_had_a_child(id: u32) -> bool {
    let id = i32::try_from(id).unwrap();
    let faults_of_children = Process::new(id).unwrap().stat().unwrap().cminflt;
    faults_of_children != 0 || processes().any(|process| process.ppid == id)
}
