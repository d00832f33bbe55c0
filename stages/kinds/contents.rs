//! What every file of every kind holds: the text of `artifacts/README.md` and of `ppgnn show`. A test compares it with what
//! stages really write.

use crate::contract::Kind;

/// A file that artifacts of a kind have.
#[derive(Debug)]
pub struct FileDoc {
    /// The kind.
    pub kind: &'static str,
    /// Its name; what it ends in is its format.
    pub name: &'static str,
    /// What it is, a sentence without a period.
    pub about: &'static str,
    /// Its tensors, columns or fields.
    pub entries: &'static [EntryDoc],
}

/// A tensor, a column or a field of a file.
#[derive(Debug)]
pub struct EntryDoc {
    /// Its name; `<word>` stands for any text.
    pub name: &'static str,
    /// Type and shape.
    pub form: &'static str,
    /// What it means.
    pub about: &'static str,
}

impl EntryDoc {
    /// Returns whether this is about an entry of that name.
    pub fn is_about(&self, name: &str) -> bool {
        let mut rest = name;
        let mut wild = false;
        for (at, piece) in self.name.split(['<', '>']).enumerate() {
            // Pieces at odd places stood in brackets.
            if at % 2 == 1 {
                wild = true;
                continue;
            }
            let found = if !wild {
                rest.starts_with(piece).then_some(0)
            } else if piece.is_empty() {
                Some(rest.len()).filter(|length| *length > 0)
            } else {
                rest.find(piece).filter(|place| *place > 0)
            };
            let Some(place) = found else { return false };
            (rest, wild) = (&rest[place + piece.len()..], false);
        }
        rest.is_empty()
    }
}

/// Returns the files of a kind.
pub fn files_of(kind: Kind) -> impl Iterator<Item = &'static FileDoc> {
    CONTENTS.iter().filter(move |file| file.kind == kind.0)
}

/// Writes the documentation of all files as Markdown.
pub fn contents_markdown() -> String {
    let mut text = String::new();
    let mut kind = "";
    for file in CONTENTS {
        if file.kind != kind {
            kind = file.kind;
            text.push_str(&format!("\n## `{kind}`\n"));
        }
        text.push_str(&format!("\n`{}`: {}.\n", file.name, file.about));
        if !file.entries.is_empty() {
            text.push_str("\n| name | type and shape | meaning |\n| --- | --- | --- |\n");
        }
        for entry in file.entries {
            text.push_str(&format!("| `{}` | {} | {} |\n", entry.name, entry.form, entry.about));
        }
    }
    text
}

const fn entry(name: &'static str, form: &'static str, about: &'static str) -> EntryDoc {
    EntryDoc { name, form, about }
}

const fn file(kind: &'static str, name: &'static str, about: &'static str, entries: &'static [EntryDoc]) -> FileDoc {
    FileDoc { kind, name, about, entries }
}

const DENSE: EntryDoc = entry("features", "f32, nodes × features", "features, where they are dense");
const COLS: EntryDoc = entry("features.cols", "u64, 1", "number of features, where they are sparse");
const INDPTR: EntryDoc =
    entry("features.indptr", "u64, nodes + 1", "where the entries of a row begin, where features are sparse");
const INDICES: EntryDoc = entry("features.indices", "u32, entries", "columns, ascending in a row");
const VALUES: EntryDoc = entry("features.values", "f32, entries", "values");

/// Every file of every built-in kind.
pub static CONTENTS: &[FileDoc] = &[
    file(
        "graph",
        "graph.safetensors",
        "the graph as its publisher stored it",
        &[
            entry("edges", "u32, edges × 2", "source and target of every edge, loops and duplicates included"),
            entry("weights", "f32, edges", "a weight of every edge, if the file has them"),
            DENSE,
            COLS,
            INDPTR,
            INDICES,
            VALUES,
            entry("labels", "u32, nodes", "class of every node; a placeholder for those in `unlabelled`"),
            entry("classes", "u64, 1", "number of classes"),
            entry("unlabelled", "u32, any", "nodes without a class, ascending; not there if all have one"),
            entry("parts", "u8, splits × nodes", "splits of the file, if any: 0 unused, 1 train, 2 val, 3 test"),
        ],
    ),
    file(
        "graph",
        "names.json",
        "what nodes and classes are called; not there where they go by their numbers",
        &[
            entry("ids", "list of texts", "an id of every node; empty where there is none"),
            entry("classes", "list of texts", "a name of every class; empty where there is none"),
        ],
    ),
    file(
        "graph",
        "facts.json",
        "what can be counted",
        &[
            entry("nodes", "number", "nodes"),
            entry("features", "number", "features per node"),
            entry("classes", "number", "classes"),
            entry("edges-stored", "number", "edges as stored"),
            entry("edges-distinct", "number", "distinct directed edges, loops included"),
            entry("edges-duplicate", "number", "stored edges that repeat another"),
            entry("edges-undirected", "number", "pairs of different nodes with an edge in either direction"),
            entry("edges-one-way", "number", "distinct directed edges without loops whose reverse is not stored"),
            entry("self-loops", "number", "distinct loops"),
            entry("isolated-nodes", "number", "nodes without a neighbour"),
            entry("largest-degree", "number", "most neighbours of a node, in either direction"),
            entry("edge-homophily", "number", "share of undirected edges between nodes of one class"),
            entry("unlabelled-nodes", "number", "nodes without a class"),
            entry("splits", "number", "splits that came with the file"),
        ],
    ),
    file(
        "nodes",
        "nodes.safetensors",
        "what models see of the nodes",
        &[
            DENSE,
            COLS,
            INDPTR,
            INDICES,
            VALUES,
            entry("labels", "u32, nodes", "class of every node"),
            entry("classes", "u64, 1", "number of classes"),
        ],
    ),
    file(
        "nodes",
        "facts.json",
        "sizes",
        &[
            entry("nodes", "number", "nodes"),
            entry("features", "number", "features per node"),
            entry("non-zeros", "number", "features that are not zero, of all nodes"),
            entry("sparse", "true or false", "whether features are stored sparse"),
        ],
    ),
    file(
        "operator",
        "operator.safetensors",
        "the symmetric operator that models propagate with, as compressed sparse rows",
        &[
            entry("indptr", "u64, nodes + 1", "where the entries of a row begin"),
            entry("indices", "u32, entries", "columns, ascending in a row"),
            entry("values", "f64, entries", "values"),
        ],
    ),
    file(
        "operator",
        "facts.json",
        "sizes",
        &[entry("nodes", "number", "nodes"), entry("non-zeros", "number", "entries of the matrix")],
    ),
    file(
        "projection",
        "projection.safetensors",
        "features in the basis of the eigenvectors, UᵀX",
        &[
            entry("eigenvalues", "f64, pairs", "the eigenvalue of every row, low side first"),
            entry("features", "f32, pairs × features", "the projected features"),
        ],
    ),
    file(
        "projection",
        "facts.json",
        "sizes",
        &[entry("pairs", "number", "eigenpairs"), entry("features", "number", "features per pair")],
    ),
    file(
        "hops",
        "hops.safetensors",
        "powers of the operator, by the distance of the nodes that an entry joins",
        &[
            entry("<hop>.indptr", "u64, nodes + 1", "where the entries of a row begin"),
            entry("<hop>.indices", "u32, entries", "columns, ascending in a row"),
            entry("<hop>.values", "f32, entries", "values"),
        ],
    ),
    file(
        "hops",
        "facts.json",
        "sizes",
        &[
            entry("nodes", "number", "nodes"),
            entry("hops", "list of numbers", "the distances that were kept"),
            entry("entries", "list of numbers", "entries of the matrix of every distance"),
        ],
    ),
    file(
        "relations",
        "relations.safetensors",
        "which nodes a node hears, one per row, and how each is related to it",
        &[
            entry("indptr", "u64, nodes + 1", "where the pairs of a row begin"),
            entry("indices", "u32, pairs", "the nodes that are heard, ascending in a row"),
            entry(
                "relations",
                "u8, pairs",
                "0 to 3: quadrant of a neighbour in the graph; 4 to 7: of one in the embedding; 8: the node itself",
            ),
        ],
    ),
    file(
        "relations",
        "facts.json",
        "sizes",
        &[
            entry("nodes", "number", "nodes"),
            entry("pairs", "number", "ordered pairs, those of a node with itself included"),
            entry("relations", "number", "relations that some pair has"),
            entry("pairs-of", "list of numbers", "pairs of every relation"),
        ],
    ),
    file(
        "spectrum",
        "spectrum.safetensors",
        "eigenpairs of the operator from both ends",
        &[
            entry("low.values", "f64, pairs", "the largest eigenvalues, descending"),
            entry("low.vectors", "f32, pairs × nodes", "their eigenvectors, one per row"),
            entry("high.values", "f64, pairs", "the smallest eigenvalues, descending"),
            entry("high.vectors", "f32, pairs × nodes", "their eigenvectors, one per row"),
            entry(
                "quality",
                "f64, 2",
                "the largest residual ‖Ãu − λu‖, and the largest entry of UᵀU − I, by absolute value",
            ),
        ],
    ),
    file(
        "spectrum",
        "facts.json",
        "sizes and quality",
        &[
            entry("nodes", "number", "nodes"),
            entry("low", "object", "number of pairs of the low side, and its first and last eigenvalue"),
            entry("high", "object", "the same of the high side"),
            entry("worst-residual", "number", "the largest residual ‖Ãu − λu‖"),
            entry("worst-overlap", "number", "the largest entry of UᵀU − I, by absolute value"),
        ],
    ),
    file(
        "splits",
        "splits.safetensors",
        "which nodes train, validate and test",
        &[entry("parts", "u8, splits × nodes", "0 unused, 1 train, 2 val, 3 test")],
    ),
    file(
        "splits",
        "facts.json",
        "sizes",
        &[entry("train-val-test", "list", "number of nodes of the three parts, for every split")],
    ),
    file(
        "trained",
        "logits.safetensors",
        "what the model says of every node at the kept epoch, in evaluation mode",
        &[entry("<split>", "f32, nodes × classes", "logits of a split, counted from 0")],
    ),
    file(
        "trained",
        "weights.safetensors",
        "weights of the kept epoch",
        &[entry(
            "<split>/<weight>",
            "f32",
            "a weight of a split; matrices of layers are in × out, `ppgnn export weights` turns them",
        )],
    ),
    file(
        "trained",
        "hidden.safetensors",
        "activations inside the model at the kept epoch; only with `keep-hidden: true`",
        &[entry("<split>/<name>", "f32, nodes × columns", "an activation of a split")],
    ),
    file(
        "trained",
        "history.parquet",
        "the course of training, a row per split and epoch",
        &[
            entry("split", "u32", "split, counted from 0"),
            entry("epoch", "u32", "epoch, counted from 0"),
            entry("train-loss", "f64", "loss of the training pass, dropout and penalties included"),
            entry("val-<score>", "f64", "a score on the validation nodes after the epoch's update"),
        ],
    ),
    file(
        "trained",
        "facts.json",
        "sizes and the kept epochs",
        &[
            entry("splits", "number", "splits"),
            entry("nodes", "number", "nodes"),
            entry("classes", "number", "classes"),
            entry("best-epoch", "list", "the kept epoch of every split, counted from 0"),
            entry("epochs", "list", "how many epochs every split ran"),
        ],
    ),
    file(
        "metrics",
        "metrics.parquet",
        "scores, a row per split and part",
        &[
            entry("split", "u32", "split, counted from 0"),
            entry("part", "text", "train, val or test"),
            entry("nodes", "u64", "number of nodes of the part"),
            entry("<score>", "f64", "a score, such as accuracy"),
        ],
    ),
    file(
        "metrics",
        "metrics.json",
        "the same, with the kept epoch and the confusion of every split",
        &[entry(
            "splits",
            "list",
            "for every split its scores by part, `best-epoch`, and `confusion`: test nodes by true class (row) and predicted class (column)",
        )],
    ),
    file(
        "facts",
        "facts.json",
        "numbers about a graph, or about how long stages take",
        &[entry("facts", "list", "every fact: `name` and `values`; one that ends in `seconds` is a duration")],
    ),
    file(
        "table",
        "table.json",
        "the table with the values and the runs behind every cell",
        &[
            entry("title", "text", "title"),
            entry("metric", "text", "what the cells show, if it is a metric"),
            entry("facts", "list", "what every column shows in a table of facts: its name, and digits after the point"),
            entry("relative-to", "text", "the row that the others are divided by"),
            entry("scale", "object", "how an added metric is shown and compared"),
            entry("std", "text", "which standard deviation it shows"),
            entry("interval", "text", "whether it shows intervals instead"),
            entry("digits", "number", "digits after the point"),
            entry("row-title", "text", "what the rows are"),
            entry("column-title", "text", "what the columns are"),
            entry("rows", "list", "labels of the rows"),
            entry("columns", "list", "labels of the columns"),
            entry("reference-title", "text", "what published values are called"),
            entry("notes", "list", "what readers must know besides; not there if there is nothing"),
            entry("pooled", "list", "axes whose runs are averaged in a cell"),
            entry("picked-from", "list", "axes whose configurations were chosen from"),
            entry(
                "cells",
                "list",
                "every cell: place, mean, std, n, values, keys of the runs, interval, mark, test against the best of its column, choice, published value, verdict, notes, missing runs",
            ),
            entry("absent", "list", "cells that could not be computed, and why"),
            entry(
                "comparisons",
                "list",
                "for every column its best, the splits that tests pair, and what was not tested",
            ),
            entry("ranking", "object", "average ranks of the rows, with the tests of Friedman and of Nemenyi"),
        ],
    ),
    file("table", "table.md", "the table in Markdown", &[]),
    file("table", "table.tex", "the table in LaTeX", &[]),
    file(
        "table",
        "table.csv",
        "the table, a line per cell, with plain numbers; `p-value` is against the best of the column, corrected; `note` has ours and the published one",
        &[],
    ),
    file("figure", "figure.svg", "the picture for screens", &[]),
    file("figure", "figure.pdf", "the same for print", &[]),
    file("figure", "figure.csv", "the numbers that it shows", &[]),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_in_brackets_stands_for_any_text() {
        let about = |pattern: &'static str, name: &str| entry(pattern, "", "").is_about(name);
        assert!(about("labels", "labels") && !about("labels", "labels2") && !about("labels", "label"));
        assert!(about("<split>/<weight>", "0/lin1.weight") && !about("<split>/<weight>", "lin1.weight"));
        assert!(about("val-<score>", "val-loss") && !about("val-<score>", "val-") && !about("val-<score>", "x-val-a"));
        assert!(about("<split>", "12") && !about("<split>", ""));
    }
}
