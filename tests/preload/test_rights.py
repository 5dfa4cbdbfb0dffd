"""A program that gains rights when it starts (setuid, setgid) runs without the library, though its user asks for it."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path
from tempfile import mkdtemp

import pytest

from fastsock.launching import preloading

from . import compiled
from .test_doctor import SHOWS, make

pytestmark = [
    compiled.needs_library,
    pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a program its rights"),
]
NOBODY = 65534


@pytest.fixture
def folder() -> Iterator[Path]:
    """That others may enter, with the library."""
    made = Path(mkdtemp(prefix="fastsock-"))
    made.chmod(0o755)
    shutil.copy(preloading.LIBRARY, made / "libfastsock_preload.so")
    yield made
    shutil.rmtree(made)


def has_library(program: Path) -> bool:
    """Run by another user, who has the loader preload the library."""
    environment = {"LD_PRELOAD": str(program.parent / "libfastsock_preload.so")}
    done = subprocess.run(
        [program], env=environment, user=NOBODY, group=NOBODY, extra_groups=[], capture_output=True, text=True
    )
    assert done.stdout in {"library\n", "plain\n"}, done
    return done.stdout == "library\n"


@pytest.mark.parametrize("bit", [stat.S_ISUID, stat.S_ISGID])
def test_a_program_that_gains_rights_runs_without_the_library(bit: int, folder: Path) -> None:
    program = make(folder, SHOWS)
    program.chmod(0o755)
    assert has_library(program)
    program.chmod(0o755 | bit)
    if os.statvfs(folder).f_flag & os.ST_NOSUID:
        pytest.skip("this file system gives no rights")
    assert not has_library(program)
