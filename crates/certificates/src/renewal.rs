//! Decides which of the webhook's certificates is renewed, and when. The order of the steps ensures that the webhook
//! never serves a leaf of a CA that the API server does not trust yet.
//!
//! A new CA is put in front of the old CA ([`Step::AddCa`]) and signs nothing until the API server trusts it. Then it
//! signs a leaf ([`Step::SignLeaf`]), and when no replica can still serve the old CA's leaf, the old CA is removed
//! ([`Step::DropOldCas`]). Each step is one write to the Secret that all replicas share, and the next step follows from
//! the content of the Secret.

use jiff::{SignedDuration, Timestamp};
use std::time::Duration;

/// The content of the Secret, as far as decisions depend on it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Held {
    /// The CAs that are to be trusted, newest first. The first CA signs new leaves.
    pub cas: Vec<Validity>,
    /// Whether the Secret has the key of the newest CA, and the key is one that this operator can sign with.
    pub can_sign: bool,
    /// The leaf, if it can be read and the key belongs to it.
    pub leaf: Option<Leaf>,
}

/// The properties of a leaf on which decisions depend.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leaf {
    pub validity: Validity,
    /// The index in [`Held::cas`] of the CA that has signed the leaf; `None` if no CA in the list has.
    pub issuer: Option<usize>,
    /// The names that the leaf should be valid for and is not.
    pub lacks: Vec<String>,
}

/// The time during which a certificate is valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Validity {
    pub from: Timestamp,
    pub until: Timestamp,
}

/// What this process has seen of the newest CA.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// How long the CA has been in every webhook configuration; `None` if it is missing in one.
    pub trusted_for: Option<Duration>,
    /// How long the Secret has had a leaf that the CA has signed; `None` if it has no such leaf.
    pub signs_for: Option<Duration>,
}

/// How long to wait between the steps of a CA's renewal.
#[derive(Clone, Copy, Debug)]
pub struct Waits {
    /// Until the API server can be expected to trust a CA that is in the webhook configuration.
    pub settle: Duration,
    /// Until the last replica can be expected to use the new CA's leaf.
    pub overlap: Duration,
}

/// What is to be renewed on request, whether due or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wish {
    Leaf,
    Ca,
}

/// What is to be done to the Secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Changes nothing until this time has passed or something has changed.
    Keep(Duration),
    /// Replaces everything with a new CA and a leaf that it signs: nothing in the Secret is usable.
    MakeAll(Reason),
    /// Adds a new CA in front of the old CAs; the leaf stays.
    AddCa(Reason),
    /// Creates a new leaf, signed by the newest CA.
    SignLeaf(Reason),
    /// Keeps the newest CA and removes the old CAs.
    DropOldCas,
}

/// Why a step is taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Reason {
    #[error("there was none")]
    Missing,
    #[error("the certificate or its key could not be read, or they did not match")]
    LeafUnreadable,
    #[error("the leaf was not for {}", .0.join(", "))]
    LeafLacks(Vec<String>),
    #[error("the leaf was not valid at this time")]
    LeafNotValid,
    #[error("the leaf was not signed by the CA")]
    LeafOfUnknownCa,
    #[error("the CA was not valid at this time")]
    CaNotValid,
    #[error("two thirds of the leaf's life were over")]
    LeafDue,
    #[error("two thirds of the CA's life were over")]
    CaDue,
    #[error("the CA's key was missing or of an unsupported type")]
    CaCannotSign,
    #[error("the new CA is trusted by now")]
    CaTrusted,
    #[error("somebody asked for it")]
    Asked,
}

impl Validity {
    pub fn includes(&self, now: Timestamp) -> bool {
        self.from <= now && now < self.until
    }

    /// Returns when two thirds of the validity are over.
    pub fn due(&self) -> Timestamp {
        let third = self.life() / 3;
        self.until.checked_sub(third).expect("lies between two valid timestamps")
    }

    /// Returns when a tenth of the validity is left.
    pub fn nearly_over(&self) -> Timestamp {
        let tenth = self.life() / 10;
        self.until.checked_sub(tenth).expect("lies between two valid timestamps")
    }

    fn life(&self) -> SignedDuration {
        self.until.duration_since(self.from)
    }
}

/// Returns the next step for the Secret's content (`None`: nothing in the Secret can be read).
pub fn next(held: Option<&Held>, wish: Option<Wish>, seen: Seen, now: Timestamp, waits: &Waits) -> Step {
    let Some(held) = held else { return Step::MakeAll(Reason::Missing) };
    let Some(ca) = held.cas.first() else { return Step::MakeAll(Reason::Missing) };
    let can_sign = held.can_sign && ca.includes(now);
    let (leaf, issuer) = match usable(held, now) {
        Ok(usable) => usable,
        // There is no usable leaf whose replacement would have to wait until the API server trusts the CA.
        Err(why) if can_sign => return Step::SignLeaf(why),
        Err(why) => return Step::MakeAll(why),
    };

    let why_leaf = match wish {
        Some(Wish::Ca) => return Step::AddCa(Reason::Asked),
        _ if ca.due() <= now => return Step::AddCa(Reason::CaDue),
        Some(Wish::Leaf) => Some(Reason::Asked),
        None => (leaf.validity.due() <= now).then_some(Reason::LeafDue),
    };
    if !can_sign && why_leaf.is_some() {
        return Step::AddCa(Reason::CaCannotSign);
    }
    if issuer > 0 {
        return match remaining(seen.trusted_for, waits.settle) {
            None if can_sign => Step::SignLeaf(Reason::CaTrusted),
            None => Step::AddCa(Reason::CaCannotSign),
            Some(wait) => Step::Keep(wait),
        };
    }
    if let Some(why) = why_leaf {
        return Step::SignLeaf(why);
    }
    let until_due = leaf.validity.due().min(ca.due()).duration_since(now);
    let until_due = Duration::try_from(until_due).unwrap_or_default();
    if held.cas.len() == 1 {
        return Step::Keep(until_due);
    }
    match remaining(seen.signs_for, waits.overlap) {
        None => Step::DropOldCas,
        Some(wait) => Step::Keep(wait.min(until_due)),
    }
}

/// Returns the leaf and the index of the CA that has signed it, if the API server can accept the leaf now.
fn usable(held: &Held, now: Timestamp) -> Result<(&Leaf, usize), Reason> {
    let leaf = held.leaf.as_ref().ok_or(Reason::LeafUnreadable)?;
    let issuer = leaf.issuer.ok_or(Reason::LeafOfUnknownCa)?;
    if !leaf.lacks.is_empty() {
        return Err(Reason::LeafLacks(leaf.lacks.clone()));
    }
    if !leaf.validity.includes(now) {
        return Err(Reason::LeafNotValid);
    }
    if !held.cas[issuer].includes(now) {
        return Err(Reason::CaNotValid);
    }
    Ok((leaf, issuer))
}

/// Returns the remaining time of a wait; `None` once the wait is over. If the wait has not begun (`waited` is `None`),
/// all of `wait` remains.
fn remaining(waited: Option<Duration>, wait: Duration) -> Option<Duration> {
    let left = wait.saturating_sub(waited.unwrap_or_default());
    (waited.is_none() || !left.is_zero()).then_some(left)
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: i64 = 24 * 60 * 60;
    const WAITS: Waits = Waits { settle: Duration::from_secs(30), overlap: Duration::from_secs(3600) };

    fn day(day: i64) -> Timestamp {
        Timestamp::from_second(day * DAY).unwrap()
    }

    fn days(from: i64, until: i64) -> Validity {
        Validity { from: day(from), until: day(until) }
    }

    /// Returns a Secret with a leaf of 90 days that the first of `cas` has signed.
    fn held(cas: &[Validity]) -> Held {
        let leaf = Leaf { validity: days(0, 90), issuer: Some(0), lacks: Vec::new() };
        Held { cas: cas.to_vec(), can_sign: true, leaf: Some(leaf) }
    }

    fn with_leaf(held: Held, change: impl FnOnce(&mut Leaf)) -> Held {
        let mut leaf = held.leaf.unwrap();
        change(&mut leaf);
        Held { leaf: Some(leaf), ..held }
    }

    fn decided(held: &Held, today: i64) -> Step {
        next(Some(held), None, Seen::default(), day(today), &WAITS)
    }

    fn keep(days: i64) -> Step {
        Step::Keep(Duration::from_secs(u64::try_from(days * DAY).unwrap()))
    }

    const OLD: (i64, i64) = (0, 900);
    const NEW: (i64, i64) = (10, 910);

    /// Returns a Secret in which a new CA is in front of the old CA, which has signed the leaf.
    fn introduced() -> Held {
        with_leaf(held(&[days(NEW.0, NEW.1), days(OLD.0, OLD.1)]), |leaf| leaf.issuer = Some(1))
    }

    #[test]
    fn certificates_are_renewed_after_two_thirds_of_their_validity() {
        let ours = held(&[days(0, 900)]);
        assert_eq!(decided(&ours, 10), keep(50));
        assert_eq!(decided(&ours, 60), Step::SignLeaf(Reason::LeafDue));
        let long_leaf = with_leaf(held(&[days(0, 900)]), |leaf| leaf.validity = days(0, 9000));
        assert_eq!(decided(&long_leaf, 10), keep(590));
        assert_eq!(decided(&long_leaf, 600), Step::AddCa(Reason::CaDue));
    }

    #[test]
    fn a_leaf_that_is_not_usable_is_replaced_at_once() {
        let fit = || held(&[days(0, 900)]);
        let lacking = with_leaf(fit(), |leaf| leaf.lacks = vec!["svc".into()]);
        for (held, today, why) in [
            (Held { leaf: None, ..fit() }, 10, Reason::LeafUnreadable),
            (with_leaf(fit(), |leaf| leaf.issuer = None), 10, Reason::LeafOfUnknownCa),
            (lacking, 10, Reason::LeafLacks(vec!["svc".into()])),
            (fit(), 90, Reason::LeafNotValid),
            (with_leaf(introduced(), |leaf| leaf.validity = days(0, 20)), 20, Reason::LeafNotValid),
            (Held { cas: vec![days(NEW.0, NEW.1), days(0, 20)], ..introduced() }, 20, Reason::CaNotValid),
        ] {
            assert_eq!(decided(&held, today), Step::SignLeaf(why.clone()), "{held:?}");
            let without_key = Held { can_sign: false, ..held };
            assert_eq!(decided(&without_key, today), Step::MakeAll(why), "{without_key:?}");
        }
        assert_eq!(decided(&held(&[days(0, 20)]), 20), Step::MakeAll(Reason::CaNotValid));
        assert_eq!(decided(&Held { cas: Vec::new(), ..fit() }, 10), Step::MakeAll(Reason::Missing));
        assert_eq!(next(None, None, Seen::default(), day(10), &WAITS), Step::MakeAll(Reason::Missing));
    }

    #[test]
    fn a_new_ca_signs_after_the_settle_time_in_the_webhook_configurations() {
        let trusted = |seconds| Seen { trusted_for: seconds, signs_for: None };
        let decided = |seen| next(Some(&introduced()), None, seen, day(10), &WAITS);
        let seconds = Duration::from_secs;
        assert_eq!(decided(trusted(None)), Step::Keep(seconds(30)));
        assert_eq!(decided(trusted(Some(seconds(29)))), Step::Keep(seconds(1)));
        assert_eq!(decided(trusted(Some(seconds(30)))), Step::SignLeaf(Reason::CaTrusted));
        // The old CA's leaf cannot be renewed: the old CA's key is gone.
        let due = with_leaf(introduced(), |leaf| leaf.validity = days(0, 12));
        assert_eq!(next(Some(&due), None, trusted(None), day(10), &WAITS), Step::Keep(seconds(30)));
    }

    #[test]
    fn the_old_ca_is_dropped_when_no_replica_can_still_serve_its_leaf() {
        let both = held(&[days(NEW.0, NEW.1), days(OLD.0, OLD.1)]);
        let signs = |seconds| Seen { trusted_for: None, signs_for: seconds };
        let decided = |seen| next(Some(&both), None, seen, day(10), &WAITS);
        let seconds = Duration::from_secs;
        assert_eq!(decided(signs(None)), Step::Keep(seconds(3600)));
        assert_eq!(decided(signs(Some(seconds(3599)))), Step::Keep(seconds(1)));
        assert_eq!(decided(signs(Some(seconds(3600)))), Step::DropOldCas);
    }

    #[test]
    fn a_requested_leaf_is_not_signed_by_a_ca_that_is_not_trusted_yet() {
        let asked = |held: &Held, wish| next(Some(held), Some(wish), Seen::default(), day(10), &WAITS);
        let ours = held(&[days(0, 900)]);
        assert_eq!(asked(&ours, Wish::Leaf), Step::SignLeaf(Reason::Asked));
        assert_eq!(asked(&ours, Wish::Ca), Step::AddCa(Reason::Asked));
        assert_eq!(asked(&introduced(), Wish::Ca), Step::AddCa(Reason::Asked));
        assert_eq!(asked(&introduced(), Wish::Leaf), Step::Keep(WAITS.settle), "signed later");
    }

    /// For example a CA of Kubeflow's operator, whose key this operator cannot read, or a CA whose key is kept
    /// elsewhere.
    #[test]
    fn a_ca_that_cannot_sign_is_replaced_when_a_new_leaf_is_needed() {
        let foreign = Held { can_sign: false, ..held(&[days(0, 900)]) };
        let step = Step::AddCa(Reason::CaCannotSign);
        assert_eq!(decided(&foreign, 10), keep(50));
        assert_eq!(decided(&foreign, 60), step);
        assert_eq!(next(Some(&foreign), Some(Wish::Leaf), Seen::default(), day(10), &WAITS), step);
        let seen = Seen { trusted_for: Some(WAITS.settle), signs_for: None };
        let foreign = Held { can_sign: false, ..introduced() };
        assert_eq!(next(Some(&foreign), None, seen, day(10), &WAITS), step);
    }

    #[test]
    fn the_renewal_of_a_ca_takes_three_steps_and_then_nothing_is_due() {
        let mut now = held(&[days(0, 90)]);
        let mut steps = Vec::new();
        let seen = Seen { trusted_for: Some(WAITS.settle), signs_for: Some(WAITS.overlap) };
        loop {
            match next(Some(&now), None, seen, day(60), &WAITS) {
                Step::Keep(_) => break,
                Step::AddCa(_) => {
                    now.cas.insert(0, days(60, 960));
                    now = with_leaf(now, |leaf| leaf.issuer = leaf.issuer.map(|issuer| issuer + 1));
                    steps.push("AddCa");
                }
                Step::SignLeaf(_) => {
                    now = with_leaf(now, |leaf| {
                        *leaf = Leaf { validity: days(60, 150), issuer: Some(0), lacks: Vec::new() };
                    });
                    steps.push("SignLeaf");
                }
                Step::DropOldCas => {
                    now.cas.truncate(1);
                    steps.push("DropOldCas");
                }
                Step::MakeAll(why) => unreachable!("{why}"),
            }
        }
        assert_eq!(steps, ["AddCa", "SignLeaf", "DropOldCas"]);
    }
}
