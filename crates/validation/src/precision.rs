//! Defines the unit of the times in the names of the applications that a schedule creates.

use cron::Rhythm;
use jiff::Timestamp;
use std::time::Duration;

api::words! {
    /// The unit of the slot's time that follows the schedule's name in the name of an application
    /// (`--scheduled-spark-application-timestamp-precision` of Kubeflow's operator).
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub enum Precision {
        #[default]
        Nanos = "nanos",
        Micros = "micros",
        Millis = "millis",
        Seconds = "seconds",
        Minutes = "minutes",
    }

    text => String: format!("`{text}` is no unit: try `nanos`, `micros`, `millis`, `seconds` or `minutes`")
}

impl Precision {
    /// Returns the suffix for a slot's application, which is appended to the schedule's name.
    pub fn suffix(self, slot: Timestamp, rhythm: &Rhythm) -> String {
        self.for_rhythm(rhythm).of(slot)
    }

    fn of(self, slot: Timestamp) -> String {
        let time = match self {
            Self::Nanos => slot.as_nanosecond(),
            Self::Micros => slot.as_microsecond().into(),
            Self::Millis => slot.as_millisecond().into(),
            Self::Seconds => slot.as_second().into(),
            Self::Minutes => (slot.as_second() / 60).into(),
        };
        format!("-{time}")
    }

    /// Returns this precision, or seconds if two slots of the schedule could be in the same minute.
    fn for_rhythm(self, rhythm: &Rhythm) -> Self {
        match (self, rhythm) {
            (Self::Minutes, Rhythm::Every(period)) if *period < Duration::from_secs(60) => Self::Seconds,
            (precision, _) => precision,
        }
    }

    /// Returns the length of the suffix that is appended to a schedule's name; correct until the year 2160 for minutes,
    /// and until 2286 for the other units.
    pub fn suffix_length(self, rhythm: Option<&Rhythm>) -> usize {
        const THIS_YEAR: Timestamp = Timestamp::constant(1_767_225_600, 0);
        rhythm.map_or(self, |rhythm| self.for_rhythm(rhythm)).of(THIS_YEAR).len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_suffix_is_the_slot_in_the_unit_and_as_long_as_is_said() {
        let slot = Timestamp::from_second(1_767_225_600).unwrap();
        for (precision, time) in [
            (Precision::Nanos, "1767225600000000000"),
            (Precision::Micros, "1767225600000000"),
            (Precision::Millis, "1767225600000"),
            (Precision::Seconds, "1767225600"),
            (Precision::Minutes, "29453760"),
        ] {
            let suffix = precision.suffix(slot, &Rhythm::Every(Duration::from_secs(60)));
            assert_eq!(suffix, format!("-{time}"));
            assert_eq!(suffix.len(), precision.suffix_length(None));
        }
    }
}
