//! What the formats show of a table.

use super::*;
use crate::kinds::comparison::{Comparison, RankTests, Ranking, Test, Untested};
use crate::kinds::table::tests::table;
use crate::kinds::table::{Absent, Spread};

#[test]
fn markdown_marks_escapes_and_explains() {
    let table = table(&[(0, 0, 0.5), (1, 0, 0.75), (2, 0, 0.25), (0, 1, 0.1)]);
    let expected = "\
**Main \\| results**

| model / data | texas | a\\|b |
| :--- | ---: | ---: |
| gcn\\_a | <ins>50.0 ± 1.2</ins> | 10.0 ± 1.2 |
| 50 % &amp; more | **75.0 ± 1.2** | – |
| say \"hi\", you | 25.0 ± 1.2 | – |

Test accuracy in %: mean ± population (n) standard deviation over splits, n = 2 per cell. Best in a column **bold** if it \
is better than every other, else <ins>underlined</ins> with all that are not shown to be worse (larger is better): paired \
t-tests over splits, corrected for their overlap (Nadeau and Bengio) and for the comparisons of the column (Holm), \
p &lt; 0.05, n = 2 splits.
";
    assert_eq!(table.markdown(), expected);
}

#[test]
fn latex_marks_and_escapes() {
    let latex = table(&[(0, 0, 0.5), (1, 0, 0.75), (0, 1, 0.1)]).latex();
    for line in [
        "  \\caption{Main \\textbar{} results. Test accuracy in \\%: mean $\\pm$ population (n) standard",
        "  \\begin{tabular}{lrr}\n    \\toprule\n     & \\multicolumn{2}{c}{data} \\\\\n",
        "    model & texas & a\\textbar{}b \\\\\n    \\midrule\n",
        "    gcn\\_a & \\underline{50.0 $\\pm$ 1.2} & 10.0 $\\pm$ 1.2 \\\\\n",
        "    50 \\% \\& more & \\textbf{75.0 $\\pm$ 1.2} & -- \\\\\n",
        "    \\bottomrule\n  \\end{tabular}\n\\end{table}\n",
    ] {
        assert!(latex.contains(line), "{line}\n{latex}");
    }
}

#[test]
fn csv_has_plain_numbers_and_quotes_what_it_must() {
    let mut table = table(&[(0, 0, 0.5), (2, 0, 0.75), (0, 1, 0.1)]);
    table.cells[0].test = Some(Test { difference: 0.25, t: Some(2.0), p: 0.125, corrected: 0.25 });
    table.cells[2].interval = Some([0.0625, 0.125]);
    let expected = "row,column,metric,mean,std,n,low,high,mark,p-value,reference-mean,reference-std,borrowed,verdict,note\n\
        gcn_a,texas,test-accuracy,0.5,0.0125,2,,,not-worse,0.25,,,,,\n\
        \"say \"\"hi\"\",\nyou\",texas,test-accuracy,0.75,0.0125,2,,,best,,,,,,\n\
        gcn_a,a|b,test-accuracy,0.1,0.0125,2,0.0625,0.125,,,,,,,\n";
    assert_eq!(table.csv(), expected);
}

#[test]
fn published_values_and_absent_cells_stand_beside_ours() {
    let mut table = table(&[(0, 0, 0.5), (1, 0, 0.75), (2, 0, 0.625)]);
    table.reference_title = "paper".into();
    let why = "d: not here; fetch d";
    table.absent.push(Absent { row: 0, column: 1, why: why.into(), reference: None });
    table.absent.push(Absent { row: 1, column: 1, why: why.into(), reference: None });
    let reference = |mean, std, note: &str| Some(Reference { mean, std, note: note.into() });
    table.set_references(|row, column| match (row, column) {
        (0, 0) => reference(Some(0.561), Some(0.03), "*"),
        (1, 0) => reference(Some(0.75), None, ""),
        (2, 0) => reference(Some(0.5), Some(0.0625), ""),
        (0, 1) => reference(None, None, "OOM"),
        _ => None,
    });
    let markdown = table.markdown();
    for line in [
        "| gcn\\_a | 50.0 ± 1.2 (56.1\\* ± 3.0, −6.1†) | absent (OOM)<sup>1</sup> |",
        "| 50 % &amp; more | **75.0 ± 1.2** (75.0, +0.0) | absent<sup>1</sup> |",
        "| say \"hi\", you | <ins>62.5 ± 1.2</ins> (50.0 ± 6.2, +12.5‡) | – |",
        "In brackets: paper, and ours minus it. ‡ further than one, † further than two of its standard deviations. \\* borrowed \
         there from another publication. Of 2 cells with a printed spread 0 are within one, 1 within two. 1 cell is not comparable, \
         without a printed spread or value.",
        "<sup>1</sup> d: not here; fetch d.\n",
    ] {
        assert!(markdown.contains(line), "{line}\n{markdown}");
    }
    assert_eq!(markdown.matches("d: not here").count(), 1);
    assert!(table.latex().contains("(56.1{*} $\\pm$ 3.0, $-$6.1$^\\dagger$)"), "{}", table.latex());
    assert!(table.latex().contains("+12.5$^\\ddagger$)"), "{}", table.latex());
    let csv = table.csv();
    for line in [
        "gcn_a,texas,test-accuracy,0.5,0.0125,2,,,,,0.561,0.03,true,outside,*\n",
        "50 % & more,texas,test-accuracy,0.75,0.0125,2,,,best,,0.75,,false,no-printed-spread,\n",
        ",texas,test-accuracy,0.625,0.0125,2,,,not-worse,,0.5,0.0625,false,within-two,\n",
        "gcn_a,a|b,test-accuracy,,,0,,,,,,,false,,d: not here; fetch d; OOM\n",
    ] {
        assert!(csv.contains(line), "{line}\n{csv}");
    }
}

fn untested(row: usize, why: &str) -> Untested {
    Untested { row, why: why.into() }
}

#[test]
fn a_caption_says_what_was_not_tested_and_why() {
    let mut table = table(&[(0, 0, 0.5), (1, 0, 0.75), (2, 0, 0.25), (0, 1, 0.1), (1, 1, 0.2)]);
    table.comparisons[0] =
        Comparison { tested: 1, untested: vec![untested(2, "other splits")], ..table.comparisons[0].clone() };
    let single =
        Comparison { tested: 0, untested: vec![untested(0, "a single split")], ..table.comparisons[1].clone() };
    table.comparisons[1] = single.clone();
    let markdown = table.markdown();
    let expected = "n = 2 splits. Not tested: a\\|b (a single split); say \"hi\", you in texas (other splits).";
    assert!(markdown.contains(expected), "{markdown}");
    table.comparisons = vec![single];
    let markdown = table.markdown();
    let expected =
        "Best in a column <ins>underlined</ins> (larger is better); no test says by how much. Not tested: a\\|b (a";
    assert!(markdown.contains(expected), "{markdown}");
    assert!(!markdown.contains("Holm"), "{markdown}");
}

#[test]
fn intervals_stand_instead_of_deviations() {
    let mut table = table(&[(0, 0, 0.5), (1, 0, 0.75)]);
    (table.interval, table.std) = (Interval::Bootstrap, Spread::Sample);
    table.cells[0].interval = Some([0.475, 0.5125]);
    let markdown = table.markdown();
    // The other cell has a single split.
    assert!(markdown.contains("| <ins>50.0 [47.5, 51.2]</ins> |") && markdown.contains("| **75.0** |"), "{markdown}");
    let caption =
        "Test accuracy in %: mean and 95 % bootstrap interval (percentiles of 10000 samples of the splits) over";
    assert!(markdown.contains(caption), "{markdown}");
    assert!(!markdown.contains("deviation"), "{markdown}");
}

#[test]
fn average_ranks_are_a_last_column_in_every_format() {
    let mut table = table(&[(0, 0, 0.5), (1, 0, 0.75), (0, 1, 0.25), (1, 1, 0.1)]);
    let tests = RankTests { chi_square: 1.0, p: 0.3173, f: Some(1.0), f_p: 0.0004, critical_difference: 1.386 };
    let averages = vec![Some(1.5), Some(1.5), None];
    table.ranking = Some(Ranking { columns: vec![0, 1], averages, tests: Some(tests) });
    let markdown = table.markdown();
    for line in [
        "| model / data | texas | a\\|b | average rank |\n| :--- | ---: | ---: | ---: |\n",
        "| gcn\\_a | <ins>50.0 ± 1.2</ins> | **25.0 ± 1.2** | 1.50 |\n",
        "| say \"hi\", you | – | – | – |\n",
        "Average rank over 2 columns, 1 for the best: Friedman p = 0.317, by F of Iman and Davenport p &lt; 0.001; ranks further \
         apart than 1.39 differ (Nemenyi, 0.05).",
    ] {
        assert!(markdown.contains(line), "{line}\n{markdown}");
    }
    let latex = table.latex();
    for line in
        ["\\begin{tabular}{lrrr}", "\\multicolumn{2}{c}{data} &  \\\\", "texas & a\\textbar{}b & average rank \\\\"]
    {
        assert!(latex.contains(line), "{line}\n{latex}");
    }
    assert!(table.csv().ends_with(
        "gcn_a,average rank,average-rank,1.5,,2,,,,,,,,,\n50 % & more,average rank,average-rank,1.5,,2,,,,,,,,,\n"
    ));
    let plain = table.plain("bold", "underlined");
    assert_eq!((&*plain.columns[2], &*plain.rows[0].cells[2].value), ("average rank", "1.50"));
    table.ranking = Some(Ranking { columns: vec![0], averages: vec![None; 3], tests: None });
    let markdown = table.markdown();
    assert!(markdown.contains("| texas | a\\|b |\n") && markdown.contains("No average ranks: they need"), "{markdown}");
}

/// Compiles the LaTeX of a table with everything in it, where there is a TeX to do it.
#[test]
fn latex_compiles() {
    let works = std::process::Command::new("pdflatex").arg("--version").output().is_ok_and(|out| out.status.success());
    if !works {
        eprintln!("skipped: there is no `pdflatex` to compile a table with");
        return;
    }
    let mut table = table(&[(0, 0, 0.5), (1, 0, 0.75), (2, 0, 0.625), (0, 1, 0.25), (1, 1, 0.1)]);
    table.cells[0].notes = vec!["50 % of <what> is ~_^\\ {odd} & #1 $x$".into()];
    table.absent.push(Absent { row: 2, column: 1, why: "[not here]".into(), reference: None });
    table.set_references(|_, _| Some(Reference { mean: Some(0.55), std: Some(0.05), note: "*".into() }));
    let tests = RankTests { chi_square: 1.0, p: 0.3173, f: None, f_p: 0.0004, critical_difference: 1.386 };
    table.ranking = Some(Ranking { columns: vec![0, 1], averages: vec![Some(1.5), None, None], tests: Some(tests) });
    let folder = tempfile::tempdir().unwrap();
    for (name, interval) in [("plain", Interval::None), ("interval", Interval::Bootstrap)] {
        table.interval = interval;
        table.cells[0].interval = Some([0.475, 0.5125]);
        let text = format!(
            "\\documentclass{{article}}\n\\usepackage{{booktabs}}\n\\begin{{document}}\n{}\\end{{document}}\n",
            table.latex()
        );
        std::fs::write(folder.path().join(name).with_extension("tex"), text).unwrap();
        let out = std::process::Command::new("pdflatex")
            .args(["-interaction=nonstopmode", "-halt-on-error", "-no-shell-escape", name])
            .current_dir(folder.path())
            .output()
            .unwrap();
        assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stdout));
    }
}
