//! The page of a report: its parts in order, and where they are.

use maud::{Markup, html};

use super::page::{self, data_uri};
use super::{Figure, Report, dag, evidence, table};

impl Report {
    /// Returns it as one HTML file.
    pub fn html(&self) -> String {
        page::report(&self.title, &self.fingerprint, &self.body())
    }

    /// The parts that it has, by name and title.
    fn parts(&self) -> Vec<(&'static str, &'static str)> {
        let parts = [
            ("tables", "Tables", !self.tables.is_empty()),
            ("figures", "Figures", !self.figures.is_empty()),
            ("data", "Data sets", !self.datasets.is_empty()),
            ("searches", "Searches", !self.searches.is_empty()),
            ("settings", "Settings", !self.settings.is_empty()),
            ("stages", "Stages and nodes", !self.dag.boxes.is_empty()),
            ("again", "Versions and commands", true),
        ];
        parts.into_iter().filter(|(.., there)| *there).map(|(name, title, _)| (name, title)).collect()
    }

    fn body(&self) -> Markup {
        html! {
            a.skip href="#main" { "Skip to the results" }
            header {
                h1 { (self.title) }
                dl.about { @for (name, value) in &self.about { div { dt { (name) } dd { (value) } } } }
                nav.noprint aria-label="Contents" {
                    ul { @for (name, title) in self.parts() { li { a href={ "#" (name) } { (title) } } } }
                }
            }
            main id="main" {
                @if !self.remarks.is_empty() {
                    section.remarks aria-label="Remarks" { @for part in &self.remarks { (evidence::section(part)) } }
                }
                @for (name, title) in self.parts() {
                    section id=(name) aria-labelledby={ "h-" (name) } {
                        h2 id={ "h-" (name) } { (title) }
                        (self.part(name))
                    }
                }
            }
            aside.evidence aria-label="Evidence" {
                @for (at, shown) in self.tables.iter().enumerate() { (evidence::of_table(at, shown)) }
            }
            p.said role="status" aria-live="polite" id="said" {}
        }
    }

    fn part(&self, name: &str) -> Markup {
        match name {
            "tables" => html! {
                p.noprint.hint { "A title sorts by its column. A value opens what is behind it: runs, splits, settings, data and commands." }
                @for (at, shown) in self.tables.iter().enumerate() { (table::table(at, shown)) }
            },
            "figures" => html! { @for one in &self.figures { (figure(one)) } },
            "data" => self.datasets(),
            "searches" => {
                html! { @for one in &self.searches { details { summary { (one.heading) } (evidence::below(one)) } } }
            }
            "settings" => self.settings(),
            "stages" => self.stages(),
            _ => html! {
                ul { @for version in &self.versions { li { (version) } } }
                dl.commands { @for (what, command) in &self.commands { dt { (what) } dd { code { (command) } } } }
            },
        }
    }

    fn datasets(&self) -> Markup {
        html! {
            @for dataset in &self.datasets {
                section {
                    h3 { (dataset.name) }
                    @if dataset.counts.is_empty() { p { "Not in the store." } }
                    dl.about { @for (what, count) in &dataset.counts { div { dt { (what) } dd { (count) } } } }
                    @if !dataset.warnings.is_empty() {
                        ul.warnings { @for warning in &dataset.warnings { li { strong { "Warning: " } (warning) } } }
                    }
                }
            }
        }
    }

    fn settings(&self) -> Markup {
        html! {
            p { "Every parameter with the values that it has in this pipeline. The evidence of a cell has those of its runs." }
            @for stage in &self.settings {
                details {
                    summary { (stage.stage) }
                    dl.settings { @for (name, value) in &stage.parameters { dt { (name) } dd { (value) } } }
                }
            }
            @if let Some(source) = &self.source {
                details { summary { "The pipeline file" } pre tabindex="0" { (source) } }
            }
        }
    }

    fn stages(&self) -> Markup {
        html! {
            (dag::dag(&self.dag))
            details {
                summary { "Nodes" }
                div.scroll tabindex="0" role="region" aria-label="Nodes" {
                    table {
                        thead { tr { @for title in ["node", "key", "stage", "state"] { th scope="col" { (title) } } } }
                        tbody {
                            @for node in &self.nodes {
                                tr { th scope="row" { (node.name) } td { code { (node.key) } } td { (node.stage) } td { (node.state) } }
                            }
                        }
                    }
                }
                @if self.more_nodes > 0 { p { "and " (self.more_nodes) " more; " code { "ppgnn plan" } " lists all" } }
            }
        }
    }
}

fn figure(figure: &Figure) -> Markup {
    html! {
        figure {
            img src=(data_uri("image/svg+xml", &figure.svg)) alt={ "Figure " (figure.name) };
            figcaption {
                (figure.name)
                @if let Some(csv) = &figure.csv {
                    " " a.noprint download={ (figure.name) ".csv" } href=(data_uri("text/csv", csv.as_bytes())) { "Numbers as CSV" }
                }
            }
        }
    }
}
