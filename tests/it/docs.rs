//! Compares the documentation with the programs: the page of flags has the flags that clap knows, and links between
//! pages have a target.

use crate::prelude::*;
use clap::{Arg, CommandFactory};
use spark_operator::settings::{Flags, kubeflow};
use std::fmt::Write;

const FLAGS: &str = "docs/admin/flags.md";
const METRICS: &str = "docs/admin/metrics.md";
const CHART: &str = "manifests/helm/spark-operator";
/// The heading above the part of the chart's README that a test writes.
const KEYS: &str = "## Keys\n";

/// The folders that contain documentation. Of `.` only the files are read, and no folders below it.
const FOLDERS: [&str; 4] = [".", "docs", "certs", CHART];

#[test]
#[cfg_attr(not(feature = "batch-schedulers"), ignore = "the page has the flags of all extensions")]
fn the_page_of_flags_has_the_flags_of_the_operator() {
    let mut golden = Golden::default();
    golden.compare(Path::new(FLAGS), &flags());
    golden.finish();
}

#[test]
fn the_readme_of_the_chart_lists_every_key() {
    let values = fs::read_to_string(Path::new(CHART).join("values.yaml")).unwrap();
    let readme = Path::new(CHART).join("README.md");
    let text = fs::read_to_string(&readme).unwrap();
    let (written, _) = text.split_once(KEYS).expect("the README has a heading for the keys");
    let mut golden = Golden::default();
    golden.compare(&readme, &format!("{written}{KEYS}\n{}", keys(&values)));
    golden.finish();
}

/// Asserts that the page of metrics has a row for every metric in `served`, the metrics of a running operator in
/// Prometheus' text format. The page may contain more, because a family without samples is not served.
pub(crate) fn lists_metrics(served: &str) {
    let page = fs::read_to_string(METRICS).unwrap();
    let missing: Vec<_> = metrics(served).into_iter().filter(|row| !page.contains(row)).collect();
    assert!(missing.is_empty(), "{METRICS} is to have:\n{}", missing.join("\n"));
}

#[test]
fn links_between_pages_lead_somewhere() {
    let pages: Vec<_> = FOLDERS.iter().flat_map(|folder| pages(Path::new(folder), *folder != ".")).collect();
    assert!(pages.len() > 20, "{pages:?}");
    let mut broken = Vec::new();
    for page in &pages {
        let text = fs::read_to_string(page).unwrap();
        for link in links(&text).filter(|link| !link.contains("://")) {
            let (file, heading) = link.split_once('#').unwrap_or((link, ""));
            let target = if file.is_empty() { page.clone() } else { page.parent().unwrap().join(file) };
            let has_heading = || headings(&fs::read_to_string(&target).unwrap()).any(|it| it == heading);
            if !target.exists() || !heading.is_empty() && !has_heading() {
                broken.push(format!("{}: {link}", page.display()));
            }
        }
    }
    assert!(broken.is_empty(), "links that lead nowhere:\n{}", broken.join("\n"));
}

/// Returns the Markdown files in `folder`, and in the folders below it if `deep`.
fn pages(folder: &Path, deep: bool) -> Vec<PathBuf> {
    let mut pages = if deep { files_below(folder) } else { entries(folder) };
    pages.retain(|path| path.extension().is_some_and(|extension| extension == "md"));
    pages
}

/// Returns the targets of the links in a page: `[text](target)`.
fn links(text: &str) -> impl Iterator<Item = &str> {
    text.split("](").skip(1).filter_map(|rest| rest.split(')').next())
}

/// Returns the anchors that GitHub creates for the headings of a page.
fn headings(text: &str) -> impl Iterator<Item = String> {
    let titles =
        text.lines().filter_map(|line| line.strip_prefix('#')).map(|line| line.trim_start_matches('#'));
    titles.map(|title| {
        let kept = title.trim().to_lowercase();
        kept.chars()
            .filter(|c| c.is_alphanumeric() || " -_".contains(*c))
            .collect::<String>()
            .replace(' ', "-")
    })
}

/// Returns the text of the page of flags.
fn flags() -> String {
    let mut page = String::from(
        "# Flags of `spark-operator run`\n\n\
         <!-- Written by `UPDATE_GOLDEN=1 cargo test --test it docs::`, from the same definitions as `--help`. -->\n\n\
         Each flag has an environment variable: `SPARK_OPERATOR_` and the flag's name in capitals, with `_` for `-`. Where it is another one, \
         the row names it. Flags that mean what those of Kubeflow's operator mean have the same names. An unknown flag is refused, and the refusal \
         names the nearest one that exists.\n",
    );
    let flags = Flags::command();
    let run = flags.find_subcommand("run").unwrap();
    let mut sections: Vec<(&str, Vec<&Arg>)> = Vec::new();
    for flag in run.get_arguments().filter(|flag| flag.get_id() != "help") {
        let heading = flag.get_help_heading().unwrap_or("Others");
        match sections.iter_mut().find(|(name, _)| *name == heading) {
            Some((_, flags)) => flags.push(flag),
            None => sections.push((heading, vec![flag])),
        }
    }
    for (heading, flags) in sections {
        write!(page, "\n## {heading}\n\n| flag | default | meaning |\n|---|---|---|\n").unwrap();
        for flag in flags {
            writeln!(page, "{}", row(flag)).unwrap();
        }
    }
    page.push_str(
        "\n## Kubeflow's operator\n\n\
         `spark-operator controller start` and `spark-operator webhook start` run one half of the operator each. They take the flags above, and \
         those that only Kubeflow's operator has. A flag that has no effect is logged when the half starts.\n\n\
         | flag | meaning |\n|---|---|\n",
    );
    let start = flags.find_subcommand("controller").unwrap().find_subcommand("start").unwrap();
    for flag in start.get_arguments().filter(|flag| flag.get_help_heading() == Some(kubeflow::HEADING)) {
        let (long, help) = (flag.get_long().unwrap(), flag.get_help().unwrap());
        writeln!(page, "| `--{long}` | {help} |").unwrap();
    }
    page
}

/// Returns a table of the keys in a values file with two spaces for each level: path, default, and the comment above the
/// key.
fn keys(values: &str) -> String {
    let mut table = String::from("| key | default | meaning |\n|---|---|---|\n");
    let defaults: Value = serde_saphyr::from_str(values).unwrap();
    let (mut path, mut comment) = (Vec::<&str>::new(), String::new());
    let indent = |line: &str| line.len() - line.trim_start().len();
    let mut lines = values.lines().peekable();
    while let Some(line) = lines.next() {
        let text = line.trim();
        if let Some(more) = text.strip_prefix("# ") {
            let gap = if comment.is_empty() { "" } else { " " };
            comment = format!("{comment}{gap}{more}");
        } else if let Some((key, _)) = text.split_once(':') {
            path.truncate(indent(line) / 2);
            path.push(key);
            let default = defaults.pointer(&format!("/{}", path.join("/"))).unwrap();
            if default.is_array() {
                while lines.next_if(|next| indent(next) > indent(line)).is_some() {}
            }
            // An object has a row only if it has a comment; the rows of its keys follow.
            if default.as_object().is_some_and(|fields| !fields.is_empty()) {
                if !comment.is_empty() {
                    writeln!(table, "| `{}` | | {comment} |", path.join(".")).unwrap();
                }
            } else {
                writeln!(table, "| `{}` | `{default}` | {comment} |", path.join(".")).unwrap();
            }
            comment.clear();
        } else {
            comment.clear();
        }
    }
    table
}

fn row(flag: &Arg) -> String {
    let long = flag.get_long().unwrap();
    let default: Vec<_> = flag.get_default_values().iter().map(|value| value.to_str().unwrap()).collect();
    let default = match default.join(",") {
        default if default.is_empty() => String::new(),
        default => format!("`{default}`"),
    };
    let help = flag.get_long_help().or_else(|| flag.get_help()).unwrap().to_string();
    let variable = flag.get_env().unwrap().to_str().unwrap();
    let usual = format!("SPARK_OPERATOR_{}", long.to_uppercase().replace('-', "_"));
    let named = if variable == usual { String::new() } else { format!(" (variable `{variable}`)") };
    format!("| `--{long}` | {default} | {}{named} |", help.replace('\n', " ").replace('|', "\\|"))
}

/// Returns a row for the page of metrics for each metric family in `served`: name, type and help text.
fn metrics(served: &str) -> Vec<String> {
    let comments = |kind: &str| {
        let prefix = format!("# {kind} ");
        let lines = served.lines().filter_map(move |line| line.strip_prefix(&prefix)?.split_once(' '));
        lines.collect::<BTreeMap<_, _>>()
    };
    let helps = comments("HELP");
    let help = |name: &str| helps.get(name).copied().unwrap_or_default().replace('|', "\\|");
    comments("TYPE")
        .into_iter()
        .map(|(name, kind)| format!("| `{name}` | {kind} | {} |", help(name)))
        .collect()
}
