//! The processes of this machine, as `/proc` lists them.

use rustix::process::Pid;
use std::fs;

pub(super) struct Process {
    pub parent: i32,
    pub group: i32,
}

/// All processes but zombies.
pub(super) fn processes() -> Vec<Process> {
    let process = |entry: fs::DirEntry| {
        let id = entry.file_name().to_str()?.parse().ok()?;
        let [state, parent, group] = &fields(id)?[..3] else { return None };
        let process = Process { parent: parent.parse().ok()?, group: group.parse().ok()? };
        (state != "Z").then_some(process)
    };
    fs::read_dir("/proc").unwrap().filter_map(|entry| process(entry.ok()?)).collect()
}

/// Whether a process of this group lives.
pub(super) fn is_group_alive(group: Pid) -> bool {
    processes().iter().any(|process| process.group == group.as_raw_nonzero().get())
}

/// Whether the process with this id has a child, or has ever waited for one: Linux adds the page faults of children that
/// were waited for, and no process runs without any.
pub(super) fn has_had_a_child(id: u32) -> bool {
    /// `cminflt` of proc(5), counted from the state on.
    const FAULTS_OF_CHILDREN: usize = 8;
    let id = i32::try_from(id).unwrap();
    let waited_for = fields(id).unwrap()[FAULTS_OF_CHILDREN] != "0";
    waited_for || processes().iter().any(|process| process.parent == id)
}

/// What `/proc/<id>/stat` has from the state on; none if there is no such process.
fn fields(id: i32) -> Option<Vec<String>> {
    // pid (name) state parent group …; the name may have blanks and parentheses.
    let stat = fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
    Some(stat.rsplit_once(") ")?.1.split(' ').map(str::to_owned).collect())
}
