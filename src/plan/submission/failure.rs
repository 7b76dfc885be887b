//! What went wrong, in the words of `spark-submit`'s stderr?

/// As much as a status and an event can hold and a person will read.
const LONGEST: usize = 800;

/// The exception that ended `spark-submit` and its innermost cause, or its last words; none if it said
/// nothing.
#[must_use]
pub fn cause(stderr: &str) -> Option<String> {
    const THROWN: &str = "Exception in thread \"main\" ";
    let lines = || stderr.lines().map(str::trim).filter(|line| !line.is_empty());
    let thrown = lines().filter_map(|line| line.strip_prefix(THROWN)).next_back();
    let root = lines().filter_map(|line| line.strip_prefix("Caused by: ")).next_back();
    let usage = || lines().find(|line| line.starts_with("Error: "));
    let said = match (thrown, root) {
        (Some(thrown), Some(root)) if thrown != root => format!("{thrown}; caused by {root}"),
        (Some(thrown), _) => thrown.to_owned(),
        (None, _) => usage().or_else(|| lines().next_back())?.to_owned(),
    };
    // Behind this, Spark's Kubernetes client says the same once more in its own syntax.
    let said = said.split_once(". Received status: Status(").map_or(&*said, |(told, _)| told);
    let end = said.floor_char_boundary(LONGEST);
    Some(said[..end].to_owned())
}

/// Whether a pod of the driver's name exists already. Spark's Kubernetes client tells the API server's answer
/// in its exception's text, and there alone. (Other 409s, a ResourceQuota that is being changed for one, are
/// failures.)
#[must_use]
pub fn is_driver_there(stderr: &str) -> bool {
    stderr.lines().any(|line| line.contains("kind=pods") && line.contains("reason=AlreadyExists"))
}

#[cfg(test)]
mod tests {
    use super::{cause, is_driver_there};

    #[test]
    fn the_exception_and_its_root_are_told_without_the_stack() {
        let stderr = "26/11/21 WARN Utils: something\n\
            Exception in thread \"main\" io.fabric8.kubernetes.client.KubernetesClientException: Operation failed\n\
            \tat io.fabric8.kubernetes.client.X.y(X.java:1)\n\
            Caused by: java.io.IOException: broken\n\tat a.b(C.java:2)\n\
            Caused by: java.net.ConnectException: Connection refused\n\t... 12 more\n\
            26/11/21 INFO ShutdownHookManager: Shutdown hook called\n";
        assert_eq!(
            cause(stderr).unwrap(),
            "io.fabric8.kubernetes.client.KubernetesClientException: Operation failed; caused by \
             java.net.ConnectException: Connection refused"
        );
    }

    #[test]
    fn without_an_exception_the_last_words_count() {
        assert_eq!(
            cause("Error: Missing application resource.\n\nUsage: spark-submit\n").unwrap(),
            "Error: Missing application resource."
        );
        assert_eq!(cause("one\ntwo\n").unwrap(), "two");
        assert_eq!(cause("\n"), None);
    }

    #[test]
    fn a_pod_that_exists_is_told_from_other_conflicts() {
        let refused = |kind: &str, reason: &str| {
            format!(
                "Exception in thread \"main\" io.fabric8.kubernetes.client.KubernetesClientException: Failure executing: POST at: \
                 https://10.0.0.1/api/v1/namespaces/default/pods. Message: it was refused. Received status: \
                 Status(apiVersion=v1, code=409, details=StatusDetails(causes=[], group=null, kind={kind}, name=pi-driver, \
                 additionalProperties={{}}), kind=Status, message=it was refused, reason={reason}, status=Failure).\n"
            )
        };
        let there = refused("pods", "AlreadyExists");
        assert!(is_driver_there(&there));
        assert!(!is_driver_there(&refused("resourcequotas", "Conflict")));
        assert!(cause(&there).unwrap().ends_with("Message: it was refused"));
    }
}
