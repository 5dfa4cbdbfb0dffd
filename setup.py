"""Builds the native core where a C compiler is found; without one fastsock installs too, and doctor says so."""

from pathlib import Path

from Cython.Build import cythonize
from setuptools import Extension, setup

CORE = Path("fastsock/core")
FOLDERS = (CORE, CORE / "message", CORE / "team")
GENERATED = CORE / "_core.c"
MPJ = Path("fastsock/mpj")
MPJ_INCLUDED = [str(path) for path in sorted(MPJ.glob("*/*.px[di]"))]

OPTIONS = {
    "include_dirs": [str(folder) for folder in FOLDERS if folder.is_dir()],
    "extra_compile_args": ["-std=c11", "-O3", "-fno-strict-aliasing", "-pthread"],
    "extra_link_args": ["-pthread"],
}


def files(*endings: str) -> list[str]:
    found = [path for folder in FOLDERS for ending in endings for path in sorted(folder.glob(f"*{ending}"))]
    return [str(path) for path in found if path != GENERATED]


core = Extension(
    "fastsock.core._core",
    sources=[str(CORE / "_core.pyx"), *files(".c")],
    depends=files(".h", ".pxi", ".pxd"),
    **OPTIONS,
)
memory = Extension(
    "fastsock.mpj.datatypes._memory",
    sources=[str(MPJ / "datatypes/_memory.pyx"), str(CORE / "strided.c")],
    depends=[*MPJ_INCLUDED, str(CORE / "strided.h")],
    **OPTIONS,
)
modules = [core, memory]
for calls in sorted([*MPJ.glob("messages/*.pyx"), *MPJ.glob("collectives/*.pyx")]):
    depends = [*files(".h", ".pxd"), *MPJ_INCLUDED]
    name = ".".join(calls.with_suffix("").parts)
    modules.append(Extension(name, sources=[str(calls)], depends=depends, **OPTIONS))

extensions = cythonize(modules, language_level=3)
for extension in extensions:
    extension.optional = True  # cythonize() makes new ones and forgets it

setup(ext_modules=extensions)
