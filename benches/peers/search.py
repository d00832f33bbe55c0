"""Optuna's TPE, asked and told over standard input and output: it samples, the benchmark scores.

A line of JSON names a search: its space, whether the sampler is multivariate, whether it assumes the worst of trials that have not
been told (`liar`), seed, trials, and how many are asked before any is told (`round`). For every round a line with settings goes
out and a line with scores, larger is better, comes in. Everything else is Optuna's default. The first line out is its version.

A list of numbers in ascending order is given as places in the list, so that Optuna knows the order as well.
"""

import json
import sys

import optuna


def say(what):
    print(json.dumps(what), flush=True)


def setting(trial, param):
    path, log = param["path"], param.get("log", False)
    if param["kind"] == "float":
        return trial.suggest_float(path, param["from"], param["to"], log=log)
    if param["kind"] == "int":
        return trial.suggest_int(path, param["from"], param["to"], log=log)
    values = param["values"]
    if param["ordered"]:
        return values[trial.suggest_int(path, 0, len(values) - 1)]
    return trial.suggest_categorical(path, values)


def settings(trial, space):
    found = {}
    for param in space:
        when = param["when"]
        if when is None or found.get(when["path"]) in when["values"]:
            found[param["path"]] = setting(trial, param)
    return found


def search(job):
    sampler = optuna.samplers.TPESampler(seed=job["seed"], multivariate=job["multivariate"], constant_liar=job["liar"])
    study = optuna.create_study(direction="maximize", sampler=sampler)
    for _ in range(0, job["trials"], job["round"]):
        trials = [study.ask() for _ in range(job["round"])]
        say([settings(trial, job["space"]) for trial in trials])
        for trial, score in zip(trials, json.loads(sys.stdin.readline())):
            study.tell(trial, score)


if __name__ == "__main__":
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    say(optuna.__version__)
    for line in sys.stdin:
        search(json.loads(line))
