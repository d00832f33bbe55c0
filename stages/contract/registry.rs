//! What a program can compute with: stages, and the tables of rows (models, formats) that stages choose from.
//!
//! A registry is a value, passed to all code that looks something up. It starts with the built-in rows
//! ([`crate::built_in`]); a program of a user's own adds to it before anything runs. Rows are made from types, so they are
//! static data, and references to them can be kept.

use std::any::Any;
use std::fmt;

use super::StageDef;
use super::params::{self, Variant};

/// The crate that a row comes from. It enters the keys of whatever an added row computes.
///
/// Write `Crate { name: env!("CARGO_PKG_NAME"), version: env!("CARGO_PKG_VERSION") }`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Crate {
    /// Its name.
    pub name: &'static str,
    /// Its version.
    pub version: &'static str,
}

impl Crate {
    /// This crate. Its rows are known by their own versions alone: keys do not change from release to release.
    pub const BUILT_IN: Self = Self { name: "", version: "" };

    /// Returns the crate of an added row, or `None` of a built-in one.
    pub fn added(self) -> Option<Self> {
        (self != Self::BUILT_IN).then_some(self)
    }
}

impl fmt::Display for Crate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.name, self.version)
    }
}

/// A row of a table that stages choose from. Its type says which table: a `ModelDef` is a row of the table of models.
pub trait Row: Any + Send + Sync {
    /// What a row of this table is called, such as `model`.
    fn noun(&self) -> &'static str;
    /// Name, version, parameters and needs.
    fn variant(&self) -> &Variant;
    /// Names that a row of this table cannot have, because they mean something else where its name stands.
    fn reserved(&self) -> &'static [&'static str] {
        &[]
    }
}

impl fmt::Debug for dyn Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.noun(), self.variant().name)
    }
}

impl dyn Row {
    /// Returns the row as what it is. The only place where a row changes its type.
    pub(super) fn of_type<R: Row>(&'static self) -> Option<&'static R> {
        (self as &'static dyn Any).downcast_ref()
    }
}

/// Lists the rows of one table.
pub type RowsFn = fn(&Registry) -> Vec<&'static dyn Row>;

/// The stages and rows that a program knows.
#[derive(Clone, Default)]
pub struct Registry {
    stages: Vec<&'static StageDef>,
    rows: Vec<&'static dyn Row>,
}

impl Registry {
    /// A registry of these stages, without any rows.
    pub fn of_stages(stages: &'static [StageDef]) -> Self {
        Self { stages: stages.iter().collect(), rows: Vec::new() }
    }

    /// Returns it with the built-in rows of a table.
    #[must_use]
    pub fn with_rows<R: Row>(mut self, rows: &'static [R]) -> Self {
        self.rows.extend(rows.iter().map(|row| row as &dyn Row));
        self
    }

    /// Lists the stages, built-in ones first.
    pub fn stages(&self) -> impl Iterator<Item = &'static StageDef> + Clone + use<'_> {
        self.stages.iter().copied()
    }

    /// Finds a stage by its name.
    pub fn stage(&self, name: &str) -> Option<&'static StageDef> {
        self.stages().find(|stage| stage.name == name)
    }

    /// Lists the rows of a table, built-in ones first.
    pub fn rows<R: Row>(&self) -> impl Iterator<Item = &'static R> + use<'_, R> {
        self.rows.iter().filter_map(|row| row.of_type())
    }

    /// Adds a stage of a user's own.
    ///
    /// # Errors
    /// Says why the stage is refused.
    pub fn add_stage(&mut self, stage: &'static StageDef) -> Result<(), Refused> {
        let taken = self.stage(stage.name).map(|there| there.from);
        acceptable("stage", stage.name, stage.from, taken)?;
        let ending = |file: &&'static str| file.rsplit('.').next().unwrap_or(file);
        for (i, file) in stage.publishes.iter().enumerate() {
            if stage.publishes[..i].iter().any(|other| ending(other) == ending(file)) {
                return Err(Refused::Ending { name: stage.name, ending: ending(file) });
            }
        }
        self.stages.push(stage);
        self.disjoint().inspect_err(|_| {
            self.stages.pop();
        })
    }

    /// Adds a row of a user's own to its table.
    ///
    /// # Errors
    /// Says why the row is refused.
    pub fn add_row<R: Row>(&mut self, row: &'static R) -> Result<(), Refused> {
        let added = row.variant();
        let taken = self.rows::<R>().map(Row::variant).find(|there| there.name == added.name).map(|there| there.from);
        acceptable(row.noun(), added.name, added.from, taken)?;
        if row.reserved().contains(&added.name) {
            return Err(Refused::Reserved { noun: row.noun(), name: added.name });
        }
        self.rows.push(row);
        self.disjoint().inspect_err(|_| {
            self.rows.pop();
        })
    }

    /// Checks that what stands side by side in a pipeline file can be told apart: a row's parameters and its stage's. Also
    /// that files are named where keys look for them.
    ///
    /// # Errors
    /// The first that cannot.
    pub fn disjoint(&self) -> Result<(), Refused> {
        for stage in self.stages() {
            let own = stage.own_schema(self);
            if let Some(param) = params::nested_file(&own) {
                return Err(Refused::NestedFile { noun: "stage", name: stage.name, param });
            }
            for row in stage.choice.map(|choice| (choice.rows)(self)).unwrap_or_default() {
                let (noun, variant) = (row.noun(), row.variant());
                let mut shared = params::names(variant.schema()).filter(|name| params::property(&own, name).is_some());
                if let Some(param) = shared.next() {
                    return Err(Refused::Param { noun, name: variant.name, param: param.into(), stage: stage.name });
                }
                if let Some(param) = params::nested_file(variant.schema()) {
                    return Err(Refused::NestedFile { noun, name: variant.name, param });
                }
            }
        }
        Ok(())
    }
}

/// Why a registry does not take a row.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// The name cannot be used in a pipeline file.
    #[error(
        "`{name}` cannot be the name of a {noun}: use lowercase letters, digits and single hyphens, such as `my-{noun}`"
    )]
    Name {
        /// What the row is.
        noun: &'static str,
        /// Its name.
        name: &'static str,
    },
    /// Keys could not tell versions of the row apart.
    #[error(
        "{noun} `{name}` does not name its crate: give it `const CRATE: Crate = Crate {{ name: env!(\"CARGO_PKG_NAME\"), \
         version: env!(\"CARGO_PKG_VERSION\") }}`"
    )]
    NoCrate {
        /// What the row is.
        noun: &'static str,
        /// Its name.
        name: &'static str,
    },
    /// The name is in use.
    #[error("there is a {noun} `{name}` already, {}: give yours another name", from.added().map_or("built in".to_owned(), |c| format!("of crate {c}")))]
    Taken {
        /// What the row is.
        noun: &'static str,
        /// Its name.
        name: &'static str,
        /// Where the other one comes from.
        from: Crate,
    },
    /// The name means something else.
    #[error("`{name}` cannot be the name of a {noun}: it stands for something else beside it; give yours another name")]
    Reserved {
        /// What the row is.
        noun: &'static str,
        /// Its name.
        name: &'static str,
    },
    /// A parameter has the name of one of the stage's own, beside which it stands.
    #[error("{noun} `{name}` has a parameter `{param}`, which `{stage}` has itself: give yours another name")]
    Param {
        /// What the row is.
        noun: &'static str,
        /// Its name.
        name: &'static str,
        /// The parameter.
        param: String,
        /// The stage.
        stage: &'static str,
    },
    /// A file inside of a mapping would count by its path.
    #[error("`{param}` of {noun} `{name}` names a file inside of a mapping: a file must be a parameter of its own")]
    NestedFile {
        /// What the row is.
        noun: &'static str,
        /// Its name.
        name: &'static str,
        /// The parameter that holds the mapping.
        param: String,
    },
    /// Two published files would have one name.
    #[error("stage `{name}` publishes two files that end in `.{ending}`: they would have one name")]
    Ending {
        /// The stage.
        name: &'static str,
        /// What both end in.
        ending: &'static str,
    },
}

fn acceptable(noun: &'static str, name: &'static str, from: Crate, taken: Option<Crate>) -> Result<(), Refused> {
    let word = |w: &str| !w.is_empty() && w.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
    if !name.split('-').all(word) {
        return Err(Refused::Name { noun, name });
    }
    if from.name.is_empty() || from.version.is_empty() {
        return Err(Refused::NoCrate { noun, name });
    }
    taken.map_or(Ok(()), |from| Err(Refused::Taken { noun, name, from }))
}
