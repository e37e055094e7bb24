//! What passed where.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{Mutex, MutexGuard, PoisonError},
};

use crate::{
    adapter::Adapter,
    cases::{self, Case},
};

/// Rows are cases and columns adapters; a cell counts the profiles under which a case ran and passed.
pub(crate) struct Table(Mutex<BTreeMap<(String, &'static str), Cell>>);

#[derive(Debug, Clone, Copy, Default)]
struct Cell {
    passed: usize,
    total: usize,
}

/// One trial under way. It counts as failed unless it is said to have passed.
pub(crate) struct Row<'t> {
    table: &'t Table,
    key: (String, &'static str),
}

impl Table {
    pub(crate) fn new() -> Self {
        Self(Mutex::default())
    }

    pub(crate) fn begin(&self, case: &Case, adapter: Adapter) -> Row<'_> {
        let key = (case.name(), adapter.name());
        self.cells().entry(key.clone()).or_default().total += 1;
        Row { table: self, key }
    }

    fn cells(&self) -> MutexGuard<'_, BTreeMap<(String, &'static str), Cell>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Row<'_> {
    pub(crate) fn passed(self) {
        self.table.cells().entry(self.key).or_default().passed += 1;
    }
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.total {
            0 => f.pad("-"),
            total => f.pad(&format!("{}/{total}", self.passed)),
        }
    }
}

/// Without the cases that did not run, and nothing at all where none did.
impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let cells = self.cells();
        let adapters = Adapter::ALL.map(Adapter::name);
        let ran =
            |case: &String| adapters.iter().any(|adapter| cells.contains_key(&(case.clone(), *adapter)));
        let cases: Vec<String> = cases::all().map(|case| case.name()).filter(ran).collect();
        let Some(width) = cases.iter().map(String::len).max() else { return Ok(()) };

        let row = |f: &mut fmt::Formatter<'_>, name: &str, cells: &[Cell]| {
            write!(f, "{name:width$}")?;
            for (adapter, cell) in adapters.iter().zip(cells) {
                write!(f, "  {cell:>0$}", adapter.len())?;
            }
            writeln!(f)
        };
        writeln!(f, "{:width$}  {}", "profiles passed/ran", adapters.join("  "))?;
        let mut totals = [Cell::default(); Adapter::ALL.len()];
        for case in &cases {
            let found =
                adapters.map(|adapter| cells.get(&(case.clone(), adapter)).copied().unwrap_or_default());
            row(f, case, &found)?;
            for (total, cell) in totals.iter_mut().zip(found) {
                total.passed += cell.passed;
                total.total += cell.total;
            }
        }
        row(f, "total", &totals)?;
        let (passed, ran) =
            totals.iter().fold((0, 0), |(passed, ran), cell| (passed + cell.passed, ran + cell.total));
        write!(f, "{} cases, {passed} of {ran} trials passed", cases.len())
    }
}
