//! `ppgnn report`: everything about a pipeline's results in one HTML file.

use std::collections::BTreeSet;

use base64::Engine as _;

use crate::support::Project;

const REPORT: &str = "artifacts/results/tiny/report.html";

/// The values of an attribute, wherever it stands in a page.
fn attributes<'p>(page: &'p str, name: &str) -> Vec<&'p str> {
    let start = format!(" {name}=\"");
    page.match_indices(&start).map(|(at, _)| page[at + start.len()..].split('"').next().unwrap()).collect()
}

fn ran() -> (Project, String) {
    let project = Project::tiny();
    project.run(&["run", "tiny.yaml"]).exit(0);
    let page = std::fs::read_to_string(project.path(REPORT)).unwrap();
    (project, page)
}

#[test]
fn a_run_leaves_a_report_with_what_table_and_trace_tell() {
    let (project, page) = ran();
    let traced = project.run(&["trace", "tiny.yaml", "PP-GNN", "two"]).exit(0).stdout;
    let article = page.split("<article ").find(|part| part.contains(">PP-GNN, two of accuracy<")).unwrap();
    for line in traced.lines().filter(|line| line.starts_with("  ") && !line.contains("split")) {
        for word in line.split_whitespace() {
            let word = word.replace('<', "&lt;");
            assert!(article.contains(&word), "`{word}` of `{line}` is not in the evidence");
        }
    }
    let shown = traced.lines().nth(1).unwrap().split(": ").nth(1).unwrap().split(',').next().unwrap();
    let cell = page.split("href=\"#t0r1c1\">").nth(1).unwrap().split("</a>").next().unwrap();
    assert!(cell.contains(&format!(">{shown}<")), "{shown} is not {cell}");
    for part in ["tables", "data", "settings", "stages", "again"] {
        assert!(page.contains(&format!("<section id=\"{part}\"")), "no {part}");
    }
    assert!(page.contains("ppgnn run tiny.yaml") && page.contains("load.dataset: [one, two]"));
}

#[test]
fn a_report_needs_nothing_else_and_all_its_links_lead_somewhere() {
    let (_, page) = ran();
    let ids = attributes(&page, "id");
    let unique: BTreeSet<&str> = ids.iter().copied().collect();
    assert_eq!(unique.len(), ids.len(), "an id is there twice");
    for link in attributes(&page, "href").into_iter().chain(attributes(&page, "src")) {
        let inside = link.strip_prefix('#').is_some_and(|id| unique.contains(id));
        assert!(inside || link.starts_with("data:"), "{link}");
    }
    for label in attributes(&page, "aria-labelledby") {
        assert!(unique.contains(label), "{label}");
    }
    assert!(!page.contains("@import") && !page.contains("url("));
}

#[test]
fn the_same_store_has_the_same_report_and_a_second_run_leaves_it_alone() {
    let (project, page) = ran();
    let changed = || std::fs::metadata(project.path(REPORT)).unwrap().modified().unwrap();
    let before = changed();
    project.run(&["run", "tiny.yaml"]).exit(0);
    assert_eq!(changed(), before);
    let again = project.run(&["report", "tiny.yaml", "--output", "-"]).exit(0);
    assert_eq!(again.stdout, page);
    let path = project.run(&["report", "tiny.yaml"]).exit(0).stdout;
    assert_eq!(path.trim_end(), REPORT);
    // What says the same in other words is another report.
    std::fs::write(project.path("tiny.yaml"), crate::support::TINY.to_owned() + "# a remark\n").unwrap();
    project.run(&["run", "tiny.yaml"]).exit(0);
    assert!(std::fs::read_to_string(project.path(REPORT)).unwrap().contains("# a remark"));
}

#[test]
fn figures_stand_in_the_report_with_the_numbers_behind_them() {
    let figures = "figures: { classes: { kind: confusion, each: load.dataset, where: { method: MLP } } }\nprofiles:";
    let project = Project::new().file("tiny.yaml", &crate::support::TINY.replace("profiles:", figures));
    project.run(&["run", "tiny.yaml"]).exit(0);
    let page = std::fs::read_to_string(project.path(REPORT)).unwrap();
    let picture = std::fs::read(project.path("artifacts/results/tiny/classes.svg")).unwrap();
    let encoded = base64::engine::general_purpose::STANDARD.encode(picture);
    assert!(attributes(&page, "src").contains(&&*format!("data:image/svg+xml;base64,{encoded}")));
    assert!(attributes(&page, "download").contains(&"classes.csv"));
}

#[test]
fn a_report_of_what_was_not_computed_says_so() {
    let project = Project::tiny();
    let page = project.run(&["report", "tiny.yaml", "--output", "-"]).exit(0).stdout;
    assert!(page.contains("table accuracy: not computed yet"));
    assert!(!project.path("artifacts").exists());
    project.run(&["run", "tiny.yaml", "evaluate/one/MLP"]).exit(0);
    project.run(&["report", "tiny.yaml", "--output", "part.html"]).exit(0).prints("part.html");
    let page = std::fs::read_to_string(project.path("part.html")).unwrap();
    assert!(page.contains("Not complete: of 4 runs") && page.contains("no value: not computed yet"), "{page}");
    project.run(&["report", "tiny.yaml", "--output", "nowhere/x.html"]).exit(2).says("cannot write `nowhere/x.html`");
}

#[test]
fn every_name_that_a_user_can_choose_is_shown_and_never_read_as_markup() {
    let evil = "</script><img src=x onerror=evil()>\\\"'&\\u202Ex\\u0007";
    let quoted = format!("\"{evil}\"");
    let text = crate::support::TINY
        .replace("  one: {", &format!("  {quoted}: {{"))
        .replace("load: { params: { dataset: one } }", &format!("load: {{ params: {{ dataset: {quoted} }} }}"))
        .replace("[one, two]", &format!("[{quoted}, two]"))
        .replace("      MLP:", &format!("      {quoted}:"))
        .replace("  accuracy: {", &format!("  accuracy: {{ title: {quoted}, notes: [{quoted}],"));
    let project = Project::new().file("a<b>\u{202e}.yaml", &text);
    let page = project.run(&["report", "a<b>\u{202e}.yaml", "--output", "-"]);
    let run = project.run(&["run", "a<b>\u{202e}.yaml"]);
    assert_eq!((page.code, run.code), (0, 0), "{}\n{}", page.stderr, run.stderr);
    let page = project.run(&["report", "a<b>\u{202e}.yaml", "--output", "-"]).exit(0).stdout;
    assert_eq!(page.matches("<script>").count(), 1);
    assert_eq!(page.matches("</script>").count(), 1);
    assert!(!page.contains("<img") && !page.contains("<b>"));
    assert!(page.matches("&lt;/script&gt;&lt;img src=x onerror=evil()&gt;&quot;").count() > 10, "{page}");
    assert!(page.contains("\\u{202e}x\\u{7}"));
    assert!(!page.chars().any(|c| c.is_control() && c != '\n' || matches!(c, '\u{202a}'..='\u{202e}')));
}
