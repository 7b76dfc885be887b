//! Finds the reason of a failed submission in the stderr of `spark-submit`.

/// Returns the exception with which `spark-submit` failed and its innermost cause. Without an exception, returns the
/// first line that begins with `Error: `, else the last line; `None` if all lines are blank.
pub fn cause(stderr: &str) -> Option<String> {
    const THROWN: &str = "Exception in thread \"main\" ";
    let lines = || stderr.lines().map(str::trim).filter(|line| !line.is_empty());
    let thrown = lines().filter_map(|line| line.strip_prefix(THROWN)).map(message).next_back();
    let causes = || lines().filter_map(|line| line.strip_prefix("Caused by: ")).map(message);
    // The innermost cause is reported, unless an outer cause contains the same text and adds to it, for example the
    // host and the port.
    let root = causes().rev().reduce(|root, outer| if outer.contains(words(root)) { outer } else { root });
    let usage = || lines().find(|line| line.starts_with("Error: "));
    let said = match (thrown, root) {
        (Some(thrown), Some(root)) if !thrown.contains(words(root)) => format!("{thrown}; caused by {root}"),
        (Some(thrown), _) => thrown.to_owned(),
        (None, _) => usage().or_else(|| lines().next_back())?.to_owned(),
    };
    let end = said.floor_char_boundary(api::excerpt::LONGEST_EXPLANATION);
    Some(said[..end].to_owned())
}

/// Returns the message of an exception, without the class names and the request text that all exceptions of its kind
/// contain.
fn message(exception: &str) -> &str {
    const GENERIC_CLASSES: [&str; 3] = [
        "org.apache.spark.SparkException: ",
        "io.fabric8.kubernetes.client.KubernetesClientException: ",
        "java.lang.RuntimeException: ",
    ];
    let message = GENERIC_CLASSES.iter().find_map(|class| exception.strip_prefix(class)).unwrap_or(exception);
    // The Kubernetes client writes the request before the API server's message, and after it the same message again in
    // another syntax.
    let said = message.split_once(". Received status: Status(").map_or(message, |(said, _)| said);
    let of_request = said.strip_prefix("Failure executing: ");
    of_request.and_then(|said| said.split_once(". Message: ")).map_or(said, |(_, words)| words)
}

/// Returns the text after the name of the exception's class.
fn words(message: &str) -> &str {
    let is_class = |text: &str| text.contains('.') && !text.contains(' ');
    message.split_once(": ").filter(|(class, _)| is_class(class)).map_or(message, |(_, words)| words)
}

/// Whether `spark-submit` failed because a pod with the driver's name exists already. Spark's Kubernetes client reports
/// the API server's answer only in the text of its exception. (Other answers with status 409 are failures, for example
/// when a ResourceQuota is being changed.)
pub fn is_driver_there(stderr: &str) -> bool {
    stderr.lines().any(|line| line.contains("kind=pods") && line.contains("reason=AlreadyExists"))
}

#[cfg(test)]
mod tests {
    use super::cause;

    #[test]
    fn without_an_exception_the_cause_is_the_error_line_or_the_last_line() {
        assert_eq!(
            cause("Error: Missing application resource.\n\nUsage: spark-submit\n").unwrap(),
            "Error: Missing application resource."
        );
        assert_eq!(cause("one\ntwo\n").unwrap(), "two");
        assert_eq!(cause("\n"), None);
    }
}
