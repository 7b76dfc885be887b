//! Checks `batchSchedulerOptions` against the scheduler that they are for.

use super::{BatchScheduler, BatchSchedulers};
use api::{BatchSchedulerOptions, LONGEST_LABEL, is_object_name, quantity, stated};
use validation::{Findings, Invalid, is_label_value};

impl BatchSchedulers {
    /// Checks the batch scheduler that an application names, and its options. An empty name means the default scheduler.
    /// `root` is the path of the spec.
    pub fn examine(&self, root: &str, name: &str, options: &BatchSchedulerOptions) -> Findings {
        let mut findings = Findings::default();
        let name = if name.is_empty() { self.default.as_deref().unwrap_or_default() } else { name };
        if !name.is_empty() {
            match self.named(name) {
                Ok(scheduler) => scheduler.check(root, name, options, &mut findings),
                Err(why) => findings.invalid.push(Invalid { field: format!("{root}.batchScheduler"), why }),
            }
        } else if *options != BatchSchedulerOptions::default() {
            let what = format!("{root}.batchSchedulerOptions: has no effect without {root}.batchScheduler");
            findings.warnings.push(what);
        }
        findings
    }
}

impl BatchScheduler {
    fn check(self, root: &str, name: &str, options: &BatchSchedulerOptions, findings: &mut Findings) {
        let mut field = |field: &str, readers: &[Self], wrong: Option<String>| {
            let field = format!("{root}.batchSchedulerOptions.{field}");
            if !readers.contains(&self) {
                let only = if readers.len() == 1 { "volcano" } else { "volcano or yunikorn" };
                findings.warnings.push(format!("{field}: has no effect with `{name}`, only with {only}"));
            } else if let Some(why) = wrong {
                findings.invalid.push(Invalid { field, why });
            }
        };
        let no_name = |text: &str, what: &str| {
            let why = format!(
                "`{text}` cannot be the name of a {what}: write lower-case letters, digits, `-` and `.`"
            );
            (!is_object_name(text)).then_some(why)
        };
        if let Some(queue) = stated(&options.queue) {
            let wrong = if self == Self::YuniKorn {
                (!is_label_value(queue)).then(|| {
                    format!(
                        "`{queue}` cannot be the value of a label, from which YuniKorn reads the queue: write letters, digits, `-`, `_` and \
                         `.`, at most {LONGEST_LABEL}"
                    )
                })
            } else {
                no_name(queue, "queue")
            };
            field("queue", &[Self::Volcano, Self::YuniKorn], wrong);
        }
        if let Some(class) = stated(&options.priority_class_name) {
            field("priorityClassName", &[Self::Volcano], no_name(class, "PriorityClass"));
        }
        let no_quantity = |text: &str| quantity::amount(text).is_none_or(|amount| amount < 0);
        let wrong =
            options.resources.iter().find(|(_, quantity)| no_quantity(&quantity.0)).map(|(name, text)| {
                format!("`{}` is no Kubernetes quantity of {name} (try `2` or `4Gi`)", text.0)
            });
        if !options.resources.is_empty() {
            field("resources", &[Self::Volcano], wrong);
        }
    }
}
