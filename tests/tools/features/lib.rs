//! Has no code; see Cargo.toml.
