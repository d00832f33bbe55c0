# Named entry points, nothing clever: every target is one or two commands that also work by hand.

.PHONY: help build test lint check docs quickstart bench-plan bench-price bench-load bench-evd bench-train bench-plain bench-search bench-large gpu-check kill-loop faults lapack check-cuda clean-artifacts

help: ## Show this list
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 18

build: ## Build the program: our code and all arithmetic optimised (`cargo build --release` optimises everything)
	cargo build --profile quick

test: ## Run all tests
	cargo test --workspace

lint: ## Check formatting and lints
	cargo fmt --all --check
	cargo clippy --workspace --all-targets -- -D warnings

docs: ## Build the documentation, warnings denied
	RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps

check: lint test docs ## Everything that a change must pass

quickstart: ## Run the quick start
	cargo run --profile quick -- run pipelines/quickstart.yaml

# Benchmarks are built as `quick`: our crates and those that compute have the settings of `release`, without its long build.
bench-plan: ## Time planning of 1 000, 10 000 and 100 000 nodes
	cargo bench --profile quick --bench plan

bench-load: ## Time and peak memory of loading generated files of full size (OGBN-arXiv, Flickr, Wiki-CS, Cora-Full)
	cargo bench --profile quick --workspace --bench load

bench-price: ## Compare what plans say that runs will take with what they take (ONLY: some pipelines; FULL=1: as written, hours)
	PPGNN_FULL=$(FULL) cargo bench --profile quick --bench price -- $(ONLY)

PEERS ?= ../shared/bench
bench-evd: ## Time eigenpairs against SciPy and NumPy (PEERS: the folder of peer_eigsh.py), and of generated graphs
	test -x target/peers/bin/python || { python3 -m venv target/peers && target/peers/bin/pip install --quiet numpy scipy; }
	PPGNN_PEERS=$(PEERS) PPGNN_PYTHON=target/peers/bin/python cargo bench --profile quick --bench evd

ROWS ?=
bench-train: ## Time training against PyTorch, another build (PPGNN_BASELINE), and the machine; ROWS="cora gfir" chooses
	test -x target/peers/bin/python || python3 -m venv target/peers
	target/peers/bin/python -c 'import torch, scipy' 2>/dev/null || target/peers/bin/pip install --quiet numpy scipy torch
	PPGNN_PYTHON=$(CURDIR)/target/peers/bin/python cargo bench --profile quick --bench train -- $(ROWS)

bench-plain: ## Time models in plain form against those in lanes and PyTorch, on Cora and Chameleon; ROWS chooses
	cargo build --profile quick --example plain
	PPGNN_PLAIN=$(CURDIR)/target/quick/examples/plain $(MAKE) bench-train ROWS="$(or $(ROWS),cora chameleon gcn gpr-gnn)"

bench-search: ## Compare the TPE sampler with Optuna's and with random search, 50 seeds; ROWS="branin mixed" chooses
	test -x target/peers/bin/python || python3 -m venv target/peers
	target/peers/bin/python -c 'import optuna' 2>/dev/null || target/peers/bin/pip install --quiet optuna
	PPGNN_PYTHON=$(CURDIR)/target/peers/bin/python cargo bench --profile quick --bench search -- $(ROWS)

bench-large: ## Time and peak memory of training on generated graphs of the size of Flickr, OGBN-arXiv and Cora-Full; ROWS chooses
	test -x target/peers/bin/python || { python3 -m venv target/peers && target/peers/bin/pip install --quiet numpy; }
	cargo build --profile quick
	target/peers/bin/python benches/large.py target/quick/ppgnn $(ROWS)

kill-loop: ## Kill runs at 2 000 random moments and compare the bytes at the end
	PPGNN_KILLS=2000 cargo test --test cli killed_runs -- --nocapture

faults: ## Meet runs with a fault at every call that changes the store (full disks, I/O errors, signals, clocks, memory); FAULTS=1200: so many
	PPGNN_FAULTS=$(or $(FAULTS),all) cargo test --test cli faults:: -- --nocapture

lapack: ## Test the second eigen-solver (needs a system LAPACK, such as libopenblas-dev)
	cargo test -p ppgnn-stages --features lapack eigen

check-cuda: ## Build and link all of the feature `cuda` with a compiler from PyPI (no GPU; a quarter of an hour); `.ci/check-cuda-types` is quick
	.ci/check-cuda

gpu-check: ## Check a CUDA GPU against the CPU and write gpu-report.txt (needs a card, the toolkit and Python; half an hour)
	python3 benches/gpu_check.py

clean-artifacts: ## Show what the store could lose; `ppgnn cache gc --delete` deletes it
	cargo run --profile quick -- cache gc
