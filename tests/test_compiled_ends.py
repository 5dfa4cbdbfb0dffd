"""What a compiled class does at its end needs nothing that a collection of garbage has taken from it before.

CPython's collector first clears each object of a dead circle: the attributes become None, and a `Py_buffer` loses its
owner without being released. Only then come their ends (`__dealloc__`), and the ends of the views that they gave
(`__releasebuffer__`). So a class whose end touches such an attribute says `@cython.no_gc_clear`. So does a class whose
views point into memory of an attribute (`__getbuffer__`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

import fastsock

FOLDER = Path(fastsock.__file__).parent
ENDS = ("__dealloc__", "__releasebuffer__", "__getbuffer__")
SAFE = {"cython.no_gc_clear", "cython.no_gc"}
CLEARED = {"object", "list", "dict", "tuple", "set", "frozenset", "bytearray"}

CLASS = re.compile(r"^(?:cdef )?class (\w+)(?:\((\w*)[^)]*\))?:", re.MULTILINE)
ATTRIBUTES = re.compile(r"^    cdef (?:public |readonly )?(\w+) (\w[\w, ]*)(?:#.*)?$", re.MULTILINE)
METHOD = re.compile(r"^    (?:def|cdef|cpdef)\b[^\n(]*?(\w+)\(", re.MULTILINE)
USE = re.compile(r"\bself\.(\w+)(?:\.(\w+)\()?")
IMPORT = re.compile(r"^from ([\w.]+) cimport (?:\(([^)]*)\)|([^\n#]*))", re.MULTILINE)


@dataclass
class Compiled:
    name: str
    place: str  # whose names it sees first
    base: str = ""
    decorators: set[str] = field(default_factory=set)
    attributes: dict[str, str] = field(default_factory=dict)  # with their types
    methods: dict[str, str] = field(default_factory=dict)


class Sources:
    """All compiled classes, of texts by their places: the texts of one module, or of one folder, have one."""

    def __init__(self, texts: Mapping[str, list[str]]) -> None:
        self.imported: dict[tuple[str, str], tuple[str, str]] = {}
        self.classes: dict[tuple[str, str], Compiled] = {}
        for place, each in texts.items():
            for text in each:
                self._read_imports(place, text)
                self._read(place, text)

    def _read_imports(self, place: str, text: str) -> None:
        for module, *names in IMPORT.findall(text):
            parts = module.removeprefix("fastsock.").split(".")
            compiled, folder = "/".join(parts) + ".py", "/".join(parts[:-1])
            for name in "".join(names).split(","):
                old, _, new = name.strip().partition(" as ")
                there = compiled if (FOLDER / compiled).exists() else folder
                self.imported[place, new or old] = there, old

    def _read(self, place: str, text: str) -> None:
        for match in CLASS.finditer(text):
            end = re.compile(r"^[^\s#)]", re.MULTILINE).search(text, match.end())
            body = text[match.end() : end.start() if end else None]
            found = self.classes.setdefault((place, match[1]), Compiled(match[1], place))
            found.base = match[2] or found.base
            before = re.search(r"(?:^@[^\n]*\n)*\Z", text[: match.start()], re.MULTILINE)
            found.decorators.update(re.findall(r"^@([\w.]+)", before[0] if before else "", re.MULTILINE))
            for kind, names in ATTRIBUTES.findall(body):
                found.attributes.update((name.strip(), kind) for name in names.split(","))
            starts = [*METHOD.finditer(body)]
            stops = [start.start() for start in starts[1:]] + [len(body)]
            for start, stop in zip(starts, stops, strict=False):
                found.methods[start[1]] = body[start.end() : stop]

    def named(self, name: str, place: str) -> Compiled | None:
        return self.classes.get((place, name)) or self.classes.get(self.imported.get((place, name), ("", "")))

    def line(self, one: Compiled | None) -> Iterator[Compiled]:
        """The class and those that it stands on."""
        while one is not None:
            yield one
            one = self.named(one.base, one.place) if one.base not in ("", one.name) else None

    def is_cleared(self, owner: Compiled, attribute: str) -> bool:
        kind = owner.attributes[attribute]
        if kind == "Py_buffer":  # where the collector looks at the class at all
            others = owner.attributes.keys() - {"__weakref__", attribute}
            return any(owner.attributes[each] != kind and self.is_cleared(owner, each) for each in others)
        return kind in CLEARED or self.named(kind, owner.place) is not None

    def uses(self, one: Compiled, method: str, seen: set[tuple[int, str]]) -> Iterator[tuple[Compiled, str]]:
        """The attributes that a method touches, and the methods that it calls: each with the class that has it."""
        owner = next((each for each in self.line(one) if method in each.methods), None)
        if owner is None or (id(owner), method) in seen:
            return
        seen.add((id(owner), method))
        for name, then in USE.findall(owner.methods[method]):
            holder = next((each for each in self.line(one) if name in each.attributes), None)
            if holder is None:
                yield from self.uses(one, name, seen)
                continue
            yield holder, name
            beyond = self.named(holder.attributes[name], holder.place)
            if then and beyond is not None:
                yield from self.uses(beyond, then, seen)

    def wrong(self) -> list[str]:
        return sorted(
            {
                f"{one.place}: {end} of {one.name} needs {holder.name}.{attribute}"
                for one in self.classes.values()
                for end in ENDS
                if end in one.methods
                for holder, attribute in self.uses(one, end, set())
                if self.is_cleared(holder, attribute) and not SAFE & holder.decorators
            }
        )


def texts() -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for path in sorted(FOLDER.rglob("*.p[yx][xdi]")):
        module = path.with_suffix(".py")  # compiled Python is a module of its own; other files include each other
        place = str((module if module.exists() else path.parent).relative_to(FOLDER))
        found.setdefault(place, []).append(path.read_text())
        if module.exists():
            found[place].append(module.read_text())
    return found


def test_the_end_of_a_compiled_class_needs_nothing_that_a_collection_takes():
    """Where it does: @cython.no_gc_clear, and a comment that says what needs it."""
    sources = Sources(texts())
    ends = [one.name for one in sources.classes.values() if "__dealloc__" in one.methods]
    assert len(ends) > 20  # the files are read
    assert sources.wrong() == []


SAMPLE = """
cdef class Base:
    cdef readonly Other other, second  # with a word
    cdef int number

    cdef int leave(self) except -1:
        return self.other.leave()

cdef class Other:
    cdef list items
    cdef Py_buffer view

    cdef int leave(self) except -1:
        return len(self.items)
"""


@pytest.mark.parametrize(
    ("ending", "wrong"),
    [
        ("cdef class A(Base):\n    def __dealloc__(self):\n        free(self.number)\n", []),
        ("cdef class A:\n    cdef object a\n    def __dealloc__(self):\n        use(self.a)\n", ["A.a"]),
        ("@cython.no_gc_clear\ncdef class A:\n    cdef object a\n    def __dealloc__(self):\n        x(self.a)\n", []),
        ("cdef class A(Base):\n    def __dealloc__(self):\n        self.leave()\n", ["Base.other", "Other.items"]),
        ("cdef class A(Other):\n    def __dealloc__(self):\n        release(&self.view)\n", ["Other.view"]),
        ("cdef class A(Base):\n    def __releasebuffer__(self, view):\n        self.second.x()\n", ["Base.second"]),
    ],
)
def test_what_is_found(ending, wrong):
    found = Sources({"place": [SAMPLE + "\n" + ending]}).wrong()
    assert [each.rpartition(" ")[2] for each in found] == wrong
