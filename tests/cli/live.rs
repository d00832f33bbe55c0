//! Runs on a terminal: through a pseudo-terminal of `script` (util-linux), read by a terminal of a few lines.

use std::io::{Read as _, Write as _};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::support::{Project, TINY};

/// A pipeline whose training takes a few seconds, so that there is something to see.
fn slow() -> String {
    TINY.replace("epochs: 5,", "epochs: 12000, window: 0,")
}

/// Starts the program on a terminal of a given size; `None`, said aloud, where there is no `script`.
fn on_terminal(project: &Project, args: &str, (columns, lines): (usize, usize), env: &[(&str, &str)]) -> Option<Child> {
    if Command::new("script").arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status().is_err() {
        let test = std::thread::current().name().unwrap_or("a test").to_owned();
        let line = format!("skipped: {test}: `script` (util-linux) is not installed\n");
        std::io::stderr().write_all(line.as_bytes()).unwrap();
        return None;
    }
    let program = env!("CARGO_BIN_EXE_ppgnn");
    let mut command = Command::new("script");
    command.args(["-qfec", &format!("stty cols {columns} rows {lines}; exec '{program}' {args}"), "/dev/null"]);
    command.current_dir(project.path(".")).env("TERM", "xterm").env_remove("NO_COLOR").env_remove("PPGNN_ARTIFACTS");
    command.envs(env.iter().copied());
    Some(command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::inherit()).spawn().unwrap())
}

/// Reads until a text has come, at most a minute.
#[track_caller]
fn read_until(child: &mut Child, text: &str) -> String {
    let (begun, mut all, mut bytes) = (Instant::now(), Vec::new(), [0; 4096]);
    let out = child.stdout.as_mut().unwrap();
    while begun.elapsed() < Duration::from_secs(60) {
        let count = out.read(&mut bytes).unwrap();
        all.extend(&bytes[..count]);
        if count == 0 || String::from_utf8_lossy(&all).contains(text) {
            break;
        }
    }
    String::from_utf8_lossy(&all).into_owned()
}

/// Reads to the end, and returns the exit code as well.
fn rest(mut child: Child) -> (String, i32) {
    let mut bytes = Vec::new();
    child.stdout.take().unwrap().read_to_end(&mut bytes).unwrap();
    (String::from_utf8_lossy(&bytes).into_owned(), child.wait().unwrap().code().unwrap_or(-1))
}

/// What a terminal shows after some output, and where its cursor is. It knows what the program uses, and refuses the rest.
fn screen(output: &str) -> (Vec<String>, (usize, usize)) {
    let (mut lines, mut row, mut column) = (vec![String::new()], 0, 0);
    let mut chars = output.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '\r' => column = 0,
            '\n' => {
                row += 1;
                if row == lines.len() {
                    lines.push(String::new());
                }
            }
            '\x1b' => {
                assert_eq!(chars.next(), Some('['));
                let mut number = String::new();
                let end = loop {
                    match chars.next().unwrap() {
                        digit if digit.is_ascii_digit() || digit == ';' => number.push(digit),
                        end => break end,
                    }
                };
                match end {
                    'm' => {}
                    'A' => row -= number.parse::<usize>().unwrap(),
                    'K' => lines[row] = lines[row].chars().take(column).collect(),
                    other => panic!("unexpected sequence {number}{other}"),
                }
            }
            c => {
                let mut line: Vec<char> = lines[row].chars().collect();
                line.resize(line.len().max(column + 1), ' ');
                line[column] = c;
                lines[row] = line.into_iter().collect();
                column += 1;
            }
        }
    }
    (lines, (row, column))
}

#[test]
fn a_terminal_sees_the_table_fill_in_and_is_left_clean() {
    let project = Project::new().file("tiny.yaml", &slow());
    for (columns, store) in [(80, "wide"), (44, "narrow")] {
        let Some(mut child) =
            on_terminal(&project, &format!("run tiny.yaml -j 1 --artifacts {store}"), (columns, 30), &[])
        else {
            return;
        };
        let mut output = read_until(&mut child, "n=2");
        // To the end of a frame with a training run: between two nodes nothing runs.
        output += &read_until(&mut child, "  train ");
        output += &read_until(&mut child, "\n\r\x1b[K");
        let (shown, _) = screen(output.rsplit_once("\r\x1b[K").unwrap().0);
        let text = shown.join("\n");
        assert!(shown.iter().all(|line| line.chars().count() <= columns), "{text}");
        for part in ["accuracy\n", "± ", "n=2", " · ", "19 nodes, ", "  train "] {
            assert!(text.contains(part), "`{part}` is not on the screen:\n{text}");
        }
        assert!(!text.contains(" Ran "), "only failures and warnings scroll:\n{text}");
        let (end, code) = rest(child);
        assert_eq!(code, 0, "{end}");
        let (last, cursor) = screen(&(output + &end));
        let text = last.join("\n");
        assert!(!text.contains("19 nodes, "), "the view is gone:\n{text}");
        assert!(text.contains("Summary 19 nodes: 0 cached, 19 ran") && text.contains("method / "), "{text}");
        assert!(!text.contains("| :---") && !text.contains("**") && !text.contains("<ins>"), "{text}");
        assert_eq!(cursor.1, 0, "{text}");
    }
}

#[test]
fn lines_alone_are_shown_where_a_view_is_not_wanted_or_not_possible() {
    let project = Project::tiny();
    for (at, (options, term)) in [("--no-live", "xterm"), ("--live", "dumb"), ("-q", "xterm")].iter().enumerate() {
        let args = format!("run tiny.yaml {options} --artifacts store-{at}");
        let env = [("TERM", *term), ("NO_COLOR", "1")];
        let Some(child) = on_terminal(&project, &args, (80, 30), &env) else { return };
        let (output, code) = rest(child);
        assert_eq!((code, output.contains("\x1b[")), (0, false), "{options}: {output}");
        assert_eq!(output.contains(" Ran ["), *options != "-q", "{options}: {output}");
        assert_eq!(output.contains("--live does nothing"), *term == "dumb", "{options}: {output}");
    }
}

#[test]
fn ctrl_c_leaves_a_clean_terminal() {
    let project = Project::new().file("tiny.yaml", &slow());
    let Some(mut child) = on_terminal(&project, "run tiny.yaml", (60, 20), &[]) else { return };
    let mut output = read_until(&mut child, "  train ");
    child.stdin.as_mut().unwrap().write_all(b"\x03").unwrap();
    let (end, code) = rest(child);
    output += &end;
    assert_eq!(code, 130, "{output}");
    // The terminal itself writes `^C` where the cursor is.
    let (last, cursor) = screen(&output);
    let text = last.join("\n");
    assert!(text.contains("Interrupted stopping") && text.contains("; interrupted"), "{text}");
    assert!(!text.contains("19 nodes, ") && !text.contains("^C"), "{text}");
    assert_eq!(cursor.1, 0, "{text}");
}

#[test]
fn a_table_is_drawn_on_a_terminal_and_markdown_elsewhere() {
    let project = Project::tiny();
    project.run(&["run", "tiny.yaml"]).exit(0).prints("| :--- | ---: |");
    project.run(&["table", "tiny.yaml"]).exit(0).prints("| :--- | ---: |");
    let Some(child) = on_terminal(&project, "table tiny.yaml", (80, 30), &[]) else { return };
    let (drawn, _) = rest(child);
    assert!(drawn.contains("\x1b[1m") && !drawn.contains('|') && !drawn.contains("**"), "{drawn}");
    let (lines, _) = screen(&drawn);
    let at = |line: &String| line.chars().position(|c| c == '±');
    let rows: Vec<_> = lines.iter().filter(|line| line.contains("GNN") || line.contains("MLP")).map(at).collect();
    assert!(rows.len() == 2 && rows[0].is_some() && rows[0] == rows[1], "{lines:?}");
    let markdown = rest(on_terminal(&project, "table tiny.yaml --format md", (80, 30), &[]).unwrap()).0;
    assert!(markdown.contains("| :--- | ---: |"), "{markdown}");
}
