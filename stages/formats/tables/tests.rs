use std::io::{Cursor, Write};
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::write::GzEncoder;
use polars::prelude::{Categories, Column, DataFrame, DataType, NamedFrom, ParquetCompression, ParquetWriter, Series};
use serde_json::{Map, Value, json};

use super::*;
use crate::contract::StageDef;
use crate::formats::testing::{self, with_job};
use crate::load::Load;

/// Four nodes; `d` has no label.
const NODES: &str = "\
id,label,x,y,first,second
a,cat,1,0.5,train,TEST
b,dog,0,-2e3,Val,train
c,cat,7,true,test,
d,,0,FALSE,,
";
const EDGES: &str = "source,weight,target\na,1,b\nc,1,b\nc,9,b\nd,1,d\n";

fn params() -> Params {
    serde_json::from_value(json!({"edges": "edges.csv", "nodes": "nodes.csv", "splits": ["first", "second"]})).unwrap()
}

fn with(params: Params, change: impl FnOnce(&mut Params)) -> Params {
    let mut params = params;
    change(&mut params);
    params
}

fn text(name: &str, bytes: &[u8]) -> Result<Table, StageError> {
    text::open(Path::new(name), Cursor::new(bytes.to_vec()), Some(b','), u64::MAX)
}

fn parse(params: &Params, edges: &[u8], nodes: &[u8]) -> Result<Graph, StageError> {
    with_job(|job| assemble(params, text("nodes.csv", nodes)?, text("edges.csv", edges)?, job))
}

fn parsed(nodes: &str) -> Graph {
    parse(&with(params(), |p| p.splits.clear()), b"source,target\n", nodes.as_bytes()).unwrap()
}

fn error(params: &Params, edges: &str, nodes: &str) -> (String, String) {
    let error = parse(params, edges.as_bytes(), nodes.as_bytes()).unwrap_err();
    assert!(matches!(error, StageError::Data { .. }));
    (error.to_string(), error.hint().unwrap_or_default().to_owned())
}

#[test]
fn two_tables_are_a_graph() {
    let graph = parse(&params(), EDGES.as_bytes(), NODES.as_bytes()).unwrap();
    assert_eq!(graph.edges, [(0, 1), (2, 1), (2, 1), (3, 3)]);
    assert_eq!(
        graph.features,
        Features::Dense(Matrix { rows: 4, cols: 2, data: vec![1.0, 0.5, 0.0, -2000.0, 7.0, 1.0, 0.0, 0.0] })
    );
    assert_eq!((graph.labels, graph.classes, graph.unlabelled), (vec![0, 1, 0, 0], 2, vec![3]));
    let parts = graph.masks.unwrap().parts;
    assert_eq!(parts[0], [Part::Train, Part::Val, Part::Test, Part::None]);
    assert_eq!(parts[1], [Part::Test, Part::Train, Part::None, Part::None]);
}

#[test]
fn columns_have_the_names_that_the_parameters_say() {
    let params = with(params(), |p| {
        (p.source, p.target) = ("from".into(), "to".into());
        (p.id, p.label) = ("name".into(), "kind".into());
        p.features = Some(vec!["y".into(), "x".into()]);
        p.splits.clear();
    });
    let nodes = "kind,x,note,name,y\n1,2,free text,n1,3\n0,4,more,n2,5\n";
    let graph = parse(&params, b"to,from\nn1,n2\n", nodes.as_bytes()).unwrap();
    assert_eq!(graph.features.values(), [3.0, 2.0, 5.0, 4.0], "in the order of the list");
    assert_eq!((graph.labels, graph.edges, graph.masks), (vec![1, 0], vec![(1, 0)], None));
}

#[test]
fn classes_are_numbered_by_number_or_else_as_text() {
    let labels = |words: &[&str]| {
        let rows: String = (0..).zip(words).map(|(i, word)| format!("{i},{word},1\n")).collect();
        let graph = parsed(&format!("id,label,x\n{rows}"));
        (graph.labels, graph.classes)
    };
    assert_eq!(labels(&["10", "2", "-1", "2"]), (vec![2, 1, 0, 1], 3));
    assert_eq!(labels(&["10.0", "2.0", "", "2"]), (vec![1, 0, 0, 0], 2));
    assert_eq!(labels(&["10", "2", "b"]), (vec![0, 1, 2], 3));
    assert_eq!(labels(&["1.5", "0.5"]), (vec![1, 0], 2));
}

#[test]
fn ids_and_labels_keep_their_text() {
    let graph = parsed("id,label,x\n007,\"a, b\",1\n7,\"say \"\"hi\"\"\",1\n 1e3 ,,1\nü€,\"a, b\",1\n7.0,é,1\n");
    assert_eq!(graph.names.ids, ["007", "7", "1e3", "ü€", "7.0"]);
    assert_eq!(graph.names.classes, ["a, b", "say \"hi\"", "é"]);
    assert_eq!((graph.labels, graph.unlabelled), (vec![0, 1, 0, 0, 2], vec![2]));
    // One class by several names goes by the first, and classes are in the order of their numbers.
    let merged = parsed("id,label,x\na,10,1\nb,2.0,1\nc,2,1\nd,010,1\n");
    assert_eq!((merged.names.classes, merged.labels), (vec!["2.0".into(), "10".into()], vec![1, 0, 0, 1]));
    let bare = with(params(), |p| p.splits.clear());
    let refused = |nodes: &[u8]| parse(&bare, b"source,target\n", nodes).unwrap_err();
    let id = refused(b"id,label,x\na,1,1\n\xe4,1,1\n");
    assert_eq!(id.to_string(), "nodes.csv, line 3, column `id`: `\u{fffd}` is not UTF-8 text");
    assert_eq!(id.hint(), Some("save the table with the encoding UTF-8"));
    let label = refused(b"id,label,x\na,gr\xfcn,1\n").to_string();
    assert_eq!(label, "nodes.csv, line 2, column `label`: `gr\u{fffd}n` is not UTF-8 text");
}

#[test]
fn weights_are_read_where_they_are_asked_for() {
    let plain = parse(&params(), EDGES.as_bytes(), NODES.as_bytes()).unwrap();
    assert_eq!(plain.weights, None);
    let weighted = with(params(), |p| p.weight = Some("weight".into()));
    let graph = parse(&weighted, EDGES.as_bytes(), NODES.as_bytes()).unwrap();
    assert_eq!(graph.weights, Some(vec![1.0, 1.0, 9.0, 1.0]));
    let none = parse(&weighted, b"source,target,weight\n", NODES.as_bytes()).unwrap();
    assert_eq!(none.weights, Some(Vec::new()));
    let nan = error(&weighted, &EDGES.replace("9", "nan"), NODES).0;
    assert_eq!(nan, "edges.csv, line 4, column `weight`: `nan` is not a finite 32-bit number");
    let absent = error(&with(params(), |p| p.weight = Some("wieght".into())), EDGES, NODES);
    assert_eq!(absent.0, "edges.csv: has no column `wieght`");
    assert!(absent.1.contains("did you mean `weight`?"), "{}", absent.1);
    let key = serde_json::to_value(params()).unwrap();
    assert!(key.get("weight").is_none(), "not in the key");
}

#[test]
fn few_non_zeros_are_kept_sparse() {
    let graph = parsed("id,label,p,q,r,s,t\na,0,0,3,0,0,0\nb,1,0,0,0,0,-1\n");
    assert!(matches!(graph.features, Features::Sparse(_)));
    assert_eq!(graph.features.to_dense().data, [0.0, 3.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, -1.0]);
    let quarter = parsed("id,label,p,q,r,s\na,0,0,3,0,0\n");
    assert!(matches!(quarter.features, Features::Dense(_)), "a quarter is not less than a quarter");
}

#[test]
fn quotes_spaces_marks_and_line_ends_do_not_matter() {
    let plain = parse(&params(), EDGES.as_bytes(), NODES.as_bytes()).unwrap();
    let same =
        |edges: &str, nodes: &str| assert_eq!(parse(&params(), edges.as_bytes(), nodes.as_bytes()).unwrap(), plain);
    same(&EDGES.replace('\n', "\r\n"), &NODES.replace('\n', "\r\n"));
    same(EDGES.trim_end(), NODES.trim_end_matches('\n'));
    same(&EDGES.replace("\n", "\n\n"), &NODES.replace('\n', "\r\n\r\n"));
    same(&format!("\u{feff}{EDGES}"), &format!("\u{feff}{NODES}"));
    same(&EDGES.replace("\na", "\n\"a\""), &NODES.replace("a,cat", "\"a\", cat "));
    same(&EDGES.replace("\na", "\n a "), &NODES.replace("dog", "\"dog\""));
}

#[test]
fn every_problem_names_file_line_and_column() {
    let nodes = |from: &str, to: &str| error(&params(), EDGES, &NODES.replacen(from, to, 1)).0;
    let edges = |from: &str, to: &str| error(&params(), &EDGES.replacen(from, to, 1), NODES).0;
    let cases = [
        (nodes("b,dog", "a,dog"), "nodes.csv, line 3, column `id`: `a` is in line 2 already, expected every id once"),
        (nodes("b,dog", " ,dog"), "nodes.csv, line 3, column `id`: is empty, expected the id of a node"),
        (nodes("-2e3", "two"), "nodes.csv, line 3, column `y`: `two` is not a finite 32-bit number"),
        (nodes("-2e3", "NaN"), "nodes.csv, line 3, column `y`: `NaN` is not a finite 32-bit number"),
        (nodes("-2e3", "1e39"), "nodes.csv, line 3, column `y`: `1e39` is not a finite 32-bit number"),
        (nodes("-2e3", ""), "nodes.csv, line 3, column `y`: is empty, expected a number"),
        (nodes("-2e3", "1,2"), "nodes.csv, line 3: has 7 fields, expected 6 as in the header"),
        (nodes("c,cat,7,true,test,", "c"), "nodes.csv, line 4: has 1 field, expected 6 as in the header"),
        (
            nodes("Val", "vla"),
            "nodes.csv, line 3, column `first`: `vla` is not a part, expected `train`, `val`, `test` or nothing",
        ),
        (nodes("FALSE,,", "0,,dev"), "nodes.csv, line 5, column `second`: puts a node without a label into `dev`"),
        (nodes("id,label", "id,id"), "nodes.csv: has more than one column `id`"),
        (nodes("second", "third"), "nodes.csv: has no column `second`"),
        (edges("a,1,b", "a,1,z"), "edges.csv, line 2, column `target`: `z` is not the id of a node"),
        (edges("a,1,b", ",1,b"), "edges.csv, line 2, column `source`: `` is not the id of a node"),
        (edges("a,1,b", "a,1"), "edges.csv, line 2: has 2 fields, expected 3 as in the header"),
        (edges("source", "sauce"), "edges.csv: has no column `source`"),
    ];
    for (found, expected) in cases {
        assert_eq!(found, expected);
    }
    let bare = with(params(), |p| p.splits.clear());
    assert_eq!(error(&bare, EDGES, "id,label,x\n").0, "nodes.csv: has no rows, expected at least one node");
    let nobody = error(&bare, EDGES, "id,label,x\na,,1\n").0;
    assert_eq!(nobody, "nodes.csv, column `label`: is empty in every row, expected the class of at least one node");
    let plain = error(&bare, EDGES, "id,label\na,1\n");
    assert_eq!(plain.0, "nodes.csv: has no columns of features, expected at least one");
    let index = error(&bare, EDGES, ",id,label,x\n0,a,1,5\n");
    assert_eq!(index.0, "nodes.csv: column 1 is a row index without a name of its own, expected a feature");
    assert!(index.1.contains("`features`"));
}

#[test]
fn lines_are_counted_through_blank_lines_and_quoted_ones() {
    let bare = with(params(), |p| p.splits.clear());
    let at = |nodes: &str| error(&bare, EDGES, nodes).0;
    assert!(at("\n\nid,label,x\n\na,1,1\n\r\n\nb,1,no\n").starts_with("nodes.csv, line 8,"));
    assert!(at("id,label,x\r\na,1,1\r\nb,1,no\r\n").starts_with("nodes.csv, line 3,"));
    assert!(at("id,label,x\n\"a\nb\",1,1\nb,1,no").starts_with("nodes.csv, line 4,"));
    assert!(at("id,label,x\na,1,1\n\"b\n\n\",1,no\nc,1,1\n").starts_with("nodes.csv, line 3,"));
    assert!(at("id,label,x\na,1,1\nb,\"1,1\nc,1,1\n").starts_with("nodes.csv, line 3: has 2 fields"), "open quote");
}

#[test]
fn hints_say_what_to_do() {
    let swap = |from: &str, to: &str| error(&params(), EDGES, &NODES.replacen(from, to, 1)).1;
    let near = swap("label", "lable");
    let list = "`id`, `lable`, `x`, `y`, `first`, `second`";
    assert_eq!(near, format!("did you mean `lable`? its columns are {list}; the parameter `label` names it"));
    assert_eq!(swap("label", "q"), format!("known: {}; the parameter `label` names it", list.replace("lable", "q")));
    assert!(swap("-2e3", "blue").contains("list the feature columns in `features`"));
    assert!(error(&params(), EDGES, &NODES.replace(',', ";")).1.contains("is `separator` right?"));
    let unknown = error(&params(), "source,target\na,z\n", NODES).1;
    assert_eq!(unknown, "an edge names two entries of column `id` of nodes.csv");
}

#[test]
fn a_row_that_never_ends_is_refused_before_it_fills_memory() {
    let mut nodes = b"id,label,x\na,1,1\nb,\"".to_vec();
    nodes.resize(20 << 20, b'x');
    let bare = with(params(), |p| p.splits.clear());
    let error = parse(&bare, EDGES.as_bytes(), &nodes).unwrap_err().to_string();
    assert_eq!(error, "nodes.csv, line 3: cannot be read: more than 16777216 bytes in one row; is a quote not closed?");
}

fn check(more: &Value) -> Result<(), String> {
    let mut written: Map<String, Value> = Map::new();
    written.extend(json!({"format": "tables", "edges": "e.csv", "nodes": "n.csv"}).as_object().unwrap().clone());
    written.extend(more.as_object().unwrap().clone());
    let checked = StageDef::of::<Load>().check(&crate::built_in(), &written);
    checked.map(|_| ()).map_err(|problems| problems[0].message.clone())
}

#[test]
fn parameters_that_contradict_each_other_are_refused() {
    assert_eq!(check(&json!({"separator": ";", "features": ["x"], "splits": ["s"]})), Ok(()));
    let refused = |more: Value| check(&more).unwrap_err();
    let word = "`separator`: expected one ASCII character that is no quote, found";
    assert_eq!(refused(json!({"separator": "tab"})), format!("{word} `tab`"));
    assert_eq!(refused(json!({"separator": "§"})), format!("{word} `§`"));
    let leak = refused(json!({"features": ["label"]}));
    assert_eq!(leak, "`features`: column `label` is an id, label or split already");
    assert_eq!(refused(json!({"features": ["x", "x"]})), "`features`: column `x` is listed twice");
    assert_eq!(refused(json!({"source": "target"})), "`target`: column `target` is the source already");
    let ends = refused(json!({"weight": "source"}));
    assert_eq!(ends, "`weight`: column `source` is the source or target already");
    let twice = "column `label` is used twice among `id`, `label` and `splits`";
    assert_eq!(refused(json!({"splits": ["label"]})), twice);
}

struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }
    fn put(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.0.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        path
    }
    fn read(&self, edges: &Path, nodes: &Path) -> Result<Graph, StageError> {
        let params = with(params(), |p| {
            p.edges = FilePath(edges.to_owned());
            p.nodes = FilePath(nodes.to_owned());
        });
        with_job(|job| Tables::read(&params, job))
    }
    /// What is wrong with a table, without its folder.
    fn refusal(&self, name: &str, bytes: &[u8]) -> String {
        let path = self.put(name, bytes);
        let error = Table::open(&path, None).err().unwrap();
        assert!(matches!(error, StageError::Data { .. }));
        error.to_string().rsplit_once('/').unwrap().1.to_owned()
    }
}

fn packed(text: &str) -> Vec<u8> {
    let mut packer = GzEncoder::new(Vec::new(), Compression::default());
    packer.write_all(text.as_bytes()).unwrap();
    packer.finish().unwrap()
}

fn frame(columns: Vec<Series>) -> Vec<u8> {
    let height = columns[0].len();
    let columns = columns.into_iter().map(Column::from).collect();
    let mut bytes = Vec::new();
    ParquetWriter::new(&mut bytes)
        .with_compression(ParquetCompression::Snappy)
        .finish(&mut DataFrame::new(height, columns).unwrap())
        .unwrap();
    bytes
}

fn nodes_frame() -> Vec<Series> {
    vec![
        Series::new("id".into(), ["a", "b", "c", "d"]),
        Series::new("label".into(), [Some("cat"), Some("dog"), Some("cat"), None]),
        Series::new("x".into(), [1i64, 0, 7, 0]),
        Series::new("y".into(), [0.5f64, -2e3, 1.0, 0.0]),
        Series::new("first".into(), [Some("train"), Some("Val"), Some("test"), None]),
        Series::new("second".into(), ["TEST", "train", "", ""]),
    ]
}

fn edges_frame() -> Vec<Series> {
    vec![Series::new("source".into(), ["a", "c", "c", "d"]), Series::new("target".into(), ["b", "b", "b", "d"])]
}

#[test]
fn every_kind_of_file_gives_the_same_graph() {
    let folder = Folder::new();
    let tabs = |text: &str| text.replace(',', "\t");
    let plain = parse(&params(), EDGES.as_bytes(), NODES.as_bytes()).unwrap();
    for (extension, edges, nodes) in [
        ("csv", EDGES.as_bytes().to_vec(), NODES.as_bytes().to_vec()),
        ("TSV", tabs(EDGES).into_bytes(), tabs(NODES).into_bytes()),
        ("txt", EDGES.as_bytes().to_vec(), tabs(NODES).into_bytes()),
        ("csv.gz", packed(EDGES), packed(NODES)),
        ("tsv.gz", packed(&tabs(EDGES)), packed(&tabs(NODES))),
        ("parquet", frame(edges_frame()), frame(nodes_frame())),
    ] {
        let edges = folder.put(&format!("edges.{extension}"), &edges);
        let nodes = folder.put(&format!("nodes.{extension}"), &nodes);
        assert_eq!(folder.read(&edges, &nodes).unwrap(), plain, "{extension}");
        assert_eq!(folder.read(&folder.put("e.csv", EDGES.as_bytes()), &nodes).unwrap(), plain, "{extension}");
    }
}

fn parquet(nodes: Vec<Series>, edges: Vec<Series>) -> Result<Graph, StageError> {
    let table = |name: &str, bytes| parquet::open(Path::new(name), bytes);
    let bare = with(params(), |p| p.splits.clear());
    with_job(|job| assemble(&bare, table("nodes", frame(nodes))?, table("edges", frame(edges))?, job))
}

#[test]
fn ids_of_different_types_are_compared_as_text() {
    let nodes = vec![
        Series::new("id".into(), [7u32, 30, 5]),
        Series::new("label".into(), [Some(10.0f64), Some(9.0), None]),
        Series::new("x".into(), [true, false, true]),
    ];
    let edges = vec![Series::new("source".into(), ["30", "5"]), Series::new("target".into(), [7i64, 7])];
    let graph = parquet(nodes, edges).unwrap();
    assert_eq!(graph.edges, [(1, 0), (2, 0)]);
    assert_eq!((graph.labels, graph.classes, graph.unlabelled), (vec![1, 0, 0], 2, vec![2]));
    assert_eq!(graph.features.values(), [1.0, 0.0, 1.0]);
}

#[test]
fn a_categorical_column_is_text() {
    let mut nodes = nodes_frame();
    nodes.truncate(4);
    let plain = parquet(nodes.clone(), edges_frame()).unwrap();
    nodes[1] = nodes[1].cast(&DataType::from_categories(Categories::global())).unwrap();
    assert_eq!(parquet(nodes, edges_frame()).unwrap(), plain);
}

#[test]
fn problems_of_parquet_name_row_and_column() {
    let message = |change: fn(&mut Vec<Series>)| {
        let mut nodes = nodes_frame();
        nodes.truncate(4);
        change(&mut nodes);
        parquet(nodes, edges_frame()).unwrap_err()
    };
    type Change = fn(&mut Vec<Series>);
    let cases: [(Change, &str); 6] = [
        (
            |n| n[3] = Series::new("y".into(), [1.0, f64::NAN, 0.0, 0.0]),
            "nodes, row 2, column `y`: `NaN` is not a finite 32-bit number",
        ),
        (
            |n| n[3] = Series::new("y".into(), [1.0, 1.0, 1e39, 0.0]),
            "nodes, row 3, column `y`: `inf` is not a finite 32-bit number",
        ),
        (
            |n| n[3] = Series::new("y".into(), [Some(1i32), None, None, None]),
            "nodes, row 2, column `y`: is empty, expected a number",
        ),
        (
            |n| n[0] = Series::new("id".into(), ["a", "b", "b", "d"]),
            "nodes, row 3, column `id`: `b` is in row 2 already, expected every id once",
        ),
        (
            |n| n[0] = Series::new("id".into(), ["a", "x", "c", "d"]),
            "edges, row 1, column `target`: `b` is not the id of a node",
        ),
        (|n| drop(n.remove(1)), "nodes: has no column `label`"),
    ];
    for (change, expected) in cases {
        assert_eq!(message(change).to_string(), expected);
    }
    let text = message(|n| n[3] = Series::new("y".into(), ["blue"; 4]));
    assert!(text.to_string().starts_with("nodes, column `y`: has type "), "{text}");
    assert!(text.hint().unwrap().contains("`features`"));
    assert!(
        message(|n| n.push(Series::new("__index_level_0__".into(), [0i64, 1, 2, 3]))).to_string().contains("row index")
    );
}

#[test]
fn only_the_columns_that_are_used_need_a_type_that_is_known() {
    let nested = Series::new("list".into(), [Series::new("".into(), ["p"]), Series::new("".into(), ["q"])]);
    let nodes = || {
        vec![
            Series::new("id".into(), ["a", "b"]),
            Series::new("label".into(), [0i64, 1]),
            Series::new("x".into(), [2f32, 3.0]),
            nested.clone(),
        ]
    };
    let bytes = frame(nodes());
    let read = |features: Option<Vec<String>>| {
        let params = with(params(), |p| {
            p.splits.clear();
            p.features = features;
        });
        let nodes = parquet::open(Path::new("nodes"), bytes.clone())?;
        with_job(|job| assemble(&params, nodes, text("edges", b"source,target\n")?, job))
    };
    assert_eq!(read(Some(vec!["x".into()])).unwrap().features.values(), [2.0, 3.0]);
    assert!(read(None).unwrap_err().to_string().starts_with("nodes, column `list`: has type "));
}

/// A column of lists of numbers.
fn lists(rows: &[Option<&[Option<f64>]>]) -> Series {
    let inner = DataType::List(Box::new(DataType::Float64));
    let rows: Vec<_> = rows.iter().map(|row| row.map(|items| Series::new("".into(), items))).collect();
    Series::new("list".into(), rows).cast(&inner).unwrap()
}

fn with_lists(lists: Series) -> Result<Graph, StageError> {
    let nodes = vec![
        Series::new("id".into(), ["a", "b", "c"]),
        Series::new("label".into(), [0i64, 1, 0]),
        Series::new("x".into(), [1f32, 2.0, 3.0]),
        lists,
        Series::new("y".into(), [7i64, 8, 9]),
    ];
    parquet(nodes, vec![Series::new("source".into(), ["a"]), Series::new("target".into(), ["b"])])
}

#[test]
fn lists_of_numbers_are_several_features() {
    let row = |a: f64, b: f64| [Some(a), Some(b)];
    let (first, second, third) = (row(0.5, -1.0), row(2.0, 3.0), row(4.0, 5.0));
    let good = lists(&[Some(&first), Some(&second), Some(&third)]);
    let features = with_lists(good.clone()).unwrap().features;
    let expected = [1.0, 0.5, -1.0, 7.0, 2.0, 2.0, 3.0, 8.0, 3.0, 4.0, 5.0, 9.0];
    assert_eq!((features.cols(), features.values()), (4, &expected[..]));
    let whole = good.cast(&DataType::List(Box::new(DataType::Int64))).unwrap();
    assert_eq!(with_lists(whole).unwrap().features.values()[1..3], [0.0, -1.0]);
    let cases: [(Series, &str); 6] = [
        (
            lists(&[Some(&first), Some(&first[..1]), Some(&third)]),
            "row 2, column `list`: has 1 numbers, expected 2 as in row 1",
        ),
        (lists(&[Some(&first), None, Some(&third)]), "row 2, column `list`: is empty, expected a list of numbers"),
        (lists(&[Some(&[]), Some(&[]), Some(&[])]), "row 1, column `list`: is an empty list, expected numbers"),
        (lists(&[None, Some(&first), Some(&first)]), "row 1, column `list`: is empty, expected a list of numbers"),
        (
            lists(&[Some(&first), Some(&[Some(1.0), None]), Some(&first)]),
            "row 2, column `list`: item 1: is empty, expected a number",
        ),
        (
            lists(&[Some(&first), Some(&second), Some(&[Some(f64::NAN), None])]),
            "row 3, column `list`: item 0: `NaN` is not a finite 32-bit number",
        ),
    ];
    for (column, expected) in cases {
        assert_eq!(with_lists(column).unwrap_err().to_string(), format!("nodes, {expected}"));
    }
}

#[test]
fn damaged_lists_give_a_sound_graph_or_an_error() {
    let row = [Some(0.5), Some(2.0)];
    let mut nodes = nodes_frame();
    nodes.truncate(3);
    nodes.push(lists(&[Some(&row), Some(&row), Some(&row), Some(&row)]));
    let (edges, nodes) = (frame(edges_frame()), frame(nodes));
    let bare = with(params(), |p| p.splits.clear());
    let accepted = testing::survive(10_000, &[&edges, &nodes], |files| {
        let table = |name: &str, bytes: &[u8]| parquet::open(Path::new(name), bytes.to_vec());
        with_job(|job| assemble(&bare, table("nodes", &files[1])?, table("edges", &files[0])?, job))
    });
    assert!(accepted > 10, "{accepted}");
}

#[test]
fn what_stands_in_place_of_a_table_is_named() {
    let folder = Folder::new();
    assert_eq!(folder.refusal("n.csv", b""), "n.csv: is empty, expected a table");
    assert_eq!(folder.refusal("n.parquet", b"<!doctype html>"), "n.parquet: is a web page, expected a table");
    assert_eq!(folder.refusal("n.csv", b"PAR1...PAR1"), "n.csv: is a Parquet file, expected text");
    assert_eq!(folder.refusal("n.csv", b"PK\x03\x04..."), "n.csv: is a zip file or a spreadsheet, expected text");
    assert_eq!(folder.refusal("n.csv", b"\xff\xfei\0d\0"), "n.csv: is UTF-16 text, expected text");
    assert_eq!(folder.refusal("n.tsv", b"ab\0"), "n.tsv: is binary data, expected text");
    assert_eq!(folder.refusal("n.csv", b"\n \n"), "n.csv: has no header, expected the names of its columns");
    assert_eq!(folder.refusal("n.csv", &packed(NODES)), "n.csv: is a file packed with gzip, expected text");
    let gz = "n.csv.gz: is not packed with gzip, which its extension .gz says";
    assert_eq!(folder.refusal("n.csv.gz", NODES.as_bytes()), gz);
    let parquet = "n.parquet: is not a Parquet file, which its extension says";
    assert_eq!(folder.refusal("n.parquet", NODES.as_bytes()), parquet);
    assert!(folder.refusal("n.xlsx", b"PK").starts_with("n.xlsx: is not known to be a table, expected the extension"));
    assert!(folder.refusal("n.parquet.gz", b"x").contains("is not known to be a table"));
    let whole = frame(nodes_frame());
    let cut = "n.parquet: is cut off: a Parquet file ends with `PAR1`";
    assert_eq!(folder.refusal("n.parquet", &whole[..whole.len() / 2]), cut);
    let missing = Table::open(Path::new("no/such.csv"), None).err().unwrap().to_string();
    assert!(missing.starts_with("no/such.csv: cannot open"), "{missing}");
}

#[test]
fn a_packed_table_that_is_cut_off_says_so() {
    let folder = Folder::new();
    let rows: String = (0..5000).map(|i| format!("n{i},{},{}\n", i % 3, i * 7 % 11)).collect();
    let whole = packed(&format!("id,label,x\n{rows}"));
    let nodes = folder.put("nodes.csv.gz", &whole[..whole.len() / 2]);
    let edges = folder.put("edges.csv", b"source,target\n");
    let params = with(params(), |p| {
        p.splits.clear();
        (p.edges, p.nodes) = (FilePath(edges), FilePath(nodes));
    });
    let error = with_job(|job| Tables::read(&params, job)).unwrap_err().to_string();
    assert!(error.contains("nodes.csv.gz, line ") && error.contains("cannot be read: "), "{error}");
}

#[test]
fn damaged_text_gives_a_sound_graph_or_an_error() {
    let files = [EDGES.as_bytes(), NODES.as_bytes()];
    let accepted = testing::survive(10_000, &files, |files| parse(&params(), &files[0], &files[1]));
    assert!(accepted > 500, "{accepted}");
}

#[test]
fn damaged_parquet_gives_a_sound_graph_or_an_error() {
    let (edges, nodes) = (frame(edges_frame()), frame(nodes_frame()));
    let accepted = testing::survive(10_000, &[&edges, &nodes], |files| {
        let table = |name: &str, bytes: &[u8]| parquet::open(Path::new(name), bytes.to_vec());
        with_job(|job| assemble(&params(), table("nodes", &files[1])?, table("edges", &files[0])?, job))
    });
    assert!(accepted > 10, "{accepted}");
}
