//! A GPU for tests: kernels are compiled as C++ and run in a process beside this one, where the threads of a block run
//! concurrently. A tensor in main memory counts as one on a GPU while [`Emulator::run`] lasts.
//!
//! Every buffer of a call is a piece of memory of its own, and what is past its end is watched (AddressSanitizer), so a kernel that
//! leaves its bounds stops the process. Arguments are compared with what the kernel declares: how many, of which types, and
//! whether it may write there. Results start as NaN.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::io::{BufReader, BufWriter, Read, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use candle_core::{DType, Device, Error, Result, Tensor, bail};

use super::launch::{Arg, Call};
use crate::tensor::slices::{self, by_float};

/// The kernels as they are.
pub const KERNELS: &str = include_str!("kernels.cu");
const SERVER: &str = include_str!("emulated.cpp");

thread_local! {
    static HERE: RefCell<Option<Emulator>> = const { RefCell::new(None) };
}

/// Returns what stands for the GPU in this thread.
pub(super) fn here() -> Option<Emulator> {
    HERE.with_borrow(Clone::clone)
}

/// Returns what keeps tensors in main memory from counting as those of a GPU, as long as it lives.
pub(super) fn pause() -> Paused {
    Paused(HERE.take())
}

/// See [`pause`].
pub(super) struct Paused(Option<Emulator>);

impl Drop for Paused {
    fn drop(&mut self) {
        HERE.set(self.0.take());
    }
}

/// A process that runs kernels; a handle.
#[derive(Clone)]
pub struct Emulator(Arc<Mutex<Server>>);

struct Server {
    child: Child,
    to: BufWriter<ChildStdin>,
    from: BufReader<ChildStdout>,
    /// The kernels that have run.
    used: BTreeSet<&'static str>,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Emulator {
    /// Returns the emulator of the kernels as they are; `None`, and a word on it, where there is no C++ compiler.
    pub fn shared() -> Option<Self> {
        static SHARED: LazyLock<Option<Emulator>> = LazyLock::new(|| Emulator::of(KERNELS));
        SHARED.clone()
    }

    /// Compiles kernels.
    pub fn of(kernels: &str) -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let declared: String = declared(kernels).map(|(name, shares)| format!("KERNEL({name}, {shares})\n")).collect();
        for (file, text) in [("kernels.cu", kernels), ("kernels.inc", &declared), ("emulated.cpp", SERVER)] {
            std::fs::write(folder.path().join(file), text).unwrap();
        }
        let compile = |extra: &[&str]| {
            let mut compiler = Command::new("c++");
            compiler.current_dir(&folder).args([
                "-std=c++20",
                "-O1",
                "-g",
                "-pthread",
                "-o",
                "emulated",
                "emulated.cpp",
            ]);
            compiler.args(extra).output()
        };
        let Ok(first) = compile(&["-fsanitize=address,undefined", "-fno-sanitize-recover=undefined"]) else {
            super::testing::say_skipped();
            return None;
        };
        let done = if first.status.success() { first } else { compile(&[]).unwrap() };
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        Some(Self(Arc::new(Mutex::new(Server::start(folder.path())))))
    }

    /// Runs something on one thread for which tensors in main memory are on a GPU.
    pub fn run<R: Send>(&self, work: impl FnOnce() -> R + Send) -> R {
        let own = self.clone();
        let start = move |_| HERE.with_borrow_mut(|here| *here = Some(own.clone()));
        let pool = rayon::ThreadPoolBuilder::new().num_threads(1).start_handler(start).build().unwrap();
        pool.install(work)
    }

    /// Returns the kernels that nobody has started so far.
    pub fn unused(&self) -> Vec<&'static str> {
        let used = &self.0.lock().unwrap_or_else(PoisonError::into_inner).used;
        declared(KERNELS).map(|(name, _)| name).filter(|name| !used.contains(name)).collect()
    }

    pub(super) fn call(&self, call: &Call) -> Result<Vec<Tensor>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).call(call)
    }
}

/// The kernels that a source declares, and whether their threads share memory.
fn declared(kernels: &str) -> impl Iterator<Item = (&str, bool)> {
    let declarations = kernels.split("extern \"C\" __global__ void ").skip(1);
    declarations.filter_map(|rest| Some((rest.split_once('(')?.0, rest.contains("__shared__"))))
}

impl Server {
    fn start(folder: &Path) -> Self {
        let mut command = Command::new(folder.join("emulated"));
        // Memory of a process that is killed leaks.
        command.env("ASAN_OPTIONS", "detect_leaks=0").stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let (to, from) = (BufWriter::new(child.stdin.take().unwrap()), BufReader::new(child.stdout.take().unwrap()));
        Self { child, to, from, used: BTreeSet::new() }
    }

    fn call(&mut self, call: &Call) -> Result<Vec<Tensor>> {
        self.used.insert(call.kernel);
        self.send(call).map_err(|e| dead(call, &e))?;
        let answer = self.text().map_err(|e| dead(call, &e))?;
        if !answer.is_empty() {
            bail!("kernel `{}`: {answer}", call.kernel);
        }
        for tensor in call.changes {
            let size = tensor.elem_count() * tensor.dtype().size_in_bytes();
            let bytes = self.take(size).map_err(|e| dead(call, &e))?;
            by_float!(tensor.dtype(), "a change by a kernel", T => slices::change::<T>(tensor, |values| {
                values.copy_from_slice(&bytemuck::pod_collect_to_vec::<u8, T>(&bytes));
                Ok(())
            }))?;
        }
        let mut made = Vec::new();
        for (dims, dtype) in call.makes {
            let size: usize = dims.iter().product();
            let bytes = self.take(size * dtype.size_in_bytes()).map_err(|e| dead(call, &e))?;
            made.push(match dtype {
                DType::F32 => Tensor::from_vec(bytemuck::pod_collect_to_vec::<u8, f32>(&bytes), *dims, &Device::Cpu)?,
                DType::F64 => Tensor::from_vec(bytemuck::pod_collect_to_vec::<u8, f64>(&bytes), *dims, &Device::Cpu)?,
                other => bail!("no kernel makes {other:?}"),
            });
        }
        Ok(made)
    }

    fn send(&mut self, call: &Call) -> std::io::Result<()> {
        self.put(call.kernel.as_bytes())?;
        let count = call.args.len() + call.changes.len() + call.makes.len();
        for number in [call.blocks, call.lanes, count as u32] {
            self.to.write_all(&number.to_le_bytes())?;
        }
        for arg in call.args {
            match arg {
                Arg::Read(tensor) => self.lend(b'r', tensor)?,
                Arg::Null => self.to.write_all(b"n")?,
                Arg::U32(number) => self.to.write_all(&[b"u", &number.to_le_bytes()[..]].concat())?,
                Arg::U64(number) => self.to.write_all(&[b"k", &number.to_le_bytes()[..]].concat())?,
                Arg::F32(number) => self.to.write_all(&[b"f", &number.to_le_bytes()[..]].concat())?,
            }
        }
        for tensor in call.changes {
            self.lend(b'c', tensor)?;
        }
        for (dims, dtype) in call.makes {
            let size = dims.iter().product::<usize>() * dtype.size_in_bytes();
            self.to.write_all(&[b'o', letter(*dtype)])?;
            self.to.write_all(&(size as u32).to_le_bytes())?;
        }
        self.to.flush()
    }

    fn lend(&mut self, how: u8, tensor: &Tensor) -> std::io::Result<()> {
        self.to.write_all(&[how, letter(tensor.dtype())])?;
        let tensor = tensor.flatten_all().unwrap();
        let bytes = match tensor.dtype() {
            DType::F32 => bytemuck::cast_slice(&tensor.to_vec1::<f32>().unwrap()).to_vec(),
            DType::F64 => bytemuck::cast_slice(&tensor.to_vec1::<f64>().unwrap()).to_vec(),
            DType::U32 => bytemuck::cast_slice(&tensor.to_vec1::<u32>().unwrap()).to_vec(),
            DType::I64 => bytemuck::cast_slice(&tensor.to_vec1::<i64>().unwrap()).to_vec(),
            _ => tensor.to_vec1::<u8>().unwrap(),
        };
        self.put(&bytes)
    }

    /// Sends bytes after their number.
    fn put(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        self.to.write_all(&(bytes.len() as u32).to_le_bytes())?;
        self.to.write_all(bytes)
    }

    fn take(&mut self, size: usize) -> std::io::Result<Vec<u8>> {
        let mut bytes = vec![0; size];
        self.from.read_exact(&mut bytes)?;
        Ok(bytes)
    }

    fn text(&mut self) -> std::io::Result<String> {
        let size = self.take(4)?;
        let size = size.iter().rev().fold(0, |size, byte| size << 8 | usize::from(*byte));
        Ok(String::from_utf8_lossy(&self.take(size)?).into_owned())
    }
}

/// How a type is called in the protocol.
fn letter(dtype: DType) -> u8 {
    match dtype {
        DType::F32 => b'f',
        DType::F64 => b'd',
        DType::U32 => b'u',
        DType::I64 => b'k',
        _ => b'b',
    }
}

fn dead(call: &Call, error: &std::io::Error) -> Error {
    Error::msg(format!("kernel `{}` has ended its process, see above: {error}", call.kernel))
}
