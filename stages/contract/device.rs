//! Where a stage computes: on the CPU, or on one CUDA GPU.
//!
//! The engine decides it before anything runs and hands it to the stage in its [`Job`](super::Job). There is
//! no silent fallback: the device is in the key of a result, so a GPU that does not answer is an error.

use std::fmt;

use serde::{Serialize, Serializer};

use super::StageError;

/// What computes, as far as the numbers are concerned: all GPUs are alike.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Backend {
    /// The CPU.
    #[default]
    Cpu,
    /// A CUDA GPU.
    Cuda,
}

impl fmt::Display for Backend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Cpu => "cpu",
            Self::Cuda => "cuda",
        })
    }
}

/// One place to compute on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Device {
    /// The CPU.
    #[default]
    Cpu,
    /// The CUDA GPU with this number.
    Cuda(usize),
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cpu => f.write_str("cpu"),
            Self::Cuda(gpu) => write!(f, "cuda:{gpu}"),
        }
    }
}

impl Serialize for Device {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl Device {
    /// Returns the number of the GPU, if it is one, after asking whether it answers.
    ///
    /// # Errors
    /// [`StageError::Unusable`] where the program has no CUDA, or the GPU does not answer.
    pub fn gpu(self) -> Result<Option<usize>, StageError> {
        let Self::Cuda(gpu) = self else { return Ok(None) };
        match cuda().gpu(gpu) {
            Ok(()) => Ok(Some(gpu)),
            Err(what) => Err(StageError::unusable(format!("cannot compute on `{self}`: {what}"), cuda().remedy())),
        }
    }
}

/// What this program, on this machine, can do with CUDA.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cuda {
    /// The program was built without it.
    NotBuilt,
    /// The driver does not answer, and this is what it says.
    Silent(String),
    /// This many GPUs answer; they are numbered from 0.
    Gpus(usize),
}

impl Cuda {
    /// Returns how many GPUs answer.
    pub fn gpus(&self) -> usize {
        if let Self::Gpus(gpus) = self { *gpus } else { 0 }
    }

    /// Checks that a GPU answers.
    ///
    /// # Errors
    /// Says what is there instead.
    pub fn gpu(&self, gpu: usize) -> Result<(), String> {
        match self {
            Self::NotBuilt => Err("this program was built without CUDA".into()),
            Self::Silent(why) => Err(format!("no GPU answers on this machine ({why})")),
            Self::Gpus(0) => Err("this machine has no GPU".into()),
            Self::Gpus(gpus) if gpu < *gpus => Ok(()),
            Self::Gpus(1) => Err("this machine has one GPU, `cuda:0`".into()),
            Self::Gpus(gpus) => Err(format!("this machine has {gpus} GPUs, `cuda:0` to `cuda:{}`", gpus - 1)),
        }
    }

    /// Says what to do if a GPU is not available.
    pub fn remedy(&self) -> &'static str {
        match self {
            Self::NotBuilt => {
                "build it with `cargo build --release --features cuda` (needs nvcc), or compute on the CPU with \
                 `--device cpu`"
            }
            Self::Silent(_) | Self::Gpus(0) => {
                "`nvidia-smi` shows whether the driver sees a GPU; `--device cpu` computes on the CPU"
            }
            Self::Gpus(_) => "name an existing GPU, or use `--device cuda` for all of them",
        }
    }
}

/// Asks the driver once which GPUs there are.
pub fn cuda() -> &'static Cuda {
    static CUDA: std::sync::LazyLock<Cuda> = std::sync::LazyLock::new(ask);
    &CUDA
}

#[cfg(not(feature = "cuda"))]
fn ask() -> Cuda {
    Cuda::NotBuilt
}

#[cfg(feature = "cuda")]
fn ask() -> Cuda {
    use candle_core::cuda_backend::cudarc::driver::CudaContext;
    match CudaContext::device_count() {
        Ok(gpus) => Cuda::Gpus(usize::try_from(gpus).unwrap_or(0)),
        Err(error) => Cuda::Silent(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_is_shown_as_it_is_written() {
        assert_eq!([Device::Cpu, Device::Cuda(3)].map(|d| d.to_string()), ["cpu", "cuda:3"]);
    }

    #[test]
    fn the_processor_is_always_there() {
        assert_eq!(Device::Cpu.gpu().unwrap(), None);
    }

    #[cfg(not(feature = "cuda"))]
    #[test]
    fn a_card_without_the_feature_is_an_error_that_says_what_to_do() {
        let error = Device::Cuda(0).gpu().unwrap_err();
        assert_eq!(error.to_string(), "cannot compute on `cuda:0`: this program was built without CUDA");
        assert!(error.hint().unwrap().contains("--features cuda"));
    }

    #[test]
    fn a_card_is_there_or_it_is_said_what_is() {
        assert_eq!(Cuda::Gpus(2).gpu(1), Ok(()));
        assert_eq!(Cuda::Gpus(2).gpu(2), Err("this machine has 2 GPUs, `cuda:0` to `cuda:1`".into()));
        assert_eq!(Cuda::Gpus(1).gpu(1), Err("this machine has one GPU, `cuda:0`".into()));
        assert_eq!(Cuda::Gpus(0).gpu(0), Err("this machine has no GPU".into()));
        assert!(Cuda::Silent("no driver".into()).gpu(0).unwrap_err().contains("no driver"));
    }
}
