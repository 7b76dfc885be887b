//! The decision about an object under review, and the change from which it is made.

use super::{
    lookups::{Caller, Permit},
    reviews::Reviews,
};
use api::Bounds;
use json_patch::Patch;
use k8s_openapi::api::authentication::v1::UserInfo;
use serde_json::{Value, value::RawValue};
use validation::{Findings, Refusal};
use work::Panicked;

/// The decision about an object.
pub(super) enum Decision {
    /// The object is admitted with this patch, which may be empty; the warnings are shown to the user who has sent it.
    Admitted { patch: Patch, warnings: Vec<String> },
    /// The object breaks rules.
    Refused {
        /// The fields or annotations that are wrong, without their values: for the log.
        subjects: Vec<String>,
        /// All mistakes, for the user.
        message: String,
        warnings: Vec<String>,
    },
    /// The object cannot be read as the kind that it claims to be.
    Unreadable(String),
    /// The review has hit a bug of the operator.
    Bug(Panicked),
}

impl Decision {
    /// The object is admitted unchanged and without warnings.
    pub(super) const ALLOWED: Self = Self::Admitted { patch: Patch(Vec::new()), warnings: Vec::new() };

    /// The object is refused if there are mistakes, else admitted unchanged.
    pub(super) fn of(Findings { invalid, warnings, .. }: Findings) -> Self {
        if invalid.is_empty() {
            return Self::Admitted { patch: Patch::default(), warnings };
        }
        let subjects = invalid.iter().map(|invalid| invalid.field.clone()).collect();
        Self::Refused { subjects, message: Refusal(invalid).to_string(), warnings }
    }

    /// The object is refused for one reason.
    pub(super) fn refused(subject: &str, message: String) -> Self {
        Self::Refused { subjects: vec![subject.to_owned()], message, warnings: Vec::new() }
    }
}

/// The change under review, who has sent it, and the settings of reviews.
#[derive(Clone, Copy)]
pub(super) struct Change<'a> {
    /// The new version of the object.
    pub object: &'a Value,
    /// The stored version, or null.
    pub old: &'a Value,
    /// The namespace of the request.
    pub namespace: &'a str,
    /// The UserInfo of the user who has sent the request, as JSON text: only few decisions need it.
    pub user_info: Option<&'a RawValue>,
    pub caller: Caller,
    pub reviews: &'a Reviews,
}

impl Change<'_> {
    /// Returns the user who has sent the request. The error is the decision if that cannot be read.
    pub(super) fn user(&self) -> Result<UserInfo, Decision> {
        let Some(user) = self.user_info.map(RawValue::get) else { return Ok(UserInfo::default()) };
        let unreadable = |why: String| Decision::Unreadable(format!("userInfo: {why}"));
        if let Some(excess) = Bounds::OBJECT.excess(user, "userInfo") {
            return Err(unreadable(excess.to_string()));
        }
        serde_json::from_str(user).map_err(|error| unreadable(error.to_string()))
    }

    /// Waits for the permit to send the API server requests about the namespace, which is valid until it is dropped. The
    /// error continues a sentence.
    pub(super) async fn permitted(&self) -> Result<Permit, &'static str> {
        self.reviews.lookups.permitted(self.caller, self.namespace).await
    }
}
