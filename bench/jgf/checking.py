"""What a kernel of JGF computed beside what JGF accepts. Rank 0 alone has the results, as there."""

from __future__ import annotations

from ranks.kernel import Verification

Compared = tuple[str, float, float, float, float]  # what, computed, expected, error, accepted


def near(what: str, computed: float, expected: float, accepted: float) -> Compared:
    return what, computed, expected, abs(computed - expected), accepted


def verdict(*compared: Compared) -> Verification:
    """Passed where each error is at most what is accepted; one that is no number is not."""
    return Verification(all(error <= accepted for *_, error, accepted in compared), list(compared))
