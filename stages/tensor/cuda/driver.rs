//! Calls of kernels on a GPU, by cudarc.

use candle_core::backend::BackendStorage;
use candle_core::cuda_backend::cudarc::driver::{
    CudaSlice, CudaStream, DevicePtr, DevicePtrMut, DeviceRepr, LaunchConfig, PushKernelArg, SyncOnDrop,
};
use candle_core::cuda_backend::{CudaDType, WrapErr};
use candle_core::op::BackpropOp;
use candle_core::{CudaDevice, CudaStorage, DType, Result, Storage, Tensor, bail};

use super::TEAM;
use super::launch::{Arg, Call};

/// What candle calls the kernels, and the kernels themselves, compiled by `build.rs`.
const MODULE: &str = "ppgnn";
const PTX: &str = include_str!(concat!(env!("OUT_DIR"), "/kernels.ptx"));

/// One argument as the driver takes it.
enum Word {
    U64(u64),
    U32(u32),
    F32(f32),
}

/// Starts a kernel.
#[expect(unsafe_code, reason = "there is no other way to start a kernel")]
pub(super) fn call(call: &Call) -> Result<Vec<Tensor>> {
    let Some(first) = call.tensors().next() else { bail!("kernel `{}` reads nothing", call.kernel) };
    let device = first.device().as_cuda_device()?.clone();
    let stream = device.cuda_stream();
    let function = device.get_or_load_custom_func(call.kernel, MODULE, PTX)?;
    let held: Vec<_> = call.tensors().map(Tensor::storage_and_layout).collect();
    let mut pointers = Vec::with_capacity(held.len());
    for (storage, layout) in &held {
        let (Storage::Cuda(storage), Some((start, _))) = (&**storage, layout.contiguous_offsets()) else {
            bail!("a tensor on a GPU is needed here");
        };
        pointers.push(pointer(storage, start, &stream)?);
    }
    let mut made =
        call.makes.iter().map(|(dims, dtype)| Made::new(&device, dims, *dtype)).collect::<Result<Vec<_>>>()?;
    {
        let mut lent = pointers.iter().map(|(pointer, _)| Word::U64(*pointer));
        let mut words: Vec<Word> = Vec::new();
        for arg in call.args {
            words.extend(match arg {
                Arg::Read(_) => lent.next(),
                Arg::Null => Some(Word::U64(0)),
                Arg::U32(number) => Some(Word::U32(*number)),
                Arg::U64(number) => Some(Word::U64(*number)),
                Arg::F32(number) => Some(Word::F32(*number)),
            });
        }
        words.extend(lent);
        let results: Vec<_> = made.iter_mut().map(|made| made.pointer(&stream)).collect();
        words.extend(results.iter().map(|(pointer, _)| Word::U64(*pointer)));
        let mut args = function.builder();
        for word in &words {
            match word {
                Word::U64(number) => args.arg(number),
                Word::U32(number) => args.arg(number),
                Word::F32(number) => args.arg(number),
            };
        }
        let config =
            LaunchConfig { grid_dim: (call.blocks, call.lanes, 1), block_dim: (TEAM, 1, 1), shared_mem_bytes: 0 };
        // SAFETY: the callers are in this folder. They name the arguments that the kernel declares, in order and of the same types
        // (the emulation checks both), and have compared every size with what the kernel reads and writes. Whole tensors are lent
        // to be changed by the optimiser and by sums that nobody else holds, and everything on a card is in one stream.
        unsafe { args.launch(config) }.w()?;
    }
    Ok(made.into_iter().zip(call.makes).map(|(made, (dims, _))| made.tensor(&device, dims)).collect())
}

/// Returns where a tensor begins, and what must live until the kernel has been started.
fn pointer<'s>(storage: &'s CudaStorage, start: usize, stream: &'s CudaStream) -> Result<(u64, SyncOnDrop<'s>)> {
    fn of<'s, T: CudaDType + 's>(
        storage: &'s CudaStorage,
        start: usize,
        stream: &'s CudaStream,
    ) -> Result<(u64, SyncOnDrop<'s>)> {
        let (begin, sync) = storage.as_cuda_slice::<T>()?.device_ptr(stream);
        Ok((begin + (start * size_of::<T>()) as u64, sync))
    }
    match storage.dtype() {
        DType::F32 => of::<f32>(storage, start, stream),
        DType::F64 => of::<f64>(storage, start, stream),
        DType::U32 => of::<u32>(storage, start, stream),
        DType::U8 => of::<u8>(storage, start, stream),
        DType::I64 => of::<i64>(storage, start, stream),
        other => bail!("no kernel takes {other:?}"),
    }
}

/// Memory that a kernel is about to write.
enum Made {
    F32(CudaSlice<f32>),
    F64(CudaSlice<f64>),
}

impl Made {
    fn new(device: &CudaDevice, dims: &[usize], dtype: DType) -> Result<Self> {
        let size = dims.iter().product();
        match dtype {
            DType::F32 => room(device, size).map(Self::F32),
            DType::F64 => room(device, size).map(Self::F64),
            other => bail!("no kernel makes {other:?}"),
        }
    }

    fn pointer<'s>(&'s mut self, stream: &'s CudaStream) -> (u64, SyncOnDrop<'s>) {
        match self {
            Self::F32(slice) => slice.device_ptr_mut(stream),
            Self::F64(slice) => slice.device_ptr_mut(stream),
        }
    }

    fn tensor(self, device: &CudaDevice, dims: &[usize]) -> Tensor {
        let storage = match self {
            Self::F32(slice) => CudaStorage::wrap_cuda_slice(slice, device.clone()),
            Self::F64(slice) => CudaStorage::wrap_cuda_slice(slice, device.clone()),
        };
        Tensor::from_storage(Storage::Cuda(storage), dims, BackpropOp::none(), false)
    }
}

#[expect(unsafe_code, reason = "clearing what is about to be overwritten would cost a pass over memory")]
fn room<T: DeviceRepr>(device: &CudaDevice, size: usize) -> Result<CudaSlice<T>> {
    // SAFETY: the kernel that it is made for writes all of it before anybody reads.
    unsafe { device.alloc::<T>(size) }
}
