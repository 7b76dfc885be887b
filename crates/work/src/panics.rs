//! Catches panics where the operator works on one object, so that a panic affects only that object: a panic counts as a
//! failure of the work, which is retried.
//!
//! A panic drops the values that the work owns. No lock of the operator is held across an await, nor by code that can
//! panic, so no shared state is left half-changed.

use futures::{FutureExt, TryFutureExt};
use std::{
    any::Any,
    panic::{AssertUnwindSafe, catch_unwind},
};

/// A panic, which is a bug of the operator, with the panic's message.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a bug of the operator: {0}")]
pub struct Panicked(String);

/// Returns the result of `work`.
///
/// # Errors
///
/// When `work` panics. The panic's message and location are in the log already.
pub fn caught<T>(work: impl Future<Output = T>) -> impl Future<Output = Result<T, Panicked>> {
    // Not an `async fn`: its future would contain `work` twice, and be twice as large.
    AssertUnwindSafe(work).catch_unwind().map_err(|panic| Panicked(message(&*panic)))
}

/// Like [`caught`], for work without an await.
///
/// # Errors
///
/// When `work` panics. The panic's message and location are in the log already.
pub fn caught_now<T>(work: impl FnOnce() -> T) -> Result<T, Panicked> {
    catch_unwind(AssertUnwindSafe(work)).map_err(|panic| Panicked(message(&*panic)))
}

fn message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("a panic without a message").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_panic_becomes_an_error_with_its_message() {
        assert_eq!(caught(async { 7 }).await, Ok(7));
        let number = |text: &str| text.parse::<u8>().expect("it is a number");
        let panicked = caught(async { number("seven") }).await.unwrap_err().to_string();
        assert_eq!(panicked, "a bug of the operator: it is a number: ParseIntError { kind: InvalidDigit }");
        let panicked: Result<(), _> = caught(async { panic!("these words") }).await;
        assert_eq!(panicked.unwrap_err().to_string(), "a bug of the operator: these words");
        let panicked: Result<(), _> = caught_now(|| panic!("these words"));
        assert_eq!(panicked.unwrap_err().to_string(), "a bug of the operator: these words");
    }
}
