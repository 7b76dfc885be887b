//! Gives drivers the admin's default service account (`--default-service-account`) if their applications name none. Users who
//! create applications may use any service account of the namespace anyway.

use crate::{Policy, copies::Copies, extension::Prepared};
use api::{Role, SparkApplication, annotation, conf, stated};
use kube_core::ResourceExt;
use std::borrow::Cow;

impl Policy {
    /// Returns the service account that the driver of `application` has by default; `None` if the application names one
    /// or the admin has set none. Unlike in Kubeflow's operator, an account in the driver's template counts.
    pub(crate) fn default_account(&self, application: &SparkApplication) -> Option<&str> {
        let account = stated(&self.default_service_account)?;
        let spec = &application.spec;
        let driver = &spec.driver.pod;
        let names_one = stated(&driver.service_account).is_some()
            || spec.spark_conf.contains_key(&conf::service_account(Role::Driver))
            || of_template(application, Role::Driver).is_some();
        (!names_one).then_some(account.as_str())
    }

    /// Returns the application with the driver's default account in a copy of its spec. The stored spec stays as it is,
    /// and so does its hash. Spark gives executors the driver's account even if their template names another, so the
    /// account of the executors' template is in the copy too.
    pub fn with_default_account<'a>(&self, application: &'a SparkApplication) -> Cow<'a, SparkApplication> {
        let Some(account) = self.default_account(application) else { return Cow::Borrowed(application) };
        let mut application = application.clone();
        application.spec.driver.pod.service_account = Some(account.to_owned());
        let of_executors = of_template(&application, Role::Executor).map(str::to_owned);
        let is_configured = application.spec.spark_conf.contains_key(&conf::service_account(Role::Executor));
        let executor = &mut application.spec.executor.pod.service_account;
        if stated(executor).is_none() && !is_configured {
            *executor = of_executors;
        }
        Cow::Owned(application)
    }

    /// Returns the run as it is submitted: with the driver's default account and the changes of all extensions.
    ///
    /// # Errors
    ///
    /// See [`Extension::prepare`](crate::extension::Extension::prepare).
    pub fn prepared<'a>(
        &self,
        application: &'a SparkApplication,
        run: &crate::extension::ComingRun<'_>,
    ) -> Result<Prepared<'a>, String> {
        /// The annotations by which pods get a PodGroup and a scheduling gate: only extensions may set them.
        const MARKS: [&str; 2] = [annotation::POD_GROUP, annotation::SCHEDULING_GATE];
        let mut application = self.with_default_account(application);
        if MARKS.iter().any(|mark| application.annotations().contains_key(*mark)) {
            application.to_mut().annotations_mut().retain(|key, _| !MARKS.contains(&key.as_str()));
        }
        let mut prepared = Prepared { application, objects: Vec::new(), copies: Copies::default() };
        self.extensions.iter().try_for_each(|extension| extension.prepare(&mut prepared, run))?;
        Ok(prepared)
    }
}

/// Returns the account that the template of `role` names.
fn of_template(application: &SparkApplication, role: Role) -> Option<&str> {
    let spec = &role.pod(&application.spec).template.as_ref()?.json()["spec"];
    let mut names =
        ["serviceAccountName", "serviceAccount"].into_iter().filter_map(|field| spec[field].as_str());
    names.find(|name| !name.is_empty())
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
        let cases = include_str!("../../../tests/data/accounts/driver.json");
        for (spec, expected) in serde_json::from_str::<Vec<(Value, Option<String>)>>(cases).unwrap() {
            assert_eq!(account(Some("spark"), spec.clone()), expected, "{spec}");
        }
        assert_eq!(account(None, json!({})), None);
    }

    /// In Spark, the driver's account overrides `serviceAccountName` of the executors' template.
    #[test]
    fn executors_keep_the_account_of_their_template() {
        let policy = Policy { default_service_account: Some("spark".to_owned()), ..Policy::new("k8s://x") };
        let cases = include_str!("../../../tests/data/accounts/executor.json");
        for (spec, expected) in serde_json::from_str::<Vec<(Value, Option<String>)>>(cases).unwrap() {
            let application: SparkApplication = from_value(json!({"metadata": {}, "spec": spec})).unwrap();
            let account = policy.with_default_account(&application).spec.executor.pod.service_account.clone();
            assert_eq!(account, expected, "{spec}");
        }
    }
}
