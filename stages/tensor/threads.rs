//! candle's own threads, kept from taking cores that a stage was not given.
//!
//! candle hands element-wise operations on 65 536 values and more to threads of its own, one for every core, which turn in
//! circles while they wait. They know nothing of the share of the cores that a stage runs with, and one stage at a time can use
//! them. Products run in the pool of the stage as they are, so one variable is all that it takes. Bytes are the same either way.

/// How many threads candle starts, where somebody has said it.
const VARIABLE: &str = "CANDLE_NUM_THREADS";

/// Lets candle compute on the threads that ask it to. Does nothing where the variable is set, or where other threads may be
/// running: a program that starts threads of its own before it hands over sets the variable itself.
pub fn leave_to_callers() {
    if std::env::var_os(VARIABLE).is_none() && alone() {
        // SAFETY: an environment must not change while another thread reads it, and this is the only thread of the process. Where it
        // cannot be known that it is, the variable is not set.
        #[expect(unsafe_code, reason = "candle reads this variable, and has no other way to be told")]
        unsafe {
            std::env::set_var(VARIABLE, "1");
        }
    }
}

/// Whether this is the only thread of the process, as far as Linux says so.
fn alone() -> bool {
    std::fs::read_dir("/proc/self/task").is_ok_and(|threads| threads.count() == 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_environment_is_not_touched_beside_other_threads() {
        let before = std::env::var_os(VARIABLE);
        std::thread::scope(|scope| scope.spawn(leave_to_callers).join()).unwrap();
        assert_eq!(std::env::var_os(VARIABLE), before);
    }
}
