"""Every block of code in README.md and docs/**/*.md runs, or the page has the reason why not. page.py says how."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from functools import cache
from itertools import takewhile
from pathlib import Path

import pytest

from fastsock import core

from .page import Block, Page, read
from .running import ROOT, Run

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
OWN = ("bench", "examples", "fastsock", "tests")
PROGRAM = re.compile(r"python3? (?:-m (?P<module>[\w.]+)|(?P<file>[\w/]+\.py))")

pytestmark = [
    pytest.mark.skipif(not PAGES[0].exists(), reason="fastsock is installed without its repository"),
    pytest.mark.skipif(not core.available, reason="the pages are written for an installation with the native core"),
]


@cache
def _page(path: Path) -> Page:
    return read(path, str(path.relative_to(ROOT)))


def _blocks(are_run: bool) -> list[object]:
    found = [(path, block) for path in PAGES if path.exists() for block in _page(path).blocks]
    return [
        pytest.param(path, block, id=f"{path.stem}-{block.line}")
        for path, block in found
        if (block.not_run is None) == are_run
    ]


@pytest.mark.parametrize(("path", "block"), _blocks(True))
def test_the_block_runs(path: Path, block: Block, tmp_path: Path) -> None:
    Run(_page(path), tmp_path).block(block)


@pytest.mark.parametrize(("path", "block"), _blocks(False))
def test_what_is_not_run_has_a_reason_and_names_what_is_there(path: Path, block: Block) -> None:
    assert len(block.not_run or "") > 10, f"{block.page}:{block.line} needs a reason"
    if block.is_shell:
        for command in block.text.replace("\\\n", "").splitlines():
            _check(command, f"{block.page}:{block.line}")


def _check(command: str, where: str) -> None:
    """The programs of this project that a command names, and their options."""
    found = PROGRAM.search(command)
    if found is None:
        return
    name = found["file"] or found["module"].replace(".", "/")
    if name.partition("/")[0] not in OWN:
        return
    assert (ROOT / name).exists() or (ROOT / name).with_suffix(".py").exists(), f"{where}: nothing is at {name}"
    arguments = shlex.split(command[found.end() :], comments=True)
    options = [word.partition("=")[0] for word in arguments if word.startswith("--")]
    if options:
        program = [found["file"]] if found["file"] else ["-m", found["module"]]
        told = _help_of(*program, *takewhile(lambda word: not word.startswith("-"), arguments))
        unknown = [option for option in options if option not in told]
        assert not unknown, f"{where}: {name} knows no {unknown}:\n{told}"


@cache
def _help_of(*command: str) -> str:
    done = subprocess.run(
        [sys.executable, *command, "--help"], cwd=ROOT, stdin=subprocess.DEVNULL, capture_output=True, text=True
    )
    assert done.returncode == 0, f"{command} --help: {done.stderr}"
    return done.stdout
