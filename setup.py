"""Builds the native core where a C compiler is found; without one fastsock installs too, and doctor says so."""

from pathlib import Path

from Cython.Build import cythonize
from setuptools import Extension, setup

CORE = Path("fastsock/core")
SOURCES = ["abstract", "bridge", "direct", "doorbell", "end", "promise"]
SOURCES += ["raw", "ring", "segment", "system", "wait", "watch"]

core = Extension(
    "fastsock.core._core",
    sources=[str(CORE / "_core.pyx"), *(str(CORE / f"{name}.c") for name in SOURCES)],
    depends=[str(path) for path in sorted(CORE.glob("*.h"))],
    include_dirs=[str(CORE)],
    extra_compile_args=["-std=c11", "-O3", "-fno-strict-aliasing", "-pthread"],
    extra_link_args=["-pthread"],
)

extensions = cythonize([core], language_level=3)
for extension in extensions:
    extension.optional = True  # cythonize() makes new ones and forgets it

setup(ext_modules=extensions)
