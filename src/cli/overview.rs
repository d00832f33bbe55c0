//! Shows a plan: what is in the store, what would be computed and why, what that takes, and what must fail.

use serde_json::{Value, json};

use super::failure::Failure;
use super::machine::MachineArgs;
use super::permission::Commands;
use super::{exit, print, print_json};
use crate::forecast::{Expected, Forecast, Range};
use crate::history::{Difference, Recall};
use crate::pipeline::DeviceRequest;
use crate::plan::{Absence, NodeId, Plan, SearchState};
use crate::report::{bytes_text, duration_text};
use crate::run::{NodeState, Price, demand, simulate};
use crate::store::Store;

/// With more misses than this, comparing each with every earlier artifact would take longer than planning.
const MOST_EXPLAINED: usize = 500;
/// Notes and failures that are listed.
const MOST_LISTED: usize = 20;

/// Shows the part of a plan that the targets need.
pub fn show(
    (plan, store): (&Plan, &Store),
    (wanted, force): (&[NodeId], &[NodeId]),
    (machine, device): (&MachineArgs, &DeviceRequest),
    json: bool,
) -> Result<u8, Failure> {
    let states = demand(plan, store, wanted, force);
    let misses: Vec<bool> = states.iter().map(|state| *state == NodeState::Miss).collect();
    let resources = machine.resources(device);
    let forecast = Forecast::new(plan, store, &misses, resources.cores, machine.allowed());
    let price = simulate(plan, wanted, force, &states, &forecast, &resources);
    let rows = rows(plan, store, &states, &[wanted, force].concat(), force);
    let commands = Commands::of(plan, &states);
    let shown = Shown { plan, forecast, price, rows, machine, commands };
    if json { print_json(&shown.json()) } else { print(&shown.text()) }?;
    Ok(exit::DONE)
}

/// What was left out because its data is missing, for `--json`.
pub fn absent_json(plan: &Plan) -> Value {
    let one = |a: &Absence| json!({"dataset": a.dataset, "why": a.what(), "remedy": a.remedy()});
    plan.absent.iter().map(one).collect()
}

/// How far searches are, for `--json`.
fn searches_json(plan: &Plan) -> Value {
    let one = |search: &SearchState| {
        let ended = search.trials.iter().filter(|trial| trial.has_ended()).count();
        json!({
            "point": search.label, "trials": search.of, "known": search.trials.len(), "run": ended, "ended": search.ended,
        })
    };
    plan.searches.iter().map(one).collect()
}

struct Row {
    id: NodeId,
    state: &'static str,
    why: String,
}

fn rows(plan: &Plan, store: &Store, states: &[NodeState], wanted: &[NodeId], force: &[NodeId]) -> Vec<Row> {
    let part = plan.ancestors(wanted);
    let recall = Recall::new(store);
    let misses = states.iter().filter(|s| **s == NodeState::Miss).count();
    let of_part = plan.iter().filter(|(id, _)| part[id.0]);
    of_part
        .map(|(id, _)| match states[id.0] {
            NodeState::Hit => Row { id, state: "hit", why: String::new() },
            NodeState::Absent => Row { id, state: "absent", why: "not needed".into() },
            NodeState::Miss => {
                let why = if force.contains(&id) {
                    "forced".to_owned()
                } else if misses <= MOST_EXPLAINED {
                    reason(plan, states, id, &recall)
                } else {
                    String::new()
                };
                Row { id, state: "miss", why }
            }
        })
        .collect()
}

/// Says briefly why a node is not in the store.
fn reason(plan: &Plan, states: &[NodeState], id: NodeId, recall: &Recall) -> String {
    let node = plan.node(id);
    let new_inputs = node.inputs.iter().filter(|e| states[e.node.0] == NodeState::Miss).count();
    let Some(nearest) = recall.nearest(node) else {
        return format!("no `{}` artifact is in the store yet", node.stage.name);
    };
    let own: Vec<String> = nearest
        .differences
        .iter()
        .filter_map(|d| match d {
            Difference::Value { name, before, now } => Some(format!("{name} {} → {}", shown(before), shown(now))),
            Difference::Input { .. } => None,
        })
        .collect();
    match (own.len(), new_inputs) {
        (0, 0) => "inputs differ from every earlier artifact".into(),
        (0, n) => format!("{n} of its inputs must be computed"),
        (1..=3, _) => own.join(", "),
        (n, _) => format!("{n} ingredients differ from the nearest artifact"),
    }
}

/// Returns a value of an ingredient, cut where it is long.
pub fn shown(side: &Option<Value>) -> String {
    let text = side.as_ref().map_or("–".to_owned(), ToString::to_string);
    if text.chars().count() > 40 { format!("{}…", text.chars().take(39).collect::<String>()) } else { text }
}

/// A plan with everything that is known of it.
struct Shown<'p> {
    plan: &'p Plan,
    forecast: Forecast<'p>,
    price: Price,
    rows: Vec<Row>,
    machine: &'p MachineArgs,
    commands: Commands,
}

impl Shown<'_> {
    fn count(&self, state: &str) -> usize {
        self.rows.iter().filter(|row| row.state == state).count()
    }

    /// The threads that a node will have, as far as is known.
    fn threads(&self, id: NodeId) -> usize {
        self.price.threads.get(&id).copied().unwrap_or(1)
    }

    /// The node that takes most memory.
    fn largest(&self) -> Option<(NodeId, u64)> {
        let all = self.forecast.iter().map(|(id, expected)| (id, expected.need.bytes(self.threads(id))));
        all.max_by_key(|(id, bytes)| (*bytes, std::cmp::Reverse(*id)))
    }

    fn json(&self) -> Value {
        let plan = self.plan;
        let nodes: Vec<Value> = self.rows.iter().map(|row| self.node_json(row)).collect();
        let largest = self.largest().map(|(id, bytes)| json!({"id": plan.node(id).name, "bytes": bytes}));
        let allowed = self.machine.allowed().map(|allowed| allowed.most);
        json!({
            "version": 1, "pipeline": plan.pipeline, "profile": plan.profile,
            "hits": self.count("hit"), "misses": self.count("miss"), "absent": self.count("absent"),
            "unshared-nodes": plan.unshared, "expected-seconds": self.price.work.expected,
            "wall-seconds": range_json(self.price.wall), "guess": self.price.guess, "cores": self.machine.cores(),
            "memory": {"largest": largest, "allowed-bytes": allowed},
            "absent-data": absent_json(plan), "searches": searches_json(plan), "nodes": nodes,
            "commands": self.commands.json(),
        })
    }

    fn node_json(&self, row: &Row) -> Value {
        let node = self.plan.node(row.id);
        let inputs: Vec<_> =
            node.inputs.iter().map(|e| json!({"slot": e.slot, "id": self.plan.node(e.node).name})).collect();
        let mut object = json!({
            "id": node.name, "stage": node.stage.name, "key": node.key, "state": row.state,
            "expected-seconds": null, "why": row.why, "aliases": node.aliases, "inputs": inputs,
        });
        let expected = self.forecast.expected(row.id).filter(|_| row.state == "miss");
        if let (Some(object), Some(expected)) = (object.as_object_mut(), expected) {
            let threads = self.threads(row.id);
            let fault = expected.fault.as_ref().map(|fault| json!({"error": fault.what, "hint": fault.hint}));
            object.insert("expected-seconds".into(), expected.seconds(threads).into());
            object.insert("seconds".into(), range_json(expected.range(threads)));
            object.insert("guess".into(), expected.guess.into());
            object.insert("threads".into(), threads.into());
            object.insert("memory-bytes".into(), expected.need.bytes(threads).into());
            object.insert("notes".into(), json!(expected.notes));
            object.insert("will-fail".into(), json!(fault));
        }
        object
    }

    fn text(&self) -> String {
        let plan = self.plan;
        let width = self.rows.iter().map(|r| plan.node(r.id).name.to_string().chars().count()).max();
        let width = width.unwrap_or(0).min(60);
        let mut out = String::new();
        for row in &self.rows {
            let node = plan.node(row.id);
            let expected = self.forecast.expected(row.id).map(|e| self.seconds_text(row.id, e)).unwrap_or_default();
            let whole = node.slice_of().map(|whole| format!("from {}", plan.node(whole).name));
            let why =
                whole.into_iter().chain([row.why.clone()]).filter(|w| !w.is_empty()).collect::<Vec<_>>().join("; ");
            let line = format!("{:>6} {expected:>10} {:width$}  {}  {why}", row.state, node.name, node.key.short());
            out.push_str(line.trim_end());
            out.push('\n');
        }
        out.push_str(&format!("{} nodes: {} hit, {} miss", self.rows.len(), self.count("hit"), self.count("miss")));
        if self.count("absent") > 0 {
            out.push_str(&format!(", {} absent", self.count("absent")));
        }
        if self.count("miss") > 0 {
            out.push_str(&self.price_text());
        }
        if let Some(commands) = self.commands.text() {
            out.push_str(&format!(
                "\ncommands: a run starts {commands}, where that is allowed (--allow-commands, `ppgnn trust`)"
            ));
        }
        for absence in &plan.absent {
            out.push_str(&format!("\nleft out: {}", absence.what()));
        }
        let open = plan.searches.iter().filter(|search| !search.ended);
        let (count, known, of) = open.fold((0, 0, 0), |(n, known, of), s| (n + 1, known + s.trials.len(), of + s.of));
        if count > 0 {
            out.push_str(&format!(
                "\nsearch: {known} of {of} trials of {count} searches are known; the others depend on their results, and the price leaves them out"
            ));
        }
        let shared = plan.needed().into_iter().filter(|needed| *needed).count();
        if plan.unshared > shared {
            out.push_str(&format!("\nsharing: {shared} nodes instead of {}", plan.unshared));
        }
        out.push('\n');
        self.push_notes(&mut out);
        out
    }

    fn seconds_text(&self, id: NodeId, expected: &Expected) -> String {
        let mark = if expected.guess { "?" } else { "" };
        format!("~{}{mark}", duration_text(expected.seconds(self.threads(id))))
    }

    /// What all misses take together.
    fn price_text(&self) -> String {
        let (cores, price) = (self.machine.cores(), &self.price);
        let on = if cores == 1 { "1 core".to_owned() } else { format!("{cores} cores") };
        let mut text = format!("\nexpected: {} on {on}", range_text(price.wall));
        if price.guess {
            text.push_str("; a guess (?): nothing like it ran on this machine before");
        }
        if let Some((id, bytes)) = self.largest() {
            let allowed = self.machine.allowed().map(|allowed| format!("; {} allowed", bytes_text(allowed.most)));
            let (node, allowed) = (&self.plan.node(id).name, allowed.unwrap_or_default());
            text.push_str(&format!("\nmemory: at most {} at a time in {node}{allowed}", bytes_text(bytes)));
        }
        text
    }

    /// What people should know, and what must fail, each with the nodes that it is about.
    fn push_notes(&self, out: &mut String) {
        let notes = self.forecast.iter().flat_map(|(id, e)| e.notes.iter().map(move |note| (id, note.clone(), None)));
        let faults = self.forecast.faults().into_iter();
        let faults = faults.map(|(id, fault)| (id, fault.what.clone(), fault.hint.clone()));
        for (word, all) in [("note", notes.collect::<Vec<_>>()), ("will fail", faults.collect())] {
            for (id, what, hint) in all.iter().take(MOST_LISTED) {
                out.push_str(&format!("{word}: {}: {what}\n", self.plan.node(*id).name));
                hint.iter().for_each(|hint| out.push_str(&format!("    hint: {hint}\n")));
            }
            if all.len() > MOST_LISTED {
                out.push_str(&format!("{word}: {} more nodes (--json lists all)\n", all.len() - MOST_LISTED));
            }
        }
    }
}

fn range_json(range: Range) -> Value {
    json!({"expected": range.expected, "low": range.low, "high": range.high})
}

/// `21.0 s (17.2 s to 25.6 s)`.
fn range_text(range: Range) -> String {
    let [expected, low, high] = [range.expected, range.low, range.high].map(duration_text);
    format!("{expected} ({low} to {high})")
}
