//! Checks `batchSchedulerOptions` against the scheduler that they are for.

use super::{BatchScheduler, BatchSchedulers};
use crate::validation::{LONGEST_LABEL, is_label_value, is_object_name};
use api::{BatchSchedulerOptions, quantity, stated};

/// The findings about the options of an application, each with the path of its field.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Findings {
    /// Why the application cannot be handed over.
    pub refused: Vec<(String, String)>,
    pub warnings: Vec<String>,
}

impl BatchSchedulers {
    /// Checks the batch scheduler that an application names, and its options. An empty name means the default scheduler.
    /// `root` is the path of the spec.
    #[must_use]
    pub fn check(&self, root: &str, name: &str, options: &BatchSchedulerOptions) -> Findings {
        let name = if name.is_empty() { self.default.as_deref().unwrap_or_default() } else { name };
        if name.is_empty() {
            let warnings = if *options == BatchSchedulerOptions::default() {
                Vec::new()
            } else {
                vec![format!("{root}.batchSchedulerOptions: has no effect without {root}.batchScheduler")]
            };
            return Findings { warnings, ..Findings::default() };
        }
        match self.named(name) {
            Err(why) => {
                Findings { refused: vec![(format!("{root}.batchScheduler"), why)], warnings: Vec::new() }
            }
            Ok(scheduler) => scheduler.check(&format!("{root}.batchSchedulerOptions"), name, options),
        }
    }
}

impl BatchScheduler {
    fn check(self, root: &str, name: &str, options: &BatchSchedulerOptions) -> Findings {
        let mut findings = Findings::default();
        let mut field = |field: &str, readers: &[Self], wrong: Option<String>| {
            if !readers.contains(&self) {
                let only = if readers.len() == 1 { "volcano" } else { "volcano or yunikorn" };
                findings
                    .warnings
                    .push(format!("{root}.{field}: has no effect with `{name}`, only with {only}"));
            } else if let Some(why) = wrong {
                findings.refused.push((format!("{root}.{field}"), why));
            }
        };
        const OBJECT_NAME: &str = "write lower-case letters, digits, `-` and `.`";
        if let Some(queue) = stated(&options.queue) {
            let wrong = if self == Self::YuniKorn {
                (!is_label_value(queue)).then(|| {
                    format!(
                        "`{queue}` cannot be the value of a label, as which YuniKorn reads the queue: write letters, digits, `-`, `_` and \
                         `.`, at most {LONGEST_LABEL}"
                    )
                })
            } else {
                (!is_object_name(queue))
                    .then(|| format!("`{queue}` cannot be the name of a queue: {OBJECT_NAME}"))
            };
            field("queue", &[Self::Volcano, Self::YuniKorn], wrong);
        }
        if let Some(class) = stated(&options.priority_class_name) {
            let wrong = (!is_object_name(class))
                .then(|| format!("`{class}` cannot be the name of a PriorityClass: {OBJECT_NAME}"));
            field("priorityClassName", &[Self::Volcano], wrong);
        }
        let no_quantity = |text: &str| quantity::amount(text).is_none_or(|amount| amount < 0);
        let wrong =
            options.resources.iter().find(|(_, quantity)| no_quantity(&quantity.0)).map(|(name, text)| {
                format!("`{}` is no Kubernetes quantity of {name} (try `2` or `4Gi`)", text.0)
            });
        if !options.resources.is_empty() {
            field("resources", &[Self::Volcano], wrong);
        }
        findings
    }
}
