"""Times what a user would write instead: every model in PyTorch, as a careful user would write it.

    python benches/peers/models.py FOLDER --model gcn-kipf --epochs 40 [--threads 2] [--sparse] [--set hidden=64 ...]
    python benches/peers/models.py --check tests/science/models.json

FOLDER holds `operator.npz`, `features.npz` and `nodes.npz` as `ppgnn export` writes them. Each epoch is a training pass, a step of
Adam and one evaluation pass with loss and accuracy of the validation nodes, for one split. Products with the operator are sparse
(CSR). Features are dense by default, which is faster for most sizes here; `--sparse` multiplies stored values alone. What is fixed
is computed once. Prints one line of JSON.

`--check` computes logits, loss and gradients from the weights of that file, which the program's own tests compare with as well: so
both compute the same.
"""

import argparse
import json
import time

import numpy as np
import torch
import torch.nn.functional as F


class Graph:
    """Operator, features and what is made of them once."""

    def __init__(self, operator, features, labels, train, val, hops=None, sparse=False):
        self.s, self.x, self.sparse = operator, features, sparse
        self.labels, self.train, self.val, self.hops = labels, train, val, hops or {}
        self.fixed = {}

    def once(self, name, make):
        if name not in self.fixed:
            self.fixed[name] = make()
        return self.fixed[name]

    def times(self, weight, p=0.0, training=False):
        """drop(X) W."""
        if self.sparse:
            x = self.once("csr", lambda: self.x.to_sparse_csr())
            if training and p > 0:
                values = F.dropout(x.values(), p, True)
                x = torch.sparse_csr_tensor(x.crow_indices(), x.col_indices(), values, x.shape)
            return x @ weight
        return F.dropout(self.x, p, training) @ weight


class Net(torch.nn.Module):
    """Weights by the program's names; `forward` reads like the formula."""

    def __init__(self, graph, params, weights):
        super().__init__()
        self.graph, self.params = graph, params
        self.names = list(weights)
        self.values = torch.nn.ParameterList([torch.nn.Parameter(weights[name]) for name in self.names])
        self.states = {}

    def weights(self):
        return dict(zip(self.names, self.values))

    def drop(self, h, p):
        return F.dropout(h, p, self.training)

    def norm(self, h, w, name):
        mean, variance = self.states[name]
        return F.batch_norm(h, mean, variance, w[f"{name}.scale"], w[f"{name}.shift"], self.training, 0.1, 1e-5)

    def forward(self):
        return getattr(self, self.params["model"].replace("-", "_"))(self.weights(), self.graph, self.params)

    def mlp(self, w, g, p):
        second = p.get("dropout-hidden")
        h = F.relu(g.times(w["lin1.weight"], p["dropout"], self.training) + w["lin1.bias"])
        h = self.drop(h, p["dropout"] if second is None else second)
        return h @ w["lin2.weight"] + w["lin2.bias"]

    def lr(self, w, g, p):
        return g.times(w["lin.weight"], p["dropout"], self.training) + w["lin.bias"]

    def gcn(self, w, g, p):
        h = g.s @ g.times(w["conv1.weight"]) + w["conv1.bias"]
        h = self.norm(h, w, "norm1") if p.get("batch-norm") else h
        return g.s @ (self.drop(F.relu(h), p["dropout"]) @ w["conv2.weight"]) + w["conv2.bias"]

    def gcn_kipf(self, w, g, p):
        h = F.relu(g.s @ g.times(w["conv1.weight"], p["dropout"], self.training))
        return g.s @ (self.drop(h, p["dropout"]) @ w["conv2.weight"])

    def gcn_ogb(self, w, g, p):
        h = g.times(w["conv1.weight"])
        for i in range(1, p["layers"]):
            h = g.s @ (h if i == 1 else h @ w[f"conv{i}.weight"]) + w[f"conv{i}.bias"]
            h = self.norm(h, w, f"norm{i}") if p.get("batch-norm", True) else h
            h = self.drop(F.relu(h), p["dropout"])
        last = p["layers"]
        return g.s @ (h @ w[f"conv{last}.weight"]) + w[f"conv{last}.bias"]

    def sgcn(self, w, g, p):
        def propagated():
            x = g.x
            for _ in range(p["order"]):
                x = g.s @ x
            return x
        return self.drop(g.once("propagated", propagated), p["dropout"]) @ w["lin.weight"] + w["lin.bias"]

    def lgc(self, w, g, p):
        return self.polynomial(w["alpha"], g.times(w["lin.weight"], p["dropout"], self.training), g)

    def polynomial(self, coefficients, z, g):
        out = coefficients[0] * z
        for c in coefficients[1:]:
            z = g.s @ z
            out = out + c * z
        return out

    def appnp(self, w, g, p):
        z = h = self.mlp(w, g, p)
        for _ in range(p["order"]):
            z = (1 - p["alpha"]) * (g.s @ z) + p["alpha"] * h
        return z

    def gpr_gnn(self, w, g, p):
        return self.polynomial(w["gamma"], self.drop(self.mlp(w, g, p), p["dprate"]), g)

    def tdgnn(self, w, g, p):
        h = self.mlp(w, g, p)
        if not p.get("weighted"):
            return h + g.once("hops", lambda: sum_csr([g.hops[l] for l in p["hops"]])) @ h
        theta = w["theta"]
        out = theta[0] * h
        for c, l in zip(theta[1:], p["hops"]):
            out = out + c * (g.hops[l] @ h)
        return out

    def arma(self, w, g, p):
        # All stacks side by side: one product with the features for all of them.
        stacks, _, classes = w["init.weight"].shape
        beside = lambda weight: weight.permute(1, 0, 2).reshape(weight.shape[1], -1)
        y = g.times(beside(w["init.weight"]))
        for t in range(p["depth"]):
            of = 0 if p.get("shared-weights") else t
            if t > 0:
                step = w[f"step{1 if p.get('shared-weights') else t}.weight"]
                y = torch.einsum("nsi,sij->nsj", y.view(-1, stacks, classes), step).reshape(y.shape)
            skip = g.times(beside(w[f"skip{of}.weight"]), p["dropout"], self.training)
            y = g.s @ y + skip + w[f"skip{of}.bias"].reshape(-1)
            y = F.relu(y) if t + 1 < p["depth"] or p.get("last-activation") != "identity" else y
        return y.view(-1, stacks, classes).mean(1)

    def adagnn(self, w, g, p):
        # L X is fixed; filters by broadcasting.
        lx = g.once("laplacian", lambda: g.x - g.s @ g.x)
        e = (g.x - lx * (1 + w["first.phi"])) @ w["first.weight"] + w["first.bias"]
        e = self.drop(F.relu(e), p["dropout"])
        for i in range(p["layers"] - 2):
            e = self.drop(e - (e - g.s @ e) * w["inner.phi"][i], p["dropout"])
        e = e - (e - g.s @ e) * (1 + w["last.phi"])
        return e @ w["last.weight"] + w["last.bias"]

    def gfir(self, w, g, p):
        out = None
        for k in range(p["order"], -1, -1):
            term = g.times(w[f"h{k}.weight"], p["dropout"], self.training)
            out = term if out is None else g.s @ out + term
        return out

    def penalty(self):
        if self.params["model"] == "adagnn" and self.params.get("l1"):
            return self.params["l1"] * sum(v.abs().sum() for n, v in self.weights().items() if n.endswith("phi"))
        return 0.0


def sum_csr(matrices):
    total = matrices[0].to_sparse_coo()
    for matrix in matrices[1:]:
        total = total + matrix.to_sparse_coo()
    return total.coalesce().to_sparse_csr()


def csr(indptr, indices, values, shape, dtype=torch.float32):
    indptr, indices = (torch.as_tensor(np.asarray(a, dtype=np.int64)) for a in (indptr, indices))
    return torch.sparse_csr_tensor(indptr, indices, torch.as_tensor(np.asarray(values)).to(dtype), size=shape)


def drawn(params, features, classes):
    """Weights of a model by the program's names, for timing: their values do not matter."""
    d, f, c = params.get("hidden", 64), features, classes
    glorot = lambda *shape: torch.empty(*shape).uniform_(-1, 1) * (6 / (shape[-2] + shape[-1])) ** 0.5
    two = {"lin1.weight": glorot(f, d), "lin1.bias": torch.zeros(d), "lin2.weight": glorot(d, c), "lin2.bias": torch.zeros(c)}
    model = params["model"]
    norm = lambda i: {f"norm{i}.scale": torch.ones(d), f"norm{i}.shift": torch.zeros(d)}
    if model in ("lr", "sgcn"):
        return {"lin.weight": glorot(f, c), "lin.bias": torch.zeros(c)}
    if model == "lgc":
        return {"lin.weight": glorot(f, c), "alpha": torch.rand(params["order"] + 1)}
    if model in ("gcn", "gcn-kipf", "gcn-ogb"):
        layers = params.get("layers", 2)
        sizes = [f] + [d] * (layers - 1) + [c]
        out = {}
        for i, (a, b) in enumerate(zip(sizes, sizes[1:]), 1):
            out[f"conv{i}.weight"] = glorot(a, b)
            if model != "gcn-kipf":
                out[f"conv{i}.bias"] = torch.zeros(b)
            if i < layers and params.get("batch-norm", model == "gcn-ogb"):
                out.update(norm(i))
        return out
    if model in ("mlp", "appnp", "gpr-gnn", "tdgnn"):
        extra = {"gpr-gnn": {"gamma": torch.rand(params.get("order", 0) + 1)}, "tdgnn": {}}.get(model, {})
        if model == "tdgnn" and params.get("weighted"):
            extra = {"theta": torch.ones(1 + len(params["hops"]))}
        return {**two, **extra}
    if model == "arma":
        s, t = params["stacks"], params["depth"]
        out = {"init.weight": glorot(s, f, c)}
        out.update({f"step{i}.weight": glorot(s, c, c) for i in range(1, t)})
        for i in range(t):
            out.update({f"skip{i}.weight": glorot(s, f, c), f"skip{i}.bias": torch.zeros(s, c)})
        return out
    if model == "adagnn":
        inner = {"inner.phi": torch.zeros(params["layers"] - 2, d)} if params["layers"] > 2 else {}
        return {"first.weight": glorot(f, d), "first.bias": torch.zeros(d), "first.phi": 0.01 * torch.randn(f), **inner,
                "last.weight": glorot(d, c), "last.bias": torch.zeros(c), "last.phi": 0.01 * torch.randn(d)}
    if model == "gfir":
        return {f"h{k}.weight": glorot(f, c) for k in range(params["order"] + 1)}
    raise SystemExit(f"no peer for {model}")


def train(graph, params, epochs):
    torch.manual_seed(0)
    weights = drawn(params, graph.x.shape[1], int(graph.labels.max()) + 1)
    net = Net(graph, params, weights)
    for name, value in net.weights().items():
        if name.endswith(".scale"):
            net.states[name[:-6]] = (torch.zeros_like(value.data), torch.ones_like(value.data))
    adam = torch.optim.Adam(net.parameters(), lr=0.005, weight_decay=1e-3)

    def epoch():
        net.train()
        adam.zero_grad()
        (F.cross_entropy(net()[graph.train], graph.labels[graph.train]) + net.penalty()).backward()
        adam.step()
        net.eval()
        with torch.no_grad():
            out = net()
            right = (out.argmax(1) == graph.labels)[graph.val].float().mean().item()
            return F.cross_entropy(out[graph.val], graph.labels[graph.val]).item(), right

    for _ in range(3):  # one-time set-up is not counted
        epoch()
    start = time.time()
    for _ in range(epochs):
        epoch()
    return (time.time() - start) / epochs


def load(folder, sparse):
    operator, features, nodes = (np.load(f"{folder}/{name}.npz") for name in ("operator", "features", "nodes"))
    n = len(nodes["labels"])
    s = csr(operator["indptr"], operator["indices"], operator["values"], (n, n))
    if "values" in features:
        x = csr(features["indptr"], features["indices"], features["values"], tuple(features["shape"])).to_dense()
    else:
        x = torch.as_tensor(features["features"]).float()
    parts = nodes["parts"][0]
    hops = {}
    try:
        stored = np.load(f"{folder}/hops.npz")
        for l in sorted({int(name.split(".")[0]) for name in stored.files}):
            hops[l] = csr(stored[f"{l}.indptr"], stored[f"{l}.indices"], stored[f"{l}.values"], (n, n))
    except FileNotFoundError:
        pass
    part = lambda which: torch.as_tensor(np.flatnonzero(parts == which))
    return Graph(s, x, torch.as_tensor(nodes["labels"].astype(np.int64)), part(1), part(2), hops, sparse)


def check(path):
    """Compares logits, loss and gradients with those of the program's reference file."""
    torch.set_default_dtype(torch.float64)
    file = json.load(open(path))
    told = file["graph"]
    n, labels = told["nodes"], torch.tensor(told["labels"])
    dense = lambda t: torch.tensor(t["values"]).reshape(t["shape"])
    a = torch.eye(n)
    for i, j in told["edges"]:
        a[i, j] = a[j, i] = 1
    scale = a.sum(1) ** -0.5
    s = scale[:, None] * a * scale[None, :]
    powers, distance = sum(torch.matrix_power(s, k) for k in range(1, 5)), torch.full((n, n), -1)
    for hop in range(5):
        reached = torch.matrix_power(a, hop) > 0
        distance[reached & (distance < 0)] = hop
    hops = {l: (powers * ((distance == l) | ((distance == 0) & (l == 1)))).to_sparse_csr() for l in range(1, 5)}
    worst, compared = 0.0, 0
    for case in file["cases"]:
        if not hasattr(Net, case["model"].replace("-", "_")):
            continue
        for sparse in (False, True):
            train_nodes = torch.tensor(told["train"])
            graph = Graph(s.to_sparse_csr(), dense(told["features"]), labels, train_nodes, train_nodes, hops, sparse)
            params = {"model": case["model"], **case["params"]}
            net = Net(graph, params, {name: dense(value) for name, value in case["weights"].items()})
            for name, value in case.get("states", {}).items():
                layer, kind = name.rsplit(".", 1)
                pair = net.states.get(layer, (None, None))
                net.states[layer] = (dense(value), pair[1]) if kind == "running-mean" else (pair[0], dense(value))
            net.train()
            out = net()
            loss = F.cross_entropy(out[train_nodes], labels[train_nodes]) + net.penalty()
            loss.backward()
            far = [(out - dense(case["logits"])).abs().max().item(), abs(loss.item() - case["loss"])]
            far += [(v.grad - dense(case["gradients"][name])).abs().max().item() for name, v in net.weights().items()]
            assert max(far) < 1e-7, (case["name"], far)
            worst, compared = max(worst, *far), compared + 1
    print(json.dumps({"compared": compared, "largest-difference": worst}))


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", nargs="?")
    parser.add_argument("--check")
    parser.add_argument("--model")
    parser.add_argument("--epochs", type=int, default=40)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--sparse", action="store_true")
    parser.add_argument("--set", nargs="*", default=[])
    arguments = parser.parse_args()
    if arguments.check:
        check(arguments.check)
    else:
        torch.set_num_threads(arguments.threads)
        params = {"model": arguments.model, "dropout": 0.5, "dprate": 0.5}
        params.update({name: json.loads(value) for name, value in (word.split("=", 1) for word in arguments.set)})
        seconds = train(load(arguments.folder, arguments.sparse), params, arguments.epochs)
        print(json.dumps({"model": arguments.model, "ms_per_split_epoch": round(1e3 * seconds, 4)}))
