//! Encrypts the token in a caller's cookie, and signs forms, so that nobody else can read or forge them.
//!
//! The keys are random, created when the process starts, and in memory only. A restart logs everybody out.

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use jiff::Timestamp;
use ring::{
    aead::{Aad, CHACHA20_POLY1305, LessSafeKey, NONCE_LEN, Nonce, UnboundKey},
    hmac::{self, HMAC_SHA256},
    rand::{SecureRandom, SystemRandom},
};

/// The keys of this process.
pub(crate) struct Secrets {
    cookies: LessSafeKey,
    signatures: hmac::Key,
    random: SystemRandom,
}

/// Identifies a caller without revealing the token: the same id for the same token.
pub(crate) type CallerId = [u8; 32];

/// The associated data of encrypted cookies.
const COOKIE: &[u8] = b"page cookie 1";
/// The prefixes of signed texts. They ensure that a signature for one purpose is not valid for the other.
const CALLER: &[u8] = b"caller\0";
const FORM: &[u8] = b"form\0";

impl Secrets {
    pub(crate) fn new() -> Self {
        let random = SystemRandom::new();
        let key: [u8; 32] = bytes(&random);
        let cookies = UnboundKey::new(&CHACHA20_POLY1305, &key).expect("the key has the algorithm's length");
        let signatures = hmac::Key::new(HMAC_SHA256, &bytes::<32>(&random));
        Self { cookies: LessSafeKey::new(cookies), signatures, random }
    }

    /// Returns a random word of 128 bits, of characters that are allowed in a URL.
    pub(crate) fn unguessable(&self) -> String {
        URL_SAFE_NO_PAD.encode(bytes::<16>(&self.random))
    }

    /// Returns the value of a cookie with the encrypted `token`, which [`Self::open`] decrypts until the time `end`.
    pub(crate) fn seal(&self, token: &str, end: Timestamp) -> String {
        let nonce: [u8; NONCE_LEN] = bytes(&self.random);
        let mut sealed = end.as_second().to_be_bytes().to_vec();
        sealed.extend_from_slice(token.as_bytes());
        self.cookies
            .seal_in_place_append_tag(Nonce::assume_unique_for_key(nonce), Aad::from(COOKIE), &mut sealed)
            .expect("a token is shorter than the algorithm's limit of 256 GiB");
        URL_SAFE_NO_PAD.encode([&nonce[..], &sealed[..]].concat())
    }

    /// Returns the token in the value of a cookie. `None` if this process has not created the value, or if it has
    /// expired.
    pub(crate) fn open(&self, cookie: &str, now: Timestamp) -> Option<String> {
        let mut bytes = URL_SAFE_NO_PAD.decode(cookie).ok()?;
        let (nonce, sealed) = bytes.split_at_mut_checked(NONCE_LEN)?;
        let nonce = Nonce::try_assume_unique_for_key(nonce).ok()?;
        let opened = self.cookies.open_in_place(nonce, Aad::from(COOKIE), sealed).ok()?;
        let (end, token) = opened.split_first_chunk()?;
        let token = String::from_utf8(token.to_vec()).ok()?;
        (i64::from_be_bytes(*end) > now.as_second()).then_some(token)
    }

    /// Returns the id of the caller with this token.
    pub(crate) fn caller(&self, token: &str) -> CallerId {
        let signed = hmac::sign(&self.signatures, &[CALLER, token.as_bytes()].concat());
        signed.as_ref().try_into().expect("SHA-256 has 32 bytes")
    }

    /// Returns the signature for the hidden field of the forms of `whom`, which no other site can know.
    pub(crate) fn form(&self, whom: &[u8]) -> String {
        URL_SAFE_NO_PAD.encode(hmac::sign(&self.signatures, &[FORM, whom].concat()))
    }

    /// Whether `given` is the signature of the forms of `whom`.
    pub(crate) fn is_form(&self, whom: &[u8], given: &str) -> bool {
        let given = URL_SAFE_NO_PAD.decode(given).unwrap_or_default();
        hmac::verify(&self.signatures, &[FORM, whom].concat(), &given).is_ok()
    }
}

fn bytes<const N: usize>(random: &SystemRandom) -> [u8; N] {
    let mut bytes = [0; N];
    random.fill(&mut bytes).expect("the kernel has random bytes");
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_process_that_created_a_cookie_reads_it_and_until_it_expires() {
        let (secrets, end) = (Secrets::new(), Timestamp::from_second(1_000).unwrap());
        let cookie = secrets.seal("s3cret", end);
        let before = Timestamp::from_second(999).unwrap();
        assert!(!cookie.contains("s3cret"));
        assert_ne!(cookie, secrets.seal("s3cret", end), "cookies of one token differ");
        assert_eq!(secrets.open(&cookie, before).as_deref(), Some("s3cret"));
        assert_eq!(secrets.open(&cookie, end), None);
        assert_eq!(Secrets::new().open(&cookie, before), None);
        for position in 0..cookie.len() {
            let mut changed = cookie.clone().into_bytes();
            changed[position] = if changed[position] == b'A' { b'B' } else { b'A' };
            assert_eq!(secrets.open(&String::from_utf8(changed).unwrap(), before), None, "{position}");
        }
        for odd in ["", "A", "AAAA", "=", "ü"] {
            assert_eq!(secrets.open(odd, before), None, "{odd}");
        }
    }

    #[test]
    fn the_signature_of_a_form_is_valid_for_one_caller_and_one_process() {
        let secrets = Secrets::new();
        let (one, other) = (secrets.caller("one"), secrets.caller("other"));
        assert_ne!(one, other);
        let form = secrets.form(&one);
        assert!(secrets.is_form(&one, &form));
        assert!(!secrets.is_form(&other, &form) && !Secrets::new().is_form(&one, &form));
        assert!(!secrets.is_form(&one, "") && !secrets.is_form(&one, &form[1..]));
    }
}
