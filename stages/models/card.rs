//! Where tensors of a training are: in main memory, or on a GPU, which is opened once and tried before anything relies on it.
//!
//! What the driver says when it refuses is turned into what a person can do about it. Nothing here needs a GPU to be tested.

use candle_core::{Device, Error};

use crate::contract::StageError;
use crate::contract::device;

/// An opened device.
#[derive(Clone)]
pub struct Card {
    /// Where tensors are.
    pub device: Device,
    /// Bytes that tensors may take together; none of the CPU.
    pub memory: Option<usize>,
    /// What the bytes of results depend on besides the key, by name; nothing of the CPU.
    pub notes: Vec<(&'static str, String)>,
}

impl Card {
    /// Opens a device, or returns it as it was opened before.
    ///
    /// # Errors
    /// [`StageError::Unusable`] where there is no such GPU, [`StageError::Card`] where it does not do what it is asked for.
    pub fn open(device: device::Device) -> Result<Self, StageError> {
        let main = Self { device: Device::Cpu, memory: None, notes: Vec::new() };
        device.gpu()?.map_or(Ok(main), gpu)
    }
}

#[cfg(not(feature = "cuda"))]
fn gpu(_: usize) -> Result<Card, StageError> {
    Err(StageError::Unusable { what: "this program was built without CUDA".into(), hint: None })
}

#[cfg(feature = "cuda")]
fn gpu(number: usize) -> Result<Card, StageError> {
    use std::collections::BTreeMap;
    use std::sync::{Mutex, PoisonError};

    use crate::tensor::cuda;
    static OPENED: Mutex<BTreeMap<usize, Card>> = Mutex::new(BTreeMap::new());
    let mut opened = OPENED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(card) = opened.get(&number) {
        return Ok(card.clone());
    }
    let open = || {
        let (device, facts) = cuda::open(number)?;
        cuda::try_out(&device)?;
        Ok::<_, Error>((device, facts))
    };
    let (device, facts) = open().map_err(|error| explained(error, &format!("while `cuda:{number}` is opened"), ""))?;
    // A quarter is left for weights, their moments and what others take. What is free decides only where little is.
    let memory = Some((facts.total / 4 * 3).min(facts.free));
    let card = Card { device, memory, notes: facts.notes };
    opened.insert(number, card.clone());
    Ok(card)
}

/// What a message of the driver is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Trouble {
    /// There is no room.
    Memory,
    /// The card does nothing any more until the program ends.
    Lost,
    /// Kernels are for other cards.
    Architecture,
    /// Kernels are of a newer toolkit than the driver.
    Driver,
}

/// By words of the driver. After those of `Lost` every further call fails.
const WORDS: [(&str, Trouble); 16] = [
    ("OUT_OF_MEMORY", Trouble::Memory),
    ("CUBLAS_STATUS_ALLOC_FAILED", Trouble::Memory),
    ("ILLEGAL_ADDRESS", Trouble::Lost),
    ("ILLEGAL_INSTRUCTION", Trouble::Lost),
    ("MISALIGNED_ADDRESS", Trouble::Lost),
    ("INVALID_ADDRESS_SPACE", Trouble::Lost),
    ("INVALID_PC", Trouble::Lost),
    ("LAUNCH_FAILED", Trouble::Lost),
    ("LAUNCH_TIMEOUT", Trouble::Lost),
    ("ECC_UNCORRECTABLE", Trouble::Lost),
    ("HARDWARE_STACK_ERROR", Trouble::Lost),
    ("CUDA_ERROR_ASSERT", Trouble::Lost),
    ("NO_BINARY_FOR_GPU", Trouble::Architecture),
    ("INVALID_PTX", Trouble::Architecture),
    ("UNSUPPORTED_PTX_VERSION", Trouble::Driver),
    ("SYSTEM_DRIVER_MISMATCH", Trouble::Driver),
];

fn trouble(message: &str) -> Option<Trouble> {
    WORDS.iter().find(|(word, _)| message.contains(word)).map(|(_, trouble)| *trouble)
}

/// Says what an error of a GPU means; `doing` says where it happened, `smaller` how to take less memory. Other errors stay what they
/// are.
pub fn explained(error: Error, doing: &str, smaller: &str) -> StageError {
    let message = error.to_string();
    let Some(trouble) = trouble(&message) else { return StageError::Tensor(error) };
    let built = option_env!("CUDA_COMPUTE_CAP").unwrap_or("the first card of the machine that built it");
    let (what, hint) = match trouble {
        Trouble::Memory => (
            format!("the GPU has no memory left {doing}"),
            format!("{smaller}end other programs on the card (`nvidia-smi` lists them), or use `--device cpu`"),
        ),
        Trouble::Lost => (
            format!("the GPU stopped with an error {doing}, and does nothing more for this program"),
            "run again; if it happens again, `make gpu-check` writes a report for the project".to_owned(),
        ),
        Trouble::Architecture => (
            format!("this program has no kernels for the GPU {doing}"),
            format!(
                "it was built for the compute capability of {built}: build it with `CUDA_COMPUTE_CAP` set to that of the oldest card \
                 (`nvidia-smi --query-gpu=compute_cap --format=csv`), 89 at most"
            ),
        ),
        Trouble::Driver => (
            format!("the driver is older than the CUDA toolkit that this program was built with {doing}"),
            "update the driver, or build with an older toolkit (`nvidia-smi` shows the newest that the driver knows)"
                .to_owned(),
        ),
    };
    StageError::Card { what, hint: Some(hint), lost: trouble == Trouble::Lost, source: Some(error.into()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> StageError {
        explained(Error::msg(text), "in epoch `3`", "lower `hidden`, ")
    }

    #[test]
    fn what_the_driver_says_becomes_what_to_do() {
        let error = of("DriverError(CUDA_ERROR_OUT_OF_MEMORY, \"out of memory\")");
        assert_eq!(error.to_string(), "the GPU has no memory left in epoch `3`");
        assert!(error.hint().unwrap().starts_with("lower `hidden`, end other programs"));
        let error = of("DriverError(CUDA_ERROR_UNSUPPORTED_PTX_VERSION, \"\")");
        assert!(error.to_string().contains("older than the CUDA toolkit") && error.hint().is_some());
        let error = of("DriverError(CUDA_ERROR_NO_BINARY_FOR_GPU, \"\")");
        assert!(error.hint().unwrap().contains("CUDA_COMPUTE_CAP"));
        assert!(matches!(of("shapes differ"), StageError::Tensor(_)));
    }

    #[test]
    fn a_card_is_lost_after_errors_that_stay() {
        let lost = |text: &str| matches!(of(text), StageError::Card { lost: true, .. });
        assert!(lost("CUDA_ERROR_ILLEGAL_ADDRESS") && lost("CUDA_ERROR_LAUNCH_FAILED"));
        assert!(!lost("CUDA_ERROR_OUT_OF_MEMORY") && !lost("CUDA_ERROR_INVALID_PTX"));
    }

    #[test]
    fn the_cpu_has_no_notes_and_no_budget_of_its_own() {
        let card = Card::open(device::Device::Cpu).unwrap();
        assert!(card.device.is_cpu() && card.memory.is_none() && card.notes.is_empty());
    }
}
