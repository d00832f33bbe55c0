"""Times training on graphs of the size that the paper's own programs ran out of memory on, and its peak memory.

    python benches/large.py PROGRAM [flickr arxiv cora-full] [adagnn gfir ...]      needs NumPy; `make bench-large`

Three graphs are generated, with the nodes, edges, features and classes of Flickr, OGBN-arXiv and Cora-Full, degrees of a heavy
tail and a third of the edges between classes. Everything runs through the command line, one process per stage. An epoch is
what six epochs take more than two, per split; the memory is the largest resident size of the process that trains. What does
not fit into `PPGNN_MEMORY` (16GiB) is refused before it runs, and its row says so. `PPGNN_DEVICE` and `PPGNN_SPLITS` choose where to train
and how many splits. Words leave the other rows out.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

SPLITS, FEW, MANY = int(os.environ.get("PPGNN_SPLITS") or 2), 2, 6
MEMORY = os.environ.get("PPGNN_MEMORY") or "16GiB"
DEVICE = os.environ.get("PPGNN_DEVICE") or "cpu"

# Nodes, undirected edges, features, classes; Cora-Full's features are words, 60 of them per node.
GRAPHS = {"flickr": (89_250, 450_000, 500, 7), "arxiv": (169_343, 1_160_000, 128, 40), "cora-full": (19_793, 63_000, 8_710, 70)}

# Name of the row, model, parameters.
ROWS = [
    ("lgc", "lgc", {"order": 10}),
    ("gfir", "gfir", {"order": 4}),
    ("arma", "arma", {"stacks": 2, "depth": 2}),
    ("gcn-ogb", "gcn-ogb", {}),
    ("adagnn", "adagnn", {}),
    ("supergat", "supergat", {}),
    ("fagcn", "fagcn", {}),
    ("tdgnn", "tdgnn", {"hops": [1, 2], "weighted": True}),
    ("tdgnn-4", "tdgnn", {"hops": [1, 2, 3, 4], "weighted": True}),
    ("h2gcn", "h2gcn", {}),
    ("pp-gnn", "pp-gnn", {"hidden": 64}),
    ("pp-gnn-features", "pp-gnn", {"hidden": 64, "filters": "features"}),
]

STAGES = """ppgnn: 1
name: large
datasets:
  graph: {{ format: {format}, path: graph.npz }}
stages:
  load: {{ params: {{ dataset: graph }} }}
  featurize: {{ inputs: {{ graph: load }} }}
  normalize: {{ inputs: {{ graph: load }}, params: {{ self-loops: {loops} }} }}
  two-hops: {{ uses: normalize, inputs: {{ graph: load }}, params: {{ self-loops: false, hops: 2 }} }}
  split: {{ inputs: {{ graph: load }}, params: {{ count: {splits} }} }}
  evd: {{ inputs: {{ operator: normalize }}, params: {{ k: 256 }} }}
  project: {{ inputs: {{ spectrum: evd, nodes: featurize }} }}
  separate: {{ inputs: {{ operator: normalize }}, params: {{ depth: {depth}, hops: {hops} }} }}
  train:
    inputs: {{ operator: normalize, nodes: featurize, splits: split, spectrum: evd, projection: project, hops: separate, second-operator: two-hops }}
    params: {{ model: {model}, window: 0{params} }}
"""


def generated(name):
    """Edges, features and labels: both ends of an edge by a heavy tail, two thirds of them inside a class."""
    nodes, edges, features, classes = GRAPHS[name]
    rng = np.random.default_rng(7)
    labels = rng.integers(0, classes, nodes)
    weight = rng.pareto(2.5, nodes) + 0.2
    by_class = np.lexsort((rng.random(nodes), labels))
    total = np.concatenate([[0], np.cumsum(weight[by_class])])
    starts = np.searchsorted(labels[by_class], np.arange(classes + 1))
    draw = lambda low, high: by_class[np.minimum(np.searchsorted(total, low + rng.random(len(low)) * (high - low), side="right") - 1, nodes - 1)]
    count = int(1.02 * edges)
    one = draw(np.zeros(count), np.full(count, total[-1]))
    own, anywhere = labels[one], rng.random(count) < 1 / 3
    other = draw(np.where(anywhere, 0, total[starts[own]]), np.where(anywhere, total[-1], total[starts[own + 1]]))
    pairs = np.unique(np.sort(np.stack([one, other], 1)[one != other], 1), axis=0)
    pairs = pairs[np.sort(rng.permutation(len(pairs))[:edges])]
    return pairs, labels, rng


def write(name, folder):
    nodes, _, features, classes = GRAPHS[name]
    pairs, labels, rng = generated(name)
    if name != "cora-full":
        centres = rng.standard_normal((classes, features), dtype=np.float32)
        x = 0.3 * centres[labels] + rng.standard_normal((nodes, features), dtype=np.float32)
        np.savez(folder / "graph.npz", node_features=x, node_labels=labels, edges=pairs)
        return "heterophilous-npz"
    words = [np.unique(np.concatenate([rng.integers(0, features, 45), (label * 120 + rng.integers(0, 120, 15)) % features])) for label in labels]
    order = np.argsort(pairs[:, 0], kind="stable")
    rows = lambda counts: np.concatenate([[0], np.cumsum(counts)])
    np.savez(
        folder / "graph.npz", labels=labels, adj_shape=[nodes, nodes], attr_shape=[nodes, features],
        adj_indptr=rows(np.bincount(pairs[:, 0], minlength=nodes)), adj_indices=pairs[order, 1], adj_data=np.ones(len(pairs), np.float32),
        attr_indptr=rows([len(w) for w in words]), attr_indices=np.concatenate(words), attr_data=np.ones(sum(map(len, words)), np.float32),
    )
    return "sparse-npz"


def run(program, folder, target, epochs=FEW):
    """Runs one target. Returns the peak memory of the process in bytes, and what went wrong."""
    command = [program, "run", "large.yaml", target, "--quiet", "--artifacts", "store", "--memory", MEMORY, "--device", DEVICE, "--set", f"train.epochs={epochs}"]
    with open(folder / "said", "wb") as said:
        process = subprocess.Popen(command, cwd=folder, stdout=said, stderr=said)
        _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    problem = (folder / "said").read_text(errors="replace") if process.returncode else None
    return usage.ru_maxrss * 1024, problem


def seconds(folder, stage):
    """Seconds of the newest artifact of a stage."""
    manifests = sorted((folder / "store/objects" / stage).glob("*/manifest.json"), key=os.path.getmtime)
    return json.loads(manifests[-1].read_text())["seconds"] if manifests else 0.0


def reason(said):
    """The line that says what is wrong."""
    lines = [line.strip() for line in said.splitlines() if "memory" in line or "error" in line or "×" in line]
    return lines[0][:160] if lines else said.strip()[-160:]


def measure(program, folder, name, form, row, model, params):
    words = "".join(f", {key}: {json.dumps(value)}" for key, value in params.items())
    # Ten powers, as published; on the two large graphs four, which need a third of the time and keep the same entries.
    depth, hops = (10 if name == "cora-full" else 4), params.get("hops", [1])
    loops = json.dumps(model not in ("h2gcn", "fagcn"))
    text = STAGES.format(format=form, splits=SPLITS, depth=depth, hops=hops, loops=loops, model=model, params=words)
    (folder / "large.yaml").write_text(text)
    needed = {"tdgnn": ["separate"], "h2gcn": ["two-hops"], "pp-gnn": ["evd"]}.get(model, []) + (["project"] if "filters" in params else [])
    prepared = []
    for stage in ["load", "featurize", "normalize", "split", *needed]:
        start = time.time()
        peak, problem = run(program, folder, stage)
        if problem:
            return f"{name:<10} {row:<16} `{stage}` is refused or fails: {reason(problem)}"
        if stage in needed:
            prepared.append(f"{stage} {time.time() - start:.0f} s, {peak / 2**30:.1f} GiB")
    took = []
    for epochs in (FEW, MANY):
        peak, problem = run(program, folder, "train", epochs)
        if problem:
            return f"{name:<10} {row:<16} `train` is refused or fails: {reason(problem)}"
        took.append(seconds(folder, "train"))
    epoch = (took[1] - took[0]) / (MANY - FEW) / SPLITS
    return f"{name:<10} {row:<16} {epoch:>11.3f} {peak / 2**30:>11.2f}   {'; '.join(prepared)}"


def main():
    program, words = str(Path(sys.argv[1]).resolve()), sys.argv[2:]
    graphs = [name for name in GRAPHS if name in words] or list(GRAPHS)
    rows = [row for row in ROWS if row[0] in words] or ROWS
    print(f"{SPLITS} splits, {os.cpu_count()} cores, at most {MEMORY}")
    print(f"{'graph':<10} {'model':<16} {'s per epoch':>11} {'peak GiB':>11}   before", flush=True)
    for name in graphs:
        with tempfile.TemporaryDirectory() as folder:
            folder = Path(folder)
            form = write(name, folder)
            for row, model, params in rows:
                print(measure(program, folder, name, form, row, model, params), flush=True)


if __name__ == "__main__":
    main()
