//! Applies Argo CD's own rules for the health of applications to every story of the lifecycle.

use crate::{
    clients::{Conclusion, clients},
    lifecycle::steps,
    prelude::*,
};

#[test]
#[ignore = "needs Argo CD's rules: make clients"]
fn the_rules_of_argo_cd_conclude_what_their_table_says() {
    let program = env::var("ARGO_CD_HEALTH").expect("`make clients` sets ARGO_CD_HEALTH");
    let table = clients().into_iter().find(|client| client.client == "Argo CD").unwrap().concludes;
    let mut steps = steps();
    let mut applications = Vec::new();
    for (_, application, _, plan) in &mut steps {
        // The spec has the defaults that the webhook sets.
        application.spec = api::with_defaults(application.spec.clone());
        application.status = Some(plan.status.clone());
        applications.push(json!(application));
    }
    let output = run(&program, &[], &json!(applications).to_string());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let said = String::from_utf8(output.stdout).unwrap();
    assert_eq!(said.lines().count(), steps.len());
    let mut wrong = Vec::new();
    for ((context, ..), (application, health)) in steps.iter().zip(applications.iter().zip(said.lines())) {
        let state = application["status"]["applicationState"]["state"].as_str().unwrap_or("absent");
        let is_as_said = match table[state] {
            // Progressing until all executors run.
            Conclusion::Well => health == "Healthy" || (state == "RUNNING" && health == "Progressing"),
            Conclusion::Succeeded => health == "Healthy",
            Conclusion::Failed => health == "Degraded",
            Conclusion::Waits | Conclusion::Works => {
                ["Progressing", "Missing", "Suspended"].contains(&health)
            }
        };
        if !is_as_said {
            wrong.push(format!("{context}: {health} from {state}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let all_run = applications.iter().zip(said.lines()).any(|(application, health)| {
        application["status"]["applicationState"]["state"] == "RUNNING" && health == "Healthy"
    });
    assert!(all_run, "in no story do all executors run");
    println!("soak: clients: Argo CD: as it should be");
}
