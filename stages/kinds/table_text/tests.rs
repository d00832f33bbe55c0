//! What the formats show of a table.

use super::*;
use crate::kinds::table::Absent;
use crate::kinds::table::tests::table;

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

Test accuracy in %: mean ± population (n) standard deviation over splits, n = 2 per cell. Best in a column **bold**, \
second best <ins>underlined</ins> (larger is better).
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
    let csv = table(&[(0, 0, 0.5), (2, 0, 0.75), (0, 1, 0.1)]).csv();
    let expected = "row,column,metric,mean,std,n,rank,reference-mean,reference-std,note\n\
        gcn_a,texas,test-accuracy,0.5,0.0125,2,2,,,\n\
        \"say \"\"hi\"\",\nyou\",texas,test-accuracy,0.75,0.0125,2,1,,,\n\
        gcn_a,a|b,test-accuracy,0.1,0.0125,2,,,,\n";
    assert_eq!(csv, expected);
}

#[test]
fn published_values_and_absent_cells_stand_beside_ours() {
    let mut table = table(&[(0, 0, 0.5), (1, 0, 0.75)]);
    table.reference_title = "paper".into();
    let reference = |mean, std, note: &str| Some(Reference { mean, std, note: note.into() });
    table.cells[0].reference = reference(Some(0.561), Some(0.03), "*");
    table.cells[1].reference = reference(Some(0.75), None, "");
    let why = "d: not here; fetch d";
    table.absent.push(Absent { row: 0, column: 1, why: why.into(), reference: reference(None, None, "OOM") });
    table.absent.push(Absent { row: 1, column: 1, why: why.into(), reference: None });
    let markdown = table.markdown();
    for line in [
        "| gcn\\_a | <ins>50.0 ± 1.2</ins> (56.1\\* ± 3.0, −6.1†) | absent (OOM)<sup>1</sup> |",
        "| 50 % &amp; more | **75.0 ± 1.2** (75.0, +0.0) | absent<sup>1</sup> |",
        "In brackets: paper, and ours minus it. † further than two of its standard deviations.",
        "<sup>1</sup> d: not here; fetch d.\n",
    ] {
        assert!(markdown.contains(line), "{line}\n{markdown}");
    }
    assert_eq!(markdown.matches("d: not here").count(), 1);
    assert!(table.latex().contains("(56.1{*} $\\pm$ 3.0, $-$6.1$^\\dagger$)"), "{}", table.latex());
    assert!(table.csv().contains("gcn_a,texas,test-accuracy,0.5,0.0125,2,2,0.561,0.03,*\n"), "{}", table.csv());
    assert!(table.csv().contains("gcn_a,a|b,test-accuracy,,,0,,,,d: not here; fetch d; OOM\n"), "{}", table.csv());
}
