//! Defines how the models represent a plan of the decision core (`crates/plan` and `crates/schedules`).

/// A plan of the decision core. `A` is the model's own type of actions.
#[derive(Clone, Debug)]
pub struct Decision<A> {
    pub acts: Vec<A>,
    /// The number of the status to write, which the model's oracle has stored.
    pub status: u32,
    /// Whether `status` differs from the present status.
    pub writes: bool,
    /// What is wrong with the plan in any state of the cluster, if anything.
    pub wrong: Option<String>,
}

/// A step of a reconcile.
#[derive(Clone, Copy)]
pub enum Todo<A> {
    /// Checks that the object on the API server is still the one that the decision is about.
    Check,
    Act(A),
    /// Writes the status of this number.
    Write(u32),
}

impl<A: Copy> Decision<A> {
    /// Whether the plan has no action, writes no status, and is not wrong.
    pub fn is_nothing(&self) -> bool {
        self.acts.is_empty() && !self.writes && self.wrong.is_none()
    }

    /// Returns step number `done` (from zero) of a reconcile, and whether it is the last one. The order is: the check,
    /// if `checks`; the actions; the status. If `is_backwards`, which is a seeded bug, the status comes before the
    /// actions.
    pub fn step(&self, done: u8, checks: bool, is_backwards: bool) -> (Todo<A>, bool) {
        let (done, checks) = (usize::from(done), usize::from(checks));
        let is_backwards = self.writes && is_backwards;
        let write = Todo::Write(self.status);
        let todo = match done.checked_sub(checks) {
            None => Todo::Check,
            Some(0) if is_backwards => write,
            Some(place) => {
                self.acts.get(place - usize::from(is_backwards)).map_or(write, |act| Todo::Act(*act))
            }
        };
        (todo, done + 1 == checks + self.acts.len() + usize::from(self.writes))
    }
}

/// A reconcile (observe, decide, act, record) that has decided but has not ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Doing {
    pub plan: u32,
    /// The number of steps that are done.
    pub done: u8,
    /// Whether the object on the API server is still the one that the decision is about.
    pub is_current: bool,
}
