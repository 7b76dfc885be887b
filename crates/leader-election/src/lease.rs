//! Decides which process reconciles applications: the process that holds the lease. [`next`] is the decision of one
//! candidate. It follows client-go's `leaderelection` and uses the same lease records.

use jiff::Timestamp;
use k8s_openapi::{api::coordination::v1::LeaseSpec, apimachinery::pkg::apis::meta::v1::MicroTime};
use std::time::Duration;

/// The times of an election: the flags of Kubeflow's operator, with client-go's defaults.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// How long other candidates wait for a silent holder before they take the lease.
    pub lease_duration: Duration,
    /// How long a holder continues to lead without having renewed the lease. The difference to `lease_duration` is the
    /// time that the holder's last writes may take to arrive: a request that was given up without an answer may still
    /// have reached the API server.
    pub renew_deadline: Duration,
    /// The time between two renewals by the holder.
    pub retry_period: Duration,
}

/// What a candidate does next.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Write this lease. Once it is stored, the candidate holds the lease; if another client has written it first, read
    /// it again.
    Write(LeaseSpec),
    /// Another candidate holds the lease: read it again after this time.
    Wait(Duration),
}

/// Returns the next step of candidate `me`, who sees the lease as `seen` and has seen no change in it for `unchanged`.
/// `unchanged` is measured by the candidate's own clock, because the clocks of other candidates cannot be trusted.
pub fn next(
    seen: Option<&LeaseSpec>,
    unchanged: Duration,
    me: &str,
    now: Timestamp,
    timing: &Timing,
) -> Step {
    let holder = seen.and_then(|lease| lease.holder_identity.as_deref()).filter(|holder| !holder.is_empty());
    let transitions = seen.and_then(|lease| lease.lease_transitions).unwrap_or_default();
    let (acquired, transitions) = match holder {
        Some(holder) if holder == me => (seen.and_then(|lease| lease.acquire_time.clone()), transitions),
        Some(_) if unchanged < patience(seen, timing) => {
            return Step::Wait((patience(seen, timing) - unchanged).min(timing.retry_period / 2));
        }
        // The lease was released, or its holder is silent.
        _ => (None, transitions.saturating_add(i32::from(seen.is_some()))),
    };
    Step::Write(held(me, acquired.unwrap_or(MicroTime(now)), transitions, now, timing))
}

/// Returns the lease after its holder has given it up: the next candidate need not wait.
pub fn released(lease: &LeaseSpec, now: Timestamp) -> LeaseSpec {
    LeaseSpec {
        holder_identity: Some(String::new()),
        lease_duration_seconds: Some(1),
        acquire_time: Some(MicroTime(now)),
        renew_time: Some(MicroTime(now)),
        ..lease.clone()
    }
}

/// Returns how long the lease of a silent holder is respected: at least for the duration that the holder has written
/// into it, in case its settings differ from this candidate's.
fn patience(seen: Option<&LeaseSpec>, timing: &Timing) -> Duration {
    let written =
        seen.and_then(|lease| lease.lease_duration_seconds).and_then(|seconds| u64::try_from(seconds).ok());
    timing.lease_duration.max(Duration::from_secs(written.unwrap_or_default()))
}

fn held(me: &str, acquired: MicroTime, transitions: i32, now: Timestamp, timing: &Timing) -> LeaseSpec {
    // Rounded up: a candidate with other settings waits as long as this value says, which must not be less than the
    // holder's own duration.
    let seconds = timing.lease_duration.as_millis().div_ceil(1_000);
    let seconds = i32::try_from(seconds).unwrap_or(i32::MAX);
    LeaseSpec {
        holder_identity: Some(me.to_owned()),
        lease_duration_seconds: Some(seconds),
        acquire_time: Some(acquired),
        renew_time: Some(MicroTime(now)),
        lease_transitions: Some(transitions),
        ..LeaseSpec::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIMING: Timing = Timing {
        lease_duration: Duration::from_secs(15),
        renew_deadline: Duration::from_secs(10),
        retry_period: Duration::from_secs(2),
    };

    fn at(second: i8) -> Timestamp {
        jiff::civil::datetime(2026, 11, 21, 12, 0, second, 0)
            .to_zoned(jiff::tz::TimeZone::UTC)
            .unwrap()
            .timestamp()
    }

    fn step(seen: Option<&LeaseSpec>, unchanged: u64, me: &str, second: i8) -> Step {
        next(seen, Duration::from_secs(unchanged), me, at(second), &TIMING)
    }

    fn written(step: Step) -> LeaseSpec {
        let Step::Write(lease) = step else { panic!("{step:?}") };
        lease
    }

    #[test]
    fn the_first_candidate_takes_and_renews_the_lease_and_the_second_waits() {
        let first = written(step(None, 0, "a", 0));
        assert_eq!(first, held("a", MicroTime(at(0)), 0, at(0), &TIMING));
        assert_eq!(written(step(Some(&first), 2, "a", 2)), held("a", MicroTime(at(0)), 0, at(2), &TIMING));
        assert_eq!(step(Some(&first), 0, "b", 2), Step::Wait(Duration::from_secs(1)));
        assert_eq!(step(Some(&first), 14, "b", 2), Step::Wait(Duration::from_secs(1)));
    }

    #[test]
    fn a_silent_holders_lease_is_taken_after_its_own_duration_if_that_is_longer() {
        let first = written(step(None, 0, "a", 0));
        assert_eq!(
            written(step(Some(&first), 15, "b", 20)),
            held("b", MicroTime(at(20)), 1, at(20), &TIMING)
        );
        let patient = LeaseSpec { lease_duration_seconds: Some(60), ..first };
        assert!(matches!(step(Some(&patient), 15, "b", 20), Step::Wait(_)));
        assert!(matches!(step(Some(&patient), 60, "b", 20), Step::Write(_)));
    }

    #[test]
    fn the_duration_in_the_lease_is_rounded_up() {
        let timing = Timing { lease_duration: Duration::from_millis(15_900), ..TIMING };
        let Step::Write(lease) = next(None, Duration::ZERO, "a", at(0), &timing) else { unreachable!() };
        assert_eq!(lease.lease_duration_seconds, Some(16));
    }

    #[test]
    fn a_released_lease_is_taken_at_once() {
        let free = released(&written(step(None, 0, "a", 0)), at(5));
        assert_eq!(written(step(Some(&free), 0, "b", 6)), held("b", MicroTime(at(6)), 1, at(6), &TIMING));
    }

    #[test]
    fn a_lease_with_the_greatest_number_of_transitions_is_taken_all_the_same() {
        let worn = LeaseSpec { lease_transitions: Some(i32::MAX), ..LeaseSpec::default() };
        assert_eq!(written(step(Some(&worn), 0, "a", 0)).lease_transitions, Some(i32::MAX));
    }
}
