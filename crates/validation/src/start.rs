//! Warns of properties with which no driver of Spark starts, or none of its executors: what Spark 3.5 to 4.2 check when
//! they begin (`SparkConf.validateSettings`, `SparkContext`, `ResourceUtils`, `ExecutorAllocationManager`, the feature
//! steps of executors, and the entries of `org.apache.spark.internal.config` and `SQLConf`). The properties are those of
//! the plan, from all fields; a property that is missing there may be in the admin's `spark-defaults.conf`, so that there
//! is no warning about it. What submission itself refuses is refused by the plan.

use super::Subject;
use api::{Role, conf, volume::ON_DEMAND};
use spark_client::{Line, list_elements};
use std::collections::{BTreeMap, BTreeSet};

/// Warns of mistakes in `properties`, from which the driver was planned.
pub(super) fn check(subject: &Subject, properties: &BTreeMap<String, String>) {
    let start = Start { subject, properties, line: Line::nearest(&subject.spec.spark_version).0 };
    start.values();
    start.heaps();
    start.dynamic_allocation();
    start.coordinates();
    start.cores_of_tasks();
    start.timeouts();
    start.claims();
    start.devices_of_tasks();
    start.texts();
}

/// The settings that users write most, and the values that Spark accepts.
const VALUES: &str = include_str!("start.txt");
/// The text in the name of a claim that Spark replaces by the number of the executor.
const EXECUTOR_ID: &str = "SPARK_EXECUTOR_ID";
/// With one of these settings Spark starts with a heap of any size.
const ANY_HEAP: [&str; 2] = ["spark.testing.memory", "spark.testing.reservedMemory"];
/// The smallest heap with which Spark starts, in bytes. Spark reserves 300 MiB and requires 1.5 times as much of the heap
/// that the JVM reports (`UnifiedMemoryManager`), which in so small a pod does not include a survivor space.
const SMALLEST_HEAP: u64 = 466 << 20;
const OF_DYNAMIC_ALLOCATION: &str = "spark.dynamicAllocation.";
const SECOND: u64 = 1_000;

/// Returns what is wrong with the value of a setting for which Spark accepts `what`; `None` if nothing is.
fn mistake<'w>(mut what: impl Iterator<Item = &'w str>, text: &str, line: Line) -> Option<String> {
    let kind = what.next()?;
    if kind == "word" {
        let words = what.next()?.replace('|', ", ");
        let is_one = words.split(", ").any(|word| word.eq_ignore_ascii_case(text));
        return (!is_one).then(|| format!("is none of {words}"));
    }
    let mut bound = || what.next().and_then(|bound| bound.parse::<f64>().ok());
    let (least, most) = (bound(), bound());
    #[expect(clippy::cast_precision_loss, reason = "it is compared with bounds that are round numbers")]
    let amount = |amount: u64| amount as f64;
    let (kind, unit) = kind.split_once('-').unwrap_or((kind, ""));
    let (value, like) = match kind {
        "flag" => (text.to_ascii_lowercase().parse::<bool>().ok().map(|_| 0.0), "true or false"),
        "whole" => (text.parse::<i32>().ok().map(f64::from), "a whole number"),
        "number" => (text.parse().ok(), "a number such as 0.6"),
        "size" => (size(text, unit, line).map(amount), "a size such as 512m"),
        _ => (time(text, unit).map(amount), "a time such as 30s"),
    };
    let Some(value) = value else { return Some(format!("is not {like}")) };
    let is_within = least.is_none_or(|least| least <= value) && most.is_none_or(|most| value <= most);
    (!is_within).then(|| "is out of bounds".to_owned())
}

/// Returns a size in bytes, without its sign; `None` if Spark does not accept it. A number without a unit counts in `unit`.
fn size(text: &str, unit: &str, line: Line) -> Option<u64> {
    let text = text.trim();
    let text = text.strip_prefix('-').unwrap_or(text);
    let with_unit = text.parse::<u64>().map(|number| format!("{number}{unit}"));
    line.bytes(with_unit.as_deref().unwrap_or(text))
}

/// Returns a time in milliseconds; `None` if Spark does not accept it (`JavaUtils.timeStringAs`). A number without a unit
/// counts in `unit`.
fn time(text: &str, unit: &str) -> Option<u64> {
    let lower = text.trim().to_ascii_lowercase();
    let (digits, suffix) = lower.split_at(lower.find(|c: char| !c.is_ascii_digit()).unwrap_or(lower.len()));
    let number = digits.parse::<u64>().ok()?;
    let suffix = if suffix.is_empty() { unit } else { suffix };
    let unit = match suffix {
        "us" => return Some(number / 1_000),
        "ms" => 1,
        "s" => SECOND,
        "m" | "min" => 60 * SECOND,
        "h" => 3_600 * SECOND,
        "d" => 86_400 * SECOND,
        _ => return None,
    };
    number.checked_mul(unit)
}

struct Start<'a> {
    subject: &'a Subject<'a>,
    properties: &'a BTreeMap<String, String>,
    line: Line,
}

impl<'a> Start<'a> {
    /// Returns a value, unless it has a reference that only Spark replaces.
    fn get(&self, key: &str) -> Option<&'a str> {
        self.properties.get(key).map(|text| text.trim()).filter(|text| !text.contains("${"))
    }

    fn has(&self, key: &str) -> bool {
        self.properties.contains_key(key)
    }

    fn is_on(&self, key: &str, default: bool) -> bool {
        self.get(key).map_or(default, |text| text.eq_ignore_ascii_case("true"))
    }

    fn whole(&self, key: &str) -> Option<i64> {
        self.get(key)?.parse().ok()
    }

    fn warn(&self, key: &str, why: impl std::fmt::Display) {
        let field = submission::field_of(&self.subject.spec, self.subject.root, key);
        self.subject.findings.borrow_mut().warn(field, why);
    }

    /// Warns that the value of `key` keeps Spark from starting.
    fn warn_of_no_start(&self, key: &str, why: impl std::fmt::Display) {
        self.warn(key, format_args!("Spark does not start: {why}"));
    }

    fn values(&self) {
        for line in VALUES.lines().filter(|line| !line.starts_with('#')) {
            let mut words = line.split(' ');
            let key = format!("spark.{}", words.next().unwrap_or_default());
            let is_unused =
                key.starts_with(OF_DYNAMIC_ALLOCATION) && !self.is_on(conf::DYNAMIC_ALLOCATION, false);
            let Some(text) = self.get(&key).filter(|_| !is_unused) else { continue };
            if let Some(why) = mistake(words, text, self.line) {
                let spark = if key.starts_with("spark.sql.") { "Spark SQL" } else { "Spark" };
                self.warn(&key, format_args!("{spark} does not start: `{text}` {why}"));
            }
        }
        for name in ["ui", "driver", "blockManager", "driver.blockManager"] {
            let key = format!("spark.{name}.port");
            let is_used = name != "ui" || self.is_on(conf::UI_ENABLED, true);
            if is_used && self.whole(&key).is_some_and(|port| (1..1_024).contains(&port)) {
                self.warn_of_no_start(&key, "write a port from 1024");
            }
        }
    }

    /// The driver's JVM gets the heap as it is written. Spark takes an executors' heap without a unit for bytes here, but for
    /// MiB in the requests of their pods.
    fn heaps(&self) {
        let takes_any = ANY_HEAP.iter().any(|key| self.has(key));
        for role in Role::ALL {
            let key = conf::spark(role, conf::MEMORY);
            let Some(text) = self.get(&key) else { continue };
            let Some(bytes) = self.line.bytes(text) else { continue };
            let has_unit = !text.bytes().all(|c| c.is_ascii_digit());
            if has_unit && !takes_any && (1..SMALLEST_HEAP).contains(&bytes) {
                let why = "is too small a heap for Spark to start: write 512m at least";
                self.warn(&key, format_args!("`{text}` {why}"));
            }
            let short = text.trim_end_matches(['b', 'B']);
            let is_known = short.ends_with(['k', 'K', 'm', 'M', 'g', 'G', 't', 'T']);
            let instead = if is_known { short } else { "it in m or g" };
            if !has_unit {
                self.warn(&key, format_args!("`{text}` has no unit and is taken for bytes: write {text}m"));
            } else if role == Role::Driver && instead != text {
                let why = format_args!("the JVM does not know the unit of `{text}`: write {instead}");
                self.warn(&key, why);
            }
        }
    }

    fn dynamic_allocation(&self) {
        if !self.is_on(conf::DYNAMIC_ALLOCATION, false) {
            return;
        }
        let (of_least, of_most) = (conf::DYNAMIC_ALLOCATION_MIN, conf::DYNAMIC_ALLOCATION_MAX);
        let (least, most) = (self.whole(of_least).unwrap_or(0), self.whole(of_most).unwrap_or(i64::MAX));
        if least < 0 {
            self.warn(of_least, format_args!("`{least}` is negative: write 0 or more"));
        }
        if most < 1 {
            self.warn(of_most, format_args!("`{most}` leaves no executor: write 1 or more"));
        } else if least > most {
            self.warn_of_no_start(of_least, format_args!("{least} is more than the maximum, {most}"));
        }
        let tracks_by_default = !Line::is_older(&self.subject.spec.spark_version, (3, 4));
        let tracking = conf::SHUFFLE_TRACKING;
        let keeps = self.is_on(tracking, tracks_by_default)
            || self.is_on("spark.shuffle.service.enabled", false)
            || self.is_on(conf::DECOMMISSION, false)
                && self.is_on("spark.storage.decommission.shuffleBlocks.enabled", true)
            || self.has("spark.shuffle.sort.io.plugin.class")
            || self.has("spark.shuffle.manager");
        if !keeps && tracks_by_default {
            self.warn_of_no_start(tracking, "nothing else keeps the data of shuffles: take it out");
        } else if !keeps {
            let why = format_args!("nothing keeps shuffle data: set {tracking}=true");
            self.warn_of_no_start(conf::DYNAMIC_ALLOCATION, why);
        }
    }

    fn coordinates(&self) {
        for (key, parts, form) in [
            ("spark.jars.packages", 3, "group:artifact:version"),
            ("spark.jars.excludes", 2, "group:artifact"),
        ] {
            let wrong = self.get(key).into_iter().flat_map(list_elements).find(|coordinate| {
                let found: Vec<_> = coordinate.split([':', '/']).collect();
                found.len() != parts || found.iter().any(|part| part.trim().is_empty())
            });
            if let Some(coordinate) = wrong {
                self.warn(key, format_args!("`{coordinate}` is not of the form {form}"));
            }
        }
    }

    fn cores_of_tasks(&self) {
        let key = "spark.task.cpus";
        if let Some(task) = self.whole(key)
            && let Some(cores) = self.whole(&conf::spark(Role::Executor, conf::CORES))
            && task > cores
        {
            self.warn_of_no_start(key, format_args!("a task has {task} cores and an executor {cores}"));
        }
    }

    fn timeouts(&self) {
        let (beat, patience) = (conf::HEARTBEAT_INTERVAL, "spark.network.timeout");
        let Some(waits) = time(self.get(patience).unwrap_or("120s"), "s") else { return };
        let beats = time(self.get(beat).unwrap_or("10s"), "ms");
        if beats.is_some_and(|beats| beats >= waits) {
            self.warn_of_no_start(beat, format_args!("it is not shorter than {patience}"));
        }
        let of_blocks = self.has("spark.storage.blockManagerHeartbeatTimeoutMs");
        let interval = self.get("spark.network.timeoutInterval").unwrap_or("60s");
        if !of_blocks && time(interval, "ms").is_some_and(|interval| interval > waits) {
            let why = format_args!("it is shorter than spark.network.timeoutInterval ({interval})");
            self.warn_of_no_start(patience, why);
        }
    }

    /// Spark creates a claim only if it knows both class and size.
    fn claims(&self) {
        const CLAIM: &str = ".options.claimName";
        let is_one =
            self.whole(conf::EXECUTOR_INSTANCES) == Some(1) && !self.is_on(conf::DYNAMIC_ALLOCATION, false);
        for role in Role::ALL {
            let prefix = format!("{}persistentVolumeClaim.", conf::kubernetes(role, conf::VOLUMES_PREFIX));
            let all = self.properties.range(prefix.clone()..).take_while(|(key, _)| key.starts_with(&prefix));
            for (key, name) in all {
                let Some(volume) = key.strip_suffix(CLAIM) else { continue };
                let lacks = |option: &&&str| !self.has(&format!("{volume}.options.{option}"));
                let lacking: Vec<_> = ["storageClass", "sizeLimit"].iter().filter(lacks).collect();
                let is_shared = role == Role::Executor && !is_one && !name.contains(EXECUTOR_ID);
                if name.contains(ON_DEMAND) {
                    for option in lacking {
                        self.warn(key, format_args!("this claim is not created without {option}"));
                    }
                } else if is_shared && lacking.is_empty() {
                    let why = format_args!("write {ON_DEMAND}, or no storageClass");
                    self.warn(key, format_args!("only one pod can create `{name}`: {why}"));
                }
            }
        }
    }

    fn devices_of_tasks(&self) {
        const PREFIX: &str = "spark.task.resource.";
        let keys = self.properties.range(PREFIX.to_owned()..).map(|(key, _)| key);
        let rests = keys.map_while(|key| key.strip_prefix(PREFIX));
        let names: BTreeSet<_> = rests.filter_map(|rest| Some(rest.split_once('.')?.0)).collect();
        for name in names {
            let key = format!("{PREFIX}{name}.amount");
            let of_executor = format!("{}{name}.amount", conf::spark(Role::Executor, conf::RESOURCE_PREFIX));
            let number = |key: &str| self.get(key).and_then(|text| text.parse::<f64>().ok());
            let Some(task) = number(&key).filter(|task| *task > 0.0) else { continue };
            if !self.has(&of_executor) {
                self.warn(&key, format_args!("Spark does not start without {of_executor}"));
            } else if number(&of_executor).is_some_and(|executor| executor < task) {
                self.warn_of_no_start(&key, format_args!("it is more than {of_executor}"));
            }
        }
    }

    fn texts(&self) {
        for options in [conf::EXTRA_JAVA_OPTIONS, "defaultJavaOptions"] {
            let key = conf::spark(Role::Driver, options);
            if self.get(&key).is_some_and(is_unbalanced) {
                self.warn(&key, "no driver starts: a quotation mark is not closed, or a `\\` is last");
            }
        }
        let key = conf::spark(Role::Executor, "defaultJavaOptions");
        let options = self.get(&key).unwrap_or_default();
        if let Some(option) = ["-Xmx", "-Dspark"].into_iter().find(|option| options.contains(option)) {
            self.warn_of_no_start(&key, format_args!("it may not have {option}"));
        }
        let key = "spark.storage.decommission.fallbackStorage.path";
        if let Some(path) = self.get(key).filter(|path| !path.ends_with('/')) {
            self.warn_of_no_start(key, format_args!("write {path}/"));
        }
    }
}

/// Whether the launcher cannot split the options (`CommandBuilderUtils.parseOptionString`).
fn is_unbalanced(options: &str) -> bool {
    let (mut open, mut escapes) = (None, false);
    for c in options.chars() {
        match (open, c) {
            _ if escapes => escapes = false,
            (None | Some('"'), '\\') => escapes = true,
            (None, '"' | '\'') => open = Some(c),
            (Some(quote), c) if quote == c => open = None,
            _ => {}
        }
    }
    open.is_some() || escapes
}
