//! A table by columns, ready to become an Arrow table.

use std::collections::HashMap;

/// One column of a table.
#[derive(Clone, Debug, PartialEq)]
pub enum Column {
    /// Signed integers.
    Integers(Vec<i64>),
    /// Floating-point numbers.
    Numbers(Vec<f64>),
    /// Names, as indices into a list of few.
    Names {
        /// Index of each row's name.
        index: Vec<i32>,
        /// The names, each once.
        names: Vec<String>,
    },
}

/// A named table.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Table {
    /// What the table is called in a Result.
    pub name: &'static str,
    /// Its columns, all of one length.
    pub columns: Vec<(&'static str, Column)>,
}

impl Table {
    pub(crate) fn new(name: &'static str) -> Self {
        Table { name, columns: Vec::new() }
    }
    pub(crate) fn integers(
        mut self,
        name: &'static str,
        values: impl Iterator<Item = i64>,
    ) -> Self {
        self.columns.push((name, Column::Integers(values.collect())));
        self
    }
    pub(crate) fn numbers(mut self, name: &'static str, values: impl Iterator<Item = f64>) -> Self {
        self.columns.push((name, Column::Numbers(values.collect())));
        self
    }
    pub(crate) fn names<T: AsRef<str>>(
        mut self,
        name: &'static str,
        values: impl Iterator<Item = T>,
    ) -> Self {
        let mut names: Vec<String> = Vec::new();
        let mut known: HashMap<String, i32> = HashMap::new();
        let index = values
            .map(|value| {
                let value = value.as_ref();
                known.get(value).copied().unwrap_or_else(|| {
                    let at = names.len() as i32;
                    names.push(value.to_string());
                    known.insert(value.to_string(), at);
                    at
                })
            })
            .collect();
        self.columns.push((name, Column::Names { index, names }));
        self
    }
}
