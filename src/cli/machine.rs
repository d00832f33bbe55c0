//! What a run may use of the machine.

use ppgnn_stages::contract::device::{Backend, cuda};
use ppgnn_stages::contract::params::Bytes;

use super::device;
use crate::forecast::{Allowed, allowed};
use crate::pipeline::DeviceRequest;
use crate::run::Resources;

/// Options about cores and memory.
#[derive(clap::Args, Clone)]
pub struct MachineArgs {
    /// Number of cores to use (default: all)
    #[arg(short = 'j', long = "jobs", value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    jobs: Option<u16>,
    /// Memory that nodes may take together, such as `8GiB` (default: what the machine and its control group allow, less a
    /// margin). Nodes that do not fit beside each other run one after the other; one that cannot fit at all fails at once
    #[arg(long, value_name = "SIZE", value_parser = str::parse::<Bytes>)]
    memory: Option<Bytes>,
}

impl MachineArgs {
    /// Returns how many cores may be busy at a time.
    pub fn cores(&self) -> usize {
        self.jobs.map_or_else(|| std::thread::available_parallelism().map_or(1, usize::from), usize::from)
    }

    /// Returns the bytes that were asked for.
    pub fn memory(&self) -> Option<u64> {
        self.memory.map(|Bytes(bytes)| bytes)
    }

    /// Returns the memory that nodes may take; `None` where nobody knows.
    pub fn allowed(&self) -> Option<Allowed> {
        self.memory().map(Allowed::of).or_else(allowed)
    }

    /// Returns what a run would have, to look ahead: a GPU that is asked for counts as there.
    pub fn resources(&self, request: &DeviceRequest) -> Resources {
        let gpus = match device::backend(request, cuda()) {
            Backend::Cpu => Vec::new(),
            Backend::Cuda => device::gpus(request, cuda()).unwrap_or_else(|_| vec![0]),
        };
        Resources { cores: self.cores(), gpus, memory: self.allowed().map(|allowed| allowed.now) }
    }
}
