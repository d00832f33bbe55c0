"""Writes models.json beside this file: logits, loss, gradients and one optimiser step of every model on a small graph.

    python tests/science/models.py        needs NumPy and PyTorch

The formulas are written out here in double precision and share nothing with the program, whose tests read the file. There
are no random numbers: weights come from `wave`. Before anything is written, gradients are compared with finite differences
and with formulas by hand, the step with PyTorch's Adam, and models with each other where one is a case of another.

    A~     = (D+I)^-1/2 (A+I) (D+I)^-1/2       the operator of all models but BernNet, FAGCN and H2GCN
    A0     = D^-1/2 A D^-1/2, with 0^-1/2 = 0  theirs: L0 = I - A0 of BernNet
    A2     = the same of nodes two hops apart  H2GCN's second one
    S_r    = (d_i d_j)^-1/2 where i hears j    Geom-GCN's, one for each of nine relations; d_i of all that i hears
    loss   = mean cross-entropy of the training nodes + penalty; no dropout anywhere
    step   = Adam with the decay added to the gradient; layers are decayed, biases too, coefficients of filters are not
"""

import json
from math import comb
from pathlib import Path

import numpy as np
import torch

torch.set_default_dtype(torch.float64)
torch.set_num_threads(1)

# The graph: a component of eleven nodes with a triangle and longer cycles, and a node without edges.
EDGES = [(0, 1), (0, 4), (1, 2), (1, 5), (2, 3), (2, 6), (3, 4), (3, 7), (4, 8), (5, 6), (5, 9), (6, 9), (7, 8)]
EDGES += [(8, 10), (9, 10)]
N, F, D, C = 12, 7, 4, 3
LABELS = [0, 1, 2, 0, 1, 2, 0, 1, 2, 0, 1, 2]
TRAIN = [0, 2, 4, 5, 9, 11]
K_SIDE = 4  # eigenpairs a side
LR, DECAY, BERN_LR = 0.01, 5e-3, 0.002
BETA1, BETA2, EPSILON = 0.9, 0.999, 1e-8


def wave(shape, seed):
    """w[i, j] = sin(0.7 i + 1.3 j + seed) / 2 to six digits; a vector has j = 0."""
    i = np.arange(shape[0])[:, None]
    j = np.arange(shape[1] if len(shape) == 2 else 1)[None, :]
    return torch.tensor(np.round(np.sin(0.7 * i + 1.3 * j + seed) / 2, 6).reshape(shape))


def significant(x, digits=9):
    return np.vectorize(lambda v: float(f"{v:.{digits}g}"))(np.asarray(x, dtype=float)) + 0.0  # no -0


A = np.zeros((N, N))
for a, b in EDGES:
    A[a, b] = A[b, a] = 1
full = A + np.eye(N)
scale = 1 / np.sqrt(full.sum(1))
LOOPS = scale[:, None] * full * scale[None, :]
degree = A.sum(1)
scale = np.where(degree > 0, 1 / np.sqrt(np.maximum(degree, 1)), 0)
PLAIN = scale[:, None] * A * scale[None, :]
# Nodes at distance exactly two, normalised by degrees of their own.
FAR = ((full @ full > 0) & (full == 0)).astype(float)
degree = FAR.sum(1)
scale = np.where(degree > 0, 1 / np.sqrt(np.maximum(degree, 1)), 0)
TWO_HOPS = scale[:, None] * FAR * scale[None, :]
# Who hears whom in which relation: neighbours, a node five further on, the node itself; nobody does in relation 7.
RELATIONS = np.zeros((9, N, N))
for i in range(N):
    for j in range(N):
        relation = 8 if i == j else (3 * i + 5 * j) % 4 if A[i, j] else 4 + i % 3 if j == (i + 5) % N else None
        if relation is not None:
            RELATIONS[relation, i, j] = 1
scale = 1 / np.sqrt(RELATIONS.sum((0, 2)))
RELATED = scale[:, None] * RELATIONS * scale[None, :]
# About half of the features are zero, the others differ in sign and size.
feature = lambda i, f: np.cos(1.1 * i + 2.3 * f) if (4 * i * i + 2 * f + i * f) % 11 < 6 else 0
X = np.round([[feature(i, f) for f in range(F)] for i in range(N)], 3) + 0.0  # no -0


def eigenpairs():
    """All pairs by descending eigenvalue, rounded as they are written; those of 1 are the components' own, larger first."""
    values, vectors = np.linalg.eigh(LOOPS)
    values, vectors = values[::-1].copy(), vectors[:, ::-1].copy()
    assert abs(values[1] - 1) < 1e-12 and values[2] < 1 - 1e-3, "two components"
    values[:2] = 1
    for column, members in enumerate([range(11), [11]]):
        u = np.zeros(N)
        u[list(members)] = np.sqrt(full.sum(1)[list(members)])
        vectors[:, column] = u / np.linalg.norm(u)
    for column in range(N):
        top = np.argmax(np.abs(vectors[:, column]))
        vectors[:, column] *= np.sign(vectors[top, column])
    assert np.abs(LOOPS @ vectors - vectors * values).max() < 1e-12
    assert np.abs(vectors.T @ vectors - np.eye(N)).max() < 1e-12
    return significant(values), significant(vectors)


VALUES, VECTORS = eigenpairs()
S, S0, S2, x = torch.tensor(LOOPS), torch.tensor(PLAIN), torch.tensor(TWO_HOPS), torch.tensor(X)
SR = torch.tensor(RELATED)
labels, train = torch.tensor(LABELS), torch.tensor(TRAIN)


# ---- the models: functions of weights by name ----


def mlp(w):
    return torch.relu(x @ w["lin1.weight"] + w["lin1.bias"]) @ w["lin2.weight"] + w["lin2.bias"]


def lr(w):
    return x @ w["lin.weight"] + w["lin.bias"]


def gcn(w):
    hidden = torch.relu(S @ (x @ w["conv1.weight"]) + w["conv1.bias"])
    return S @ (hidden @ w["conv2.weight"]) + w["conv2.bias"]


def normalised(h, w, name, trains):
    """Batch normalisation: moments of all nodes in training, running ones in evaluation."""
    mean, variance = w[f"{name}.running-mean"], w[f"{name}.running-variance"]
    if trains:
        mean, variance = h.mean(0), ((h - h.mean(0)) ** 2).mean(0)
    return (h - mean) / torch.sqrt(variance + 1e-5) * w[f"{name}.scale"] + w[f"{name}.shift"]


def gcn_norm(w, trains=True):
    hidden = torch.relu(normalised(S @ (x @ w["conv1.weight"]) + w["conv1.bias"], w, "norm1", trains))
    return S @ (hidden @ w["conv2.weight"]) + w["conv2.bias"]


def kipf(w):
    return S @ (torch.relu(S @ (x @ w["conv1.weight"])) @ w["conv2.weight"])


def kipf_norm(w, trains=True):
    return S @ (torch.relu(normalised(S @ (x @ w["conv1.weight"]), w, "norm1", trains)) @ w["conv2.weight"])


def ogb(w, layers, trains=True):
    h = x
    for i in range(1, layers):
        h = S @ (h @ w[f"conv{i}.weight"]) + w[f"conv{i}.bias"]
        h = torch.relu(normalised(h, w, f"norm{i}", trains))
    return S @ (h @ w[f"conv{layers}.weight"]) + w[f"conv{layers}.bias"]


def sgcn(w, order):
    return torch.matrix_power(S, order) @ x @ w["lin.weight"] + w["lin.bias"]


def lgc(w):
    """As published: a sum over propagated features, then W."""
    return sum(a * (torch.matrix_power(S, k) @ x) for k, a in enumerate(w["alpha"])) @ w["lin.weight"]


def gfir(w, order):
    return sum(torch.matrix_power(S, k) @ x @ w[f"h{k}.weight"] for k in range(order + 1))


def distances():
    """Hops between nodes: the first power of A + I with an entry; -1 where there is none."""
    out, power = -np.ones((N, N), dtype=int), np.eye(N)
    for hop in range(N):
        out[(power > 0) & (out < 0)] = hop
        power = power @ full
    return out


def tdgnn(w, hops, depth=4):
    """Sums of powers, masked by distance; the first hop has the diagonal too."""
    theta = w.get("theta", torch.ones(1 + len(hops)))
    m, apart, h = sum(torch.matrix_power(S, k) for k in range(1, depth + 1)), torch.tensor(distances()), mlp(w)
    out = theta[0] * h
    for weight, hop in zip(theta[1:], hops):
        mask = (apart == hop) | ((apart == 0) & (hop == 1))
        out = out + weight * ((m * mask) @ h)
    return out


def h2gcn(w, rounds, relu=True):
    """As published: all rounds side by side before the classifier."""
    r = [torch.relu(x @ w["embed.weight"]) if relu else x @ w["embed.weight"]]
    for _ in range(rounds):
        r.append(torch.cat([S0 @ r[-1], S2 @ r[-1]], 1))
    return torch.cat([r[-1], *r[:-1]], 1) @ w["classifier.weight"]


def geom_gcn(w, d):
    """As published: a layer for each of nine relations, joined, then averaged. Nobody is heard in relation 7, so it has no weights."""
    used = [r for r in range(9) if r != 7]
    w1 = {r: w["layer1.weight"][:, at * d : (at + 1) * d] for at, r in enumerate(used)}
    w2 = {r: w["layer2.weight"][:, at * C : (at + 1) * C] for at, r in enumerate(used)}
    h = torch.relu(torch.cat([SR[r] @ (x @ w1[r]) for r in used], 1))
    return torch.stack([SR[r] @ (h @ w2[r]) if r in used else torch.zeros(N, C) for r in range(9)]).mean(0)


def arma(w, depth, shared=False, last=True):
    stacks = []
    for s in range(w["init.weight"].shape[0]):
        y = x
        for t in range(depth):
            of = 0 if shared else t
            weight = w["init.weight"][s] if t == 0 else w[f"step{1 if shared else t}.weight"][s]
            y = S @ (y @ weight) + x @ w[f"skip{of}.weight"][s] + w[f"skip{of}.bias"][s]
            y = torch.relu(y) if last or t + 1 < depth else y
        stacks.append(y)
    return torch.stack(stacks).mean(0)


def adagnn(w, layers):
    """As published, with an explicit diagonal matrix."""
    laplacian = torch.eye(N) - S
    filtered = lambda e, phi: e - laplacian @ e @ torch.diag(phi)
    e = torch.relu(filtered(x, 1 + w["first.phi"]) @ w["first.weight"] + w["first.bias"])
    for i in range(layers - 2):
        e = filtered(e, w["inner.phi"][i])
    return filtered(e, 1 + w["last.phi"]) @ w["last.weight"] + w["last.bias"]


def by_head(w, layer, h, heads):
    """Projected nodes, heads x nodes x f. The values of a feature stand beside each other, one per head."""
    return (h @ w[f"conv{layer}.weight"]).reshape(N, -1, heads).permute(2, 0, 1)


def attention(w, layer, q, kind):
    """As published, with a row [q_i ; q_j] for every pair and head; heads x targets x sources."""
    s = q @ q.transpose(1, 2)
    if kind == "sd":
        e = s / np.sqrt(q.shape[2])
    else:
        pairs = torch.cat([q[:, :, None, :].expand(-1, N, N, -1), q[:, None, :, :].expand(-1, N, N, -1)], 3)
        e = (pairs * w[f"conv{layer}.attention"].T[:, None, None, :]).sum(3) * torch.sigmoid(s)
    e = torch.nn.functional.leaky_relu(e, 0.2)
    return torch.softmax(e.masked_fill(S == 0, -torch.inf), 2)


def supergat_units(w, kind, heads):
    q = by_head(w, 1, x, heads)
    sums = attention(w, 1, q, kind) @ q
    return torch.nn.functional.elu(sums.permute(1, 2, 0).reshape(N, -1) + w["conv1.bias"])


def supergat(w, kind, heads, out_heads):
    q = by_head(w, 2, supergat_units(w, kind, heads), out_heads)
    return (attention(w, 2, q, kind) @ q).mean(0) + w["conv2.bias"]


def edge_loss(w, kind, heads, out_heads):
    """All edges and all other pairs: nothing is left to chance."""
    total = torch.tensor(0.0)
    for layer, h, count in [(1, x, heads), (2, supergat_units(w, kind, heads), out_heads)]:
        q = by_head(w, layer, h, count)
        z = (q @ q.transpose(1, 2)).mean(0) / (np.sqrt(q.shape[2]) if kind == "sd" else 1)
        total = total + torch.nn.functional.binary_cross_entropy_with_logits(z, (S != 0).double())
    return total


def fagcn(w, layers, epsilon):
    """As published, with a row [h_i ; h_j] for every pair; A0 leaves those of edges."""
    start = h = torch.relu(x @ w["t1.weight"] + w["t1.bias"])
    for layer in range(1, layers + 1):
        pairs = torch.cat([h[:, None, :].expand(N, N, -1), h[None, :, :].expand(N, N, -1)], 2)
        gates = torch.tanh(pairs @ w[f"gate{layer}.weight"] + w[f"gate{layer}.bias"])[:, :, 0]
        h = epsilon * start + (gates * S0) @ h
    return h @ w["t2.weight"] + w["t2.bias"]


def appnp(w, order, alpha):
    h = z = mlp(w)
    for _ in range(order):
        z = (1 - alpha) * (S @ z) + alpha * h
    return z


def polynomial(gamma, z):
    out = gamma[0] * z
    for coefficient in gamma[1:]:
        z = S @ z
        out = out + coefficient * z
    return out


def gpr(w):
    return polynomial(w["gamma"], mlp(w))


def bernstein(theta, h):
    """The direct form: sum of theta_k 2^-K binom(K, k) (2I - L0)^(K-k) L0^k H."""
    laplacian, order = torch.eye(N) - S0, len(theta) - 1
    out = torch.zeros_like(h)
    for k in range(order + 1):
        term = torch.matrix_power(2 * torch.eye(N) - laplacian, order - k) @ torch.matrix_power(laplacian, k) @ h
        out = out + theta[k] * comb(order, k) / 2**order * term
    return out


def bern(w):
    return bernstein(torch.relu(w["theta"]), mlp(w))


def sides(variant):
    return [side for side in ("low", "high") if variant in ("full", side, f"gpr-{side}")]


def kept(side, k=K_SIDE):
    """Indices of the pairs of a side among all that descend."""
    return list(range(k)) if side == "low" else list(range(N - k, N))


def responses(gamma, pairs):
    """h of every pair of a side: bins are equal runs of pairs."""
    lam = torch.tensor(VALUES[pairs])
    powers = torch.stack([lam**j for j in range(gamma.shape[1])], 1)
    bin_of = torch.arange(len(pairs)) // (len(pairs) // gamma.shape[0])
    return (powers * gamma[bin_of]).sum(1)


def base(w):
    return mlp(w) if "lin2.weight" in w else x @ w["lin1.weight"] + w["lin1.bias"]


def pp(w, variant="full", eta=0.3, k=K_SIDE):
    z = base(w)
    local = torch.zeros(N, C)
    for side in sides(variant):
        pairs = kept(side, k)
        u = torch.tensor(VECTORS[:, pairs])
        local = local + u @ (responses(w[f"gamma-{side}"], pairs)[:, None] * (u.T @ z))
    if variant in ("low", "high"):
        return local
    return eta * local + (1 - eta) * polynomial(w["gamma"], z)


def filtered(w, pairs, h):
    """Filtered features through a network of their own."""
    u = torch.tensor(VECTORS[:, pairs])
    y = u @ (h[:, None] * (u.T @ x)) @ w["spectral-lin1.weight"] + w["spectral-lin1.bias"]
    if "spectral-lin2.weight" not in w:
        return y
    return torch.relu(y) @ w["spectral-lin2.weight"] + w["spectral-lin2.bias"]


def pp_features(w, variant="full", eta=0.3):
    """PP-GNN as published first: the filter before a network of its own, beside a whole GPR-GNN."""
    pairs = [pair for side in sides(variant) for pair in kept(side)]
    local = filtered(w, pairs, torch.cat([responses(w[f"gamma-{side}"], kept(side)) for side in sides(variant)]))
    if variant in ("low", "high"):
        return local
    return eta * local + (1 - eta) * polynomial(w["gamma"], base(w))


def pp_joint(w, eta=0.3):
    """Both ends cut together: three slices of eight pairs are of two, and there is a fourth; the second ends at the gap."""
    pairs = kept("low") + kept("high")
    gamma, lam = w["gamma-joint"], torch.tensor(VALUES[pairs])
    h = sum(gamma[torch.arange(8) // 2, j] * lam**j for j in range(gamma.shape[1]))
    return eta * filtered(w, pairs, h) + (1 - eta) * polynomial(w["gamma"], base(w))


def pp_by_nodes(w, eta=0.3):
    """Slices as long as if all nodes had an eigenvalue: twelve in two bins are of six, and two pairs are left over."""
    pairs = kept("low") + kept("high")
    gamma, lam, u, z = w["gamma-joint"], torch.tensor(VALUES[pairs]), torch.tensor(VECTORS[:, pairs]), base(w)
    h = sum(gamma[torch.arange(8) // 6, j] * lam**j for j in range(gamma.shape[1]))
    return eta * (u @ (h[:, None] * (u.T @ z))) + (1 - eta) * polynomial(w["gamma"], z)


def boundary(w, variant="full", gap=True):
    """Neighbouring bins by ascending eigenvalue: exp(-(a - b)^2) (h_i(a) - h_{i+1}(b))^2."""
    bins = []  # (smallest, largest, coefficients, side)
    for side in sides(variant):
        gamma, lam = w[f"gamma-{side}"], VALUES[kept(side)]
        for row, values in zip(gamma, np.split(lam, gamma.shape[0])):
            bins.append((values.min(), values.max(), row, side))
    bins.sort(key=lambda b: b[0])
    at = lambda row, value: sum(row[j] * value**j for j in range(len(row)))
    total = torch.tensor(0.0)
    for (_, a, one, side), (b, _, two, other) in zip(bins, bins[1:]):
        if gap or side == other:
            total = total + np.exp(-((a - b) ** 2)) * (at(one, a) - at(two, b)) ** 2
    return total


# ---- weights, loss, step ----


def layers(prefix, *sizes):
    out = {}
    names = [prefix] if len(sizes) == 2 else [f"{prefix}{i + 1}" for i in range(len(sizes) - 1)]
    for i, name in enumerate(names):
        out[f"{name}.weight"] = wave((sizes[i], sizes[i + 1]), seed=1 + i)
        out[f"{name}.bias"] = wave((sizes[i + 1],), seed=3 + i)
    return out


def ppr(order, alpha):
    gamma = [alpha * (1 - alpha) ** k for k in range(order)] + [(1 - alpha) ** order]
    return torch.tensor(np.round(gamma, 6))


def pp_weights(variant, linear):
    w = layers("lin1", F, C) if linear else layers("lin", F, D, C)
    if variant not in ("low", "high"):
        w["gamma"] = ppr(3, 0.1)
    for side in sides(variant):
        w[f"gamma-{side}"] = wave((2, 3), seed=5 if side == "low" else 7)
    return w


def own_weights(linear):
    own = layers("lin1", F, C) if linear else layers("lin", F, D, C)
    return {f"spectral-{name}": -value for name, value in own.items()}


def cross_entropy(logits):
    chosen = logits[train]
    return (torch.logsumexp(chosen, 1) - chosen[torch.arange(len(TRAIN)), labels[train]]).mean()


def group(name, rates):
    """Learning rate and decay of a weight."""
    if name in rates:
        return rates[name]
    if name.startswith("gamma") or name == "theta":
        return rates.get("filter", LR), 0.0
    return LR, DECAY


def adam(w, g, lr, decay):
    """The first step, from moments of zero."""
    g = g + decay * w
    m, v = (1 - BETA1) * g, (1 - BETA2) * g**2
    return w - lr * (m / (1 - BETA1)) / ((v / (1 - BETA2)).sqrt() + EPSILON)


def solve(weights, states, forward, penalty, rates):
    w = {name: value.clone().requires_grad_() for name, value in weights.items()}
    with_states, plain = lambda w: {**w, **states}, forward
    forward = lambda w: plain(with_states(w))
    loss_of = lambda w: cross_entropy(forward(w)) + penalty(w)
    loss = loss_of(w)
    loss.backward()
    gradients = {name: value.grad for name, value in w.items()}
    after = {name: adam(weights[name], gradients[name], *group(name, rates)) for name in w}

    # PyTorch's own optimiser takes the same step.
    groups = [(value, *group(name, rates)) for name, value in w.items()]
    torch.optim.Adam([{"params": [value], "lr": lr, "weight_decay": decay} for value, lr, decay in groups]).step()
    for name, value in w.items():
        assert torch.allclose(value.detach(), after[name], rtol=0, atol=1e-14), name

    # Finite differences, and no gradient so small that rounding would decide the direction of the step.
    for name, value in weights.items():
        _, decay = group(name, rates)
        for i in range(value.numel()):
            ends = []
            for step in (1e-5, -1e-5):
                moved = {n: v.clone() for n, v in weights.items()}
                moved[name].view(-1)[i] += step
                ends.append(loss_of(moved).item())
            exact = gradients[name].reshape(-1)[i].item()
            assert abs((ends[0] - ends[1]) / 2e-5 - exact) < 1e-8, (name, i, ends, exact)
            used = exact + decay * value.reshape(-1)[i].item()
            assert used == 0 or abs(used) > 2e-5, (name, i, used)
    return forward(weights), loss.item(), gradients, after


def tensor(value):
    return {"shape": list(value.shape), "values": significant(value.detach().reshape(-1)).tolist()}


CASES = []
LAYERS = {"hidden": D, "dropout": 0.0}


def case(name, model, params, weights, forward, penalty=lambda w: torch.tensor(0.0), rates=None, states=None, evaluated=None):
    """`states`: what the model changes itself, by name: before and after. `evaluated`: the forward pass of an evaluation."""
    before = {name: value for name, (value, _) in (states or {}).items()}
    logits, loss, gradients, after = solve(weights, before, forward, penalty, rates or {})
    tensors = lambda named: {name: tensor(value) for name, value in named.items()}
    extra = {}
    if states:
        extra["states"] = tensors(before)
        extra["states-after"] = tensors({name: value for name, (_, value) in states.items()})
    if evaluated:
        extra["eval-logits"] = tensor(evaluated({**weights, **before}))
    CASES.append({
        **extra,
        "name": name, "model": model, "params": params, "weights": tensors(weights), "logits": tensor(logits),
        "loss": float(f"{loss:.9g}"), "gradients": tensors(gradients), "after": tensors(after),
    })
    return gradients


def cases():
    two = layers("lin", F, D, C)
    by_hand(case("lr", "lr", {"dropout": 0.0}, layers("lin", F, C), lr))
    case("mlp", "mlp", LAYERS, two, mlp)
    case("gcn", "gcn", LAYERS, layers("conv", F, D, C), gcn)
    further_convolutions()
    case("appnp", "appnp", {**LAYERS, "order": 4, "alpha": 0.2}, two, lambda w: appnp(w, 4, 0.2))
    w = {**two, "gamma": ppr(4, 0.1)}
    params = {**LAYERS, "dprate": 0.0, "order": 4, "init": "ppr", "alpha": 0.1}
    gamma_by_hand(w, case("gpr-gnn", "gpr-gnn", params, w, gpr))
    theta = torch.tensor(np.round(0.6 + 0.9 * np.cos(1.1 * np.arange(5)), 6))
    assert (theta < 0).sum() == 1, "one coefficient is cut off"
    w = {**two, "theta": theta}
    params = {**LAYERS, "dprate": 0.0, "order": 4, "bern-lr": BERN_LR}
    gradients = case("bernnet", "bernnet", params, w, bern, rates={"filter": BERN_LR})
    assert (gradients["theta"][theta < 0] == 0).all() and (gradients["theta"][theta > 0] != 0).all()
    common = {**LAYERS, "dprate": 0.0, "order": 3, "local-order": 2, "bins": 2, "eta": 0.3, "init": "ppr", "alpha": 0.1}
    for variant in ("full", "low", "high", "gpr-low", "gpr-high"):
        w = pp_weights(variant, False)
        g = case(f"pp-gnn {variant}", "pp-gnn", {**common, "variant": variant}, w, lambda w, v=variant: pp(w, v))
        local_by_hand(w, g, variant)
    case("pp-gnn linear", "pp-gnn", {**common, "linear": True}, pp_weights("full", True), pp)
    for name, extra, penalty in [
        ("pp-gnn reg", {"reg": 0.5}, lambda w: 0.5 * boundary(w)),
        ("pp-gnn reg without gap", {"reg": 0.5, "reg-gap": False}, lambda w: 0.5 * boundary(w, gap=False)),
    ]:
        case(name, "pp-gnn", {**common, **extra}, pp_weights("full", False), pp, penalty)
    params = {**common, "linear": True, "variant": "low", "reg": 0.5}
    case("pp-gnn low linear reg", "pp-gnn", params, pp_weights("low", True), lambda w: pp(w, "low"), lambda w: 0.5 * boundary(w, "low"))
    plain = [(variant, False, 0.0) for variant in ("full", "low", "high", "gpr-low", "gpr-high")]
    for variant, linear, reg in [*plain, ("full", True, 0.0), ("high", True, 0.5), ("full", False, 0.5)]:
        w = {**pp_weights(variant, linear), **own_weights(linear)}
        if variant in ("low", "high"):
            w = {name: value for name, value in w.items() if not name.startswith("lin")}
        params = {**common, "filters": "features", "variant": variant, "linear": linear, **({"reg": reg} if reg else {})}
        title = f"pp-gnn features {variant}" + " linear" * linear + " reg" * (reg > 0)
        penalty = lambda w, v=variant, r=reg: r * boundary(w, v) if r else torch.tensor(0.0)
        case(title, "pp-gnn", params, w, lambda w, v=variant: pp_features(w, v), penalty)
    # Twelve nodes in two bins: the first has six of the eight pairs.
    w = {**layers("lin", F, D, C), "gamma": ppr(3, 0.1), "gamma-joint": wave((2, 3), seed=6)}
    case("pp-gnn by nodes", "pp-gnn", {**common, "binning": "by-nodes"}, w, pp_by_nodes)
    w = {**layers("lin", F, D, C), "gamma": ppr(3, 0.1), "gamma-joint": wave((4, 3), seed=6), **own_weights(False)}
    params = {**common, "filters": "features", "binning": "joint", "bins": 3}
    case("pp-gnn features joint", "pp-gnn", params, w, pp_joint)


def norm(name, columns, hidden):
    """Scale and shift, and running moments before and after a training pass through `hidden` units."""
    weights = {f"{name}.scale": 1 + wave((columns,), seed=8), f"{name}.shift": wave((columns,), seed=9)}
    mean, variance = wave((columns,), seed=10), 1 + wave((columns,), seed=11)
    running = torch.nn.BatchNorm1d(columns)
    running.running_mean.copy_(mean), running.running_var.copy_(variance)
    running(hidden)
    after = (running.running_mean.clone(), running.running_var.clone())
    moved = {f"{name}.running-mean": (mean, after[0]), f"{name}.running-variance": (variance, after[1])}
    return weights, moved


def further_convolutions():
    convolutions = layers("conv", F, D, C)
    hidden = S @ (x @ convolutions["conv1.weight"]) + convolutions["conv1.bias"]
    weights, states = norm("norm1", D, hidden)
    plain_norm = {**{k: v for k, v in convolutions.items() if "1" in k}, **weights}
    w = {**plain_norm, **{k: v for k, v in convolutions.items() if "2" in k}}
    case("gcn with batch norm", "gcn", {**LAYERS, "batch-norm": True}, w, gcn_norm, states=states,
         evaluated=lambda w: gcn_norm(w, False))
    w = {name: value for name, value in convolutions.items() if "weight" in name}
    case("gcn-kipf", "gcn-kipf", {"hidden": D, "dropout": 0.0}, w, kipf, rates={"conv2.weight": (LR, 0.0)})
    weights, states = norm("norm1", D, S @ (x @ w["conv1.weight"]))
    free = {name: (LR, 0.0) for name in ("conv2.weight", "norm1.scale", "norm1.shift")}
    case("gcn-kipf with batch norm", "gcn-kipf", {**LAYERS, "batch-norm": True}, {**w, **weights}, kipf_norm, rates=free,
         states=states, evaluated=lambda w: kipf_norm(w, False))
    three = layers("conv", F, D, D, C)
    first = S @ (x @ three["conv1.weight"]) + three["conv1.bias"]
    one, moved_one = norm("norm1", D, first)
    before = {name: value for name, (value, _) in moved_one.items()}
    second = torch.relu(normalised(first, {**one, **before}, "norm1", True))
    two, moved_two = norm("norm2", D, S @ (second @ three["conv2.weight"]) + three["conv2.bias"])
    w, states = {**three, **one, **two}, {**moved_one, **moved_two}
    case("gcn-ogb", "gcn-ogb", {**LAYERS, "layers": 3}, w, lambda w: ogb(w, 3), states=states,
         evaluated=lambda w: ogb(w, 3, False))
    case("sgcn", "sgcn", {"order": 2, "dropout": 0.0}, layers("lin", F, C), lambda w: sgcn(w, 2))
    w = {"lin.weight": wave((F, C), seed=1), "alpha": wave((4,), seed=2)}
    case("lgc", "lgc", {"order": 3, "dropout": 0.0}, w, lgc)
    w = {f"h{k}.weight": wave((F, C), seed=1 + k) for k in range(4)}
    case("gfir", "gfir", {"order": 3, "dropout": 0.0}, w, lambda w: gfir(w, 3))
    two = layers("lin", F, D, C)
    params = {"hidden": D, "dropout": 0.0, "hops": [1, 3]}
    case("tdgnn-s", "tdgnn", params, two, lambda w: tdgnn(w, [1, 3]))
    own = {"weight-decay-1": 0.02, "weight-decay-2": 0.01, "weight-decay-theta": 0.03}
    rates = {f"lin{i}.{part}": (LR, [0.02, 0.01][i - 1]) for i in (1, 2) for part in ("weight", "bias")}
    w = {**two, "theta": torch.tensor([1.0, 0.4, -0.3])}
    case("tdgnn-w", "tdgnn", {**params, "hops": [1, 2], "weighted": True, **own}, w, lambda w: tdgnn(w, [1, 2]),
         rates={**rates, "theta": (LR, 0.03)})
    assert (A * FAR == 0).all() and (np.diag(FAR) == 0).all() and (FAR == (distances() == 2)).all()
    for rounds, relu in [(1, False), (2, True)]:
        w = {"embed.weight": wave((F, D), 1), "classifier.weight": wave(((3, 7)[rounds - 1] * D, C), 2)}
        params = {**LAYERS, "rounds": rounds, "relu": relu}
        case(f"h2gcn-{rounds}", "h2gcn", params, w, lambda w, k=rounds, r=relu: h2gcn(w, k, r))
    w = {"layer1.weight": wave((F, 8 * 2), 1.7), "layer2.weight": wave((8 * 2, 8 * C), 0.69)}
    case("geom-gcn", "geom-gcn", {"hidden": 2, "dropout": 0.0}, w, lambda w: geom_gcn(w, 2))
    stack = lambda rows, columns, seed: torch.stack([wave((rows, columns), seed + 0.6 * s) for s in range(2)])
    bias = lambda seed: torch.stack([0.4 + 0.5 * wave((C,), seed + s) for s in range(2)])
    w = {"init.weight": stack(F, C, 1), "step1.weight": stack(C, C, 2), "skip0.weight": stack(F, C, 3),
         "skip1.weight": stack(F, C, 4), "skip0.bias": bias(5), "skip1.bias": bias(6)}
    params = {"stacks": 2, "depth": 2, "dropout": 0.0}
    case("arma", "arma", params, w, lambda w: arma(w, 2))
    params = {**params, "depth": 3, "shared-weights": True, "last-activation": "identity"}
    w = {name: value for name, value in w.items() if "skip1" not in name}
    case("arma shared", "arma", params, w, lambda w: arma(w, 3, shared=True, last=False))
    w = {"first.weight": wave((F, D), 1), "first.bias": wave((D,), 3), "first.phi": 0.4 * wave((F,), 5),
         "inner.phi": 0.4 * wave((2, D), 6), "last.weight": wave((D, C), 2), "last.bias": wave((C,), 4),
         "last.phi": 0.4 * wave((D,), 7)}
    l1 = lambda w: 0.05 * sum(value.abs().sum() for name, value in w.items() if "phi" in name)
    params = {"hidden": D, "layers": 4, "dropout": 0.0, "l1": 0.05}
    case("adagnn", "adagnn", params, w, lambda w: adagnn(w, 4), l1)
    # Without phi, two layers are GCN; all hops are all powers; one step of one stack is two layers.
    flat = {**{name: value for name, value in w.items() if name != "inner.phi"}}
    flat = {name: torch.zeros_like(value) if "phi" in name else value for name, value in flat.items()}
    named = {"conv1.weight": flat["first.weight"], "conv1.bias": flat["first.bias"]}
    named.update({"conv2.weight": flat["last.weight"], "conv2.bias": flat["last.bias"]})
    same(adagnn(flat, 2), gcn(named), "AdaGNN and GCN")
    powers = sum(torch.matrix_power(S, k) @ mlp(two) for k in range(5))
    same(tdgnn(two, [1, 2, 3, 4]), powers, "TDGNN and powers")
    others = N * N - np.count_nonzero(LOOPS)
    for kind, heads, out_heads, weight in [("mx", 2, 3, 0.7), ("sd", 2, 1, 0.4), ("mx", 1, 2, 0.0)]:
        w = {"conv1.weight": wave((F, D * heads), 1), "conv1.attention": wave((2 * D, heads), 5), "conv1.bias": wave((D * heads,), 3),
             "conv2.weight": wave((D * heads, C * out_heads), 2), "conv2.attention": wave((2 * C, out_heads), 6), "conv2.bias": wave((C,), 4)}
        if kind == "sd":
            w = {name: value for name, value in w.items() if "attention" not in name}
        params = {**LAYERS, "kind": kind, "heads": heads, "out-heads": out_heads, "edge-loss": weight, "edges": 1.0}
        params["negatives"] = round((others + 0.5) / np.count_nonzero(LOOPS), 4)
        case(f"supergat-{kind}" + " without edges" * (weight == 0), "supergat", params, w,
             lambda w, k=kind, h=heads, o=out_heads: supergat(w, k, h, o),
             lambda w, k=kind, h=heads, o=out_heads, weight=weight: weight * edge_loss(w, k, h, o) if weight else torch.tensor(0.0))
        # With weights of zero, attention is a mean over the neighbours and the node itself.
        even = attention(w, 1, torch.zeros(heads, N, D), kind)
        same(even, torch.tensor(full / full.sum(1)[:, None]).expand(heads, N, N), "attention of zeros")
    w = {"t1.weight": wave((F, D), 1), "t1.bias": wave((D,), 3), "gate1.weight": wave((2 * D, 1), 5), "gate1.bias": wave((1,), 6),
         "gate2.weight": wave((2 * D, 1), 7), "gate2.bias": wave((1,), 8), "t2.weight": wave((D, C), 2), "t2.bias": wave((C,), 4)}
    params = {"hidden": D, "layers": 2, "epsilon": 0.3, "dropout": 0.0}
    case("fagcn", "fagcn", params, w, lambda w: fagcn(w, 2, 0.3))
    # Open gates sum over neighbours.
    w = {**w, "gate1.weight": torch.zeros(2 * D, 1), "gate1.bias": torch.tensor([40.0])}
    start = torch.relu(x @ w["t1.weight"] + w["t1.bias"])
    same(fagcn(w, 1, 0.3), (0.3 * start + S0 @ start) @ w["t2.weight"] + w["t2.bias"], "FAGCN with open gates")


# ---- checks by hand ----


def upstream(logits):
    """The gradient of the loss by the logits: (softmax - one-hot) / training nodes, zero elsewhere."""
    g = torch.zeros(N, C)
    g[train] = (torch.softmax(logits[train], 1) - torch.nn.functional.one_hot(labels[train], C)) / len(TRAIN)
    return g


def same(a, b, what, tolerance=1e-12):
    assert (a - b).abs().max() < tolerance, (what, (a - b).abs().max())


def by_hand(g):
    up = upstream(lr(layers("lin", F, C)))
    same(g["lin.weight"], x.T @ up, "lr weight")
    same(g["lin.bias"], up.sum(0), "lr bias")


def gamma_by_hand(w, g):
    up = upstream(gpr(w))
    powers = torch.stack([(up * (torch.matrix_power(S, k) @ mlp(w))).sum() for k in range(5)])
    same(g["gamma"], powers, "gamma")


def local_by_hand(w, g, variant):
    up, z, eta = upstream(pp(w, variant)), base(w), 1.0 if variant in ("low", "high") else 0.3
    for side in sides(variant):
        pairs = kept(side)
        u = torch.tensor(VECTORS[:, pairs])
        a = ((u.T @ up) * (u.T @ z)).sum(1)
        lam = torch.tensor(VALUES[pairs])
        for b in range(2):
            own = slice(2 * b, 2 * b + 2)
            expected = torch.stack([eta * (lam[own] ** j * a[own]).sum() for j in range(3)])
            same(g[f"gamma-{side}"][b], expected, f"gamma-{side}")


def spectrum_is_well_cut():
    """No repeated eigenvalue is cut by a bin or by the selection, so that any eigenvectors give the same logits."""
    for cut in (2, K_SIDE, N - K_SIDE, N - 2):
        assert VALUES[cut - 1] - VALUES[cut] > 1e-3, (cut, VALUES)


def invariants():
    w = layers("lin", F, D, C)
    h, zeros = mlp(w), torch.zeros(5)
    # 2: GPR-GNN with the coefficients of PageRank is APPNP.
    gamma = torch.tensor([0.2 * 0.8**k for k in range(4)] + [0.8**4])
    same(gpr({**w, "gamma": gamma}), appnp(w, 4, 0.2), "GPR-GNN and APPNP")
    # 3: one power of the operator is SGC, power 0 is the perceptron.
    last, first = zeros.clone(), zeros.clone()
    last[4] = first[0] = 1
    linear = lr(layers("lin", F, C))
    same(polynomial(last, linear), torch.matrix_power(S, 4) @ linear, "SGC")
    same(gpr({**w, "gamma": first}), h, "MLP")
    # 5: the whole spectrum with one polynomial everywhere is that polynomial of the operator.
    row = torch.tensor([0.4, -0.3, 0.8])
    every = {**w, "gamma": zeros, "gamma-low": row.repeat(2, 1), "gamma-high": row.repeat(2, 1)}
    same(pp(every, eta=1.0, k=N // 2), polynomial(row, h), "whole spectrum", 1e-8)
    # 6: without a local part, GPR-GNN remains.
    with_local = pp_weights("full", False)
    same(pp(with_local, eta=0.0), gpr(with_local), "eta = 0")
    none = {**with_local, "gamma-low": torch.zeros(2, 3), "gamma-high": torch.zeros(2, 3)}
    same(pp(none, eta=0.3), 0.7 * gpr(with_local), "no local coefficients")
    # 9: Bernstein polynomials sum to 1, reproduce the line, and Horner's form agrees.
    same(bernstein(torch.ones(5), h), h, "theta = 1")
    same(bernstein(torch.arange(5) / 4, h), (torch.eye(N) - S0) @ h / 2, "theta = k / K")
    theta = torch.tensor([0.5, 0.0, 1.2, 0.3, 0.9])
    powers = [h]
    for _ in range(4):
        powers.append(powers[-1] + S0 @ powers[-1])
    c = [theta[k] * comb(4, k) / 16 for k in range(5)]
    horner = c[4] * powers[0]
    for k in (3, 2, 1, 0):
        horner = c[k] * powers[4 - k] + horner - S0 @ horner
    same(horner, bernstein(theta, h), "Horner")
    # 8, in part: bins that agree cost nothing.
    flat = {"gamma-low": torch.tensor([[2.0, 0, 0]] * 2), "gamma-high": torch.tensor([[2.0, 0, 0]] * 2)}
    same(boundary(flat), torch.tensor(0.0), "a constant costs nothing")


def text(value, indent=0):
    """JSON with a line for every list of numbers."""
    pad = "  " * (indent + 1)
    if isinstance(value, dict) and "shape" not in value:
        rows = [f"{pad}{json.dumps(k)}: {text(v, indent + 1)}" for k, v in value.items()]
        return "{\n" + ",\n".join(rows) + "\n" + "  " * indent + "}" if rows else "{}"
    if isinstance(value, list) and value and isinstance(value[0], dict):
        return "[\n" + ",\n".join(pad + text(v, indent + 1) for v in value) + "\n" + "  " * indent + "]"
    return json.dumps(value)


def main():
    spectrum_is_well_cut()
    invariants()
    cases()
    spectrum = {}
    for side in ("low", "high"):
        pairs = kept(side)
        spectrum[side] = {"values": VALUES[pairs].tolist(), "vectors": tensor(torch.tensor(VECTORS[:, pairs].T))}
    graph = {
        "about": "undirected edges; eigenpairs with self-loops, pairs x nodes, descending on both sides; two a bin",
        "nodes": N, "classes": C, "edges": [list(e) for e in EDGES],
        "features": tensor(x),
        "labels": LABELS, "train": TRAIN, "spectrum": spectrum,
    }
    optimiser = {"lr": LR, "weight-decay": DECAY, "beta1": BETA1, "beta2": BETA2, "epsilon": EPSILON}
    path = Path(__file__).with_name("models.json")
    written = {"made-by": "tests/science/models.py", "graph": graph, "optimiser": optimiser, "cases": CASES}
    path.write_text(text(written) + "\n")
    for c in CASES:
        print(f"{c['name']:<24} loss {c['loss']:.6f}  weights {sum(len(t['values']) for t in c['weights'].values())}")


if __name__ == "__main__":
    main()
