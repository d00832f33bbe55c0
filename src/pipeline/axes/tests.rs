//! The laws of sweeps, on sweeps alone: no stage is looked up and no plan is made.

use std::path::Path;

use super::*;
use crate::pipeline::document::of_text;
use crate::pipeline::file;
use crate::pipeline::source::Sources;
use crate::pipeline::yaml;

/// Expands a sweep as written, with `--set` options, and returns it with the messages of its problems.
fn expand_with(sweep: &str, set: &[(&str, &str)]) -> (Sweep, Vec<String>) {
    let mut sources = Sources::default();
    let text = format!("{{ppgnn: 1, name: s, stages: {{}}, sweep: {sweep}}}");
    let document = of_text("s.yaml", &text, &mut sources).unwrap();
    let mut problems = Problems::default();
    let forced: Vec<Forced> = set
        .iter()
        .map(|(path, value)| {
            let (stage, param) = path.split_once('.').unwrap();
            let source = sources.add("--set", Path::new("."), value);
            let value = yaml::read(&sources, source, &mut problems).unwrap();
            let setting = Setting { stage: stage.into(), param: param.into(), span: Default::default(), value };
            Forced { setting, only: Vec::new() }
        })
        .collect();
    let file = file::read(&document.root, &ppgnn_stages::built_in(), &mut problems);
    let sweep = Sweep::expand(file.sweep, &forced, &mut problems);
    let found = problems.into_error(&sources).problems;
    (sweep, found.into_iter().map(|p| format!("{} ({})", p.message, p.help.unwrap_or_default())).collect())
}

/// The points of a sound sweep, each by the tags of its values.
fn points(sweep: &str) -> Vec<String> {
    let (sweep, problems) = expand_with(sweep, &[]);
    assert_eq!(problems, [""; 0]);
    names(&sweep)
}

fn names(sweep: &Sweep) -> Vec<String> {
    let name = |point: &Vec<usize>| {
        let tags: Vec<_> = sweep.axes.iter().zip(point).filter_map(|(axis, value)| axis.tag(*value)).collect();
        tags.join(" ")
    };
    sweep.points.iter().map(name).collect()
}

fn problems(sweep: &str) -> Vec<String> {
    expand_with(sweep, &[]).1
}

#[test]
fn without_axes_there_is_one_point() {
    assert_eq!(points("{}"), [""]);
    assert_eq!(points("{axes: {}}"), [""]);
}

#[test]
fn a_grid_has_every_combination_once_the_last_axis_fastest() {
    let grid = points("{axes: {load.dataset: [a, b], train.lr: [0.1, 0.2], train.deep: [true, false]}}");
    assert_eq!(grid[..3], ["a lr=0.1 deep=true", "a lr=0.1 deep=false", "a lr=0.2 deep=true"]);
    assert_eq!(grid.len(), 8);
    assert_eq!(grid.iter().collect::<HashSet<_>>().len(), 8);
}

#[test]
fn a_labelled_axis_has_its_labels_and_sets_what_each_one_says() {
    let (sweep, _) = expand_with("{axes: {method: {A: {train.lr: 1, train.k: 2}, B: {}}}}", &[]);
    assert_eq!(names(&sweep), ["A", "B"]);
    let settings = |value: usize| -> Vec<_> {
        let of = sweep.axes[0].values[value].settings.iter();
        of.map(|s| format!("{}.{}={}", s.stage, s.param, s.value.value())).collect()
    };
    assert_eq!(settings(0), ["train.lr=1", "train.k=2"]);
    assert_eq!(settings(1), [""; 0]);
}

#[test]
fn zipped_axes_advance_together_and_other_axes_form_a_grid_with_them() {
    let zipped = points("{axes: {t.a: [1, 2], t.b: [x, y], t.c: [5, 6]}, zip: [[t.a, t.c]]}");
    assert_eq!(zipped, ["a=1 x c=5", "a=1 y c=5", "a=2 x c=6", "a=2 y c=6"]);
}

#[test]
fn a_zip_of_unequal_lengths_or_of_an_axis_twice_is_refused() {
    let axes = "axes: {t.a: [1, 2], t.b: [1, 2, 3]}";
    assert_eq!(
        problems(&format!("{{{axes}, zip: [[t.a, t.b]]}}")),
        ["axis `t.b` has 3 values, the first of its group 2 (axes under one `zip` need the same number of values)"]
    );
    assert_eq!(problems(&format!("{{{axes}, zip: [[t.a], [a]]}}")), ["axis `a` is in `zip` twice ()"]);
}

#[test]
fn exclude_drops_the_points_that_have_all_its_values() {
    let axes = "axes: {t.a: [1, 2], t.b: [5, 6, 7]}";
    assert_eq!(points(&format!("{{{axes}, exclude: [{{a: 1, b: [5, 7]}}, {{t.b: 6}}]}}")), ["a=2 b=5", "a=2 b=7"]);
    // An entry that names no axis would match every point; it is taken to mean none.
    assert_eq!(points(&format!("{{{axes}, exclude: [{{}}]}}")).len(), 6);
}

#[test]
fn numbers_are_found_by_value_and_not_by_spelling() {
    assert_eq!(points("{axes: {t.lr: [0.1, 100]}, exclude: [{lr: 1.0e-1}]}"), ["lr=100"]);
    assert_eq!(points("{axes: {t.lr: [0.1, 100]}, include: [{lr: 100.0}]}").len(), 2);
}

#[test]
fn include_adds_points_with_all_grid_values_of_the_axes_it_leaves_out() {
    let both = points("{axes: {t.a: [1, 2], t.b: [5]}, include: [{b: 6}, {a: 3}]}");
    // The second entry does not take the 6 that only the first one names.
    assert_eq!(both, ["a=1 b=5", "a=2 b=5", "a=1 b=6", "a=2 b=6", "a=3 b=5"]);
}

#[test]
fn include_brings_back_what_exclude_dropped_and_adds_no_point_twice() {
    let sweep = "{axes: {t.a: [1, 2]}, exclude: [{a: 2}], include: [{a: [1, 2]}, {a: 2}]}";
    assert_eq!(points(sweep), ["a=1", "a=2"]);
}

#[test]
fn an_included_axis_leaves_its_zip_group() {
    let sweep = "{axes: {t.a: [1, 2], t.b: [5, 6]}, zip: [[t.a, t.b]], include: [{a: 1, b: 6}]}";
    assert_eq!(points(sweep), ["a=1 b=5", "a=2 b=6", "a=1 b=6"]);
}

#[test]
fn only_an_axis_over_a_parameter_gets_new_values_by_include() {
    assert_eq!(
        problems("{axes: {method: {A: {}, B: {}}}, include: [{method: C}]}"),
        ["axis `method` has no value `C` (did you mean `A`?)"]
    );
}

#[test]
fn when_says_which_points_it_is_about() {
    let (sweep, problems) =
        expand_with("{axes: {t.a: [1, 2, 3], t.b: [x, y]}, when: [{match: {a: [1, 3], b: x}, set: {t.c: 9}}]}", &[]);
    assert_eq!(problems, [""; 0]);
    let matching = sweep.points.iter().filter(|p| holds(&sweep.when[0].matches, p)).count();
    assert_eq!((matching, sweep.points.len()), (2, 6));
    assert_eq!(sweep.when[0].settings[0].param, "c");
}

#[test]
fn an_axis_of_some_points_has_no_value_elsewhere_and_repeats_nothing() {
    let sweep = "{axes: {t.m: [p, q]}, when: [{match: {m: q}, axes: {t.order: [2, 5]}}]}";
    assert_eq!(points(sweep), ["p", "q order=2", "q order=5"]);
}

#[test]
fn an_option_reduces_the_axis_over_its_parameter_to_one_value() {
    let (sweep, problems) = expand_with("{axes: {t.a: [1, 2], t.b: [5, 6]}}", &[("t.a", "3"), ("t.a", "4")]);
    assert_eq!(problems, [""; 0]);
    assert_eq!(names(&sweep), ["a=4 b=5", "a=4 b=6"], "the last option wins");
}

#[test]
fn two_axes_over_one_parameter_are_refused() {
    assert_eq!(
        problems("{axes: {t.a: [1], m: {A: {t.a: 1}, B: {t.a: 2}}}}"),
        ["axes `t.a` and `m` both set `t.a` (let one axis set it)"]
    );
}

#[test]
fn when_may_not_set_what_an_axis_varies() {
    assert_eq!(
        problems("{axes: {t.a: [1, 2]}, when: [{match: {a: 1}, set: {t.a: 7}}]}"),
        ["`t.a` is already varied by axis `t.a` (leave points out with `exclude`, or add them with `include`)"]
    );
}

#[test]
fn a_short_name_stands_for_an_axis_unless_two_share_it() {
    assert_eq!(points("{axes: {load.seed: [1, 2], train.lr: [5]}, exclude: [{seed: 1}]}"), ["seed=2 lr=5"]);
    assert_eq!(
        problems("{axes: {load.seed: [1, 2], train.seed: [5]}, exclude: [{seed: 1}]}"),
        ["unknown axis `seed` (did you mean `load.seed`?)"]
    );
    assert_eq!(problems("{exclude: [{seed: 1}]}"), ["unknown axis `seed` (the pipeline has no `sweep.axes`)"]);
}

#[test]
fn a_grid_beyond_all_reason_is_refused_before_it_is_built() {
    // 1001² points, and 101¹⁰, whose number does not fit into 64 bits.
    for (axes, length) in [(2, 1001), (10, 101)] {
        let values: Vec<String> = (0..length).map(|i| i.to_string()).collect();
        let axes: Vec<String> = (0..axes).map(|i| format!("t.p{i}: [{}]", values.join(", "))).collect();
        let (sweep, problems) = expand_with(&format!("{{axes: {{{}}}}}", axes.join(", ")), &[]);
        assert_eq!(
            problems,
            ["the grid has more than 1000000 points (shorten an axis, or let axes advance together with `zip`)"]
        );
        assert!(sweep.points.is_empty());
    }
}
