//! Runs the servers that a test simulates.

use std::ops::Deref;
use tokio::runtime::Runtime;

/// A Tokio runtime of its own, whose tasks also run while the test waits for a program such as `kubectl`. The tasks end
/// when this value is dropped.
pub(crate) struct Background(Option<Runtime>);

impl Background {
    pub(crate) fn start() -> Self {
        Self(Some(Runtime::new().unwrap()))
    }
}

impl Deref for Background {
    type Target = Runtime;

    fn deref(&self) -> &Runtime {
        self.0.as_ref().expect("only `drop` takes the runtime")
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            // Dropping the runtime would wait for its tasks, which Tokio does not allow on the thread of an async test.
            runtime.shutdown_background();
        }
    }
}
