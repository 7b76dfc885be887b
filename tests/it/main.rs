//! Every test that needs more than one function: one binary, so that it is linked once.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod crds;
