"""What a run tells: NPB's block (common/print_results.f) and one line of JSON."""

from __future__ import annotations

import json
import platform
from importlib import metadata
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .program import Outcome


def print_outcome(outcome: Outcome) -> None:
    """Print both."""
    print(block(outcome))
    print(json.dumps(as_json(outcome)), flush=True)


def block(outcome: Outcome) -> str:
    """NPB's words and columns. A failed verification has both values above."""
    kernel, rate = outcome.kernel, _mops(outcome)
    lines = [f" {kernel.title} -- {kernel.name} Benchmark", ""]
    if outcome.verification is not None:
        for what, computed, expected, error, accepted in outcome.verification.rows:
            if not outcome.verification.passed or len(outcome.verification.rows) <= 10:
                mark = "" if error <= accepted else "FAILURE: "
                computed = computed.item() if hasattr(computed, "item") else computed  # numpy's says its type too
                lines.append(f" {mark}{what}: {computed!r}, expected {expected!r}, error {error:.3e} of {accepted:g}")
        verdict = "SUCCESSFUL" if outcome.verification.passed else "UNSUCCESSFUL"
    else:
        verdict = "NOT PERFORMED"  # nothing was computed
    rows = [
        ("Class", outcome.letter),
        ("Size", kernel.size),
        ("Iterations", kernel.iterations),
        ("Time in seconds", f"{outcome.seconds:.4f}"),
        ("Runs", outcome.runs),
        ("Total processes", outcome.ranks),
        ("Mop/s total", f"{rate:.2f}"),
        ("Mop/s/process", f"{rate / outcome.ranks:.2f}"),
        ("Operation type", kernel.counted),
        ("Verification", verdict),
        ("Arithmetic", outcome.arithmetic),
    ]
    lines += ["", f" {kernel.name} Benchmark Completed."]
    lines += [f" {name:<15} = {value!s:>24}" for name, value in rows]
    return "\n".join(lines)


def as_json(outcome: Outcome) -> dict[str, Any]:
    """Seconds, also of the run that counted; calls and bytes of all ranks together, by primitive."""
    rows: dict[str, Any] = {
        "kernel": outcome.kernel.name,
        "class": outcome.letter,
        "ranks": outcome.ranks,
        "arithmetic": outcome.arithmetic,
        "versions": versions(),
        "seconds": outcome.seconds,
        "runs": outcome.runs,
        "mops": _mops(outcome),
        "verified": None if outcome.verification is None else outcome.verification.passed,
    }
    if outcome.communication is not None:
        rows |= {"counted": outcome.counted, **outcome.communication}
    return rows


def versions() -> dict[str, str | None]:
    """Of what computes and of what carries, on this rank. None: Numba is not installed."""
    import mpi4py
    import numpy
    from mpi4py import MPI

    try:
        numba = metadata.version("numba")
    except metadata.PackageNotFoundError:
        numba = None
    return {
        "python": platform.python_version(),
        "numpy": numpy.__version__,
        "numba": numba,
        "mpi4py": mpi4py.__version__,
        "mpi": MPI.Get_library_version().splitlines()[0].strip("\0 "),
    }


def _mops(outcome: Outcome) -> float:
    if outcome.arithmetic == "skeleton" or outcome.seconds <= 0:
        return 0.0
    return outcome.kernel.operations() / outcome.seconds / 1e6
