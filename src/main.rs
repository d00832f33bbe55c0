//! The `ppgnn` program.

/// Training frees and takes the same large arrays in every epoch. This allocator keeps them for a while; that of the C library
/// hands them back to the system, which then fills them with zeros page by page.
#[global_allocator]
static ALLOCATOR: ppgnn::MiMalloc = ppgnn::MiMalloc;

fn main() -> std::process::ExitCode {
    ppgnn::Program::new().run()
}
