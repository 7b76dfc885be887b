//! Follows a container's output despite broken connections: the log is requested again from the last line on, and lines
//! that were returned before are left out.
//!
//! A kubelet ends its response when the container has ended, but also when the kubelet restarts or has rotated the log
//! file; load balancers close connections that are idle for minutes; and a connection whose other end has vanished does
//! not report anything.

use super::{How, PAUSE, runs, spark_container};
use crate::{failure::of_call, show, waiting::Waiting};
use anyhow::anyhow;
use futures::{AsyncBufRead, AsyncBufReadExt, Stream, stream};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use kube::{Api, ResourceExt, api::LogParams};
use spark_operator_client::patience::{GRACE, Patience, can_pass, in_time};
use std::{collections::BTreeMap, pin::Pin, time::Duration};
use tokio::time::{sleep, timeout};

/// The time without a line after which the connection may be dead: the log is requested again.
const SILENCE: Duration = Duration::from_secs(60);
/// How many requests in a row may fail after the first request for the log. With the pauses between them, that takes
/// some minutes.
const MOST_FAILURES: u32 = 40;

/// Returns the lines of a pod's Spark container, each with its line break. With `follow` the stream ends when the
/// container has ended, and each line is returned once.
pub(super) fn lines(
    pods: Api<Pod>,
    pod: &Pod,
    how: &How,
) -> impl Stream<Item = anyhow::Result<Vec<u8>>> + use<> {
    let output = Output {
        pods,
        name: pod.name_any(),
        uid: pod.uid(),
        container: spark_container(pod),
        how: how.clone(),
        reader: None,
        asked: None,
        has_answered: false,
        waiting: Waiting::default(),
        position: Position::default(),
        patience: Patience::default(),
        is_last: !how.follow,
    };
    stream::try_unfold(output, Output::next)
}

struct Output {
    pods: Api<Pod>,
    name: String,
    uid: Option<String>,
    container: String,
    how: How,
    reader: Option<Pin<Box<dyn AsyncBufRead + Send>>>,
    /// The time of the first request.
    asked: Option<Timestamp>,
    has_answered: bool,
    waiting: Waiting,
    /// Which lines have been returned. Used only with `follow`, where each line is requested with its time.
    position: Position,
    patience: Patience,
    /// Whether the output ends with the response that is being read.
    is_last: bool,
}

impl Output {
    /// Returns the next line, and the state from which the stream continues.
    async fn next(mut self) -> anyhow::Result<Option<(Vec<u8>, Self)>> {
        loop {
            match self.read().await {
                Ok(Read::Line(line)) => {
                    self.waiting = Waiting::default();
                    let news = if self.how.follow { self.position.news(line) } else { Some(line) };
                    if let Some(line) = news {
                        return Ok(Some((line, self)));
                    }
                    continue;
                }
                Ok(Read::End) if self.is_last => return Ok(None),
                // The log ends shortly before the status of the pod shows that the container has ended.
                Ok(Read::End) => sleep(PAUSE).await,
                Ok(Read::Silence) => {}
                Err(error) if self.can_pass(&error) => {
                    let why = match error {
                        kube::Error::ReadEvents(_) => "its connection has broken".to_owned(),
                        error => of_call(error).to_string(),
                    };
                    self.waiting.say(&format!("waiting for the log of {}: {why}", self.name));
                    self.patience.pause().await;
                }
                // The log does not exist any more: lines that were not read by now are lost.
                Err(kube::Error::Api(status)) if self.has_answered && status.is_not_found() => {
                    return Ok(None);
                }
                Err(kube::Error::ReadEvents(error)) => {
                    return Err(anyhow!("the log was interrupted: {error}"));
                }
                Err(error) => return Err(of_call(error)),
            }
            self.reader = None;
        }
    }

    fn can_pass(&self, error: &kube::Error) -> bool {
        self.how.follow && self.asked.is_some() && can_pass(error) && self.patience.failures < MOST_FAILURES
    }

    async fn read(&mut self) -> Result<Read, kube::Error> {
        if self.reader.is_none() && !self.is_last {
            let pod = in_time(GRACE, self.pods.get_opt(&self.name)).await??;
            let Some(pod) = pod.filter(|pod| pod.uid() == self.uid) else {
                self.is_last = true;
                return Ok(Read::End);
            };
            self.is_last = !runs(&pod);
        }
        let longest = if self.is_last { Duration::MAX } else { SILENCE };
        let reader = match &mut self.reader {
            Some(reader) => reader,
            none => {
                let now = show::now();
                let ago = self.asked.map(|asked| now.duration_since(asked).try_into().unwrap_or_default());
                self.asked.get_or_insert(now);
                let parameters = LogParams {
                    container: Some(self.container.clone()),
                    follow: !self.is_last,
                    previous: self.how.previous,
                    timestamps: self.how.follow,
                    ..self.position.resume(&self.how, ago)
                };
                // A kubelet begins its response only when there is a line to send, so this timeout is the one for
                // silence too.
                let Ok(opened) = timeout(longest, self.pods.log_stream(&self.name, &parameters)).await else {
                    return Ok(Read::Silence);
                };
                let reader = opened?;
                self.has_answered = true;
                self.patience.restore();
                none.insert(Box::pin(reader))
            }
        };
        let mut line = Vec::new();
        match timeout(longest, reader.read_until(b'\n', &mut line)).await {
            Err(_) => return Ok(Read::Silence),
            Ok(read) => read.map_err(kube::Error::ReadEvents)?,
        };
        // A line without a line break was cut off: the next response contains all of it.
        let is_whole = line.ends_with(b"\n") || (self.is_last && !line.is_empty());
        Ok(if is_whole { Read::Line(line) } else { Read::End })
    }
}

enum Read {
    Line(Vec<u8>),
    /// The end of the response.
    End,
    /// No line has come for [`SILENCE`], so the connection may be dead.
    Silence,
}

/// Which lines of an output have been returned. The times of lines are only nearly in order: those of standard output
/// and of standard error are taken independently of each other.
#[derive(Debug, Default)]
struct Position {
    /// The time of the first returned line. If [`Self::is_bounded`], --tail or --since has excluded all lines before
    /// it.
    first: Option<Timestamp>,
    is_bounded: bool,
    /// Whether the next line may be the rest of a line that was returned: Kubernetes stores long lines in pieces.
    may_be_rest: bool,
    /// The times of the returned lines that are not before [`Self::since`], and how many lines have each time.
    returned: BTreeMap<Timestamp, usize>,
    /// The returned lines that the present response has not repeated yet, in the same form as [`Self::returned`].
    to_repeat: BTreeMap<Timestamp, usize>,
}

impl Position {
    /// Returns the parameters of the next request: for all lines that were not returned yet, and few others. `ago` is
    /// how long ago the first request, with the options `how`, was sent; `None` for the first request.
    fn resume(&mut self, how: &How, ago: Option<Duration>) -> LogParams {
        self.to_repeat.clone_from(&self.returned);
        self.is_bounded = how.tail.is_some() || how.since.is_some();
        let mut parameters = LogParams { since_time: self.since(), ..LogParams::default() };
        self.may_be_rest = parameters.since_time.is_some();
        match ago {
            _ if parameters.since_time.is_some() => {}
            // Kubernetes accepts only whole seconds, and not zero.
            None => {
                parameters.since_seconds = how.since.map(|since| seconds(since).max(1));
                parameters.tail_lines = how.tail.filter(|tail| *tail >= 0);
            }
            // No line has been returned so far: all lines since the first request are requested, and with --since also
            // the lines that were new enough at that time.
            Some(ago) if how.since.is_some() || how.tail.is_some() => {
                parameters.since_seconds = Some(seconds(ago + how.since.unwrap_or_default()) + 1);
            }
            Some(_) => {}
        }
        parameters
    }

    /// Returns the text after the timestamp of `line`, if the line has not been returned before.
    fn news(&mut self, mut line: Vec<u8>) -> Option<Vec<u8>> {
        let Some((time, length)) = time(&line) else {
            return Some(line).filter(|_| !self.may_be_rest);
        };
        self.may_be_rest = false;
        if let Some(count) = self.to_repeat.get_mut(&time).filter(|count| **count > 0) {
            *count -= 1;
            return None;
        }
        // This line is older than --tail or --since allows. It is in the response because a request can only name whole
        // seconds.
        if time < *self.first.get_or_insert(time) && self.is_bounded && !self.to_repeat.is_empty() {
            return None;
        }
        *self.returned.entry(time).or_default() += 1;
        let since = self.since();
        while self.returned.first_entry().is_some_and(|entry| Some(*entry.key()) < since) {
            self.returned.pop_first();
        }
        Some(line.split_off(length))
    }

    /// Returns the start of the time range of the next request: the latest returned time in whole seconds, because a
    /// kubelet accepts no fractions, minus one second for lines that come late.
    fn since(&self) -> Option<Timestamp> {
        let (latest, _) = self.returned.last_key_value()?;
        Timestamp::from_second(latest.as_second() - 1).ok()
    }
}

fn seconds(length: Duration) -> i64 {
    length.as_secs_f64().ceil() as i64
}

/// Returns the timestamp at the beginning of a line, and the length in bytes of the timestamp and the space after it.
fn time(line: &[u8]) -> Option<(Timestamp, usize)> {
    let length = line.iter().position(|byte| *byte == b' ')?;
    let time = str::from_utf8(&line[..length]).ok()?.parse().ok()?;
    Some((time, length + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(position: &mut Position, lines: &[&str]) -> Vec<String> {
        let news = lines.iter().filter_map(|line| position.news(line.as_bytes().to_vec()));
        news.map(|line| String::from_utf8(line).unwrap()).collect()
    }

    #[test]
    fn each_line_is_returned_once_wherever_the_connection_breaks() {
        let at = |seconds: &str, line: &str| format!("2026-11-22T19:00:{seconds}Z {line}\n");
        let file = [
            at("01.5", "a"),
            at("01.4", "before"),
            at("02.000000001", "b"),
            // Two lines with the same time, and one with an earlier time: the times of standard error are taken
            // independently.
            at("02.000000001", "b"),
            at("01.9", "c"),
            at("02.5", "d"),
            at("03.1", ""),
            at("03.1", "e f"),
        ];
        let lines: Vec<&str> = file.iter().map(String::as_str).collect();
        let words = ["a\n", "before\n", "b\n", "b\n", "c\n", "d\n", "\n", "e f\n"];
        for cut in 0..=lines.len() {
            let mut position = Position::default();
            assert_eq!(told(&mut position, &lines[..cut]), words[..cut]);
            // The connection breaks once more before anything new has come.
            for read in [cut, lines.len()] {
                let since = position.resume(&How::default(), Some(Duration::ZERO)).since_time;
                let asked = |line: &&str| time(line.as_bytes()).unwrap().0 >= since.unwrap_or(Timestamp::MIN);
                let answer: Vec<_> = lines[..read].iter().copied().filter(asked).collect();
                assert_eq!(told(&mut position, &answer), words[cut..read], "{cut}, {read}");
            }
        }
    }

    #[test]
    fn lines_before_the_tail_are_not_returned_after_a_reconnect() {
        let lines = ["01.1", "01.2", "01.3", "01.4"]
            .map(|seconds| format!("2026-11-22T19:00:{seconds}Z {seconds}\n"));
        let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
        let mut position = Position::default();
        assert_eq!(told(&mut position, &lines[2..3]), ["01.3\n"]);
        position.resume(&How { tail: Some(1), ..How::default() }, Some(Duration::ZERO));
        assert_eq!(told(&mut position, &lines), ["01.4\n"]);
    }

    #[test]
    fn a_reconnect_before_the_first_line_loses_no_lines() {
        let asked = |how: How, ago: Option<u64>| {
            let parameters = Position::default().resume(&how, ago.map(Duration::from_millis));
            (parameters.since_seconds, parameters.tail_lines)
        };
        let tail = |tail| How { tail: Some(tail), ..How::default() };
        let since = |since| How { since: Some(Duration::from_millis(since)), ..How::default() };
        assert_eq!(asked(tail(0), None), (None, Some(0)));
        assert_eq!(asked(tail(-1), None), (None, None));
        assert_eq!(asked(tail(0), Some(10_100)), (Some(12), None));
        assert_eq!(asked(since(0), None), (Some(1), None));
        assert_eq!(asked(since(1_500), None), (Some(2), None));
        assert_eq!(asked(since(1_500), Some(60_000)), (Some(63), None));
        assert_eq!(asked(How::default(), Some(60_000)), (None, None));
    }

    #[test]
    fn lines_of_a_rotated_file_and_lines_without_a_time_are_returned() {
        let mut position = Position::default();
        told(&mut position, &["2026-11-22T19:00:01Z a\n", "2026-11-22T19:00:01Z b\n"]);
        position.resume(&How::default(), Some(Duration::ZERO));
        assert_eq!(
            told(&mut position, &["2026-11-22T19:00:02Z c\n", "2026-11-22T19:00:02.1+00:00 d\n"]),
            ["c\n", "d\n"]
        );
        assert_eq!(told(&mut position, &["no time\n", "nothing\n"]), ["no time\n", "nothing\n"]);
        position.resume(&How::default(), Some(Duration::ZERO));
        assert_eq!(
            told(&mut position, &["rest\n", "2026-11-22T19:00:03Z e\n", "no time\n"]),
            ["e\n", "no time\n"]
        );
    }
}
