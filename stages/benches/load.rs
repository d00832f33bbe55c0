//! Times reading at full size: files of the four data sets that no test can have, generated with the published numbers
//! of nodes, edges, features and classes, degrees heavy-tailed. Best of three, and the most memory a process of its own
//! had in use.
//!
//! Run with `make bench-load`. Benchmarks inform; no test asserts a time.

#![expect(clippy::expect_used, clippy::print_stdout, reason = "a program for people, not a part of the product")]

use std::fmt::Write as _;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::process::Command;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use flate2::Compression;
use flate2::write::GzEncoder;
use npyz::WriterBuilder;
use ppgnn_stages::contract::{Chosen, Job};
use ppgnn_stages::formats::FORMATS;
use ppgnn_stages::math::random::Stream;
use serde_json::{Value, json};
use zip::ZipWriter;
use zip::write::SimpleFileOptions;

/// Name, what writes it, and its parameters with file names in place of paths.
type Case = (&'static str, fn(&Path), fn() -> Value);

const CASES: [Case; 4] = [
    ("ogbn-arxiv", arxiv, || json!({"format": "ogb", "path": "arxiv.zip"})),
    ("flickr", flickr, || {
        json!({"format": "graphsaint", "adjacency": "adj_full.npz", "features": "feats.npy",
               "classes": "class_map.json", "roles": "role.json"})
    }),
    ("wiki-cs", wiki_cs, || json!({"format": "wiki-cs", "path": "data.json", "validation": "val-masks"})),
    ("cora-full", cora_full, || json!({"format": "sparse-npz", "path": "cora_full.npz"})),
];

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    if let [_, word, case, folder] = &arguments[..]
        && word == "read"
    {
        return read(case, Path::new(folder));
    }
    println!("{:<12} {:>10} {:>10} {:>12} {:>10}", "data set", "MB on disk", "best (s)", "peak (MB)", "edges");
    for (name, write, _) in CASES {
        let folder = tempfile::tempdir().expect("a temporary folder");
        write(folder.path());
        let program = std::env::current_exe().expect("its own path");
        let status = Command::new(program).args(["read", name]).arg(folder.path()).status().expect("a process");
        assert!(status.success(), "{name} could not be read");
    }
}

/// Reads a data set three times and prints a line about it.
fn read(name: &str, folder: &Path) {
    let (_, _, params) = CASES.iter().find(|(n, ..)| *n == name).expect("a known data set");
    let mut params = params();
    let (mut format, mut bytes) = (String::new(), 0);
    for (key, value) in params.as_object_mut().expect("an object") {
        let text = value.as_str().expect("text").to_owned();
        if key == "format" {
            format = text;
        } else if let Ok(about) = folder.join(&text).metadata() {
            bytes += about.len();
            *value = folder.join(&text).to_string_lossy().into();
        }
    }
    params.as_object_mut().expect("an object").remove("format");
    let row = FORMATS.iter().find(|f| f.variant.name == format).expect("a known format");
    let format = Chosen { row, params: &params };
    let cancel = AtomicBool::new(false);
    let job = Job::alone(&cancel);
    let (mut best, mut edges) = (f64::INFINITY, 0);
    for _ in 0..3 {
        let begun = Instant::now();
        edges = format.read(&job).expect("a graph").edges.len();
        best = best.min(begun.elapsed().as_secs_f64());
    }
    println!("{name:<12} {:>10.1} {best:>10.2} {:>12} {edges:>10}", bytes as f64 / 1e6, peak());
}

/// The most memory that this process ever had in use, in MB, where the system says so.
fn peak() -> String {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmHWM"));
    let kilobytes = line.and_then(|line| line.split_whitespace().nth(1)?.parse::<f64>().ok());
    kilobytes.map_or("unknown".into(), |kb| format!("{:.0}", kb * 1024.0 / 1e6))
}

/// Draws a node; low numbers come up far more often.
fn heavy(stream: &mut Stream, nodes: usize) -> usize {
    ((stream.uniform().powi(3) * nodes as f64) as usize).min(nodes - 1)
}

/// Edges whose targets are heavy-tailed, sorted by source.
fn edges(stream: &mut Stream, nodes: usize, count: usize) -> Vec<(usize, usize)> {
    let below = |stream: &mut Stream| stream.below(nodes as u64) as usize;
    let mut edges: Vec<_> = (0..count).map(|_| (below(stream), heavy(stream, nodes))).collect();
    edges.sort_unstable();
    edges
}

fn starts(rows: usize, edges: &[(usize, usize)]) -> Vec<i32> {
    (0..=rows).map(|row| edges.partition_point(|(source, _)| *source < row) as i32).collect()
}

fn gz(text: &str) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(text.as_bytes()).expect("memory");
    encoder.finish().expect("memory")
}

fn npy<T: npyz::AutoSerialize + Copy>(into: impl Write, shape: &[u64], values: impl Iterator<Item = T>) {
    let options = npyz::WriteOptions::new().default_dtype().shape(shape);
    let mut writer = options.writer(into).begin_nd().expect("a header");
    writer.extend(values).expect("values");
    writer.finish().expect("the end");
}

fn lines<T: std::fmt::Display>(items: impl Iterator<Item = T>) -> String {
    items.fold(String::new(), |mut text, item| {
        writeln!(text, "{item}").expect("memory");
        text
    })
}

fn arxiv(folder: &Path) {
    let (nodes, count) = (169_343, 1_166_243);
    let mut stream = Stream::new(1, &["bench", "arxiv"]);
    let mut zip = ZipWriter::new(File::create(folder.join("arxiv.zip")).expect("a file"));
    let mut add = |name: &str, text: &str| {
        zip.start_file(format!("arxiv/{name}.csv.gz"), SimpleFileOptions::default()).expect("a member");
        zip.write_all(&gz(text)).expect("a member");
    };
    add("raw/num-node-list", &format!("{nodes}\n"));
    add("raw/num-edge-list", &format!("{count}\n"));
    add("raw/edge", &lines(edges(&mut stream, nodes, count).iter().map(|(a, b)| format!("{a},{b}"))));
    add("raw/node-label", &lines((0..nodes).map(|_| stream.below(40))));
    // The publisher's features have six decimals.
    let mut features = String::new();
    for _ in 0..nodes {
        for column in 0..128 {
            let end = if column == 127 { '\n' } else { ',' };
            write!(features, "{:.6}{end}", stream.symmetric(0.5)).expect("memory");
        }
    }
    add("raw/node-feat", &features);
    add("split/time/train", &lines(0..90_941));
    add("split/time/valid", &lines(90_941..120_740));
    add("split/time/test", &lines(120_740..nodes));
    zip.finish().expect("a zip");
}

fn flickr(folder: &Path) {
    let (nodes, count) = (89_250, 899_756);
    let mut stream = Stream::new(1, &["bench", "flickr"]);
    let edges = edges(&mut stream, nodes, count);
    let mut zip = ZipWriter::new(File::create(folder.join("adj_full.npz")).expect("a file"));
    member(&mut zip, "indices", edges.iter().map(|(_, target)| *target as i32));
    member(&mut zip, "indptr", starts(nodes, &edges).into_iter());
    member(&mut zip, "shape", [nodes as i64; 2].into_iter());
    member(&mut zip, "data", edges.iter().map(|_| true));
    zip.finish().expect("a zip");
    let features = BufWriter::new(File::create(folder.join("feats.npy")).expect("a file"));
    npy(features, &[nodes as u64, 500], (0..nodes * 500).map(|_| stream.symmetric(2.0)));
    let classes: Vec<_> = (0..nodes).map(|node| format!("\"{node}\": {}", stream.below(7))).collect();
    std::fs::write(folder.join("class_map.json"), format!("{{{}}}", classes.join(", "))).expect("a file");
    let ids = |range: std::ops::Range<usize>| range.collect::<Vec<_>>();
    let roles = json!({"tr": ids(0..44_625), "va": ids(44_625..66_937), "te": ids(66_937..nodes)});
    std::fs::write(folder.join("role.json"), roles.to_string()).expect("a file");
}

/// Adds an array of one dimension.
fn member<T: npyz::AutoSerialize + Copy>(
    zip: &mut ZipWriter<File>,
    name: &str,
    values: impl ExactSizeIterator<Item = T>,
) {
    zip.start_file(format!("{name}.npy"), SimpleFileOptions::default()).expect("a member");
    npy(zip, &[values.len() as u64], values);
}

fn wiki_cs(folder: &Path) {
    let nodes = 11_701;
    let mut stream = Stream::new(1, &["bench", "wiki-cs"]);
    let mut file = BufWriter::new(File::create(folder.join("data.json")).expect("a file"));
    let mut put = |text: String| file.write_all(text.as_bytes()).expect("a file");
    put("{\"features\": [".into());
    for node in 0..nodes {
        let row: Vec<String> = (0..300).map(|_| stream.symmetric(1.0).to_string()).collect();
        put(format!("{}[{}]", if node > 0 { ", " } else { "" }, row.join(", ")));
    }
    let labels: Vec<_> = (0..nodes).map(|_| stream.below(10)).collect();
    let mut links = vec![Vec::new(); nodes];
    edges(&mut stream, nodes, 297_110).into_iter().for_each(|(a, b)| links[a].push(b));
    put(format!("], \"labels\": {labels:?}, \"links\": {links:?}"));
    let test: Vec<_> = (0..nodes).map(|node| node % 2 == 0).collect();
    put(format!(", \"test_mask\": {test:?}"));
    for (key, residue) in [("train_masks", 1), ("val_masks", 3), ("stopping_masks", 5)] {
        let masks: Vec<Vec<bool>> =
            (0..20).map(|split| (0..nodes).map(|node| (node + 2 * split) % 20 == residue).collect()).collect();
        put(format!(", \"{key}\": {masks:?}"));
    }
    put("}".into());
}

fn cora_full(folder: &Path) {
    let (nodes, features) = (19_793, 8_710);
    let mut stream = Stream::new(1, &["bench", "cora-full"]);
    let mut zip = ZipWriter::new(File::create(folder.join("cora_full.npz")).expect("a file"));
    // About sixty words a node, in no order.
    let words: Vec<Vec<usize>> = (0..nodes)
        .map(|_| {
            let mut row: Vec<_> = (0..60).map(|_| heavy(&mut stream, features)).collect();
            row.sort_unstable();
            row.dedup();
            stream.shuffle(&mut row);
            row
        })
        .collect();
    let words: Vec<_> = words.iter().enumerate().flat_map(|(node, row)| row.iter().map(move |w| (node, *w))).collect();
    let edges = edges(&mut stream, nodes, 126_842);
    for (prefix, entries, columns) in [("adj", &edges, nodes), ("attr", &words, features)] {
        member(&mut zip, &format!("{prefix}_shape"), [nodes as i64, columns as i64].into_iter());
        member(&mut zip, &format!("{prefix}_indptr"), starts(nodes, entries).into_iter());
        member(&mut zip, &format!("{prefix}_indices"), entries.iter().map(|(_, column)| *column as i32));
        member(&mut zip, &format!("{prefix}_data"), entries.iter().map(|_| 1f32));
    }
    member(&mut zip, "labels", (0..nodes).map(|_| stream.below(70) as i64));
    zip.finish().expect("a zip");
}
