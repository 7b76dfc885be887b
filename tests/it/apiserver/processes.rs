//! The processes of this machine, as `/proc` lists them.

use rustix::process::Pid;
use std::fs;

pub(super) struct Process {
    pub parent: i32,
    pub group: i32,
}

/// Returns all processes except zombies.
pub(super) fn processes() -> Vec<Process> {
    let process = |entry: fs::DirEntry| {
        let id = entry.file_name().to_str()?.parse().ok()?;
        let [state, parent, group] = &fields(id)?[..3] else { return None };
        let process = Process { parent: parent.parse().ok()?, group: group.parse().ok()? };
        (state != "Z").then_some(process)
    };
    fs::read_dir("/proc").unwrap().filter_map(|entry| process(entry.ok()?)).collect()
}

/// Returns whether a process of this group exists.
pub(super) fn is_group_alive(group: Pid) -> bool {
    processes().iter().any(|process| process.group == group.as_raw_nonzero().get())
}

/// Returns whether the process with this id has a child, or has ever waited for one: Linux adds the page faults of
/// children that were waited for, and every process has page faults.
pub(super) fn has_had_a_child(id: u32) -> bool {
    /// The position of `cminflt` of proc(5), counted from the state.
    const FAULTS_OF_CHILDREN: usize = 8;
    let id = i32::try_from(id).unwrap();
    let waited_for = fields(id).unwrap()[FAULTS_OF_CHILDREN] != "0";
    waited_for || processes().iter().any(|process| process.parent == id)
}

/// Returns the fields of `/proc/<id>/stat` from the state on; `None` if there is no such process.
fn fields(id: i32) -> Option<Vec<String>> {
    // The line is: pid (name) state parent group …; the name may contain blanks and parentheses.
    let stat = fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
    Some(stat.rsplit_once(") ")?.1.split(' ').map(str::to_owned).collect())
}
