"""The architecture that the folders promise: layers, whose arrows run downwards only, no circles, few floors,
few loose files.

Every import counts: also those inside functions, those for annotations only (TYPE_CHECKING), and those of compiled
modules, of other compiled ones too (cimport). An import that must close a circle says why, in the same line:

    from .other import name  # circle: why it cannot be otherwise
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

import fastsock

FOLDER = Path(fastsock.__file__).parent

# From the top down, by the file or the folder in fastsock/. Those in one line know nothing of each other.
LAYERS = [
    ("__main__",),
    ("command",),
    ("metrics",),
    ("top",),
    ("testing", "doctor", "dask"),
    ("mpj", "rmi", "active"),
    ("xxdev",),
    ("buffers",),
    ("launcher",),
    ("__init__",),  # the public functions
    ("launching",),
    ("reporting",),
    ("socket",),
    ("channel_socket",),
    ("stream_socket",),
    ("patching",),
    ("connection",),
    ("meeting",),
    ("chain",),
    ("rdma", "sdp", "shm", "tcp"),
    ("transport",),
    ("config",),
    ("arrays",),
    ("registered",),
    ("array_format",),
    ("system",),
    ("core",),
]
# The same of fastsock/mpj: the chapters of the MPI standard on a ground of their own.
MPJ_LAYERS = [
    ("as_mpi4py",),
    ("__main__", "bench", "install_mpiexec", "mpiexec"),
    ("run",),
    ("util",),
    ("futures",),
    ("runner",),
    ("MPI",),
    ("introspection",),
    ("files",),
    ("dynamic",),
    ("windows",),
    ("communicators",),
    ("recovery",),
    ("collectives",),
    ("messages",),
    ("datatypes",),
    ("environment", "search_path"),
    ("attributes", "failures", "info", "ranks"),
    ("exceptions",),
    ("handle",),
    ("_slots", "constants", "tags", "typing"),
    ("__init__",),
]
# The same of fastsock/rmi.
RMI_LAYERS = [
    ("__main__", "__init__", "names"),
    ("managers",),
    ("pickled",),
    ("server",),
    ("aio",),
    ("client",),
    ("objects",),
    ("threads",),
    ("wire",),
    ("codec",),
    ("api",),
    ("errors", "interrupts"),
]
FOLDERS = {"fastsock": LAYERS, "fastsock.mpj": MPJ_LAYERS, "fastsock.rmi": RMI_LAYERS}
MOST_LOOSE = {"": 16, "mpj": 22, "rmi": 7}  # Python files in a folder itself
# The longest chain of imports among the modules of a folder; in mpj the public module MPI is on floor 15,
# since files stand on windows, and windows on communicators.
MOST_FLOORS = {"fastsock": 25, "fastsock.mpj": 18, "fastsock.rmi": 19}
# It must compile for old Pythons, and is started by Python itself.
NO_MODULE = FOLDER / "launching/_bootstrap/sitecustomize.py"

COMPILED_IMPORT = re.compile(
    r"^ *(?:from +([\w.]+) +c?import +(\*|[\w, ]+|\([^)]+\))|c?import +([\w., ]+))", re.MULTILINE
)
INCLUDE = re.compile(r'^include "(.+)"', re.MULTILINE)
REASON = re.compile(r"# circle: \S")


@dataclass(frozen=True)
class Import:
    """One import of one module by another; justified: its line says why it closes a circle."""

    importer: str
    imported: str
    line: str
    justified: bool

    def __str__(self) -> str:
        return f"{self.importer}: {self.line}"


def _name_of(source: Path) -> str:
    parts = ("fastsock", *source.relative_to(FOLDER).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@cache
def _modules() -> dict[str, Path]:
    found = [path for ending in ("*.pxd", "*.py", "*.pyx") for path in FOLDER.rglob(ending)]
    found.sort(key=lambda path: path.suffix)  # of a module in two files the one that runs
    return {_name_of(path): path for path in found if path != NO_MODULE}


@cache
def _imports() -> list[Import]:
    found = []
    for name, path in _modules().items():
        package = name if path.name == "__init__.py" else name.rpartition(".")[0]
        walk = _of_python if path.suffix == ".py" else _of_compiled
        for line, targets in walk(path, package):
            for target in targets:
                imported = _module_at(target)
                if imported not in (None, name):
                    found.append(Import(name, imported, line, bool(REASON.search(line))))
    return found


def _module_at(target: str) -> str | None:
    """The module that `target` is, or is a name in."""
    for name in (target, target.rpartition(".")[0]):
        if name in _modules():
            return name
    assert not target.startswith("fastsock.") or _is_without_source(target), f"nothing is at {target}"
    return None


def _is_without_source(target: str) -> bool:
    return any((FOLDER.parent / name.replace(".", "/")).is_dir() for name in (target, target.rpartition(".")[0]))


def _of_python(path: Path, package: str) -> Iterator[tuple[str, list[str]]]:
    text = path.read_text()
    lines = text.splitlines()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            targets = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = _absolute("." * node.level + (node.module or ""), package)
            targets = [f"{base}.{alias.name}" for alias in node.names]
        else:
            continue
        yield " ".join(line.strip() for line in lines[node.lineno - 1 : node.end_lineno]), targets


def _of_compiled(path: Path, package: str) -> Iterator[tuple[str, list[str]]]:
    text = path.read_text()
    if path.suffix == ".pyx" and path.with_suffix(".pxd").exists():
        yield from _of_compiled(path.with_suffix(".pxd"), package)
    for included in INCLUDE.findall(text):
        yield from _of_compiled(path.parent / included, package)
    for match in COMPILED_IMPORT.finditer(text):
        base, names, modules = match.groups()
        line = text[match.start() : text.find("\n", match.end())].strip()
        if base is None:
            yield line, [name.split()[0] for name in modules.split(",")]
        else:
            each = [name.split()[0] for name in names.strip("()").split(",") if name.strip()]
            yield line, [f"{_absolute(base, package)}.{name}" for name in each]


def _absolute(module: str, package: str) -> str:
    name = module.lstrip(".")
    if name == module:
        return module
    parts = package.split(".")
    return ".".join([*parts[: len(parts) + 1 - (len(module) - len(name))], *filter(None, [name])])


def _layer(module: str, folder: str) -> str | None:
    """The file or the folder in `folder` that a module is or is in; None where it is elsewhere."""
    if module != folder and not module.startswith(f"{folder}."):
        return None
    return module[len(folder) + 1 :].partition(".")[0] or "__init__"


def _ranks(folder: str) -> dict[str, int]:
    return {name: rank for rank, names in enumerate(FOLDERS[folder]) for name in names}


def _circles(imports: Iterable[Import]) -> list[list[str]]:
    """The sets of modules that lead to each other (Tarjan)."""
    arrows: dict[str, set[str]] = {}
    for each in imports:
        arrows.setdefault(each.importer, set()).add(each.imported)
    reached: dict[str, int] = {}
    lowest: dict[str, int] = {}
    stack: list[str] = []
    found: list[list[str]] = []

    def visit(module: str) -> None:
        reached[module] = lowest[module] = len(reached)
        stack.append(module)
        for other in sorted(arrows.get(module, ())):
            if other not in reached:
                visit(other)
                lowest[module] = min(lowest[module], lowest[other])
            elif other in stack:
                lowest[module] = min(lowest[module], reached[other])
        if lowest[module] == reached[module]:
            circle = stack[stack.index(module) :]
            del stack[-len(circle) :]
            if len(circle) > 1:
                found.append(sorted(circle))

    for module in sorted(arrows):
        if module not in reached:
            visit(module)
    return found


def _longest_chain(folder: str) -> list[str]:
    """The modules of a folder that stand upon each other most, from the top down."""
    below: dict[str, set[str]] = {}
    for each in _imports():
        if not each.justified and all(name.startswith(folder) for name in (each.importer, each.imported)):
            below.setdefault(each.importer, set()).add(each.imported)

    @cache
    def chain(module: str) -> list[str]:
        return [module, *max((chain(other) for other in sorted(below.get(module, ()))), key=len, default=[])]

    return max((chain(module) for module in sorted(below)), key=len)


@pytest.mark.parametrize("folder", FOLDERS)
def test_every_file_and_folder_has_a_layer(folder):
    names = {_layer(module, folder) for module in _modules()} - {None}
    assert names == set(_ranks(folder))


@pytest.mark.parametrize(("folder", "layer"), [(folder, layer) for folder in FOLDERS for layer in _ranks(folder)])
def test_arrows_run_downwards(folder, layer):
    """So each folder stands wholly above or wholly below the socket class."""
    ranks = _ranks(folder)
    own = [(each, _layer(each.imported, folder)) for each in _imports() if _layer(each.importer, folder) == layer]
    assert [str(each) for each, below in own if below not in (None, layer) and ranks[below] <= ranks[layer]] == []


def test_no_circles_but_those_that_say_why():
    assert _circles(each for each in _imports() if not each.justified) == []


def test_no_reason_for_a_circle_that_is_none():
    together = {module: number for number, circle in enumerate(_circles(_imports())) for module in circle}
    idle = [
        each for each in _imports() if each.justified and together.get(each.importer) != together.get(each.imported, -1)
    ]
    assert [str(each) for each in idle] == []


@pytest.mark.parametrize(("folder", "most"), MOST_LOOSE.items())
def test_few_loose_files(folder, most):
    assert len(list((FOLDER / folder).glob("*.py"))) <= most


@pytest.mark.parametrize(("folder", "most"), MOST_FLOORS.items())
def test_few_floors(folder, most):
    chain = _longest_chain(folder)
    assert len(chain) <= most, " -> ".join(chain)


@pytest.mark.parametrize("path", sorted(FOLDER.rglob("*.pyx")), ids=lambda path: str(path.relative_to(FOLDER)))
def test_compiled_modules_need_no_interpreter_lock(path):
    """One that does not say so brings the lock back for the whole program, on a Python without it."""
    assert "freethreading_compatible=True" in path.read_text().partition("\n")[0]


def test_one_text_says_how_a_key_is_proved():
    """xxdev, rmi and active say by it what they have of their own."""
    users = {module for module, path in _modules().items() if "hmac_sha256(self._key" in path.read_text()}
    assert users == {"fastsock.system.proof"}
