"""Writes statistics.json beside this file: what tests, ranks and intervals say of some numbers, computed by SciPy.

    python tests/science/statistics.py        needs NumPy and SciPy

The values shared with the program are `wave` and nothing else. Where SciPy has no function for something (the correction of
Nadeau and Bengio, Holm, Iman and Davenport), the published formula stands here, over SciPy's distributions. The quantiles of the
studentized range are computed twice, by SciPy and by quadrature and a root finder, and compared before anything is written.
"""

import json
from itertools import product
from math import inf, isclose
from pathlib import Path

import numpy as np
from scipy import integrate, optimize, stats


def wave(n, seed, size):
    """n scores around 0.7: 0.7 + size * sin(1.7 i + 2.3 seed), to four digits."""
    return np.round(0.7 + size * np.sin(1.7 * np.arange(n) + 2.3 * seed), 4)


def paired(n, seed, size, ratio):
    a, b = wave(n, seed, 0.05), wave(n, seed + 1, size)
    d = a - b
    t = d.mean() / np.sqrt((1 / n + ratio) * d.var(ddof=1))
    p = 2 * stats.t.sf(abs(t), n - 1)
    if ratio == 0:
        plain = stats.ttest_rel(a, b)
        assert isclose(t, plain.statistic, rel_tol=1e-12) and isclose(p, plain.pvalue, rel_tol=1e-12)
    return dict(a=list(a), b=list(b), ratio=ratio, t=t, p=p)


def holm(p):
    order = np.argsort(p, kind="stable")
    raised = np.maximum.accumulate([(len(p) - i) * p[at] for i, at in enumerate(order)])
    corrected = np.empty(len(p))
    corrected[order] = np.minimum(raised, 1)
    return dict(p=list(p), corrected=list(corrected))


def friedman(n, k, digits):
    """Scores of k configurations on n data sets; rounded, some are equal."""
    scores = np.round([0.7 + 0.05 * np.sin(1.7 * i + 2.3 * np.arange(k)) + 0.01 * np.arange(k) for i in range(n)], digits)
    ranks = np.array([stats.rankdata(-row) for row in scores])
    chi, p = stats.friedmanchisquare(*scores.T)
    f = (n - 1) * chi / (n * (k - 1) - chi)
    return dict(scores=scores.tolist(), ranks=ranks.tolist(), chi=chi, p=p, f=f, f_p=stats.f.sf(f, k - 1, (k - 1) * (n - 1)))


def critical_difference(alpha, k, n):
    q = stats.studentized_range.ppf(1 - alpha, k, inf)
    inside = lambda q: k * integrate.quad(
        lambda z: stats.norm.pdf(z) * (stats.norm.cdf(z) - stats.norm.cdf(z - q)) ** (k - 1), -9, 9 + q, epsabs=1e-13, epsrel=1e-13, limit=500
    )[0]
    again = optimize.brentq(lambda q: inside(q) - 1 + alpha, 0.1, 20, xtol=1e-13, rtol=1e-14)
    assert isclose(q, again, abs_tol=1e-8), (alpha, k, q, again)
    return dict(alpha=alpha, k=k, n=n, difference=again / np.sqrt(2) * np.sqrt(k * (k + 1) / (6 * n)))


def interval(values):
    """Of all samples that there are, in the order of their places."""
    means = [np.mean([values[i] for i in places]) for places in product(range(len(values)), repeat=len(values))]
    low, high = np.quantile(means, [0.025, 0.975])
    return dict(values=list(values), low=low, high=high)


def tails():
    t = [dict(x=x, d=d, p=2 * stats.t.sf(x, d)) for x in [0.0, 1e-9, 1e-6, 1e-4, 0.1, 1.0, 2.262, 7.5, 300.0] for d in [1, 2, 9, 49, 99]]
    f = [dict(x=x, d=[a, b], p=stats.f.sf(x, a, b)) for x in [1e-12, 0.01, 1.0, 3.3, 40.0] for a, b in [(1, 1), (2, 8), (6, 24), (19, 171)]]
    chi = [dict(x=x, d=d, p=stats.chi2.sf(x, d)) for x in [0.01, 1.0, 7.5, 60.0] for d in [1, 2, 6, 19]]
    return dict(t=t, f=f, chi=chi)


found = dict(
    tails=tails(),
    paired=[paired(*case) for case in [(10, 0, 0.05, 0.0), (10, 3, 0.01, 0.0), (10, 3, 0.01, 20 / 48), (5, 7, 0.02, 0.25), (2, 1, 0.05, 1.0), (100, 4, 0.049, 0.42)]],
    holm=[holm(p) for p in [[0.01, 0.04, 0.03, 0.005], [0.2, 0.2, 0.001], [0.9, 0.8], [0.04]]],
    friedman=[friedman(*case) for case in [(5, 3, 4), (6, 7, 4), (8, 4, 2), (12, 10, 2)]],
    critical_difference=[critical_difference(alpha, k, n) for alpha in [0.05, 0.1] for k in [2, 3, 4, 7, 10, 20, 40] for n in [5, 12]],
    interval=[interval(wave(n, seed, 0.05)) for n, seed in [(2, 0), (4, 1), (5, 2)]],
)
path = Path(__file__).with_suffix(".json")
text = json.dumps(found, default=float, separators=(",", ":"))
path.write_text(text.replace("},{", "},\n{").replace("],\"", "],\n\"") + "\n")
