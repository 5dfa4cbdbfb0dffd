"""`setup.py`: a module that cannot be compiled ends a build that was asked for, and no installation."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from fastsock.core import binding

from ..helpers.scripts import ROOT

pytest.importorskip("Cython")

SETUP = """
import runpy, sys
from setuptools import Extension, setup

class_of = runpy.run_path(sys.argv.pop(1), run_name="another")["BuildInParallel"]
modules = [Extension("good", ["good.c"], optional=True), Extension("bad", ["bad.c"], optional=True)]
setup(name="example", version="0", py_modules=[], ext_modules=modules, cmdclass={"build_ext": class_of})
"""
GOOD = """
#include <Python.h>
static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, "good", NULL, -1, NULL, NULL, NULL, NULL, NULL};
PyMODINIT_FUNC PyInit_good(void) { return PyModule_Create(&definition); }
"""


@pytest.fixture
def build(tmp_path):
    """Runs setup.py's own way of building on two modules, of which one cannot be compiled; the exit status."""
    for name, text in {"setup.py": SETUP, "good.c": GOOD, "bad.c": "#error it cannot\n"}.items():
        (tmp_path / name).write_text(text)

    def run(*command):
        arguments = [sys.executable, "setup.py", str(ROOT / "setup.py"), *command]
        done = subprocess.run(arguments, cwd=tmp_path, capture_output=True, text=True, timeout=100)
        assert "it cannot" in done.stderr  # and nothing else went wrong
        return done.returncode, sorted(path.name.partition(".")[0] for path in tmp_path.rglob("*.so"))

    return run


def test_who_asks_for_the_build_is_told(build):
    status, _ = build("build_ext", "--inplace")
    assert status != 0


def test_an_installation_does_without_the_module(build):
    assert build("build") == (0, ["good"])


def test_other_systems_have_nothing_to_compile(tmp_path):
    code = f"""
import os, runpy, sys, urllib.request, Cython.Build, setuptools.command.build_ext
sys.platform = "darwin"
del os.sched_getaffinity
sys.argv = ["setup.py", "build_ext", "--build-lib", {str(tmp_path)!r}, "--build-temp", {str(tmp_path)!r}]
runpy.run_path("setup.py", run_name="__main__")
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr
    assert "Cythonizing" not in done.stdout and list(tmp_path.iterdir()) == []


def test_the_version_is_the_same_everywhere():
    said = {
        re.search(pattern, (ROOT / name).read_text(), re.MULTILINE).group(1)
        for name, pattern in (
            ("pyproject.toml", r'^version = "(.+)"$'),
            ("fastsock/__init__.py", r'^__version__ = "(.+)"$'),
            ("conda/meta.yaml", r'set version = "(.+?)"'),
        )
    }
    assert len(said) == 1


def test_the_core_s_package_loads_every_module_of_its_folder() -> None:
    folder = ROOT / "fastsock" / "core" / "binding"
    assert set(binding._MODULES) == {path.stem for path in folder.glob("*.pyx")} - {"_core"}
