"""What is wrong in a page is found: a block that fails, prints something else, or has a comment that says nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from fastsock import core

from .page import Page, PageError, read
from .running import Run, WrongBlock, has_networks

pytestmark = pytest.mark.skipif(not core.available, reason="as the tests of the pages")

SERVER = """
<!-- serves: store -->
```python
# server.py
from fastsock import rmi

@rmi.expose
class Store:
    def add(self, a, b):
        return a + b

{guard}with rmi.Daemon() as daemon: daemon.register(Store(), "store"), daemon.serve()
```
"""
CLIENT = """
<!-- beside: server.py -->
<!-- prints: 3 -->
```python
from fastsock import rmi
from server import Store

print(rmi.connect("rmi:store", Store, timeout=5.0).add(1, 2))
```
"""
WRONG = {
    "it raises": "```python\nprint(1 / 0)\n```",
    "it has a name that is not there": "```python\nfrom fastsock import sockets\n```",
    "a command is not there": "    python no_such_program.py",
    "the first of several commands fails": "    false\n    true",
    "it prints something else": "<!-- prints: 3 -->\n\n    echo 4",
    "what it needs ends": "<!-- file: it.py serves 5000\npass\n-->\n<!-- beside: it.py -->\n\n    true",
    "a line of several does not listen": "<!-- together: 5000 -->\n\n    true\n    true",
}
MEANINGLESS = {
    "an unknown comment": "<!-- skip: this -->\n\n    true",
    "a comment without a block": "<!-- prints: 3 -->\n\nText.\n\n    echo 3",
    "a language that nobody runs": "```fortran\nEND\n```",
}


def _page(folder: Path, text: str) -> Page:
    (folder / "page.md").write_text(text)
    return read(folder / "page.md")


def _run_last(folder: Path, text: str) -> None:
    page = _page(folder, text)
    here = folder / "run"
    here.mkdir()
    Run(page, here).block(page.blocks[-1])


@pytest.mark.parametrize("text", WRONG.values(), ids=WRONG)
def test_a_wrong_block_fails(text: str, tmp_path: Path) -> None:
    with pytest.raises(WrongBlock, match=r"page\.md|ended|listen"):
        _run_last(tmp_path, text)


@pytest.mark.parametrize("text", MEANINGLESS.values(), ids=MEANINGLESS)
def test_a_comment_that_says_nothing_fails(text: str, tmp_path: Path) -> None:
    with pytest.raises(PageError):
        _page(tmp_path, text)


def test_a_line_that_is_not_run_must_be_there(tmp_path: Path) -> None:
    with pytest.raises(PageError, match="srun"):
        _run_last(tmp_path, "<!-- not run where srun: it needs Slurm -->\n\n    true")


def test_a_client_that_imports_its_server_starts_no_second_one(tmp_path: Path) -> None:
    _run_last(tmp_path, SERVER.format(guard='if __name__ == "__main__":\n    ') + CLIENT)


def test_a_server_without_a_guard_fails(tmp_path: Path) -> None:
    with pytest.raises(WrongBlock, match=r"the name 'store-.*' cannot be registered"):
        _run_last(tmp_path, SERVER.format(guard="") + CLIENT)


@pytest.mark.skipif(not has_networks(), reason="needs the right to make a network of its own")
@pytest.mark.parametrize("alone", ["", "<!-- alone: it would list the other one -->\n\n"])
def test_a_block_that_is_alone_sees_no_daemon_of_another_key(tmp_path: Path, alone: str) -> None:
    """The daemon is one that another test runs at the same time."""
    (tmp_path / "its").mkdir()
    server = _page(tmp_path, SERVER.format(guard=""))
    with Run(server, tmp_path / "its").serving("python server.py", "store"):
        if alone:
            _run_last(tmp_path, f"{alone}    fastsock list")
        else:
            with pytest.raises(WrongBlock, match="another key"):
                _run_last(tmp_path, "    fastsock list")
