//! A finished table.
pub struct Cell;
pub struct Table;
