//! Other rows of the same values: lanes × rows × (g · columns) is lanes × (rows · g) × columns, and nothing is moved.
//!
//! The columns of several parts of a node, which stand side by side for a layer, become rows of their own for products with an
//! operator that treats every part apart.

use candle_core::{Result, Tensor, bail};

use super::sided::{Eval, Sided};

impl Sided {
    /// Returns the same values in rows of `columns` of them.
    ///
    /// # Errors
    /// When the values of a lane do not fill whole rows.
    pub fn in_rows_of(&self, columns: usize) -> Result<Self> {
        let size = self.entries();
        if columns == 0 || !size.is_multiple_of(columns) {
            bail!("{:?} makes no rows of {columns}", self.dims());
        }
        if self.dims().last() == Some(&columns) {
            return Ok(self.clone());
        }
        // Detached, or candle would note its own way back beside that of the tape.
        let cut = |x: &Tensor| x.detach().reshape((self.lanes(), size / columns, columns));
        let eval = match &self.eval {
            Eval::Own(eval) => Eval::Own(cut(eval)?),
            other => other.clone(),
        };
        let input = self.main().clone();
        Ok(self.next(cut(&input)?, eval, move |gradient| {
            let gradient = gradient.reshape(input.dims())?;
            Ok(vec![(input, gradient)])
        }))
    }
}
