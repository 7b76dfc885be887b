//! Determines the locations of the program, its jars, files, archives and Python files as the driver sees them.

use super::{
    conf::{Conf, elements},
    input::{Kind, NO_RESOURCE, Submission},
    not_native::{NotNative, Reason},
    submit_conf, uri,
};

/// The schemes whose locations Spark does not look up on a file system.
const NO_LOOKUP: [&str; 4] = ["local", "http", "https", "ftp"];
/// Glob metacharacters: a location that contains one is a glob pattern, unless its scheme is in [`NO_LOOKUP`].
const GLOB_CHARS: [char; 4] = ['*', '?', '[', '{'];

/// Returns the property value for the value of a flag that takes a list (`--jars` and the like).
///
/// Spark splits a flag's list at its commas without trimming the elements, so a URI with a blank is refused.
///
/// # Errors
///
/// When an element that contains a colon is not a URI. `key` is the property that the flag sets.
pub fn flag_list(key: &str, list: &str) -> Result<String, NotNative> {
    let elements = list.split(',').filter(|element| !element.trim().is_empty());
    let checked = elements.map(|element| location(key, element).map(|_| element));
    Ok(checked.collect::<Result<Vec<_>, _>>()?.join(","))
}

/// Writes the resolved lists into `conf`, and returns the program in the form that it has in the driver's arguments.
pub(super) fn resolve(submission: &Submission, conf: &mut Conf) -> Result<String, NotNative> {
    let program = submission.primary_resource.as_str();
    for key in [submit_conf::JARS, submit_conf::FILES, submit_conf::ARCHIVES, submit_conf::PY_FILES] {
        if let Some(list) = conf.raw(key) {
            let elements = elements(list);
            let resolved =
                elements.iter().map(|element| remote(key, element, conf)).collect::<Result<Vec<_>, _>>()?;
            conf.0.insert(key.to_owned(), resolved.join(","));
        }
    }
    conf.0.entry(submit_conf::PY_FILES.to_owned()).or_default();
    if program == NO_RESOURCE {
        conf.0.entry(submit_conf::JARS.to_owned()).or_default();
        return Ok(program.to_owned());
    }
    match submission.kind() {
        Kind::Java => {
            let program = program_location(program, conf)?;
            let jars = conf.0.entry(submit_conf::JARS.to_owned()).or_default();
            if !jars.is_empty() {
                jars.push(',');
            }
            jars.push_str(&program);
            Ok(program)
        }
        Kind::Python => program_location(program, conf),
        // The image must contain the program of an R application: Spark does not upload it.
        Kind::R => match uri::parse(program) {
            Some(uri) if !uri.scheme.is_empty() => Ok(program.to_owned()),
            _ if program.starts_with('/') => Ok(format!("file:{}", uri::quoted(program))),
            _ => Err(NotNative::fallback(
                Reason::Upload,
                program,
                "is a path relative to where spark-submit runs",
            )),
        },
    }
}

/// Parses the location `text`; `None` if it is a file on the submitter's file system.
///
/// # Errors
///
/// When `text` contains a colon but is not a URI: Java reads it as the path of a file, and no file can have that path.
fn location<'a>(key: &str, text: &'a str) -> Result<Option<uri::Uri<'a>>, NotNative> {
    match uri::parse(text) {
        None if text.contains(':') => Err(NotNative::refused(
            key,
            format_args!("`{text}` is not a URI: check it for blanks and brackets"),
        )),
        uri => Ok(uri.filter(|uri| !matches!(uri.scheme, "" | "file"))),
    }
}

/// Returns an element of a list in the form in which Spark writes it into the property. A local file is an error.
fn remote(key: &str, element: &str, conf: &Conf) -> Result<String, NotNative> {
    let scheme = element.split_once("://").map_or("", |(scheme, _)| scheme);
    if !matches!(scheme, "" | "file") && !NO_LOOKUP.contains(&scheme) && element.contains(GLOB_CHARS) {
        let why = format!("`{element}` is a glob pattern, which has to be expanded on its file system");
        return Err(NotNative::fallback(Reason::Glob, key, why));
    }
    let rebuilt = location(key, element)?.map(|uri| uri.rebuilt());
    // The rebuilt text may not be a URI any more, for instance with a blank in the fragment. Spark then takes it for a
    // local file.
    let rebuilt = rebuilt.filter(|rebuilt| uri::parse(rebuilt).is_some());
    rebuilt.ok_or_else(|| upload(key, element, conf))
}

fn program_location(program: &str, conf: &Conf) -> Result<String, NotNative> {
    match uri::parse(program) {
        Some(uri) if !matches!(uri.scheme, "" | "file") => Ok(program.to_owned()),
        None if program.contains(':') && !conf.has(submit_conf::UPLOAD_PATH) => {
            let why = "is not a URI, so Spark takes it for a local file, which cannot be uploaded without";
            let problem =
                format!("`{program}` {why} {}: check it for blanks and brackets", submit_conf::UPLOAD_PATH);
            Err(NotNative::refused(program, problem))
        }
        _ => Err(upload(program, program, conf)),
    }
}

/// Returns the reason why a local file cannot be used: only the JVM can upload it, or no path for uploads is set.
fn upload(field: &str, file: &str, conf: &Conf) -> NotNative {
    if conf.has(submit_conf::UPLOAD_PATH) {
        NotNative::fallback(Reason::Upload, field, format!("`{file}` is to be uploaded"))
    } else {
        let problem = format!(
            "`{file}` is a file of the machine from which Spark is submitted, which the driver does not have: write \
             `local://` and its path in the image, or the address of a store (`s3a://…`); or set {}",
            submit_conf::UPLOAD_PATH
        );
        NotNative::refused(field, problem)
    }
}
