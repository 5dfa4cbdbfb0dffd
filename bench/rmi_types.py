"""Which types do the arguments of remote calls hold? Counted over the project's own programs and examples.

    python bench/rmi_types.py

Runs those that call objects or send typed arrays, plain, and counts the exact type of every value that they hand to
their own packing: of the first messages of each process, all parts. The order in which `write` of
fastsock/rmi/codec/_packing_values.pyx asks for types is the order of the sum. Each program counts the same, however
fast it is.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
PROGRAMS = [
    *(f"apps/{name}.py" for name in ("manager_calls", "pyro5_calls", "rpyc_calls", "xmlrpc_calls", "dask_tasks")),
    "../examples/arrays.py",
]
MESSAGES = 200  # of each process
ALIKE = {"Marshalled": "bytes"}

# Runs in each Python of the program, before it.
COUNTING = '''
import atexit, importlib, json, os, sys, threading

COUNTS, LEFT, LOCK = {}, [int(os.environ["COUNT_MESSAGES"])], threading.Lock()

def count(value, depth=0):
    name = type(value).__name__
    COUNTS[name] = COUNTS.get(name, 0) + 1
    if depth > 50:
        return
    if isinstance(value, dict):
        for key, item in value.items():
            count(key, depth + 1)
            count(item, depth + 1)
    elif isinstance(value, (list, tuple, set, frozenset)):
        for item in value:
            count(item, depth + 1)

def message(values):
    with LOCK:
        if LEFT[0] <= 0:
            return
        LEFT[0] -= 1
        for value in values:
            count(value)
        with open(os.path.join(os.environ["COUNT_FOLDER"], str(os.getpid())), "w") as file:
            json.dump(COUNTS, file)

def wrap(module, path, skip=0):
    """Count the arguments of a function, once its module is there."""
    *owners, name = path.split(".")
    owner = module
    for each in owners:
        owner = getattr(owner, each)
    plain = getattr(owner, name)
    def counting(*arguments, **keywords):
        message(arguments[skip:])
        return plain(*arguments, **keywords)
    setattr(owner, name, counting)

WANTED = {
    "multiprocessing.connection": [("Connection.send", 1)],
    "xmlrpc.client": [("dumps", 0)],
    "Pyro5.serializers": [("MarshalSerializer.dumpsCall", 3), ("MarshalSerializer.dumps", 1)],
    "rpyc.core.brine": [("dump", 0)],
    "distributed.protocol.core": [("dumps", 0)],
    "fastsock.arrays": [("send_array", 1)],
}

class Finder:
    """Wraps what is wanted when its module is imported."""
    busy = False
    def find_spec(self, name, path=None, target=None):
        if name not in WANTED or Finder.busy:
            return None
        Finder.busy = True
        try:
            spec = importlib.util.find_spec(name)
        finally:
            Finder.busy = False
        if spec is None or spec.loader is None:
            return None
        run = spec.loader.exec_module
        def exec_module(module):
            run(module)
            for path, skip in WANTED[name]:
                wrap(module, path, skip)
        spec.loader.exec_module = exec_module
        return spec

import importlib.util
sys.meta_path.insert(0, Finder())
'''


def counts_of(program: str) -> Counter[str]:
    """Types of the values in a program's messages. Empty where the program cannot run here."""
    total: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as folder:
        hook, found = Path(folder, "hook"), Path(folder, "found")
        hook.mkdir()
        found.mkdir()
        (hook / "sitecustomize.py").write_text(COUNTING)
        path = os.pathsep.join(filter(None, [str(hook), os.environ.get("PYTHONPATH", "")]))
        environment = {**os.environ, "PYTHONPATH": path, "COUNT_FOLDER": str(found), "COUNT_MESSAGES": str(MESSAGES)}
        command = [sys.executable, str((FOLDER / program).resolve())]
        if program.startswith("apps"):
            command += ["--seconds", "0.3"]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
        if done.returncode:
            print(f"  {program}: {done.stderr.strip().splitlines()[-1:]}", file=sys.stderr)
        for file in found.iterdir():
            for name, count in json.loads(file.read_text()).items():
                total[ALIKE.get(name, name)] += count
    return total


def main() -> None:
    shares: Counter[str] = Counter()
    for program in PROGRAMS:
        counts = counts_of(program)
        said = ", ".join(f"{name} {count}" for name, count in counts.most_common(12))
        print(f"{program}: {said}", flush=True)
        everything = sum(counts.values())
        for name, count in counts.items():  # each program weighs the same
            shares[name] += count / everything / len(PROGRAMS) * 100
    print("\nall, in per cent: " + ", ".join(f"{name} {share:.1f}" for name, share in shares.most_common(20)))


if __name__ == "__main__":
    main()
