"""Small C files, compiled when first used and kept in the user's cache directory."""

from __future__ import annotations

import hashlib
import importlib.machinery
import importlib.util
import os
import shutil
import subprocess
import sys
import sysconfig
import types
from pathlib import Path

HERE = Path(__file__).parent
FLAGS = ["-O3", "-std=c11", "-Wall"]


class CannotBuild(RuntimeError):
    """There is no C compiler, or it refused; the text says which."""


def program(name: str) -> Path:
    """The program compiled from NAME.c beside this file."""
    return _built(HERE / f"{name}.c", ["-pthread"])


def library(name: str) -> Path:
    """A library for ctypes, compiled from NAME.c beside this file."""
    return _built(HERE / f"{name}.c", ["-shared", "-fPIC", "-pthread"])


def extension(name: str) -> types.ModuleType:
    """The extension module compiled from NAME.c beside this file, for the running interpreter."""
    include = sysconfig.get_paths()["include"]
    path = _built(HERE / f"{name}.c", ["-shared", "-fPIC", f"-I{include}"])
    loader = importlib.machinery.ExtensionFileLoader(name, str(path))
    spec = importlib.util.spec_from_loader(name, loader)
    if spec is None:
        raise CannotBuild(f"{path} does not load")
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    return module


def _built(source: Path, flags: list[str]) -> Path:
    key = hashlib.sha256(repr((source.read_bytes(), FLAGS, flags, sys.version)).encode()).hexdigest()[:16]
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "fastsock-bench"
    target = cache / f"{source.stem}-{key}"
    if target.exists():
        return target
    compiler = os.environ.get("CC") or shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        raise CannotBuild("no C compiler (cc, gcc or clang) was found")
    cache.mkdir(parents=True, exist_ok=True)
    unfinished = cache / f"{target.name}.{os.getpid()}"
    command = [*compiler.split(), *FLAGS, *flags, "-o", str(unfinished), str(source)]
    result = subprocess.run(command, capture_output=True, text=True)
    if result.returncode:
        raise CannotBuild(f"{' '.join(command)}: {result.stderr.strip()}")
    unfinished.rename(target)  # two benches that start at once must not load half a file
    return target
