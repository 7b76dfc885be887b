//! Gives drivers the admin's default service account (`--default-service-account`) if their applications name none. Users who
//! create applications may use any service account of the namespace anyway.

use crate::{
    Policy,
    extension::{ComingRun, Prepared},
};
use api::{Role, SparkApplication, names::conf, stated};
use std::borrow::Cow;

impl Policy {
    /// Returns the service account that the driver of `application` has by default; none if the application names one or the
    /// admin has set none. Unlike in Kubeflow's operator, an account in the driver's template counts.
    pub(crate) fn default_account(&self, application: &SparkApplication) -> Option<&str> {
        let account = stated(&self.default_service_account)?;
        let spec = &application.spec;
        let driver = &spec.driver.pod;
        let in_template = |field: &str| {
            let name = driver.template.as_ref().and_then(|template| template.json()["spec"][field].as_str());
            name.is_some_and(|name| !name.is_empty())
        };
        let names_one = stated(&driver.service_account).is_some()
            || spec.spark_conf.contains_key(&conf::service_account(Role::Driver))
            || ["serviceAccountName", "serviceAccount"].into_iter().any(in_template);
        (!names_one).then_some(account.as_str())
    }

    /// Returns the application with the driver's default account in a copy of its spec. The stored spec stays as it is, and so
    /// does its hash.
    pub(crate) fn with_default_account<'a>(
        &self,
        application: &'a SparkApplication,
    ) -> Cow<'a, SparkApplication> {
        let Some(account) = self.default_account(application) else { return Cow::Borrowed(application) };
        let mut application = application.clone();
        application.spec.driver.pod.service_account = Some(account.to_owned());
        Cow::Owned(application)
    }

    /// Returns the run as it is submitted: with the driver's default account, and as all extensions want it.
    ///
    /// # Errors
    ///
    /// See [`Extension::prepare`](crate::extension::Extension::prepare).
    pub fn prepared<'a>(
        &self,
        application: &'a SparkApplication,
        run: &ComingRun<'_>,
    ) -> Result<Prepared<'a>, String> {
        self.extensions.prepared(self.with_default_account(application), run)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, from_value, json};

    #[test]
    fn a_driver_has_the_default_account_if_its_application_names_none() {
        let account = |default: Option<&str>, spec: Value| {
            let policy =
                Policy { default_service_account: default.map(str::to_owned), ..Policy::new("k8s://x") };
            let application: SparkApplication = from_value(json!({"metadata": {}, "spec": spec})).unwrap();
            policy.with_default_account(&application).spec.driver.pod.service_account.clone()
        };
        let in_template =
            |field: &str| json!({"driver": {"template": {"spec": {field: "own", "containers": []}}}});
        let default = Some("spark");
        for (spec, expected) in [
            (json!({}), default),
            (json!({"driver": {"serviceAccount": ""}, "executor": {"serviceAccount": "executors"}}), default),
            (
                json!({"driver": {"template": {"spec": {"serviceAccountName": "", "containers": []}}}}),
                default,
            ),
            (json!({"driver": {"serviceAccount": "own"}}), Some("own")),
            (in_template("serviceAccountName"), None),
            (in_template("serviceAccount"), None),
            (json!({"sparkConf": {"spark.kubernetes.authenticate.driver.serviceAccountName": "own"}}), None),
        ] {
            assert_eq!(account(default, spec.clone()).as_deref(), expected, "{spec}");
        }
        assert_eq!(account(None, json!({})), None);
    }
}
