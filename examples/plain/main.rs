//! Three published models in plain form, beside the built-in ones: `cargo run --example plain -- list models`.

mod gat;
mod gcn;
mod gpr_gnn;

#[global_allocator]
static ALLOCATOR: ppgnn::MiMalloc = ppgnn::MiMalloc;

fn main() -> std::process::ExitCode {
    let program = ppgnn::Program::new().plain_model::<gcn::Gcn>().plain_model::<gpr_gnn::GprGnn>();
    program.plain_model::<gat::Gat>().run()
}
