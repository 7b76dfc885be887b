//! The flags of leader election.

use super::{InstallationName, duration};
use anyhow::ensure;
use clap::Args;
use leader_election::Timing;
use std::time::Duration;

/// Which of several replicas drives applications.
#[derive(Debug, Args)]
#[command(next_help_heading = "Leader election")]
pub struct ElectionSettings {
    /// Whether the controller waits until it holds a lease, so that of several replicas one drives
    /// applications; the webhook answers in each
    #[arg(long, default_value_t = true)]
    pub leader_election: bool,

    /// The Lease [default: INSTALLATION-lock]
    #[arg(long, value_name = "NAME")]
    pub leader_election_lock_name: Option<String>,

    /// The namespace of the Lease [default: that of --webhook-secret-namespace]
    #[arg(long, value_name = "NAMESPACE")]
    pub leader_election_lock_namespace: Option<String>,

    /// How long other replicas wait for a leader that does not renew the lease before they take it
    #[arg(long, value_name = "DURATION", default_value = "15s", value_parser = duration)]
    pub leader_election_lease_duration: Duration,

    /// How long a leader that cannot renew the lease continues to work
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = duration)]
    pub leader_election_renew_deadline: Duration,

    /// How often a leader renews the lease; the other replicas read it twice as often
    #[arg(long, value_name = "DURATION", default_value = "2s", value_parser = duration)]
    pub leader_election_retry_period: Duration,
}

/// How much longer than the renew deadline the lease has to be. A leader ends at the deadline to the millisecond, but
/// the API server may still carry out the requests that the leader has sent before. A healthy API server answers every
/// request of the operator within a tenth of a second.
const LAST_WRITES: Duration = Duration::from_secs(1);

impl ElectionSettings {
    /// Returns namespace and name of the lease, if there is an election. The namespace is `own` unless another one is set.
    pub fn lock(&self, installation: &InstallationName, own: &str) -> Option<(String, String)> {
        let namespace = self.leader_election_lock_namespace.as_deref().unwrap_or(own).to_owned();
        let name = self.leader_election_lock_name.clone().unwrap_or_else(|| installation.of("lock"));
        self.leader_election.then_some((namespace, name))
    }

    /// Returns the durations of the election.
    ///
    /// # Errors
    ///
    /// When the lease could pass to another candidate while the old leader still works.
    pub fn timing(&self) -> anyhow::Result<Timing> {
        let lease_duration = self.leader_election_lease_duration;
        let renew_deadline = self.leader_election_renew_deadline;
        let retry_period = self.leader_election_retry_period;
        ensure!(
            !retry_period.is_zero() && renew_deadline > retry_period,
            "--leader-election-renew-deadline ({renew_deadline:?}) must be longer than --leader-election-retry-period \
             ({retry_period:?}), and that more than 0s: within the deadline a leader has to renew its lease at least once"
        );
        ensure!(
            lease_duration.checked_sub(renew_deadline).is_some_and(|rest| rest >= LAST_WRITES),
            "--leader-election-lease-duration ({lease_duration:?}) must be at least {LAST_WRITES:?} longer than \
             --leader-election-renew-deadline ({renew_deadline:?}): the last writes of a leader that has lost its \
             lease may take that long"
        );
        Ok(Timing { lease_duration, renew_deadline, retry_period })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Flags {
        #[command(flatten)]
        election: ElectionSettings,
    }

    #[test]
    fn a_lease_shorter_than_the_last_writes_of_a_leader_is_refused() {
        let timing = |lease: &str, renew: &str, retry: &str| {
            let flags = [("lease-duration", lease), ("renew-deadline", renew), ("retry-period", retry)];
            let flags = flags.map(|(flag, value)| format!("--leader-election-{flag}={value}"));
            Flags::try_parse_from(["run".to_owned()].into_iter().chain(flags)).unwrap().election.timing()
        };
        assert!(timing("15s", "10s", "2s").is_ok() && timing("15s", "14s", "2s").is_ok());
        let short = timing("15s", "14500ms", "2s").unwrap_err().to_string();
        assert!(
            short.contains("--leader-election-lease-duration (15s) must be at least 1s longer"),
            "{short}"
        );
        assert!(timing("10s", "15s", "2s").is_err());
        let once = timing("15s", "10s", "10s").unwrap_err().to_string();
        assert!(once.contains("--leader-election-renew-deadline (10s) must be longer"), "{once}");
        assert!(timing("15s", "10s", "0s").is_err());
    }
}
