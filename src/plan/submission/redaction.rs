//! Which of an application's arguments must not be read in a log?

/// What stands for a secret, as in Spark's own logs.
const REDACTED: &str = "*********(redacted)";
/// Words in a name that make its value a secret: Spark's `spark.redaction.regex`, for any case.
const SECRETIVE: [&str; 5] = ["secret", "password", "token", "accesskey", "access.key"];

/// `arguments` for a log: the value behind a name that sounds like a secret is replaced, be it written as
/// `name=value` or as the argument after `--name`. So is that of any property behind `--conf`.
#[must_use]
pub fn redacted(arguments: &[String]) -> Vec<String> {
    let (mut after_secret, mut after_conf) = (false, false);
    let redact = |argument: &String| {
        let is_value = std::mem::take(&mut after_secret) && !argument.starts_with('-');
        if is_value {
            return REDACTED.to_owned();
        }
        let is_property = std::mem::replace(&mut after_conf, argument == "--conf");
        match argument.split_once('=') {
            Some((name, _)) if is_property || is_secretive(name) => format!("{name}={REDACTED}"),
            Some(_) => argument.clone(),
            None => {
                after_secret = argument.starts_with('-') && is_secretive(argument);
                argument.clone()
            }
        }
    };
    arguments.iter().map(redact).collect()
}

fn is_secretive(name: &str) -> bool {
    let name = name.to_ascii_lowercase().replace(['-', '_'], "");
    SECRETIVE.iter().any(|word| name.contains(word))
}

#[cfg(test)]
mod tests {
    use super::redacted;

    #[test]
    fn values_of_secrets_are_not_shown() {
        let shown = |line: &str| redacted(&line.split(' ').map(str::to_owned).collect::<Vec<_>>()).join(" ");
        assert_eq!(
            shown(
                "--conf a=b --name pi --password hunter2 --access-key=AKIA db.token=x --secret --verbose s3a://bucket a=b"
            ),
            "--conf a=*********(redacted) --name pi --password *********(redacted) --access-key=*********(redacted) db.token=*********(redacted) \
             --secret --verbose s3a://bucket a=b"
        );
    }
}
