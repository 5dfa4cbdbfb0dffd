"""What the pages for contributors name is there.

The walks in CONTRIBUTING.md: each function is in the file of its row, and no walk opens a file twice. tests/README.md:
each test file of a chapter has a row. docs/reference/reasons.md: each reason has a row.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import fastsock
from fastsock.transport import Reason

PACKAGE = Path(fastsock.__file__).parent
PAGE = PACKAGE.parent / "CONTRIBUTING.md"
ROW = re.compile(r"^\| `([\w./]+)` \| (.+?) \|", re.MULTILINE)

pytestmark = pytest.mark.skipif(not PAGE.exists(), reason="fastsock is installed without its repository")


def _walks() -> dict[str, list[tuple[str, list[str]]]]:
    walks = PAGE.read_text().partition("## A stranger's walk")[2].split("\n### ")[1:]
    return {
        walk.partition("\n")[0]: [(file, re.findall(r"`(\w+)`", functions)) for file, functions in ROW.findall(walk)]
        for walk in walks
    }


def _is_defined(function: str, text: str) -> bool:
    of_python = rf"^ *(?:(?:def|class|cdef|cpdef)\b[^(\n]*\b{function}\b *[(:]|{function} = )"
    of_c = rf"^(?:[a-z][\w ]*[ *]){function}\([^;]*$"
    return re.search(of_python, text, re.MULTILINE) is not None or re.search(of_c, text, re.MULTILINE) is not None


def test_there_are_four_walks():
    assert len(_walks()) == 4
    assert all(len(rows) > 5 for rows in _walks().values())


@pytest.mark.parametrize("walk", _walks() if PAGE.exists() else [])
def test_every_function_is_where_its_row_says(walk):
    for file, functions in _walks()[walk]:
        text = (PACKAGE / file).read_text()
        assert functions, file
        missing = [function for function in functions if not _is_defined(function, text)]
        assert not missing, f"{file} does not define {missing}"


@pytest.mark.parametrize("walk", _walks() if PAGE.exists() else [])
def test_no_file_is_opened_twice(walk):
    files = [file for file, _ in _walks()[walk]]
    assert len(files) == len(set(files))


def test_the_page_of_the_tests_names_each_file():
    tests = Path(__file__).parent
    named = {tests / name for name in re.findall(r"`([\w/]+\.py)`", (tests / "README.md").read_text())}
    assert sorted(path for path in named if not path.exists()) == []
    found = [
        path.relative_to(tests) for path in tests.rglob("test_*.py") if path.parent.name not in ("core", "cpython")
    ]
    # a folder with a dot holds what the tests of others were unpacked or installed into
    of_chapters = {tests / path for path in found if not any(part.startswith(".") for part in path.parts)}
    assert sorted(of_chapters - named) == []


def test_the_table_of_reasons_has_each_and_no_other():
    table = (PACKAGE.parent / "docs" / "reference" / "reasons.md").read_text()
    firsts = re.findall(r"^\| (`.+?) \|", table, re.MULTILINE)
    assert sorted(re.findall(r"`(\w+)`", " ".join(firsts))) == sorted(reason.value for reason in Reason)
