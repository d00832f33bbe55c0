//! Where tests of this folder, of operations and of training run what is for a GPU: on the card that `PPGNN_GPU` numbers, in a
//! program with CUDA, and on the emulated one otherwise.

use std::cell::RefCell;

use candle_core::Device;

use super::emulated::Emulator;
use crate::contract::device;

thread_local! {
    static HERE: RefCell<Device> = const { RefCell::new(Device::Cpu) };
}

/// Returns where tensors of a test are.
pub fn here() -> Device {
    HERE.with_borrow(Clone::clone)
}

/// Returns the card of `PPGNN_GPU`.
fn card() -> Option<device::Device> {
    let number = std::env::var("PPGNN_GPU").ok()?;
    cfg!(feature = "cuda").then(|| device::Device::Cuda(number.parse().unwrap()))
}

/// Returns what a job of a test computes on.
pub fn job_device() -> device::Device {
    card().unwrap_or_default()
}

/// Runs a test on a GPU; nothing where there is none and no C++ compiler either.
pub fn with_gpu<R: Send>(test: impl FnOnce() -> R + Send) -> Option<R> {
    let Some(card) = card() else { return Emulator::shared().map(|gpu| gpu.run(test)) };
    HERE.with_borrow_mut(|here| *here = crate::models::Card::open(card).unwrap().device);
    let result = test();
    HERE.with_borrow_mut(|here| *here = Device::Cpu);
    Some(result)
}

/// Says that there is no emulation.
pub fn say_skipped() {
    eprintln!("skipped: there is no C++ compiler (`c++`) to emulate a GPU with");
}
