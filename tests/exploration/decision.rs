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

impl<A> Decision<A> {
    /// Returns whether the plan has no action, writes no status, and has no mistake.
    pub fn is_nothing(&self) -> bool {
        self.acts.is_empty() && !self.writes && self.wrong.is_none()
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
