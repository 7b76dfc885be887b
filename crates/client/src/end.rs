//! Defines how an application has ended: successfully, with a failure, or by being deleted.

use api::{SparkApplication, State};

/// How an application has ended, with the application as it was then.
#[derive(Clone, Debug, PartialEq)]
pub enum End {
    /// The last run has succeeded: the driver's exit code was 0. State COMPLETED.
    Completed(Box<SparkApplication>),
    /// The last run, or the last attempt at submitting it, has failed, and is not retried any more. State FAILED.
    Failed {
        /// The reason as a sentence: `status.applicationState.errorMessage`. Empty if the status has no message.
        message: String,
        /// The application.
        application: Box<SparkApplication>,
    },
    /// The application was deleted before its end was seen.
    Deleted,
}

impl End {
    /// Returns how the application has ended; `None` if it has not ended.
    pub fn of(application: SparkApplication) -> Option<Self> {
        match application.state() {
            _ if !application.has_ended() => None,
            State::Completed => Some(Self::Completed(Box::new(application))),
            State::Failed => {
                let status = application.status.as_ref();
                let message = status.and_then(|status| status.application_state.error_message.clone());
                Some(Self::Failed {
                    message: message.unwrap_or_default(),
                    application: Box::new(application),
                })
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use api::names::annotation;
    use serde_json::{Value, from_value, json};

    #[test]
    fn an_end_counts_only_for_the_newest_spec_and_rerun_request() {
        let end = |state: &str, metadata: Value| {
            let application: SparkApplication = from_value(json!({
                "metadata": metadata, "spec": {},
                "status": {
                    "applicationState": {"state": state, "errorMessage": "out of luck"},
                    "observedGeneration": 1, "lastRerun": "a",
                },
            }))
            .unwrap();
            End::of(application).map(|end| match end {
                End::Completed(_) => "completed".to_owned(),
                End::Failed { message, .. } => message,
                End::Deleted => "deleted".to_owned(),
            })
        };
        let settled = json!({"generation": 1, "annotations": {annotation::RERUN: "a"}});
        assert_eq!(end("COMPLETED", settled.clone()).as_deref(), Some("completed"));
        assert_eq!(end("FAILED", settled.clone()).as_deref(), Some("out of luck"));
        for state in ["", "RUNNING", "SUCCEEDING", "FAILING", "SUSPENDED", "SUBMISSION_FAILED"] {
            assert_eq!(end(state, settled.clone()), None, "{state}");
        }
        let edited = json!({"generation": 2});
        let to_run_again = json!({"generation": 1, "annotations": {annotation::RERUN: "b"}});
        for unsettled in [edited, to_run_again] {
            assert_eq!(end("COMPLETED", unsettled), None);
        }
    }
}
