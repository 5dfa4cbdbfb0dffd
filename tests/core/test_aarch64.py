"""The C core compiles for aarch64, without a warning, where there is a compiler for it."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

CORE = Path(__file__).parents[2] / "fastsock" / "core"
COMPILER = shutil.which("aarch64-linux-gnu-gcc")
FLAGS = ["-std=c11", "-O1", "-g0", "-fno-strict-aliasing", "-pthread", "-Wall", "-Wextra", "-Werror", f"-I{CORE}"]
FLAGS += ["-Wno-maybe-uninitialized"]  # GCC is sure of that from -O2 on
FOLDERS = sorted({path.parent for path in CORE.rglob("*.c")} - {CORE / "binding"})


@pytest.mark.skipif(COMPILER is None, reason="there is no compiler for aarch64 (gcc-aarch64-linux-gnu)")
@pytest.mark.parametrize("folder", FOLDERS, ids=[str(path.relative_to(CORE)) for path in FOLDERS])
def test_the_core_compiles_for_aarch64(folder: Path, tmp_path: Path) -> None:
    files = [str(path) for path in sorted(folder.glob("*.c")) if not path.with_suffix(".pyx").exists()]
    assert COMPILER is not None and files
    made = subprocess.run([COMPILER, *FLAGS, "-c", *files], cwd=tmp_path, capture_output=True, text=True)
    assert made.returncode == 0, made.stderr
