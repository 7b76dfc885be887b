//! Replaces every `${…}` in a property by the value of the property that it names, by the rules of Spark's
//! `ConfigReader`, but within bounds.
//!
//! The author of an application chooses its properties, and Spark has no bounds: forty properties, each of which names
//! the next one twice, expand to a text of 2⁴⁰ bytes, and a chain of 30,000 properties needs a stack of the same depth.
//! [`expanded`] stops at the first bound that is exceeded. [`unbounded`] finds all properties that exceed a bound,
//! without expanding them.

use super::not_native::{NotNative, Reason};
use std::collections::BTreeMap;

/// The maximum number of bytes of all texts that are combined for one property. The values that the operator reads are
/// names, numbers and paths: 64 KiB is four hundred times the longest such value in our tests, and half of what Linux
/// allows a process for one argument. Reading that much once takes less than a millisecond.
const MOST_BYTES: usize = 64 << 10;
/// The maximum number of replacements for one property. An empty property adds no bytes, so this bound limits the work
/// for empty properties.
const MOST_REPLACEMENTS: usize = 1000;
/// The maximum length of a chain of references, in which each property refers to the next one. Usual chains have two or
/// three references.
const DEEPEST: usize = 64;

/// The cost of replacing every `${…}` in a property.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Cost {
    /// The bytes of the property's own text and of the texts that are inserted into it.
    bytes: usize,
    replacements: usize,
    /// The length of the longest chain of references.
    depth: usize,
}

impl Cost {
    /// Returns a message about the exceeded bound, with advice for the user; `None` if no bound is exceeded. A text in
    /// which nothing is replaced may have any length.
    fn excess(self) -> Option<String> {
        let what = match self {
            Self { replacements: 0, .. } => return None,
            Self { depth, .. } if depth > DEEPEST => {
                format!("${{…}} refer to one another through more than {DEEPEST} properties")
            }
            Self { replacements, .. } if replacements > MOST_REPLACEMENTS => {
                format!("it takes more than {MOST_REPLACEMENTS} replacements of ${{…}}")
            }
            Self { bytes, .. } if bytes > MOST_BYTES => {
                format!("it takes more than {MOST_BYTES} bytes to replace all ${{…}}")
            }
            _ => return None,
        };
        Some(format!("{what}: write its value out, or let it refer to fewer properties"))
    }

    /// Returns the cost after a property with the cost `other` has been inserted into the text.
    fn with(self, other: Self) -> Self {
        Self {
            bytes: self.bytes.saturating_add(other.bytes),
            replacements: self.replacements.saturating_add(other.replacements).saturating_add(1),
            depth: self.depth.max(other.depth.saturating_add(1)),
        }
    }
}

/// Returns the value of the property `key` with every `${…}` replaced; `None` if there is no such property.
///
/// # Errors
///
/// When Spark would refuse the value, when a bound is exceeded, and when only the JVM knows the value of a `${…}`.
pub fn expanded(properties: &BTreeMap<String, String>, key: &str) -> Result<Option<String>, NotNative> {
    let text = properties.get(key);
    text.map(|text| expand(properties, key, text, &mut Cost::default())).transpose()
}

/// A text that is being inserted into the result, part by part.
struct Open<'a> {
    name: &'a str,
    parts: Parts<'a>,
}

/// Replaces every `${…}` in `text`, the value of `key`. The function keeps its own stack instead of calling itself,
/// since users must not be able to overflow the thread's stack. Sets `cost` to the cost of the expansion or, after an
/// error, to the cost up to the error.
fn expand(
    properties: &BTreeMap<String, String>,
    key: &str,
    text: &str,
    cost: &mut Cost,
) -> Result<String, NotNative> {
    cost.bytes = text.len();
    let mut result = String::with_capacity(text.len());
    // The first entry has no name, because Spark does not count the property itself among the properties that are being
    // inserted.
    let mut open = vec![Open { name: "", parts: Parts { rest: text } }];
    while let Some(Open { parts, .. }) = open.last_mut() {
        let Some(part) = parts.next() else {
            open.pop();
            continue;
        };
        let (whole, name) = match part {
            Part::Plain(text) => {
                result.push_str(text);
                continue;
            }
            Part::Reference { whole, name } => (whole, name),
        };
        let unknown = |what| {
            let why = format!("refers to {what} `{whole}`");
            Err(NotNative::fallback(Reason::Substitution, key, why))
        };
        let text = match Target::of(name) {
            Target::Environment => return unknown("the environment of spark-submit,"),
            Target::SystemProperty => return unknown("a Java system property of spark-submit,"),
            Target::Nothing => {
                result.push_str(whole);
                continue;
            }
            Target::Property => match properties.get(name) {
                Some(text) => text,
                None => return unknown("Spark's default of"),
            },
        };
        // This search is short: DEEPEST limits the length of `open`.
        if open.iter().any(|open| open.name == name) {
            return Err(NotNative::refused(key, format_args!("circular reference to `{name}`")));
        }
        let own = Cost { bytes: text.len(), depth: open.len() - 1, ..Cost::default() };
        *cost = cost.with(own);
        if let Some(excess) = cost.excess() {
            return Err(NotNative::refused(key, excess));
        }
        open.push(Open { name, parts: Parts { rest: text } });
    }
    Ok(result)
}

/// The prefix that Spark adds to the keys of a map of properties, and the map.
pub type Prefixed<'a> = (&'static str, &'a BTreeMap<String, String>);

/// The place of a property: the index of its map in the list of maps, and its key.
type Place<'a> = (usize, &'a str);

/// What is known about the cost of a property.
#[derive(Clone, Copy)]
enum Extent {
    Within(Cost),
    /// The property, or a property to which it refers, exceeds a bound.
    Beyond,
    /// The property refers, directly or through others, to a circle of references: Spark refuses such a property when
    /// reading it. This is also the state of a property whose cost is still being added up.
    Circular,
}

/// A property whose cost is being added up.
struct Adding<'a> {
    place: Place<'a>,
    parts: Parts<'a>,
    extent: Extent,
}

impl<'a> Adding<'a> {
    fn new(place: Place<'a>, text: &'a str) -> Self {
        let extent = Extent::Within(Cost { bytes: text.len(), ..Cost::default() });
        Self { place, parts: Parts { rest: text }, extent }
    }

    fn add(&mut self, other: Extent) {
        self.extent = match (self.extent, other) {
            (Extent::Within(own), Extent::Within(other)) => Extent::Within(own.with(other)),
            (Extent::Beyond, _) | (_, Extent::Beyond) => Extent::Beyond,
            _ => Extent::Circular,
        };
    }
}

/// Returns the properties in which the replacement of `${…}` exceeds a bound, except those that exceed it only because
/// they refer to another such property. Each is returned with the index of its map, its key, and a message about the
/// bound. If two maps contain the same property, the later map takes precedence.
///
/// The cost of a property is the cost of its own text plus the costs of the properties to which it refers. So each text
/// is read only once, however many properties refer to it.
pub fn unbounded<'a>(properties: &[Prefixed<'a>]) -> Vec<(usize, &'a str, String)> {
    let mut found = Vec::new();
    let mut known: BTreeMap<Place, Extent> = BTreeMap::new();
    let look_up = |name: &str| {
        let of_map = |(i, (prefix, map)): (usize, &Prefixed<'a>)| {
            let (key, text) = map.get_key_value(name.strip_prefix(prefix)?)?;
            Some(((i, key.as_str()), text.as_str()))
        };
        properties.iter().enumerate().rev().find_map(of_map)
    };
    let all = properties.iter().enumerate().flat_map(|(i, (_, map))| map.iter().map(move |entry| (i, entry)));
    for (i, (key, text)) in all.filter(|(_, (_, text))| text.contains(BEGIN)) {
        let place = (i, key.as_str());
        if known.contains_key(&place) {
            continue;
        }
        known.insert(place, Extent::Circular);
        let mut open = vec![Adding::new(place, text)];
        while let Some(top) = open.last_mut() {
            match top.parts.next() {
                Some(Part::Plain(_)) => {}
                Some(Part::Reference { name, .. }) => {
                    let target = Some(name).filter(|name| matches!(Target::of(name), Target::Property));
                    let Some((place, text)) = target.and_then(look_up) else { continue };
                    if let Some(extent) = known.get(&place) {
                        top.add(*extent);
                    } else {
                        known.insert(place, Extent::Circular);
                        open.push(Adding::new(place, text));
                    }
                }
                None => {
                    let mut extent = top.extent;
                    if let Extent::Within(cost) = extent
                        && let Some(excess) = cost.excess()
                    {
                        found.push((top.place.0, top.place.1, excess));
                        extent = Extent::Beyond;
                    }
                    known.insert(top.place, extent);
                    open.pop();
                    if let Some(below) = open.last_mut() {
                        below.add(extent);
                    }
                }
            }
        }
    }
    found
}

/// The meaning of a name between `${` and `}`.
enum Target {
    /// `env:…`.
    Environment,
    /// `system:…`.
    SystemProperty,
    Property,
    /// A name that Spark does not know: Spark leaves the text as it is.
    Nothing,
}

impl Target {
    fn of(name: &str) -> Self {
        let is_word =
            |text: &str| !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        let provider = name.split_once(':').filter(|(name, rest)| is_word(name) && !rest.is_empty());
        match provider {
            Some(("env", _)) => Self::Environment,
            Some(("system", _)) => Self::SystemProperty,
            None if name.starts_with("spark.") => Self::Property,
            Some(_) | None => Self::Nothing,
        }
    }
}

/// The beginning of a reference.
const BEGIN: &str = "${";

/// A part of a text: plain text or a reference.
enum Part<'t> {
    Plain(&'t str),
    Reference {
        whole: &'t str,
        /// The text between the braces.
        name: &'t str,
    },
}

/// An iterator over the parts of a text. The time for all parts together is proportional to the length of the text,
/// whatever the text contains.
struct Parts<'t> {
    rest: &'t str,
}

impl<'t> Iterator for Parts<'t> {
    type Item = Part<'t>;

    fn next(&mut self) -> Option<Part<'t>> {
        let mut searched = 0;
        while let Some(found) = self.rest[searched..].find(BEGIN) {
            let start = searched + found;
            match name(&self.rest[start + BEGIN.len()..]) {
                Ok(name) if start == 0 => {
                    let (whole, rest) = self.rest.split_at(BEGIN.len() + name.len() + 1);
                    self.rest = rest;
                    return Some(Part::Reference { whole, name });
                }
                Ok(_) => {
                    let (plain, rest) = self.rest.split_at(start);
                    self.rest = rest;
                    return Some(Part::Plain(plain));
                }
                Err(skipped) => searched = start + BEGIN.len() + skipped,
            }
        }
        let rest = std::mem::take(&mut self.rest);
        (!rest.is_empty()).then_some(Part::Plain(rest))
    }
}

/// Returns the name of a reference: the shortest text from the beginning of `text`, which follows a `${`, to a closing
/// brace. It has at least one character and no blanks.
///
/// # Errors
///
/// When there is no name. The error is the number of bytes of `text` that the caller may skip: any `${` among them has
/// no name either, because the same blank, or the end of `text`, comes before a closing brace.
fn name(text: &str) -> Result<&str, usize> {
    let Some(first) = text.chars().next().filter(|c| !c.is_whitespace()) else { return Err(0) };
    let end = text[first.len_utf8()..].find(|c: char| c == '}' || c.is_whitespace());
    let (name, behind) = text.split_at(end.map_or(text.len(), |end| first.len_utf8() + end));
    if behind.starts_with('}') { Ok(name) } else { Err(name.len()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::{
        collection::vec,
        prelude::{ProptestConfig, Strategy, prop_assert, prop_assert_eq, prop_oneof, proptest},
        test_runner::RngSeed,
    };

    type Properties = BTreeMap<String, String>;

    fn key(i: usize) -> String {
        format!("spark.x{i}")
    }

    /// Returns `count` properties, each of which refers to the next one `times` times, and a last property with the
    /// value `end`.
    fn chain(count: usize, times: usize, end: &str) -> Properties {
        let refers = (0..count).map(|i| (key(i), format!("${{{}}}", key(i + 1)).repeat(times)));
        refers.chain([(key(count), end.to_owned())]).collect()
    }

    /// Returns the cost of reading `key`, and whether a bound is exceeded.
    fn read(properties: &Properties, key: &str) -> (Cost, bool) {
        let mut cost = Cost::default();
        let read = expand(properties, key, &properties[key], &mut cost);
        (cost, matches!(read, Err(NotNative::Refused { why, .. }) if why.contains("more than")))
    }

    #[test]
    fn an_exponential_expansion_is_refused_after_1000_replacements() {
        for end in ["", "x"] {
            let properties = chain(40, 2, end);
            let (cost, is_beyond) = read(&properties, &key(0));
            assert_eq!((cost.replacements, is_beyond), (MOST_REPLACEMENTS + 1, true));
            let found = unbounded(&[("", &properties)]);
            let [(0, "spark.x31", why)] = &found[..] else { panic!("{found:?}") };
            assert!(why.starts_with("it takes more than 1000 replacements"), "{why}");
        }
    }

    #[test]
    fn a_chain_of_more_than_64_references_is_refused() {
        let long = chain(30_000, 1, "end");
        assert_eq!(read(&long, &key(0)).0.depth, DEEPEST + 1);
        assert_eq!(unbounded(&[("", &long)]).len(), 1);
        let properties = chain(DEEPEST, 1, "end");
        assert_eq!(expanded(&properties, &key(0)), Ok(Some("end".to_owned())));
        assert!(unbounded(&[("", &properties)]).is_empty());
        assert!(read(&chain(DEEPEST + 1, 1, "end"), &key(0)).1);
    }

    /// Found by fuzzing. [`unbounded`] does not report circles: Spark refuses only those properties of a circle that it
    /// reads.
    #[test]
    fn a_circle_of_references_may_exceed_a_bound_before_it_is_found() {
        let mut properties = chain(8, 2, "");
        let round = format!("${{{}}}${{spark.round}}", key(0));
        properties.extend(["spark.a", "spark.round"].map(|key| (key.to_owned(), round.clone())));
        let (once, is_beyond) = read(&properties, &key(0));
        assert_eq!((once.replacements, is_beyond), (510, false));
        assert!(read(&properties, "spark.a").1);
        assert!(unbounded(&[("", &properties)]).is_empty());
    }

    #[test]
    fn only_a_text_with_replacements_has_a_maximum_length() {
        let long = "x".repeat(MOST_BYTES + 1);
        let properties: Properties =
            [("spark.a", "${spark.b}"), ("spark.b", &long), ("spark.c", &format!("{long}${{HOME}}"))]
                .map(|(key, text)| (key.to_owned(), text.to_owned()))
                .into();
        assert!(read(&properties, "spark.a").1 && !read(&properties, "spark.c").1);
        assert_eq!(unbounded(&[("", &properties)]).len(), 1);
    }

    #[test]
    fn properties_of_several_maps_refer_to_one_another() {
        let own = Properties::from([("spark.a".to_owned(), "${spark.hadoop.x0}".to_owned())]);
        let hadoop: Properties = chain(70, 1, "")
            .into_iter()
            .map(|(key, text)| (key.replace("spark.", ""), text.replace("k.", "k.hadoop.")))
            .collect();
        let found = unbounded(&[("", &own), ("spark.hadoop.", &hadoop)]);
        assert_eq!(found.iter().map(|(map, key, _)| (*map, *key)).collect::<Vec<_>>(), [(1, "x5")]);
    }

    #[test]
    fn unclosed_references_are_parsed_in_linear_time() {
        for text in
            ["${".repeat(200_000), "${ ".repeat(200_000), "${x ".repeat(200_000), "${$ ".repeat(200_000)]
        {
            let properties = Properties::from([("spark.a".to_owned(), text.clone())]);
            assert_eq!(expanded(&properties, "spark.a"), Ok(Some(text)));
        }
    }

    /// Thirty properties of up to five pieces each, which refer to one another.
    fn properties() -> impl Strategy<Value = Properties> {
        let reference = (0..30_usize).prop_map(|i| format!("${{{}}}", key(i)));
        let piece = prop_oneof![4 => reference, 1 => "[ax ]{0,4}", 1 => "\\$\\{[}a ]?"];
        vec(vec(piece, 0..6), 30).prop_map(|texts| {
            texts.into_iter().enumerate().map(|(i, pieces)| (key(i), pieces.concat())).collect()
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, rng_seed: RngSeed::Fixed(7), ..ProptestConfig::default() })]

        #[test]
        fn no_property_takes_more_replacements_than_the_bound(properties in properties()) {
            let found = unbounded(&[("", &properties)]);
            for key in properties.keys() {
                let (cost, is_beyond) = read(&properties, key);
                prop_assert!(cost.replacements <= MOST_REPLACEMENTS + 1, "{cost:?}");
                prop_assert!(!is_beyond || !found.is_empty(), "{key}");
                if found.iter().any(|(_, first, _)| first == key) {
                    prop_assert!(is_beyond, "{key}");
                }
            }
        }

        #[test]
        fn the_parts_of_a_text_add_up_to_the_text(text in "[$ {}:ax]{0,40}") {
            let parts = Parts { rest: &text }.map(|part| match part {
                Part::Plain(text) | Part::Reference { whole: text, .. } => text,
            });
            prop_assert_eq!(parts.collect::<String>(), text);
        }
    }
}
