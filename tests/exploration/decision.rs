//! Defines the form in which the models use a plan of the decision core (`crates/plan`).

/// A plan of the decision core. `A` is the model's own type of actions.
#[derive(Clone, Debug)]
pub struct Decision<A> {
    pub acts: Vec<A>,
    /// The number under which the model's oracle stores the status to record.
    pub status: u32,
    /// Whether `status` differs from the recorded status.
    pub writes: bool,
    /// The mistake in the plan that is a mistake in every state of the cluster.
    pub wrong: Option<String>,
}

/// A step of a pass.
#[derive(Clone, Copy)]
pub enum Todo<A> {
    /// Checks that the stored object is the one that the decision was made for.
    Check,
    Act(A),
    /// Records the status of this number.
    Write(u32),
}

impl<A: Copy> Decision<A> {
    /// Returns whether the plan has no action, writes no status, and has no mistake.
    pub fn is_nothing(&self) -> bool {
        self.acts.is_empty() && !self.writes && self.wrong.is_none()
    }

    /// Returns the step of a pass after `done` others, and whether it is the last one. First comes the check, if `checks`,
    /// then the actions, then the status, which `is_backwards` puts before the actions.
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

/// A pass of the operator (observe, decide, act, record) that has decided but has not ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Doing {
    pub plan: u32,
    /// The number of steps of the pass that are done.
    pub done: u8,
    /// Whether the object is still the one that the decision was made for.
    pub is_current: bool,
}
