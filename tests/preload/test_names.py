"""The names that the library has doors for: a name that the C library has for the same call must not lead past them."""

from __future__ import annotations

import ctypes.util
import shutil
import subprocess
from collections import defaultdict

import pytest

from fastsock.launching import preloading

from . import compiled

pytestmark = [
    compiled.needs_library,
    pytest.mark.skipif(shutil.which("nm") is None, reason="nm is not installed"),
]


def names(library: str) -> dict[str, set[str]]:
    """The names that a library gives, by where they lead."""
    words = ["nm", "-D", "--defined-only", "--with-symbol-versions", library]
    found = defaultdict(set)
    for line in subprocess.run(words, capture_output=True, text=True, check=True).stdout.splitlines():
        place, _, name = line.split()
        found[place].add(name)
    return found


def the_c_library() -> str:
    seen = subprocess.run(["ldd", preloading.LIBRARY], capture_output=True, text=True).stdout
    found = [line.split()[2] for line in seen.splitlines() if line.split()[0].startswith("libc.so")]
    if not found:
        pytest.skip(f"where is {ctypes.util.find_library('c')}?")
    return found[0]


def test_each_public_name_of_a_call_has_the_door() -> None:
    doors = {name.partition("@")[0] for same in names(preloading.LIBRARY).values() for name in same}
    missing = set()
    for same in names(the_c_library()).values():
        public = {name.partition("@")[0] for name in same if not name.endswith("GLIBC_PRIVATE")}
        if public & doors:
            missing |= public - doors
    assert missing == set()
