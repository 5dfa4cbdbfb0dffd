"""Builds the native core where a C compiler is found; without one the package installs and says so (fastsock.doctor)."""

from pathlib import Path

from Cython.Build import cythonize
from setuptools import Extension, setup

CORE = Path("fastsock/core")
SOURCES = ["segment", "ring", "doorbell", "end", "wait", "watch", "raw", "bridge", "system"]

core = Extension(
    "fastsock.core._core",
    sources=[str(CORE / "_core.pyx"), *(str(CORE / f"{name}.c") for name in SOURCES)],
    depends=[str(path) for path in sorted(CORE.glob("*.h"))],
    include_dirs=[str(CORE)],
    extra_compile_args=["-std=c11", "-O3", "-fno-strict-aliasing", "-pthread"],
    extra_link_args=["-pthread"],
    optional=True,
)

setup(ext_modules=cythonize([core], language_level=3))
