"""The preloaded library with sanitizers, and the environment of programs that run so. The programs are as they are."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[3]
FLAGS = {"asan": ["-fsanitize=address,undefined"], "tsan": ["-fsanitize=thread", "-Wno-tsan"]}
RUNTIMES = {"asan": ("libasan.so", "libubsan.so"), "tsan": ("libtsan.so",)}


def _setup() -> Any:
    """setup.py, which says how the library is built."""
    spec = importlib.util.spec_from_file_location("fastsock_setup", ROOT / "setup.py")
    assert spec is not None and spec.loader is not None
    setup = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(setup)
    return setup


class Sanitizer:
    def __init__(self, mode: str, folder: Path) -> None:
        self.mode, self.folder = mode, folder
        self.compiler = shutil.which("gcc") or "cc"
        os.chmod(folder, 0o777)  # PostgreSQL writes its reports as somebody else

    def build(self) -> None:
        here = Path.cwd()
        os.chdir(ROOT)  # setup.py names its files from there
        try:
            setup = _setup()
            setup.write_shared_names()  # by which Python's class finds it
            extension = setup.preloaded()
            flags = [*FLAGS[self.mode], "-g", "-O1", "-fno-omit-frame-pointer"]
            compiling = [self.compiler, *extension.extra_compile_args]
            includes = [f"-I{name}" for name in extension.include_dirs]

            def compile_one(source: str) -> str:
                target = str(self.folder / (source.replace("/", "_") + ".o"))
                words = [*compiling, *setup.flags(source), *flags, "-fPIC", *includes]
                subprocess.run([*words, "-c", source, "-o", target], check=True)
                return target

            with ThreadPoolExecutor(2) as workers:
                made = list(workers.map(compile_one, extension.sources))
            linking = [word for word in extension.extra_link_args if word != "-Wl,-z,defs"]
            subprocess.run(
                [self.compiler, "-shared", *FLAGS[self.mode], "-o", str(self.library), *made, *linking], check=True
            )
        finally:
            os.chdir(here)

    @property
    def library(self) -> Path:
        return self.folder / "libfastsock_preload.so"

    def cover(self, environment: dict[str, str]) -> dict[str, str]:
        """The same with this library in the place of the other one, behind what the sanitizer needs."""
        found = [
            subprocess.run([self.compiler, f"-print-file-name={name}"], capture_output=True, text=True).stdout.strip()
            for name in RUNTIMES[self.mode]
        ]
        reports = f"log_path={self.folder / 'report'}"
        return {
            **environment,
            "LD_PRELOAD": " ".join([*map(os.path.realpath, found), str(self.library)]),
            "ASAN_OPTIONS": f"{reports}:detect_leaks=0:detect_stack_use_after_return=0",
            "UBSAN_OPTIONS": f"{reports}:print_stacktrace=1",
            "TSAN_OPTIONS": f"{reports}:die_after_fork=0:report_signal_unsafe=0:suppressions={self._left_out()}",
        }

    def _left_out(self) -> Path:
        """A look at TCP (MSG_TRUNC) has no place for bytes, and ThreadSanitizer takes NULL for one."""
        file = self.folder / "left_out"
        file.write_text("race_top:recv\n")
        return file

    def reports(self) -> list[str]:
        return [path.read_text(errors="replace") for path in sorted(self.folder.glob("report.*"))]
