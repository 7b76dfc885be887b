//! What a plan of the decision core means in a model.

/// A plan, with its actions as the model's `A`.
#[derive(Clone, Debug)]
pub struct Decision<A> {
    pub acts: Vec<A>,
    /// The number of the status that is to be recorded.
    pub status: u32,
    /// Whether that is another one than was recorded.
    pub writes: bool,
    /// What is wrong with it, whatever the world is.
    pub wrong: Option<String>,
}

impl<A> Decision<A> {
    /// Whether there is nothing to carry out, to record or to complain of.
    pub fn is_nothing(&self) -> bool {
        self.acts.is_empty() && !self.writes && self.wrong.is_none()
    }
}
