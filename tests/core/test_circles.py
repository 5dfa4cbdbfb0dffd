"""The C core's files call downwards only, and so do its folders."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

CORE = Path(__file__).parents[2] / "fastsock" / "core"
# what each folder may include, besides itself; "" is the ground: system, cma, cost, strided
BELOW = {
    "": set(),
    "sockets": {""},
    "active": set(),
    "stream": {"", "sockets"},
    "switch": {"", "sockets", "stream"},
    "preload": {"", "switch"},
    "files": {""},
    "engine": {"", "stream", "switch", "verbs"},
    "registered": {""},
    "team": {""},
    "verbs": {""},
    "window": {"", "team"},
    "remote": {"", "stream", "verbs"},
}
HEAD = re.compile(r"^(?:static inline )?(?!static|typedef|#)\w[\w *]*?\b(fs_\w+)\([^;{}]*\)\s*\{", re.MULTILINE)
NAME = re.compile(r"\bfs_\w+")


def text_of(path: Path) -> str:
    return re.sub(r"/\*.*?\*/", "", path.read_text(), flags=re.DOTALL)


def files(ending: str) -> list[Path]:
    return [path for path in sorted(CORE.rglob(f"*{ending}")) if path.parent.name != "binding"]


def functions(text: str) -> dict[str, str]:
    """The functions that others can call, and their bodies."""
    found = {}
    for head in HEAD.finditer(text):
        line_ends = text.index("\n", head.end())
        one_line = text[head.end() : line_ends].rstrip().endswith("}")
        found[head[1]] = text[head.end() : line_ends if one_line else text.index("\n}", head.end())]
    return found


def callees() -> dict[str, set[str]]:
    """File to files: by names alone, those within inline functions of headers too."""
    inline = {name: set(NAME.findall(body)) for path in files(".h") for name, body in functions(text_of(path)).items()}
    home = {name: path for path in files(".c") for name in functions(text_of(path))}
    graph: dict[str, set[str]] = {}
    for path in files(".c"):
        used, found = set(NAME.findall(text_of(path))), set()
        while used:
            name = used.pop()
            if name not in found:
                found.add(name)
                used |= inline.get(name, set())
        called = {home[name] for name in found if name in home} - {path}
        graph[str(path.relative_to(CORE))] = {str(other.relative_to(CORE)) for other in called}
    return graph


def test_no_files_call_each_other_in_a_circle() -> None:
    left = callees()
    assert len(left) > 50 and sum(map(len, left.values())) > 200, "the sources are not understood any more"
    while lowest := [path for path, called in left.items() if not called & left.keys()]:
        for path in lowest:
            del left[path]
    assert not left, {path: sorted(called & left.keys()) for path, called in left.items()}


def test_a_folder_includes_only_what_is_below_it() -> None:
    for path in files(".c") + files(".h"):
        folder = path.parent.relative_to(CORE).as_posix().strip(".")
        for name in re.findall(r'^#include "([^"]+)"', path.read_text(), re.MULTILINE):
            if (path.parent / name).exists():
                continue
            assert (CORE / name).exists(), f"{path}: {name}"
            assert name.rpartition("/")[0] in BELOW[folder], f"{path} includes {name}"


@pytest.mark.parametrize("folder", ["binding", *filter(None, BELOW)])
def test_the_page_of_a_folder_names_its_files_and_a_file_calls_those_above_it(folder: str) -> None:
    named = re.findall(r"`(\w+\.\w+)`", re.sub(r"(?m)^[^|].*$", "", (CORE / folder / "README.md").read_text()))
    sources = {path.name for path in (CORE / folder).iterdir() if path.suffix in {".c", ".h", ".pyx", ".pxd"}}
    compiled = {name.replace(".pyx", ".c") for name in sources if name.endswith(".pyx")}
    assert sorted(named) == sorted(sources - compiled)
    place = {f"{folder}/{name}": number for number, name in enumerate(named)}
    for caller, called in callees().items():
        below = [other for other in called & place.keys() if place[other] > place.get(caller, len(named))]
        assert not below, f"{caller} calls {below}"


def test_a_module_of_the_binding_knows_those_above_it_only() -> None:
    folder = CORE / "binding"
    named = re.findall(r"`(_\w+)\.pyx`", (folder / "README.md").read_text())
    found = set()
    for path in folder.glob("_[!_]*.p[xy][xdi]"):
        for other in re.findall(r"^from \.(_\w+) c?import", path.read_text(), re.MULTILINE):
            assert named.index(other) <= named.index(path.stem), f"{path.name} knows {other}"
            found.add((path.stem, other))
    assert len(found) > len(named), "the sources are not understood any more"
