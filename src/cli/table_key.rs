//! The key of a table in its text, so that a printed table can be found again: `ppgnn show KEY` tells what it was made of.
//!
//! It is put in where a table is published or printed. The artifact cannot hold its own key.

use crate::plan::ArtifactKey;

/// Returns the text of a table with its short key at the end of the caption. Formats that programs read stay as they are.
pub fn keyed(ending: &str, text: String, key: &ArtifactKey) -> String {
    let short = key.short();
    match ending {
        "md" => format!("{} Table `{short}`.\n", text.trim_end()),
        "tex" => {
            let caption =
                text.lines().position(|line| line.trim_start().starts_with("\\caption{") && line.ends_with('}'));
            let line = |(at, line): (usize, &str)| match line.strip_suffix('}') {
                Some(open) if Some(at) == caption => format!("{open} Table \\texttt{{{short}}}.}}\n"),
                _ => format!("{line}\n"),
            };
            let keyed: String = text.lines().enumerate().map(line).collect();
            if caption.is_some() { keyed } else { format!("{keyed}% Table {short}\n") }
        }
        _ => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn people_find_the_key_in_the_caption_and_programs_are_left_alone() {
        let key: ArtifactKey = "9428a46ccb092221d8bb7eb8943527370d81f36800ae50839ae4dd4ddea067fe".parse().unwrap();
        let with = |ending, text: &str| keyed(ending, text.to_owned(), &key);
        assert_eq!(with("md", "| a |\n\nBest **bold**.\n"), "| a |\n\nBest **bold**. Table `9428a46ccb09`.\n");
        assert_eq!(
            with("tex", "\\begin{table}\n  \\caption{A \\textbf{b}.}\n  \\begin{tabular}{l}\n"),
            "\\begin{table}\n  \\caption{A \\textbf{b}. Table \\texttt{9428a46ccb09}.}\n  \\begin{tabular}{l}\n"
        );
        assert_eq!(with("tex", "\\toprule\n"), "\\toprule\n% Table 9428a46ccb09\n");
        assert_eq!(with("csv", "a,b\n"), "a,b\n");
    }
}
