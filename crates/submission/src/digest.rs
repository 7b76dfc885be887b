//! Computes hashes of bytes as hexadecimal digits.

use sha2::{Digest, Sha256};

/// Returns the SHA-256 of `bytes` as 64 lower-case hexadecimal digits.
pub fn sha256_hex(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

/// Returns a hash of `parts`: 16 hexadecimal digits. The same parts in another order have another hash.
pub fn fingerprint(parts: &[&str]) -> String {
    // The lengths are part of the hashed text, so that moving a character from one part to the next gives another hash.
    let joined: String = parts.iter().map(|part| format!("{}:{part}", part.len())).collect();
    sha256_hex(joined.as_bytes())[..16].to_owned()
}

/// Returns the MD5 of `bytes` as hexadecimal digits. Used only for names that have to equal those of Kubeflow's
/// operator.
pub(crate) fn md5_hex(bytes: &[u8]) -> String {
    hex(&md5::Md5::digest(bytes))
}

/// Returns `bytes` as lower-case hexadecimal digits.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
