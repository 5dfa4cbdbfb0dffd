"""One rank of a run of one of mpi4py's test modules: run_module.py TEST_FOLDER MODULE RESULT_FOLDER [LEFT_OUT...]

Writes a line of JSON when a test starts and another when it ended, so that whoever waits knows where a run hung.
"""

from __future__ import annotations

import fnmatch
import json
import os
import sys
import time
import unittest

# what mpi4py's own runner keeps away unless asked
sys.modules["cupy"] = None  # type: ignore[assignment]
sys.modules["numba"] = None  # type: ignore[assignment]


class Recorder(unittest.TestResult):
    """Writes down each test's outcome at once; the first trouble of a test counts, subtests included."""

    def __init__(self, file) -> None:
        super().__init__()
        self.file = file
        self.outcome: tuple[str, str] = ("pass", "")
        self.started = 0.0

    def write(self, **fields) -> None:
        self.file.write(json.dumps(fields) + "\n")
        self.file.flush()

    def startTest(self, test) -> None:
        super().startTest(test)
        self.outcome = ("pass", "")
        self.started = time.monotonic()
        self.write(event="start", test=test.id())

    def stopTest(self, test) -> None:
        super().stopTest(test)
        outcome, detail = self.outcome
        self.write(
            event="stop", test=test.id(), outcome=outcome, detail=detail, seconds=time.monotonic() - self.started
        )

    def note(self, outcome: str, detail: str) -> None:
        if self.outcome[0] in ("pass", "skip"):
            self.outcome = (outcome, detail)

    def addError(self, test, err) -> None:
        super().addError(test, err)
        self.note("error", self.errors[-1][1])
        if not isinstance(test, unittest.TestCase):  # setUpClass or setUpModule
            self.write(event="stop", test=test.id(), outcome="error", detail=self.errors[-1][1], seconds=0.0)

    def addFailure(self, test, err) -> None:
        super().addFailure(test, err)
        self.note("fail", self.failures[-1][1])

    def addSubTest(self, test, subtest, err) -> None:
        super().addSubTest(test, subtest, err)
        if err is not None:
            self.note("fail", f"{subtest}: {self._exc_info_to_string(err, test)}")

    def addSkip(self, test, reason) -> None:
        super().addSkip(test, reason)
        if self.outcome[0] == "pass":
            self.outcome = ("skip", reason)

    def addExpectedFailure(self, test, err) -> None:
        super().addExpectedFailure(test, err)
        self.outcome = ("pass", "")

    def addUnexpectedSuccess(self, test) -> None:
        super().addUnexpectedSuccess(test)
        self.note("fail", "succeeded unexpectedly")


def cases(suite):
    for item in suite:
        if isinstance(item, unittest.TestSuite):
            yield from cases(item)
        else:
            yield item


def main() -> None:
    folder, module, results, *left_out = sys.argv[1:]
    sys.argv[1:] = []
    sys.path.insert(0, folder)
    from mpi4py import MPI

    world = MPI.COMM_WORLD
    chosen = unittest.TestSuite(
        case
        for case in cases(unittest.defaultTestLoader.loadTestsFromName(module))
        if not any(fnmatch.fnmatchcase(case.id(), pattern) for pattern in left_out)
    )
    with open(os.path.join(results, f"{world.Get_rank()}.jsonl"), "w", encoding="utf-8") as file:
        recorder = Recorder(file)
        recorder.write(event="world", size=world.Get_size(), tests=[case.id() for case in cases(chosen)])
        chosen.run(recorder)
        recorder.write(event="end")


if __name__ == "__main__":
    main()
