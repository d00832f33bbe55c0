//! Resolves a device request to the devices of this machine.

use ppgnn_stages::contract::device::{Backend, Cuda};

use super::failure::Failure;
use crate::pipeline::DeviceRequest;

/// What the program can compute on, for `--version`.
pub const VERSION: &str = if cfg!(feature = "cuda") {
    concat!(env!("CARGO_PKG_VERSION"), " (cpu, cuda)")
} else {
    concat!(env!("CARGO_PKG_VERSION"), " (cpu)")
};

/// Returns the backend of a request. Keys say nothing else about the device, so results of a GPU can be read without
/// one.
pub fn backend(request: &DeviceRequest, cuda: &Cuda) -> Backend {
    match request {
        DeviceRequest::Cpu => Backend::Cpu,
        DeviceRequest::Auto if cuda.gpus() == 0 => Backend::Cpu,
        DeviceRequest::Auto | DeviceRequest::AllCuda | DeviceRequest::Cuda(_) => Backend::Cuda,
    }
}

/// Returns the GPUs to compute on; none means the CPU.
///
/// # Errors
/// If a requested GPU is not available: there is no silent fallback.
pub fn gpus(request: &DeviceRequest, cuda: &Cuda) -> Result<Vec<usize>, Failure> {
    let there = || (0..cuda.gpus()).collect();
    let wanted = match request {
        DeviceRequest::Cpu => return Ok(Vec::new()),
        DeviceRequest::Auto => return Ok(there()),
        DeviceRequest::AllCuda if cuda.gpus() > 0 => return Ok(there()),
        DeviceRequest::AllCuda => vec![0],
        DeviceRequest::Cuda(gpus) => gpus.clone(),
    };
    match wanted.iter().find_map(|gpu| cuda.gpu(*gpu).err()) {
        None => Ok(wanted),
        Some(what) => {
            let message = format!("device `{request}` was requested, but {what}");
            Err(Failure::usage(message, Some(cuda.remedy())))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(request: &str, cuda: &Cuda) -> Result<(Backend, Vec<usize>), String> {
        let request = request.parse().unwrap();
        let gpus = gpus(&request, cuda).map_err(|f| f.message())?;
        Ok((backend(&request, cuda), gpus))
    }

    #[test]
    fn auto_takes_cards_where_there_are_any() {
        for none in [Cuda::NotBuilt, Cuda::Gpus(0), Cuda::Silent("no driver".into())] {
            assert_eq!(chosen("auto", &none), Ok((Backend::Cpu, vec![])));
        }
        assert_eq!(chosen("auto", &Cuda::Gpus(2)), Ok((Backend::Cuda, vec![0, 1])));
    }

    #[test]
    fn the_processor_is_always_there() {
        for cuda in [Cuda::NotBuilt, Cuda::Gpus(2)] {
            assert_eq!(chosen("cpu", &cuda), Ok((Backend::Cpu, vec![])));
        }
    }

    #[test]
    fn cards_are_there_or_it_is_an_error() {
        let three = Cuda::Gpus(3);
        assert_eq!(chosen("cuda", &three), Ok((Backend::Cuda, vec![0, 1, 2])));
        assert_eq!(chosen("cuda:2,cuda:0", &three), Ok((Backend::Cuda, vec![2, 0])));
        assert_eq!(
            chosen("cuda:0,cuda:3", &three),
            Err("device `cuda:0,cuda:3` was requested, but this machine has 3 GPUs, `cuda:0` to `cuda:2`".into())
        );
        assert_eq!(
            chosen("cuda", &Cuda::Gpus(0)),
            Err("device `cuda` was requested, but this machine has no GPU".into())
        );
        assert_eq!(
            chosen("cuda", &Cuda::NotBuilt),
            Err("device `cuda` was requested, but this program was built without CUDA".into())
        );
    }
}
