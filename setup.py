"""Builds the native core where a C compiler is found; without one fastsock installs too, and doctor says so. So it does
on other systems than Linux, for which nothing is compiled.

Whoever asks for the build itself (build_ext) is told when a module of it fails: an older one would run in its place.
CFLAGS says otherwise where it names a level of optimisation (-O0) or debug information (-g).
"""

import compileall
import gc
import hashlib
import logging
import os
import re
import sys
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import count
from pathlib import Path
from threading import Lock

from Cython.Build import cythonize
from Cython.Compiler.Options import get_directive_defaults
from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

PACKAGE = Path("fastsock")
CORE = PACKAGE / "core"
HEADERS = [*CORE.rglob("*.h")]
MORE = {
    "fastsock.active._connection": [
        str(CORE / "active" / "credits.c"),
        str(CORE / "active" / "frames.c"),
        str(CORE / "parts.c"),
    ],
    "fastsock.mpj.datatypes._memory": [str(CORE / "strided.c")],
    "fastsock.mpj.files._transfer": [str(CORE / "strided.c"), *map(str, sorted((CORE / "files").glob("*.c")))],
}  # C files of the core besides the core's own

# The library for programs of any language: the core's files that a connection needs, and doors that have names of the C
# library. What the core itself calls by such a name is led past the doors.
PRELOAD = CORE / "preload"
PRELOADED = "fastsock.core.preload.libfastsock_preload"
CONNECTIONS = (CORE, CORE / "sockets", CORE / "stream", CORE / "switch")
PRELOADED_FOLDERS = (*CONNECTIONS, PRELOAD)
# The modules of this folder are in one file, with the core (binding/__init__.py). In a process that has the library,
# Python's core is that one: there the file is the borrower's, which has no core within.
BINDING = CORE / "binding"
BOUND = "fastsock.core.binding._core"
BORROWER = "fastsock.core.preload._core"
LED = PRELOAD / "led.c"  # where the linker leads the core's own calls: in both
C_FILES = sorted(CORE.rglob("[!_]*.c"))  # Cython's output has an underscore, also what a removed module left

IS_LINUX = sys.platform == "linux"  # elsewhere there is nothing to compile: all stays on plain TCP
CORES = len(os.sched_getaffinity(0)) if IS_LINUX else 1
ASKED = os.environ.get("CFLAGS", "").split()

# RDMA is built in where the headers of libibverbs and librdmacm are found: the compiler's own, or those of this folder.
RDMA_HEADERS = [folder for folder in (os.environ.get("FASTSOCK_RDMA_HEADERS"),) if folder]

# The library offers its core to a Python of this very build alone, and has no name in any other program's way.
SHARED_NAMES = Path("build") / "shared_names.h"

OPTIONS = {
    "include_dirs": [str(CORE), *RDMA_HEADERS],
    "extra_compile_args": ["-std=c11", "-fno-strict-aliasing", "-fvisibility=hidden", "-pthread"],
    "extra_link_args": ["-pthread"],
}


# A generated binding is large, and mostly calls: half of -O2's time is enough, with these of its passes. What looks at
# each call by itself has -O2, and what works through nested values -O3, as the C core.
LEVEL = ["-O1", "-falign-functions", "-falign-loops", "-falign-jumps", "-fcaller-saves", "-fcrossjumping"]
LEVEL += ["-findirect-inlining", "-finline-small-functions", "-foptimize-sibling-calls", "-fpartial-inlining"]
LEVEL += ["-freorder-blocks-and-partition"]
HOT = {f"fastsock.core.binding.{name}": ["-O2"] for name in ("_calls", "_carrier", "_polling", "_stream")}
HOT |= {
    f"fastsock.rmi.codec._{way}{part}": ["-O2"] for way in ("packing", "unpacking") for part in ("_objects", "_special")
}
HOT |= {f"fastsock.rmi.codec._{way}{part}": ["-O3"] for way in ("packing", "unpacking") for part in ("", "_values")}

# What is generated and not used: no class of a binding is pickled by its attributes, nobody reads the Python source
# among the C, and no function of one is asked for its defaults or made a method later.
DIRECTIVES = {"auto_pickle": False, "emit_code_comments": False, "binding": False}
gc.set_threshold(200_000, 50, 100)  # Cython's objects live until its end: this halves its time


def write_shared_names() -> None:
    """The names of the core as the linker sees them: with a mark of what all headers say."""
    text = "".join(path.read_text() for path in sorted(HEADERS) if path.parent in PRELOADED_FOLDERS)
    mark = hashlib.sha256(text.encode()).hexdigest()[:16]
    names = sorted(set(re.findall(r"\bfs_\w+", text)))
    lines = [f"#pragma redefine_extname {name} fastsock_{mark}_{name}" for name in names]
    wanted = "\n".join(["/* written by setup.py */", *lines, ""])
    if not SHARED_NAMES.exists() or SHARED_NAMES.read_text() != wanted:
        SHARED_NAMES.parent.mkdir(exist_ok=True)
        SHARED_NAMES.write_text(wanted)


def module_of(binding: Path) -> str:
    return ".".join(binding.with_suffix("").parts)


def flags(source: str) -> list[str]:
    """The C core copies, computes and waits, where -O3 pays."""
    path = Path(source)
    level = HOT.get(module_of(path), LEVEL) if path.with_suffix(".pyx").exists() else ["-O3"]
    if any(flag.startswith("-O") for flag in ASKED):
        level = []
    chosen = [*level, *([] if any(flag.startswith("-g") for flag in ASKED) else ["-g0"])]
    if path in C_FILES or path.parent == BINDING or module_of(path) in MORE:
        chosen += ["-include", str(SHARED_NAMES.absolute())]
    return [*chosen, "-fvisibility=protected"] if path.parent in CONNECTIONS else chosen


class BuildInParallel(build_ext):
    """Compiles as many C files at once as there are cores: a thread for each extension, which waits for its files."""

    def finalize_options(self) -> None:
        super().finalize_options()
        if "build_ext" in self.distribution.commands:  # of the command line
            for module in self.extensions:
                module.optional = False

    def run(self) -> None:
        super().run()
        if self.inplace or self.editable_mode:
            # As pip does for what it copies. Otherwise each start compiles all modules where Python may not write any
            # bytecode (PYTHONDONTWRITEBYTECODE), as in many containers. A rank starts in half the time so.
            compileall.compile_dir(PACKAGE, quiet=1)

    def get_ext_filename(self, fullname: str) -> str:
        if fullname.endswith(PRELOADED.rpartition(".")[2]):
            return os.path.join(*fullname.split(".")) + ".so"
        return super().get_ext_filename(fullname)

    def get_export_symbols(self, ext: Extension) -> list[str]:
        return [] if ext.name == PRELOADED else super().get_export_symbols(ext)

    def build_extensions(self) -> None:
        compile_now = self.compiler.compile
        begun: dict[str, Future[list[str]]] = {}  # a file of two extensions is compiled for both
        done = count(1)
        lock = Lock()

        def compile_one(source: str, arguments: list[str], options: dict[str, object]) -> list[str]:
            compiled = compile_now([source], extra_postargs=arguments, **options)
            self.announce(f"compiled {next(done)} of {len(begun)}: {source}", level=logging.INFO)
            return compiled

        def compile_in_parallel(sources: list[str], *, extra_postargs: list[str], **options: object) -> list[str]:
            with lock:
                for source in sorted(set(sources) - set(begun), key=os.path.getsize, reverse=True):
                    arguments = extra_postargs + flags(source)
                    begun[source] = workers.submit(compile_one, source, arguments, options)
            return [compiled for source in sources for compiled in begun[source].result()]

        with ThreadPoolExecutor(self.parallel or CORES) as workers:
            self.compiler.compile = compile_in_parallel
            self.parallel = len(self.extensions)
            # the largest first: on many cores the build lasts as long as it
            self.extensions.sort(key=lambda module: -sum(map(os.path.getsize, module.sources)))
            super().build_extensions()


def extension(binding: Path) -> Extension:
    name = module_of(binding)
    sources = MORE.get(name, [])
    if name == BOUND:
        sources = [str(path) for path in C_FILES if path.parent != PRELOAD]
    folder = PACKAGE / binding.parts[1]
    depends = {*HEADERS, *CORE.rglob("*.pxd"), *folder.rglob("*.pxd"), *folder.rglob("*.pxi")}
    return Extension(name, sources=[str(binding), *sources], depends=sorted(map(str, depends)), **OPTIONS)


def led_past_doors() -> list[str]:
    """What the linker is told."""
    names = re.findall(r"\bX\([^,]+, (\w+)", (PRELOAD / "next.h").read_text())
    names += re.findall(r"^\w+ __wrap_(\w+)\([^;]*;", LED.read_text(), re.MULTILINE)
    return [f"-Wl,--wrap={name}" for name in names]


def preloaded() -> Extension:
    sources = [path for path in C_FILES if path.parent in PRELOADED_FOLDERS and path.name != "beside.c"]
    options = dict(OPTIONS)
    options["extra_link_args"] = ["-pthread", "-ldl", "-Wl,-z,defs", *led_past_doors()]
    return Extension(PRELOADED, sources=[str(path) for path in sources], depends=[*map(str, HEADERS)], **options)


def in_one_file(extensions: list[Extension]) -> list[Extension]:
    """After cythonize(), which makes one of each."""
    bound = {module.name: module for module in extensions if module.name.startswith(f"{module_of(BINDING)}.")}
    core = bound.pop(BOUND)
    core.sources += [source for module in bound.values() for source in module.sources]
    return [*(module for module in extensions if module.name not in bound), preloaded(), borrower(core)]


def borrower(core: Extension) -> Extension:
    """After cythonize(): it has the same name within."""
    owned = {str(path) for path in C_FILES if path.parent in CONNECTIONS}
    options = dict(OPTIONS)
    options["extra_link_args"] = ["-pthread", *led_past_doors()]
    sources = [source for source in core.sources if source not in owned]
    return Extension(BORROWER, sources=[*sources, str(LED)], depends=core.depends, **options)


def compiled() -> list[Extension]:
    modules = [extension(binding) for binding in sorted(PACKAGE.rglob("*.pyx"))]
    known = get_directive_defaults()
    directives = {name: value for name, value in DIRECTIVES.items() if name in known}
    extensions = cythonize(modules, language_level=3, nthreads=CORES, compiler_directives=directives)
    extensions = in_one_file(extensions)
    write_shared_names()
    for module in extensions:
        module.optional = True  # cythonize() makes new ones and forgets it
    return extensions


if __name__ == "__main__":  # cythonize()'s other processes may import this file
    setup(ext_modules=compiled() if IS_LINUX else [], cmdclass={"build_ext": BuildInParallel})
