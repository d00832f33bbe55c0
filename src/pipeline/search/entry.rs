//! A search as written.

use std::time::Duration;

use super::super::reader::Reader;
use super::super::source::Span;
use super::super::space::Written;
use super::super::yaml::{Key, Node};
use super::Choose;
use crate::search::{Race, Sampler};

/// More trials than this in one search are a mistake.
const MOST_TRIALS: u64 = 100_000;

/// A search, as written.
#[derive(Debug)]
pub struct SearchEntry {
    pub(super) span: Span,
    pub(super) space: Option<Key>,
    pub(super) params: Written,
    pub(super) sampler: Sampler,
    pub(super) trials: usize,
    pub(super) round: usize,
    pub(super) seed: u64,
    pub(super) objective: Key,
    pub(super) over: Option<Vec<Key>>,
    pub(super) from: Option<Key>,
    pub(super) tests_all: bool,
    pub(super) choose: Choose,
    pub(super) race: Option<(Span, Race)>,
    pub(super) time: Option<Duration>,
}

impl Reader<'_> {
    /// Reads a search.
    pub(in super::super) fn search(&mut self, node: &Node) -> Option<SearchEntry> {
        const FIELDS: [&str; 13] = [
            "space",
            "params",
            "sampler",
            "trials",
            "round",
            "seed",
            "objective",
            "over",
            "from",
            "test",
            "choose",
            "race",
            "time",
        ];
        self.only(node, &FIELDS, "a search");
        self.map(Some(node));
        let space = node.get("space").and_then(|name| self.text(name));
        let params = self.space(node.get("params"));
        if space.is_none() && node.get("params").is_none() {
            let help = "write `space: paper` for the spaces of the models, or `params` with values to try";
            self.problems.add(&node.span, "a search has nothing to search", Some(help.into()));
        }
        let sampler = match node.get("sampler").map(|name| (name, name.value())) {
            None => Sampler::default(),
            Some((name, value)) => match value.as_str().and_then(Sampler::of_name) {
                Some(sampler) => sampler,
                None => {
                    self.expected(name, "`grid`, `random`, `quasi` or `tpe`");
                    Sampler::default()
                }
            },
        };
        let trials = self.count(node, "trials", 20)?;
        let round = self.count(node, "round", 10)?;
        let seed = match node.get("seed").map(|seed| (seed, seed.value().as_u64())) {
            None => 0,
            Some((_, Some(seed))) => seed,
            Some((seed, None)) => {
                self.expected(seed, "a whole number");
                return None;
            }
        };
        let objective = match node.get("objective") {
            Some(name) => self.text(name)?,
            None => Key { name: "val-accuracy".into(), span: node.span.clone() },
        };
        let tests_all = match node.get("test").map(|test| (test, test.value())) {
            None => false,
            Some((_, value)) if value == "chosen" => false,
            Some((_, value)) if value == "all" => true,
            Some((test, _)) => {
                self.expected(test, "`chosen` or `all`");
                false
            }
        };
        let choose = match node.get("choose").map(|choose| (choose, choose.value())) {
            None => Choose::Mean,
            Some((_, value)) if value == "mean" => Choose::Mean,
            Some((_, value)) if value == "per-split" => Choose::PerSplit,
            Some((choose, _)) => {
                self.expected(choose, "`mean` or `per-split`");
                Choose::Mean
            }
        };
        let race = node.get("race").and_then(|race| Some((race.span.clone(), self.race(race)?)));
        let time = node.get("time").and_then(|time| self.time(time));
        let over = node.get("over").map(|over| self.texts(Some(over)));
        let from = node.get("from").and_then(|from| self.text(from));
        Some(SearchEntry {
            span: node.span.clone(),
            space,
            params,
            sampler,
            trials,
            round,
            seed,
            objective,
            over,
            from,
            tests_all,
            choose,
            race,
            time,
        })
    }

    /// Reads when trials stop: `true` for the usual rule, or a mapping.
    fn race(&mut self, node: &Node) -> Option<Race> {
        match node.value().as_bool() {
            Some(true) => return Some(Race::default()),
            Some(false) => return None,
            None => {}
        }
        self.only(node, &["after", "margin"], "a race");
        self.map(Some(node));
        let usual = Race::default();
        let after = self.count(node, "after", usual.after)?;
        let margin = match node.get("margin").map(|margin| (margin, margin.value().as_f64())) {
            None => usual.margin,
            Some((_, Some(margin))) if (0.0..=100.0).contains(&margin) => margin,
            Some((margin, _)) => {
                self.expected(margin, "a number of standard errors from 0 to 100");
                return None;
            }
        };
        Some(Race { after, margin })
    }

    /// Reads how long trials may take.
    fn time(&mut self, node: &Node) -> Option<Duration> {
        let text = node.value().as_str().map(str::to_owned);
        let time = text.and_then(|text| humantime::parse_duration(&text).ok()).filter(|time| !time.is_zero());
        if time.is_none() {
            self.expected(node, "a time such as `30m` or `2h`");
        }
        time
    }

    fn count(&mut self, node: &Node, field: &str, usual: usize) -> Option<usize> {
        let Some(written) = node.get(field) else { return Some(usual) };
        let count = written.value().as_u64().filter(|count| (1..=MOST_TRIALS).contains(count));
        if count.is_none() {
            self.expected(written, &format!("a whole number from 1 to {MOST_TRIALS}"));
        }
        count.and_then(|count| usize::try_from(count).ok())
    }
}
