"""Times what a user would write instead: every model in PyTorch, as a careful user would write it.

    python benches/peers/models.py OBJECTS --params '{"model": "gfir", "order": 4, "dropout": 0.5}' [--threads 2] [--sparse]
    python benches/peers/models.py --check tests/science/models.json

OBJECTS is the folder `objects` of a store with one artifact of every stage that the model needs. Each epoch is a training pass, a
step of Adam and one evaluation pass with loss and accuracy of the validation nodes, for one split; epochs are counted for
`--seconds`. Products with the operator are sparse (CSR). Features are dense, or with `--sparse` stored values alone are multiplied.
What is fixed is computed once, and filters act as U (h * (U^T Z)). Prints one line of JSON.

`--check` computes logits, loss and gradients of every case of that file from its weights, which the program's own tests compare
with as well: so both compute the same.
"""

import argparse
import json
import time
from math import comb
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F


class Graph:
    """Operator, features and what is made of them once."""

    def __init__(self, operator, features, labels, train, val, hops=None, sides=None, sparse=False, second=None, related=None):
        self.s, self.x, self.sparse, self.second = operator, features, sparse, second
        # Parts of a node, and the matrices of all relations on parts.
        self.parts, self.apart, self.mean = related or (0, None, None)
        self.labels, self.train, self.val, self.hops = labels, train, val, hops or {}
        # Eigenvalues, and eigenvectors in columns, of both sides.
        self.sides = sides or {}
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
        h = g.s @ g.times(w["conv1.weight"], p["dropout"], self.training)
        h = self.norm(h, w, "norm1") if p.get("batch-norm") else h
        return g.s @ (self.drop(F.relu(h), p["dropout"]) @ w["conv2.weight"])

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

    def bernnet(self, w, g, p):
        # Horner's form: 2K products instead of K + K(K+1)/2. 2I - L is I + S without self-loops.
        h, order = self.drop(self.mlp(w, g, p), p["dprate"]), p["order"]
        powers = [h]
        for _ in range(order):
            powers.append(powers[-1] + g.s @ powers[-1])
        c = [F.relu(t) * comb(order, k) / 2**order for k, t in enumerate(w["theta"])]
        out = c[order] * powers[0]
        for k in range(order - 1, -1, -1):
            out = c[k] * powers[order - k] + out - g.s @ out
        return out

    def pp_gnn(self, w, g, p):
        # One pass through the network for both branches, as `masks: shared`.
        eta = p["eta"] if "gamma" in w else 1.0
        z = None
        if "lin1.weight" in w:
            z = self.mlp(w, g, p) if "lin2.weight" in w else g.times(w["lin1.weight"], p["dropout"], self.training) + w["lin1.bias"]
        u, powers, bins = g.once("pairs", lambda: pairs_of(w, g, p))
        local = torch.cat([w[name] for name in LOCAL if name in w])
        h = (powers * local[bins]).sum(1, keepdim=True)
        if p.get("filters") == "features":
            projected = g.once("projected", lambda: u.T @ g.x)
            y = u @ (h * (projected @ w["spectral-lin1.weight"])) + w["spectral-lin1.bias"]
            if "spectral-lin2.weight" in w:
                y = self.drop(F.relu(y), p["dropout"]) @ w["spectral-lin2.weight"] + w["spectral-lin2.bias"]
        else:
            y = u @ (h * (u.T @ z))
        return eta * y + (1 - eta) * self.polynomial(w["gamma"], self.drop(z, p["dprate"]), g) if "gamma" in w else y

    def tdgnn(self, w, g, p):
        h = self.mlp(w, g, p)
        if not p.get("weighted"):
            return h + g.once("hops", lambda: sum_csr([g.hops[l] for l in p["hops"]])) @ h
        theta = w["theta"]
        out = theta[0] * h
        for c, l in zip(theta[1:], p["hops"]):
            out = out + c * (g.hops[l] @ h)
        return out

    def geom_gcn(self, w, g, p):
        """All relations are one product, on rows that are parts of nodes."""
        n, parts, d = len(g.labels), g.parts, p["hidden"]
        z = g.times(w["layer1.weight"], p["dropout"], self.training)
        h = F.relu(g.apart @ z.reshape(n * parts, d)).reshape(n, parts * d)
        return g.mean @ (self.drop(h, p["dropout"]) @ w["layer2.weight"]).reshape(n * parts, -1)

    def h2gcn(self, w, g, p):
        r = g.times(w["embed.weight"])
        r = F.relu(r) if p.get("relu", True) else r
        once = torch.cat([g.s @ r, g.second @ r], 1)
        parts = [once, r] if p["rounds"] == 1 else [g.s @ once, g.second @ once, r, once]
        return self.drop(torch.cat(parts, 1), p["dropout"]) @ w["classifier.weight"]

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

    def supergat(self, w, g, p):
        self.links = 0.0
        q = g.times(w["conv1.weight"], p["dropout"], self.training)
        h = F.elu(self.attend(w, g, p, 1, q, p["heads"]).flatten(1) + w["conv1.bias"])
        q = self.drop(h, p["dropout"]) @ w["conv2.weight"]
        return self.attend(w, g, p, 2, q, p["out-heads"]).mean(2) + w["conv2.bias"]

    def attend(self, w, g, p, layer, q, heads):
        """Scores by node instead of a row of both ends for every edge; nodes x f x heads, heads last."""
        rows, columns, _ = g.once("edges", lambda: edges_of(g.s))
        n, q = q.shape[0], q.view(q.shape[0], -1, heads)
        scale = q.shape[1] ** 0.5 if p["kind"] == "sd" else 1.0
        sources = q[columns]
        s = (q[rows] * sources).sum(1)
        if p["kind"] == "sd":
            e = s / scale
        else:
            own, other = torch.einsum("nfh,tfh->tnh", q, w[f"conv{layer}.attention"].view(2, -1, heads))
            e = (own[rows] + other[columns]) * torch.sigmoid(s)
        e = F.leaky_relu(e, 0.2)
        top = torch.full((n, heads), -torch.inf, dtype=e.dtype).index_reduce(0, rows, e.detach(), "amax")
        powers = torch.exp(e - top[rows])
        alpha = powers / torch.zeros(n, heads, dtype=e.dtype).index_add(0, rows, powers)[rows]
        if self.training and p["edge-loss"] > 0:
            edges = torch.randperm(len(rows))[: int(p["edges"] * len(rows))]
            i, j = others(g, rows, columns, int(p["negatives"] * p["edges"] * len(rows)))
            logits = torch.cat([s[edges].mean(1), (q[i] * q[j]).sum((1, 2)) / heads]) / scale
            are_edges = torch.cat([torch.ones(len(edges)), torch.zeros(len(i))]).to(logits.dtype)
            self.links = self.links + F.binary_cross_entropy_with_logits(logits, are_edges)
        return torch.zeros_like(q).index_add(0, rows, self.drop(alpha, p["dropout"])[:, None, :] * sources)

    def fagcn(self, w, g, p):
        # Scores by node instead of a row of both ends for every edge; values of a sparse matrix have no fast gradient.
        rows, columns, values = g.once("edges", lambda: edges_of(g.s))
        h = F.relu(g.times(w["t1.weight"], p["dropout"], self.training) + w["t1.bias"])
        h = start = self.drop(h, p["dropout"])
        for layer in range(1, p["layers"] + 1):
            scores = h @ w[f"gate{layer}.weight"].view(2, -1).T
            gates = torch.tanh(scores[rows, 0] + scores[columns, 1] + w[f"gate{layer}.bias"])
            weights = self.drop(gates * values, p["dropout"])
            h = (p["epsilon"] * start).index_add(0, rows, weights[:, None] * h[columns])
        return h @ w["t2.weight"] + w["t2.bias"]

    def gfir(self, w, g, p):
        out = None
        for k in range(p["order"], -1, -1):
            term = g.times(w[f"h{k}.weight"], p["dropout"], self.training)
            out = term if out is None else g.s @ out + term
        return out

    def penalty(self):
        if self.params["model"] == "adagnn" and self.params.get("l1"):
            return self.params["l1"] * sum(v.abs().sum() for n, v in self.weights().items() if n.endswith("phi"))
        if self.params["model"] == "supergat":
            return self.params["edge-loss"] * self.links
        if self.params.get("reg"):
            return self.params["reg"] * boundary(self.weights(), self.graph, self.params)
        return 0.0


LOCAL = ("gamma-low", "gamma-high", "gamma-joint")


def pairs_of(w, g, p):
    """Kept eigenvectors in columns, powers of their eigenvalues, and the bin of each."""
    variant = p.get("variant", "full")
    kept = [g.sides[side] for side in ("low", "high") if variant in ("full", side, f"gpr-{side}")]
    values, u = torch.cat([v for v, _ in kept]), torch.cat([u for _, u in kept], 1)
    local = [w[name] for name in LOCAL if name in w]
    powers = torch.stack([values**j for j in range(local[0].shape[1])], 1)
    if "gamma-joint" in w:
        length = len(g.labels) if p["binning"] == "by-nodes" else len(values)
        return u.contiguous(), powers, torch.arange(len(values)) // max(1, length // p["bins"])
    bins, first = [], 0
    for (side, _), rows in zip(kept, local):
        starts = torch.tensor([b * len(side) // len(rows) for b in range(len(rows))])
        bins.append(first + torch.searchsorted(starts, torch.arange(len(side)), right=True) - 1)
        first += len(rows)
    return u.contiguous(), powers, torch.cat(bins)


def boundary(w, g, p):
    """The regulariser: facing ends of neighbouring bins."""
    _, powers, bins = g.once("pairs", lambda: pairs_of(w, g, p))
    local, total = torch.cat([w[name] for name in LOCAL if name in w]), 0.0
    low = len(g.sides["low"][0]) if p.get("variant", "full") == "full" else None
    for i in torch.nonzero(bins[1:] != bins[:-1]).flatten().tolist():
        if i + 1 != low or p.get("reg-gap", True):
            apart = (powers[i, 1] - powers[i + 1, 1]) ** 2
            total = total + torch.exp(-apart) * (powers[i] @ local[bins[i]] - powers[i + 1] @ local[bins[i + 1]]) ** 2
    return total


def sum_csr(matrices):
    total = matrices[0].to_sparse_coo()
    for matrix in matrices[1:]:
        total = total + matrix.to_sparse_coo()
    return total.coalesce().to_sparse_csr()


def others(g, rows, columns, count):
    """Pairs of nodes that are no edges, without replacement: by trial, or from all of them where most are wanted."""
    n = g.s.shape[0]

    def table():
        is_edge = torch.zeros(n * n, dtype=torch.bool)
        is_edge[rows * n + columns] = True
        return is_edge

    is_edge = g.once("is edge", table)
    there = n * n - len(rows)
    if 2 * count > there:
        codes = torch.nonzero(~is_edge).view(-1)
    else:
        codes = torch.randint(n * n, (int(1.2 * count * n * n / there) + 16,))
        codes = torch.unique(codes[~is_edge[codes]])
    codes = codes[torch.randperm(len(codes))[:count]]
    return codes // n, codes % n


def edges_of(matrix):
    """Row, column and value of every entry."""
    counts = matrix.crow_indices().diff()
    return torch.arange(len(counts)).repeat_interleave(counts), matrix.col_indices(), matrix.values()


def csr(indptr, indices, values, shape, dtype=torch.float32):
    indptr, indices = (torch.as_tensor(np.asarray(a, dtype=np.int64)) for a in (indptr, indices))
    return torch.sparse_csr_tensor(indptr, indices, torch.as_tensor(np.asarray(values)).to(dtype), size=shape)


def related(indptr, indices, relations, dtype=torch.float32):
    """Relations that some pair has, S_r of all of them on parts of nodes, and their mean over nine."""
    degree = np.diff(np.asarray(indptr, dtype=np.int64))
    n, rows, columns = len(degree), np.repeat(np.arange(len(degree)), degree), np.asarray(indices, dtype=np.int64)
    used = np.unique(relations)
    parts, part = len(used), np.searchsorted(used, relations)
    values = torch.tensor((degree[rows] * degree[columns]) ** -0.5).to(dtype)
    entries = lambda at, value, height: torch.sparse_coo_tensor(
        torch.tensor(np.stack([at, columns * parts + part])), value, (height, n * parts)).coalesce().to_sparse_csr()
    return parts, entries(rows * parts + part, values, n * parts), entries(rows, values / 9, n)


def drawn(params, features, classes, parts):
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
    if model in ("mlp", "appnp", "gpr-gnn", "bernnet", "tdgnn", "pp-gnn"):
        coefficients = torch.rand(params.get("order", 0) + 1)
        extra = {"gpr-gnn": {"gamma": coefficients}, "bernnet": {"theta": coefficients}}.get(model, {})
        if model == "tdgnn" and params.get("weighted"):
            extra = {"theta": torch.ones(1 + len(params["hops"]))}
        if model == "pp-gnn":
            extra = {"gamma": coefficients, **{f"gamma-{side}": coefficients.repeat(params["bins"], 1) for side in ("low", "high")}}
            if params.get("filters") == "features":
                extra.update({f"spectral-{name}": value.clone() for name, value in two.items()})
        return {**two, **extra}
    if model == "geom-gcn":
        return {"layer1.weight": glorot(f, parts * d), "layer2.weight": glorot(parts * d, parts * c)}
    if model == "h2gcn":
        return {"embed.weight": glorot(f, d), "classifier.weight": glorot((3 if params["rounds"] == 1 else 7) * d, c)}
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
    if model == "supergat":
        units, outputs = d * params["heads"], c * params["out-heads"]
        w = {"conv1.weight": glorot(f, units), "conv1.attention": glorot(2 * d, params["heads"]), "conv1.bias": torch.zeros(units),
             "conv2.weight": glorot(units, outputs), "conv2.attention": glorot(2 * c, params["out-heads"]), "conv2.bias": torch.zeros(c)}
        return {name: value for name, value in w.items() if params["kind"] == "mx" or "attention" not in name}
    if model == "fagcn":
        gates = {f"gate{i}.weight": glorot(2 * d, 1) for i in range(1, params["layers"] + 1)}
        gates.update({f"gate{i}.bias": torch.zeros(1) for i in range(1, params["layers"] + 1)})
        return {"t1.weight": glorot(f, d), "t1.bias": torch.zeros(d), **gates, "t2.weight": glorot(d, c), "t2.bias": torch.zeros(c)}
    if model == "gfir":
        return {f"h{k}.weight": glorot(f, c) for k in range(params["order"] + 1)}
    raise SystemExit(f"no peer for {model}")


def train(graph, params, seconds):
    torch.manual_seed(0)
    weights = drawn(params, graph.x.shape[1], int(graph.labels.max()) + 1, graph.parts)
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
    start, epochs = time.time(), 0
    while time.time() - start < seconds or epochs < 3:
        epoch()
        epochs += 1
    return (time.time() - start) / epochs


def tensors(objects, stage, file, hops=None):
    """Arrays of the one artifact of a stage, of operators that of so many hops, by name; none if there is no artifact."""
    found = sorted(Path(objects, stage).glob(f"*/{file}.safetensors"))
    params = lambda path: json.loads(path.with_name("manifest.json").read_text())["ingredients"]["params"]
    found = [path for path in found if hops is None or params(path).get("hops", 1) == hops]
    if not found:
        return {}
    raw, types = found[0].read_bytes(), {"F32": "<f4", "F64": "<f8", "U8": "u1", "U32": "<u4", "U64": "<u8"}
    start = 8 + int.from_bytes(raw[:8], "little")
    told = {name: t for name, t in json.loads(raw[8:start]).items() if name != "__metadata__"}
    count = lambda t: int(np.prod(t["shape"], dtype=np.int64))
    array = lambda t: np.frombuffer(raw, types[t["dtype"]], count(t), start + t["data_offsets"][0]).reshape(t["shape"])
    return {name: array(t) for name, t in told.items()}


def load(objects, sparse):
    operator, nodes = tensors(objects, "normalize", "operator", hops=1), tensors(objects, "featurize", "nodes")
    second = tensors(objects, "normalize", "operator", hops=2)
    n = len(nodes["labels"])
    square = lambda of, prefix="": csr(*(of[f"{prefix}{part}"] for part in ("indptr", "indices", "values")), (n, n))
    if "features" in nodes:
        x = torch.tensor(nodes["features"])
    else:
        columns = int(nodes["features.cols"][0])
        x = csr(*(nodes[f"features.{part}"] for part in ("indptr", "indices", "values")), (n, columns)).to_dense()
    hops, spectrum = tensors(objects, "separate", "hops"), tensors(objects, "evd", "spectrum")
    hops = {int(name.split(".")[0]): square(hops, f"{name.split('.')[0]}.") for name in hops if name.endswith(".values")}
    side = lambda name: (torch.tensor(spectrum[f"{name}.values"]).float(), torch.tensor(spectrum[f"{name}.vectors"]).T)
    sides = {name: side(name) for name in ("low", "high")} if spectrum else {}
    parts = tensors(objects, "split", "splits")["parts"][0]
    part = lambda which: torch.as_tensor(np.flatnonzero(parts == which))
    labels = torch.as_tensor(nodes["labels"].astype(np.int64))
    relations = tensors(objects, "relate", "relations")
    relations = related(relations["indptr"], relations["indices"], relations["relations"]) if relations else None
    second = square(second) if second else None
    return Graph(square(operator), x, labels, part(1), part(2), hops, sides, sparse, second, relations)


def normalised(told, loops, two_hops=False):
    """The adjacency matrix and the operator of the file's graph, or of its nodes that are two hops apart."""
    a = torch.eye(told["nodes"]) * loops
    for i, j in told["edges"]:
        a[i, j] = a[j, i] = 1
    if two_hops:
        near = a + torch.eye(told["nodes"])
        a = ((near @ near > 0) & (near == 0)).to(a.dtype)
    scale = torch.where(a.sum(1) > 0, a.sum(1), torch.inf) ** -0.5
    return a, scale[:, None] * a * scale[None, :]


def relations_of(told):
    """Who hears whom in which relation: neighbours, a node five further on, the node itself."""
    n, a = told["nodes"], normalised(told, 0.0)[0]
    relation = lambda i, j: 8 if i == j else (3 * i + 5 * j) % 4 if a[i, j] else 4 + i % 3 if j == (i + 5) % n else None
    rows = [[(j, relation(i, j)) for j in range(n) if relation(i, j) is not None] for i in range(n)]
    columns, relations = zip(*(pair for row in rows for pair in row))
    return related(np.cumsum([0, *map(len, rows)]), columns, relations, torch.float64)


def check(path):
    """Compares logits, loss and gradients of every case with those of the program's reference file."""
    torch.set_default_dtype(torch.float64)
    file = json.load(open(path))
    told = file["graph"]
    n, labels = told["nodes"], torch.tensor(told["labels"])
    dense = lambda t: torch.tensor(t["values"]).reshape(t["shape"])
    a, s = normalised(told, 1.0)
    powers, distance = sum(torch.matrix_power(s, k) for k in range(1, 5)), torch.full((n, n), -1)
    for hop in range(5):
        reached = torch.matrix_power(a, hop) > 0
        distance[reached & (distance < 0)] = hop
    hops = {l: (powers * ((distance == l) | ((distance == 0) & (l == 1)))).to_sparse_csr() for l in range(1, 5)}
    sides = {name: (torch.tensor(side["values"]), dense(side["vectors"]).T) for name, side in told["spectrum"].items()}
    worst, compared = 0.0, 0
    second, relations = normalised(told, 0.0, two_hops=True)[1].to_sparse_csr(), relations_of(told)
    for case in file["cases"]:
        operator = normalised(told, 0.0)[1] if case["model"] in ("bernnet", "fagcn", "h2gcn") else s
        for sparse in (False, True):
            train_nodes = torch.tensor(told["train"])
            x = dense(told["features"])
            given = operator.to_sparse_csr(), x, labels, train_nodes, train_nodes
            graph = Graph(*given, hops, sides, sparse, second, relations)
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
    print(json.dumps({"compared": compared, "models": len({c["model"] for c in file["cases"]}), "largest-difference": worst}))


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("objects", nargs="?")
    parser.add_argument("--check")
    parser.add_argument("--params", type=json.loads)
    parser.add_argument("--seconds", type=float, default=2)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--sparse", action="store_true")
    arguments = parser.parse_args()
    if arguments.check:
        check(arguments.check)
    else:
        torch.set_num_threads(arguments.threads)
        seconds = train(load(arguments.objects, arguments.sparse), arguments.params, arguments.seconds)
        print(json.dumps({"model": arguments.params["model"], "ms_per_split_epoch": round(1e3 * seconds, 4)}))
