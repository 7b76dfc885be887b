//! Defines what a plan of the decision core means in a model.

/// A plan, with its actions as the model's `A`.
#[derive(Clone, Debug)]
pub struct Decision<A> {
    pub acts: Vec<A>,
    /// The number of the status to record.
    pub status: u32,
    /// Whether `status` differs from the recorded status.
    pub writes: bool,
    /// What is wrong with the plan, whatever the world is.
    pub wrong: Option<String>,
}

impl<A> Decision<A> {
    /// Returns whether there is nothing to carry out, to record or to complain about.
    pub fn is_nothing(&self) -> bool {
        self.acts.is_empty() && !self.writes && self.wrong.is_none()
    }
}
