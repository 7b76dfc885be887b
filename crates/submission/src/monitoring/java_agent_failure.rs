//! Explains to the user that a JVM has not started because its Java agent failed.

/// Returns an explanation with advice if `words`, the last output of a container, come from a JVM that could not load
/// or start the JMX exporter; `None` for any other output.
pub fn explained(words: &str) -> Option<String> {
    /// The message of a JVM about an agent whose jar it cannot open.
    const NO_JAR: &str = "Error opening zip file or JAR manifest missing : ";
    /// The last message of a JVM about an agent that has thrown an exception.
    const THROWN: &str = "processing of -javaagent failed";
    if let Some((_, jar)) = words.split_once(NO_JAR) {
        let jar = jar.lines().next().unwrap_or_default().trim();
        return Some(format!(
            "the image has no Java agent at `{jar}`: put the exporter's jar there, or write the path that it has into \
             spec.monitoring.prometheus.jmxExporterJar"
        ));
    }
    let mut causes = words.lines().filter_map(|line| line.trim().strip_prefix("Caused by: "));
    let cause = causes.next_back().filter(|_| words.contains(THROWN))?;
    Some(format!(
        "the Java agent did not start: {cause}; see spec.monitoring.prometheus for its port and configuration"
    ))
}

#[cfg(test)]
mod tests {
    use super::explained;

    #[test]
    fn a_missing_jar_is_reported_with_the_field_that_contains_its_path() {
        let words = "+ exec /usr/bin/tini -s -- /opt/spark/bin/spark-submit\n\
                     Error opening zip file or JAR manifest missing : /prometheus/none.jar\n\
                     Error occurred during initialization of VM\nagent library failed to init: instrument\n";
        let said = explained(words).unwrap();
        assert!(said.starts_with("the image has no Java agent at `/prometheus/none.jar`: "), "{said}");
        assert!(said.ends_with("spec.monitoring.prometheus.jmxExporterJar"), "{said}");
    }

    #[test]
    fn an_exception_of_the_agent_is_reported_with_its_cause() {
        let words = "Caused by: java.lang.reflect.InvocationTargetException\n\tat x.y.Z(Z.java:1)\n\
                     Caused by: java.net.BindException: Address already in use\n\t... 6 more\n\
                     *** java.lang.instrument ASSERTION FAILED ***\nFATAL ERROR in native method: processing of \
                     -javaagent failed, processJavaStart failed\n";
        let said = explained(words).unwrap();
        assert!(said.contains("java.net.BindException: Address already in use; see"), "{said}");
    }

    #[test]
    fn other_output_is_not_explained() {
        assert_eq!(explained("Caused by: java.io.IOException: no space left"), None);
    }
}
