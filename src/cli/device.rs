//! From the wish for a device to what this program, on this machine, computes on.

use ppgnn_stages::contract::device::{Backend, Cuda, cuda};

use super::failure::Failure;
use crate::pipeline::DeviceWish;

/// What the program can compute on, for `--version`.
pub const VERSION: &str = if cfg!(feature = "cuda") {
    concat!(env!("CARGO_PKG_VERSION"), " (cpu, cuda)")
} else {
    concat!(env!("CARGO_PKG_VERSION"), " (cpu)")
};

/// Returns what the results of a wish are computed by. That is all a key says, so looking at results of a card needs none.
pub fn backend(wish: &DeviceWish) -> Backend {
    backend_given(wish, cuda())
}

/// Returns the cards to compute on; none means the processor.
///
/// # Errors
/// Where a card was asked for that is not there: nothing falls back on its own.
pub fn cards(wish: &DeviceWish) -> Result<Vec<usize>, Failure> {
    cards_given(wish, cuda())
}

fn backend_given(wish: &DeviceWish, cuda: &Cuda) -> Backend {
    match wish {
        DeviceWish::Cpu => Backend::Cpu,
        DeviceWish::Auto if cuda.cards() == 0 => Backend::Cpu,
        DeviceWish::Auto | DeviceWish::AllCuda | DeviceWish::Cuda(_) => Backend::Cuda,
    }
}

fn cards_given(wish: &DeviceWish, cuda: &Cuda) -> Result<Vec<usize>, Failure> {
    let there = || (0..cuda.cards()).collect();
    let wanted = match wish {
        DeviceWish::Cpu => return Ok(Vec::new()),
        DeviceWish::Auto => return Ok(there()),
        DeviceWish::AllCuda if cuda.cards() > 0 => return Ok(there()),
        DeviceWish::AllCuda => vec![0],
        DeviceWish::Cuda(cards) => cards.clone(),
    };
    let missing = wanted.iter().find_map(|card| cuda.card(*card).err());
    match missing {
        None => Ok(wanted),
        Some(what) => {
            let message = format!("device `{wish}` was asked for, but {what}");
            Err(Failure::usage(message, Some(cuda.remedy())))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(wish: &str, cuda: &Cuda) -> Result<(Backend, Vec<usize>), String> {
        let wish = wish.parse().unwrap();
        let cards = cards_given(&wish, cuda).map_err(|f| f.message())?;
        Ok((backend_given(&wish, cuda), cards))
    }

    #[test]
    fn auto_takes_cards_where_there_are_any() {
        for none in [Cuda::NotBuilt, Cuda::Cards(0), Cuda::Silent("no driver".into())] {
            assert_eq!(chosen("auto", &none), Ok((Backend::Cpu, vec![])));
        }
        assert_eq!(chosen("auto", &Cuda::Cards(2)), Ok((Backend::Cuda, vec![0, 1])));
    }

    #[test]
    fn the_processor_is_always_there() {
        for cuda in [Cuda::NotBuilt, Cuda::Cards(2)] {
            assert_eq!(chosen("cpu", &cuda), Ok((Backend::Cpu, vec![])));
        }
    }

    #[test]
    fn cards_are_there_or_it_is_an_error() {
        let three = Cuda::Cards(3);
        assert_eq!(chosen("cuda", &three), Ok((Backend::Cuda, vec![0, 1, 2])));
        assert_eq!(chosen("cuda:2,cuda:0", &three), Ok((Backend::Cuda, vec![2, 0])));
        assert_eq!(
            chosen("cuda:0,cuda:3", &three),
            Err("device `cuda:0,cuda:3` was asked for, but this machine has 3 GPUs, `cuda:0` to `cuda:2`".into())
        );
        assert_eq!(
            chosen("cuda", &Cuda::Cards(0)),
            Err("device `cuda` was asked for, but this machine has no GPU".into())
        );
        assert_eq!(
            chosen("cuda", &Cuda::NotBuilt),
            Err("device `cuda` was asked for, but this program was built without CUDA".into())
        );
    }
}
