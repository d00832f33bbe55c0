//! What the README promises: two screens, the table of the quick start, and a graph of one's own from two files to a table.

use crate::guide::{assert_shown, page, project};
use crate::support::{Project, without_notes};

#[test]
fn it_fits_two_screens() {
    let lines = page("README.md").text.lines().count();
    assert!(lines <= 110, "{lines}");
}

#[test]
fn the_table_is_what_the_quick_start_prints() {
    // The quick profile has the same table with other numbers.
    let printed = project().run(&["run", "pipelines/quickstart.yaml", "--profile", "quick"]).exit(0);
    let readme = page("README.md").text;
    let begin = readme.find("**Test accuracy on two generated graphs**").unwrap();
    let end = begin + readme[begin..].find("\n\nThe two graphs").unwrap();
    assert_shown("README.md", &without_notes(&readme[begin..end]), &without_notes(&printed.stdout));
}

#[test]
fn a_graph_of_ones_own_goes_from_two_files_to_a_table() {
    let pipeline = page("docs/data.md").blocks("yaml").into_iter().find(|b| b.contains("format: tables")).unwrap();
    assert!(pipeline.lines().count() < 25);
    // Two camps: friends are mostly of one's own colour, and the score leans with it.
    let (mut people, mut links) = (String::from("id,label,age,posts,score\n"), String::from("source,target\n"));
    for i in 0..60 {
        let (colour, lean) = if i % 2 == 0 { ("blue", 1.0) } else { ("red", -1.0) };
        people += &format!(
            "p{i},{colour},{},{},{}\n",
            20 + i * 7 % 40,
            i * 13 % 17,
            lean * 0.3 + f64::from(i * 31 % 11) / 10.0
        );
        links += &format!("p{i},p{}\np{i},p{}\np{i},p{}\n", (i + 2) % 60, (i + 14) % 60, (i * 5 + 3) % 60);
    }
    let project = Project::new().file("mine.yaml", &pipeline).file("people.csv", &people).file("links.csv", &links);
    let run = project.run(&["run", "mine.yaml", "--set", "train.epochs=30"]).exit(0);
    let run = run.prints("| model / dataset | mine |").prints("| mlp | ").prints("| pp-gnn | ");
    assert!(run.stdout.contains("n = 10 per cell"), "{}", run.stdout);
    let described = project.run(&["data", "describe", "mine", "--in", "mine.yaml"]).exit(0);
    described.prints("nodes                  60").prints("worst overlap").prints("; threads ");
    let described = project.run(&["data", "describe", "mine", "--in", "mine.yaml", "--json"]).exit(0).json();
    let spectrum = &described["spectra"][0];
    assert!(spectrum["threads"].is_u64() && spectrum["measured"].is_object(), "{spectrum}");
}
