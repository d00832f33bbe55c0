"""Checks whether this machine's CUDA GPUs compute what the CPU computes, and writes one report that can be attached to an issue.

    python benches/gpu_check.py [REPORT]      `make gpu-check`; the report is gpu-report.txt if it is not named

Every step ends as `ok`, `FAILED` or `skipped`, with what it printed. Nothing is built where driver, toolkit and cards do not fit each
other. Needs the driver (`nvidia-smi`), the toolkit (`nvcc`) and cargo; `compute-sanitizer`, NumPy and PyTorch are used where they are.
`PPGNN_GPU_CHECK=emulated` runs the tests of kernels and models with the emulated GPU, and skips what only a card can show.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
EMULATED = os.environ.get("PPGNN_GPU_CHECK") == "emulated"
# candle's kernels are compiled for one architecture, and its build adds a suffix from 90 on that binds them to it alone.
NEWEST = 89
OLDEST = 61
TESTS = ["test", "-p", "ppgnn-stages", "--lib"]
# The tests that run on a card: operations, kernels, training.
ON_GPU = ["emulated", "tensor::cuda::", "train::tests::on_gpu"]


# Hidden units of 40 GB, several times.
TOO_LARGE = """ppgnn: 1
extends: standard
name: too-large
datasets:
  large: { format: csbm, nodes: 150000, degree: 4, features: 20, phi: 0.5, seed: 1 }
stages:
  split: { params: { method: stratified, count: 1, train: 0.48, val: 0.32 } }
  train: { params: { model: mlp, hidden: 65536, epochs: 2 } }
sweep:
  axes:
    load.dataset: [large]
"""


class Failed(Exception):
    """A step found something wrong; the text says what."""


class Skipped(Exception):
    """A step cannot be done here; the text says why."""


def output(command, **options):
    """What a command prints; what it is missing where there is no such command."""
    if shutil.which(command[0], path=options.get("env", os.environ).get("PATH")) is None:
        raise Skipped(f"there is no `{command[0]}`")
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", cwd=ROOT, **options)
    if done.returncode != 0:
        raise Failed(f"`{' '.join(command[:6])}` ended with {done.returncode}:\n{done.stdout[-6000:]}")
    return done.stdout


def numbers(version):
    return tuple(int(part) for part in version.split("."))


class Check:
    def __init__(self, report):
        self.report, self.failed, self.lines = report, 0, []
        self.cards, self.environment = [], dict(os.environ)

    def say(self, text):
        print(text, flush=True)
        self.lines.append(text)
        self.report.write_text("\n".join(self.lines) + "\n")

    def step(self, name, work):
        """Runs a step and reports it. Returns whether it was all right."""
        start = time.time()
        try:
            status, told = "ok", work() or ""
        except Skipped as why:
            status, told = "skipped", str(why)
        except Failed as why:
            status, told = "FAILED", str(why)
        except (OSError, subprocess.SubprocessError, ValueError, KeyError, IndexError) as error:
            status, told = "FAILED", f"{type(error).__name__}: {error}"
        self.failed += status == "FAILED"
        self.say(f"{status:<8} {name} ({time.time() - start:.0f} s)")
        for line in told.strip().splitlines():
            self.say(f"         {line}")
        return status == "ok"

    # ---- what is there

    def find(self):
        """Cards, driver and toolkit; refuses what cannot work together."""
        if EMULATED:
            raise Skipped("the GPU is emulated")
        fields = "index,name,compute_cap,memory.total,driver_version"
        try:
            listed = output(["nvidia-smi", f"--query-gpu={fields}", "--format=csv,noheader,nounits"])
            known = re.search(r"CUDA Version:\s*([0-9]+\.[0-9]+)", output(["nvidia-smi"]))
            toolkit = re.search(r"release ([0-9]+\.[0-9]+)", output(["nvcc", "--version"]))
        except Skipped as missing:
            raise Failed(f"{missing}: install NVIDIA's driver and the CUDA toolkit, and put them on the PATH") from None
        for line in listed.strip().splitlines():
            index, name, capability, memory, driver = [field.strip() for field in line.split(",")]
            self.cards.append({"index": int(index), "name": name, "capability": numbers(capability), "memory": int(memory), "driver": driver})
        if not self.cards:
            raise Failed("the driver sees no card")
        if known is None or toolkit is None:
            raise Failed("neither `nvidia-smi` nor `nvcc --version` may leave out its CUDA version")
        if numbers(toolkit[1]) > numbers(known[1]):
            raise Failed(f"the toolkit is of CUDA {toolkit[1]}, the driver knows {known[1]} at most: update the driver, or use an older toolkit")
        lowest = min(card["capability"] for card in self.cards)
        capability = lowest[0] * 10 + lowest[1]
        if capability < OLDEST:
            raise Failed(f"a card has compute capability {lowest[0]}.{lowest[1]}, which candle's kernels are not for; leave it out with CUDA_VISIBLE_DEVICES")
        self.environment.setdefault("CUDA_COMPUTE_CAP", str(min(capability, NEWEST)))
        described = [f"cuda:{c['index']} {c['name']}, {c['capability'][0]}.{c['capability'][1]}, {c['memory']} MiB, driver {c['driver']}" for c in self.cards]
        variables = [f"{name}={value}" for name, value in sorted(self.environment.items()) if name.startswith(("CUDA", "NVIDIA", "NVCC", "PPGNN"))]
        return "\n".join([*described, f"driver knows CUDA {known[1]}, toolkit {toolkit[1]}", *variables])

    # ---- what is right

    def build(self):
        features = [] if EMULATED else ["--features", "cuda"]
        output(["cargo", "build", "--profile", "quick", *features], env=self.environment)
        return output([str(self.program()), "--version"])

    def program(self):
        target = Path(self.environment.get("CARGO_TARGET_DIR", ROOT / "target"))
        return target / "quick/ppgnn"

    def tests(self):
        """Kernels against loops, operations against plain products, models against the CPU, the same bytes twice."""
        features, environment = ([], self.environment) if EMULATED else (["--features", "cuda"], {**self.environment, "PPGNN_GPU": "0"})
        said = output(["cargo", *TESTS, *features, "--", *ON_GPU], env=environment)
        if "skipped: there is no C++ compiler" in said:
            raise Skipped("there is no C++ compiler to emulate a GPU with")
        passed = re.findall(r"test result: ok\. ([0-9]+) passed", said)
        if not passed or int(passed[0]) == 0:
            raise Failed(f"no test has run:\n{said[-2000:]}")
        return f"{passed[0]} tests"

    def sanitizer(self):
        if EMULATED:
            raise Skipped("the emulation watches the bounds of its buffers itself")
        if shutil.which("compute-sanitizer") is None:
            raise Skipped("there is no `compute-sanitizer`")
        listed = output(["cargo", *TESTS, "--features", "cuda", "--no-run", "--message-format=json"], env=self.environment)
        parsed = [json.loads(line) for line in listed.splitlines() if line.startswith("{")]
        built = [line["executable"] for line in parsed if line.get("executable") and line["target"]["name"] == "ppgnn_stages"]
        environment = {**self.environment, "PPGNN_GPU": "0"}
        command = ["compute-sanitizer", "--tool", "memcheck", "--error-exitcode", "9", built[-1], "tensor::cuda::", "values_and_gradients_on_a_gpu"]
        return output(command, env=environment).strip().splitlines()[-1]

    def run(self, folder, device, *more):
        """Runs the quick start there. Returns its table and its seconds."""
        (ROOT / folder).mkdir(parents=True, exist_ok=True)
        command = [str(self.program()), "run", "pipelines/quickstart.yaml", "--artifacts", str(folder), "--device", device, *more]
        start = time.time()
        output(command, env=self.environment)
        table = output([str(self.program()), "table", "pipelines/quickstart.yaml", "--artifacts", str(folder), "--device", device], env=self.environment)
        return table, time.time() - start

    def epochs(self, folder):
        """Mean seconds of an epoch in the training of a store."""
        seconds, epochs = 0.0, 0
        for manifest in Path(folder).glob("objects/train/*/manifest.json"):
            facts = json.loads((manifest.parent / "facts.json").read_text())
            seconds, epochs = seconds + json.loads(manifest.read_text())["seconds"], epochs + sum(facts["epochs"])
        return seconds / max(epochs, 1)

    def pipeline(self):
        """The quick start on the CPU and on a card, twice: near each other, and of the same bytes."""
        device = "cpu" if EMULATED else "cuda:0"
        with tempfile.TemporaryDirectory() as folder:
            folders = [Path(folder) / name for name in ("cpu", "first", "second")]
            (cpu, _), (first, _), (second, _) = self.run(folders[0], "cpu"), self.run(folders[1], device), self.run(folders[2], device)
            if first != second:
                raise Failed(f"two runs on {device} differ:\n{first}\n{second}")
            times = [1000 * self.epochs(folder) for folder in folders[:2]]
            return f"CPU\n{cpu}\n{device}\n{first}\nan epoch of a split takes {times[0]:.2f} ms on the CPU, {times[1]:.2f} ms on {device}"

    # ---- what is large

    def large(self):
        """Ten lanes on a graph of the size of OGBN-arXiv, and the most memory that the card had in use."""
        if EMULATED:
            raise Skipped("only a card can show its speed and memory")
        environment = {**self.environment, "PPGNN_DEVICE": "cuda:0", "PPGNN_SPLITS": "10"}
        most, done = [0], threading.Event()
        query = ["nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits", "--id=0"]

        def watch():
            while not done.wait(0.5):
                most[0] = max(most[0], int(subprocess.run(query, stdout=subprocess.PIPE, text=True).stdout.strip() or 0))

        watching = threading.Thread(target=watch)
        watching.start()
        try:
            said = output([sys.executable, "benches/large.py", str(self.program()), "arxiv", "gcn-ogb", "pp-gnn", "fagcn"], env=environment)
        except Failed as why:
            if "numpy" in str(why):
                raise Skipped("there is no NumPy to make the graph with") from None
            raise
        finally:
            done.set()
            watching.join()
        if "fails" in said:
            raise Failed(said)
        return f"{said}\nat most {most[0]} MiB of the card in use"

    def out_of_memory(self):
        """Units that no card has room for must end in a message that says so."""
        if EMULATED:
            raise Skipped("the emulation has no memory of its own")
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "large.yaml").write_text(TOO_LARGE)
            # The memory of the machine is not what is to be too small.
            command = [str(self.program()), "run", f"{folder}/large.yaml", "train", "--artifacts", folder, "--device", "cuda:0", "--memory", "1000TiB"]
            done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=ROOT, env=self.environment)
        if done.returncode == 0 or "the GPU has no memory left" not in done.stdout:
            raise Failed(f"exit code {done.returncode}:\n{done.stdout[-3000:]}")
        return next(line for line in done.stdout.splitlines() if "the GPU has no memory left" in line)

    def two_cards(self):
        if len(self.cards) < 2:
            raise Skipped("there is one card" if self.cards else "there is no card")
        with tempfile.TemporaryDirectory() as folder:
            (one, alone), (both, together) = [self.run(Path(folder) / name, device) for name, device in (("one", "cuda:0"), ("both", "cuda:0,cuda:1"))]
        names = {card["name"] for card in self.cards[:2]}
        if one != both and len(names) == 1:
            raise Failed(f"two equal cards give another table than one:\n{one}\n{both}")
        return f"{alone:.0f} s on one, {together:.0f} s on both"

    def peers(self):
        """What PyTorch takes for a layer of the size of the quick start's, where it is there."""
        script = (
            "import torch, time\nd = 'cuda'\nx, w = torch.randn(2708, 1433, device=d), torch.randn(1433, 64, device=d, requires_grad=True)\n"
            "def step():\n    (torch.relu(x @ w)).sum().backward(); torch.cuda.synchronize()\n"
            "[step() for _ in range(10)]\nt = time.time(); [step() for _ in range(100)]\n"
            "print(torch.__version__, torch.version.cuda, f'{10 * (time.time() - t):.3f} ms a step')"
        )
        try:
            return output([sys.executable, "-c", script])
        except Failed as why:
            raise Skipped(f"there is no PyTorch that computes on CUDA: {str(why).strip().splitlines()[-1]}") from None


def main():
    report = Path(sys.argv[1] if len(sys.argv) > 1 else "gpu-report.txt").resolve()
    check = Check(report)
    check.say(f"ppgnn gpu-check, {time.strftime('%Y-%m-%d %H:%M', time.gmtime())} UTC, {os.uname().sysname} {os.uname().machine}")
    fits = check.step("cards, driver and toolkit", check.find)
    if not fits and not EMULATED:
        check.say("Nothing was built: the above must be mended first.")
        return 1
    if check.step("build", check.build):
        check.step("kernels, operations and models against the CPU, the same bytes twice", check.tests)
        check.step("bounds, by compute-sanitizer", check.sanitizer)
        check.step("the quick start on the CPU and on the card, twice", check.pipeline)
        check.step("a graph of the size of OGBN-arXiv, ten splits together", check.large)
        check.step("out of memory is said", check.out_of_memory)
        check.step("two cards", check.two_cards)
        check.step("PyTorch on the same card", check.peers)
    check.say(f"{check.failed} steps failed; the report is {report.name}")
    return 1 if check.failed else 0


if __name__ == "__main__":
    sys.exit(main())
