//! Builds the content of the screen of `sparkctl top`: the rows, their order, and the part of them that fits.

use crate::show::{Style, batch_scheduler, columns, executors, or_none};
use api::{Identity, Lenient, SparkApplication, State, excerpt::beginning};
use clap::ValueEnum;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::{ResourceExt, runtime::watcher::Event};
use spark_operator_client::summary;
use std::{
    cmp::{Ordering, Reverse},
    collections::BTreeMap,
    mem,
};

/// What the rows are sorted by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Order {
    /// Unreadable ones first, then those in progress, new, failed, suspended and completed ones
    State,
    /// The newest first
    Age,
    Name,
    /// Those with the most executors first
    Executors,
    /// Those with the most restarts first
    Restarts,
}

type Key = (String, String);

/// The part of an application that the screen shows. Nothing else of the application is kept in memory.
#[derive(Debug, PartialEq)]
struct Row {
    /// `None` if the object cannot be parsed as a SparkApplication.
    state: Option<State>,
    executors: String,
    executor_count: usize,
    restarts: i32,
    scheduler: Option<String>,
    created: Option<Time>,
    submitted: Option<Time>,
    ended: Option<Time>,
    /// The beginning of the reason for its state, or of the reason why the object cannot be parsed.
    why: Option<String>,
}

/// All rows, and which part of them is visible.
pub(super) struct Screen {
    place: String,
    has_namespaces: bool,
    order: Order,
    rows: BTreeMap<Key, Row>,
    /// The rows of the list that the watch is receiving. They replace `rows` when the list is complete.
    listed: BTreeMap<Key, Row>,
    /// The last error of the watch, if no event has arrived since: the rows may be out of date.
    trouble: Option<String>,
    first: usize,
    /// The number of rows for which there is room.
    pub room: usize,
}

/// The number of lines that are not rows: the summary, an empty line, the column headers, and the line with the keys.
const OTHER_LINES: usize = 4;
const KEYS: &str = "q end   s sort   ↑ ↓ PgUp PgDn Home End";

const HEADS: [&str; 9] =
    ["NAME", "STATE", "EXECUTORS", "RESTARTS", SCHEDULER, "SUBMITTED", "ENDED", "AGE", WHY];

/// The column that is shown only if some application names a batch scheduler.
const SCHEDULER: &str = "SCHEDULER";

/// The last column, which is shown only if the state of some application has a reason.
const WHY: &str = "WHY";
/// The maximum length of a reason, in bytes.
const LONGEST_WHY: usize = 240;

/// The columns that a narrow screen leaves out, in this order.
const SPARED: [&str; 3] = [SCHEDULER, "ENDED", "SUBMITTED"];

impl Screen {
    pub(super) fn new(place: String, has_namespaces: bool, order: Order) -> Self {
        Self {
            place,
            has_namespaces,
            order,
            rows: BTreeMap::new(),
            listed: BTreeMap::new(),
            trouble: None,
            first: 0,
            room: 0,
        }
    }

    /// Applies an event of the watch to the rows.
    pub(super) fn take(&mut self, event: Event<Lenient<SparkApplication>>) {
        self.trouble = None;
        match event {
            Event::Init => self.listed.clear(),
            Event::InitApply(guarded) => drop(self.listed.insert(key(&guarded), Row::of(&guarded))),
            Event::InitDone => self.rows = mem::take(&mut self.listed),
            Event::Apply(guarded) => drop(self.rows.insert(key(&guarded), Row::of(&guarded))),
            Event::Delete(guarded) => drop(self.rows.remove(&key(&guarded))),
        }
    }

    /// Records the error because of which the rows may be out of date; shown until the next event.
    pub(super) fn interrupted(&mut self, why: &str) {
        self.trouble = Some(why.to_owned());
    }

    pub(super) fn sort_by_next(&mut self) {
        let all = Order::value_variants();
        let at = all.iter().position(|order| *order == self.order).unwrap_or_default();
        self.order = all[(at + 1) % all.len()];
    }

    /// Scrolls down by this number of rows, or up if it is negative, at most to the last or the first row.
    pub(super) fn move_by(&mut self, rows: isize) {
        self.first = self.first.saturating_add_signed(rows);
    }

    /// Returns the summary and all rows, for --once and for output that is not a terminal.
    pub(super) fn whole(&self, style: Style) -> anyhow::Result<String> {
        Ok(format!("{}\n\n{}", self.summary(style), self.table(&self.sorted(), &[], style)?))
    }

    /// Returns `height` lines for the screen, none of them longer than `width`.
    pub(super) fn lines(&mut self, width: usize, height: usize, style: Style) -> anyhow::Result<Vec<String>> {
        self.room = height.saturating_sub(OTHER_LINES);
        self.first = self.first.min(self.rows.len().saturating_sub(self.room));
        let rows = self.sorted();
        let seen = &rows[self.first..rows.len().min(self.first + self.room)];
        // The reasons get the rest of a line, whatever its length, so the other columns are chosen without them.
        let mut spared = vec![WHY];
        for next in SPARED {
            if self.table(seen, &spared, style)?.lines().all(|line| cut(line, width) == line) {
                break;
            }
            spared.push(next);
        }
        let table = self.table(seen, &spared[1..], style)?;
        let mut lines = vec![self.summary(style), String::new()];
        lines.extend(table.lines().map(str::to_owned));
        lines.resize(height.saturating_sub(1), String::new());
        let (order, from, to) = (self.order.to_possible_value(), self.first, self.first + seen.len());
        let order = order.map(|order| order.get_name().to_owned()).unwrap_or_default();
        lines.push(match &self.trouble {
            Some(why) => format!("what you see may be old: {why}"),
            None if seen.is_empty() => KEYS.to_owned(),
            None => format!("{KEYS}   {}-{to} of {}, by {order}", from + 1, rows.len()),
        });
        Ok(lines.iter().take(height).map(|line| cut(line, width)).collect())
    }

    /// Returns the number of applications in each state, as a line.
    fn summary(&self, style: Style) -> String {
        let mut counts = BTreeMap::<_, usize>::new();
        for row in self.rows.values() {
            *counts.entry(rank(row.state)).or_default() += 1;
        }
        let told: Vec<_> = counts
            .into_iter()
            .map(|((_, state), count)| {
                format!("{count} {}", state.map_or_else(|| UNREADABLE.to_owned(), |state| style.state(state)))
            })
            .collect();
        let plural = if self.rows.len() == 1 { "" } else { "s" };
        let all = format!("{} application{plural} in {}", self.rows.len(), self.place);
        if told.is_empty() { all } else { format!("{all}: {}", told.join(", ")) }
    }

    fn sorted(&self) -> Vec<(&Key, &Row)> {
        let mut rows: Vec<_> = self.rows.iter().collect();
        let age = |row: &Row| Reverse(row.created.as_ref().map(|time| time.0));
        let latest = |row: &Row| Reverse(row.ended.as_ref().or(row.submitted.as_ref()).map(|time| time.0));
        // The map has the rows in the order of namespace and name already, and the sort keeps that order among equal
        // rows.
        let order = |(_, a): &(&Key, &Row), (_, b): &(&Key, &Row)| match self.order {
            Order::State => rank(a.state).0.cmp(&rank(b.state).0).then_with(|| latest(a).cmp(&latest(b))),
            Order::Age => age(a).cmp(&age(b)),
            Order::Name => Ordering::Equal,
            Order::Executors => b.executor_count.cmp(&a.executor_count),
            Order::Restarts => b.restarts.cmp(&a.restarts),
        };
        rows.sort_by(order);
        rows
    }

    fn table(&self, rows: &[(&Key, &Row)], spared: &[&str], style: Style) -> anyhow::Result<String> {
        let has_schedulers = self.rows.values().any(|row| row.scheduler.is_some());
        let has_reasons = self.rows.values().any(|row| row.why.is_some());
        let is_shown = |head: &str| {
            !spared.contains(&head) && (has_schedulers || head != SCHEDULER) && (has_reasons || head != WHY)
        };
        let row = |namespace: &str, cells: [String; 9]| {
            let cells = HEADS.iter().zip(cells).filter(|(head, _)| is_shown(head)).map(|(_, cell)| cell);
            self.has_namespaces.then(|| namespace.to_owned()).into_iter().chain(cells).collect::<Vec<_>>()
        };
        let mut cells = vec![row("NAMESPACE", HEADS.map(str::to_owned))];
        cells.extend(rows.iter().map(|((namespace, name), application)| {
            let Row { state, executors, restarts, scheduler, created, submitted, ended, why, .. } =
                application;
            let cells = [
                name.clone(),
                state.map_or_else(|| UNREADABLE.to_owned(), |state| style.state(state)),
                executors.clone(),
                restarts.to_string(),
                or_none(scheduler.as_ref()),
                style.age(submitted.as_ref()),
                style.age(ended.as_ref()),
                style.age(created.as_ref()),
                or_none(why.as_ref()),
            ];
            row(namespace, cells)
        }));
        columns(&cells)
    }
}

const UNREADABLE: &str = "UNREADABLE";

impl Row {
    fn of(guarded: &Lenient<SparkApplication>) -> Self {
        let application = guarded.0.as_ref().ok();
        let why = match &guarded.0 {
            Ok(application) => summary::why(application),
            Err(invalid) => Some(invalid.error.clone()),
        };
        let status = application.and_then(|application| application.status.as_ref());
        Self {
            state: application.map(SparkApplication::state),
            executors: or_none(application.and_then(executors).as_ref()),
            executor_count: status.map(|status| status.executor_state.len()).unwrap_or_default(),
            restarts: status.map(|status| (status.execution_attempts - 1).max(0)).unwrap_or_default(),
            scheduler: application.and_then(batch_scheduler),
            created: guarded.creation_timestamp(),
            submitted: status.and_then(|status| status.last_submission_attempt_time.clone()),
            ended: status.and_then(|status| status.termination_time.clone()),
            why: why.map(|why| beginning(why, LONGEST_WHY)),
        }
    }
}

fn key(guarded: &Lenient<SparkApplication>) -> Key {
    (guarded.own_namespace().to_owned(), guarded.name_any())
}

/// Returns the sort key of a state for [`Order::State`]: first applications that cannot be read, then those that have
/// begun and have not ended, then new, failed, suspended and completed ones.
fn rank(state: Option<State>) -> (u8, Option<State>) {
    let rank = match state {
        None => 0,
        Some(State::New) => 2,
        Some(State::Failed) => 3,
        Some(State::Suspended) => 4,
        Some(State::Completed) => 5,
        Some(_) => 1,
    };
    (rank, state)
}

/// Returns the part of a line that fits into `width` characters. Colour codes are kept and do not count.
fn cut(line: &str, width: usize) -> String {
    let mut room = width;
    let mut in_colour = false;
    let fits = |&letter: &char| {
        let is_seen = !in_colour && letter != '\u{1b}';
        in_colour = !is_seen && letter != 'm';
        if is_seen && room == 0 {
            return false;
        }
        room -= usize::from(is_seen);
        true
    };
    line.chars().filter(fits).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, from_value, json};

    fn application(name: &str, kind: &str, status: Value) -> Lenient<SparkApplication> {
        from_value(json!({
            "metadata": {"name": name, "namespace": "team", "creationTimestamp": "2026-11-21T10:00:00Z"},
            "spec": {"type": kind, "sparkVersion": "4.0.1", "driver": {}, "executor": {}}, "status": status,
        }))
        .unwrap()
    }

    fn in_state(name: &str, state: &str, submitted: &str) -> Lenient<SparkApplication> {
        let why = if state == "FAILED" { "no luck" } else { "" };
        let status = json!({
            "applicationState": {"state": state, "errorMessage": why}, "driverInfo": {}, "executionAttempts": 3,
            "lastSubmissionAttemptTime": submitted, "executorState": {"a": "RUNNING", "b": "PENDING"},
        });
        application(name, "Scala", status)
    }

    fn screen(has_namespaces: bool) -> Screen {
        let mut screen = Screen::new("namespace team".to_owned(), has_namespaces, Order::State);
        screen.take(Event::Init);
        for application in [
            in_state("done", "COMPLETED", "2026-11-21T11:00:00Z"),
            in_state("older", "RUNNING", "2026-11-21T11:00:00Z"),
            in_state("newer", "RUNNING", "2026-11-21T11:59:00Z"),
            in_state("wrong", "FAILED", "2026-11-21T11:00:00Z"),
            application("odd", "Ruby", Value::Null),
        ] {
            screen.take(Event::InitApply(application));
        }
        screen.take(Event::InitDone);
        screen
    }

    fn style(colours: bool) -> Style {
        Style { now: "2026-11-21T12:00:00Z".parse().unwrap(), colours }
    }

    #[test]
    fn rows_are_sorted_by_state_with_unreadable_applications_first() {
        let odd = application("odd", "Ruby", Value::Null).0.unwrap_err();
        let expected = include_str!("../../../../tests/data/ctl/top.txt").replace("{}", &odd.error);
        assert_eq!(screen(false).whole(style(false)).unwrap(), expected);
    }

    #[test]
    fn lines_and_rows_are_cut_to_the_size_of_the_screen() {
        let mut screen = screen(true);
        screen.move_by(1);
        let lines = screen.lines(40, 7, style(false)).unwrap();
        assert_eq!(
            lines,
            [
                "5 applications in namespace team: 1 UNRE",
                "",
                "NAMESPACE   NAME    STATE     EXECUTORS ",
                "team        newer   RUNNING   1 running,",
                "team        older   RUNNING   1 running,",
                "team        wrong   FAILED    1 running,",
                "q end   s sort   ↑ ↓ PgUp PgDn Home End ",
            ]
        );
        screen.move_by(isize::MAX);
        screen.move_by(screen.room.cast_signed());
        screen.move_by(1);
        assert_eq!(
            screen.lines(200, 7, style(false)).unwrap().last().unwrap(),
            &format!("{KEYS}   3-5 of 5, by state")
        );
        screen.interrupted("no route");
        assert_eq!(screen.lines(80, 9, style(false)).unwrap()[8], "what you see may be old: no route");
        for (width, height) in [(0, 0), (1, 1), (200, 2), (3, 100)] {
            assert_eq!(screen.lines(width, height, style(true)).unwrap().len(), height, "{width}x{height}");
        }
    }

    #[test]
    fn a_narrow_screen_leaves_out_the_times_but_not_the_age() {
        let mut screen = screen(false);
        let head = |screen: &mut Screen, width| screen.lines(width, 20, style(false)).unwrap()[2].clone();
        let whole = "NAME    STATE        EXECUTORS              RESTARTS   SUBMITTED   ENDED    AGE";
        assert_eq!(head(&mut screen, whole.len()), whole);
        let narrow = "NAME    STATE        EXECUTORS              RESTARTS   SUBMITTED   AGE";
        assert_eq!(head(&mut screen, whole.len() - 1), format!("{narrow}   WHY"));
        assert_eq!(head(&mut screen, narrow.len()), narrow);
        let narrowest = "NAME    STATE        EXECUTORS              RESTARTS   AGE";
        assert_eq!(head(&mut screen, narrow.len() - 1), format!("{narrowest}   WHY"));
        assert_eq!(
            head(&mut screen, narrowest.len() - 1),
            "NAME    STATE        EXECUTORS              RESTARTS   AG"
        );
    }

    #[test]
    fn the_scheduler_column_is_shown_if_used_and_left_out_first() {
        let mut screen = screen(false);
        let mut gang = in_state("gang", "SUBMITTED", "2026-11-21T11:00:00Z");
        let spec = &mut gang.0.as_mut().unwrap().spec;
        spec.batch_scheduler = Some("volcano".to_owned());
        screen.take(Event::Apply(gang));
        let whole = screen.lines(200, 20, style(false)).unwrap();
        let heads =
            "NAME    STATE        EXECUTORS              RESTARTS   SCHEDULER   SUBMITTED   ENDED    AGE";
        assert_eq!(whole[2], format!("{heads}   WHY"));
        assert!(whole[3].contains(" 0          <none>      <none> "), "{}", whole[3]);
        let gang = "gang    SUBMITTED    1 running, 1 pending   2          volcano     1h          <none>   2h    <none>";
        assert!(whole.contains(&gang.to_owned()), "{whole:?}");
        let narrow = screen.lines(heads.len() - 1, 20, style(false)).unwrap();
        assert_eq!(narrow[2], heads.replace("SCHEDULER   ", "") + "   WHY");
    }

    #[test]
    fn a_new_list_replaces_all_rows_when_it_is_complete() {
        let mut screen = screen(false);
        screen.take(Event::Delete(in_state("wrong", "FAILED", "2026-11-21T11:00:00Z")));
        screen.take(Event::Init);
        screen.take(Event::InitApply(in_state("older", "COMPLETED", "2026-11-21T11:00:00Z")));
        assert_eq!(screen.rows.len(), 4, "all rows stay until the list is complete");
        screen.take(Event::InitDone);
        let rows: Vec<_> = screen.rows.iter().map(|((_, name), row)| (&**name, row.state)).collect();
        assert_eq!(rows, [("older", Some(State::Completed))]);
    }

    #[test]
    fn a_line_that_is_cut_keeps_its_colour_codes() {
        let line = "ab\u{1b}[36mRUNNING\u{1b}[0m cd";
        assert_eq!(cut(line, 4), "ab\u{1b}[36mRU\u{1b}[0m");
        assert_eq!(cut(line, 100), line);
        assert_eq!(cut("übel", 2), "üb");
    }
}
