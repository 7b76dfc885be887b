//! Restores what a test has changed, even if the test fails.

/// Calls a function when it is dropped.
#[must_use]
pub(crate) struct Finally(Box<dyn FnMut() + Send>);

impl Finally {
    pub(crate) fn new(last: impl FnMut() + Send + 'static) -> Self {
        Self(Box::new(last))
    }
}

impl Drop for Finally {
    fn drop(&mut self) {
        (self.0)();
    }
}
