//! Ctrl-C and termination signals.

use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};

use super::exit;

/// Set by the first Ctrl-C or termination signal; the second one ends the process at once.
pub fn interruptible() -> &'static AtomicBool {
    static CANCEL: AtomicBool = AtomicBool::new(false);
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| {
        let installed = ctrlc::set_handler(|| {
            if CANCEL.swap(true, Ordering::SeqCst) {
                ppgnn_stages::command::end_all();
                std::process::exit(i32::from(exit::INTERRUPTED));
            }
        });
        if let Err(error) = installed {
            tracing::warn!("signals are not handled: {error}");
        }
    });
    &CANCEL
}
