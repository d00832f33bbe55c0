"""Reads what ppgnn hands to a command, and writes its result; needs NumPy alone."""

import json
import os
import threading
from types import SimpleNamespace

import numpy as np

TYPES = {"F32": "<f4", "F64": "<f8", "I64": "<i8", "U8": "u1"}


def read_tensors(path):
    """Returns the tensors of a safetensors file by name."""
    with open(path, "rb") as file:
        header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
        data = file.read()
    take = lambda of: np.frombuffer(data[slice(*of["data_offsets"])], TYPES[of["dtype"]]).reshape(of["shape"]).copy()
    return {name: take(of) for name, of in header.items() if name != "__metadata__"}


def write_tensors(path, tensors):
    """Writes a safetensors file, under another name until it is whole."""
    header, data = {}, b""
    for name, array in tensors.items():
        whole = np.asarray(array).dtype.kind in "iu"
        bytes = np.asarray(array, "<i8" if whole else "<f4").tobytes()
        header[name] = {"dtype": "I64" if whole else "F32", "shape": np.shape(array), "data_offsets": [len(data), len(data) + len(bytes)]}
        data += bytes
    header = json.dumps(header).encode()
    with open(path + ".part", "wb") as file:
        file.write(len(header).to_bytes(8, "little") + header + data)
    os.replace(path + ".part", path)


def load():
    """Returns the job: what is in `job.json`, the arrays of `data.safetensors`, and masks `train` and `val` (splits × nodes)."""
    # ppgnn holds stdin open: where it is closed, nobody waits for the result.
    threading.Thread(target=lambda: os.read(0, 1) or os._exit(1), daemon=True).start()
    with open("job.json") as file:
        job = json.load(file)
    job.update(read_tensors("data.safetensors"))
    if "features" not in job:
        job["features"] = np.zeros((job["nodes"], job["columns"]), "f4")
        job["features"][tuple(job["feature-places"])] = job["feature-values"]
    return SimpleNamespace(**job, train=job["parts"] == 1, val=job["parts"] == 2)


def save(logits, best_epoch=None, history=(), weights=()):
    """Saves, per split: logits, and where there are any the kept epoch, rows of three numbers per epoch, weights by name."""
    tensors = {"logits": np.stack([np.asarray(of, "f4") for of in logits])}
    tensors.update({} if best_epoch is None else {"best-epoch": np.asarray(best_epoch)})
    tensors.update({f"history/{split}": np.asarray(rows, "f4") for split, rows in enumerate(history)})
    tensors.update({f"weights/{at}/{name}": np.asarray(w, "f4") for at, of in enumerate(weights) for name, w in of.items()})
    write_tensors("result.safetensors", tensors)
