"""Writes what happens to each test, one JSON object a line.

The file is opened anew for each line: a test may fork, close descriptors it
does not know, or be killed, and the lines before must survive it.
"""

import faulthandler
import functools
import json
import os
import sys
import time
import traceback

DETAIL_CHARACTERS = 4000

# The first that a test met is its outcome. A test whose subtests were partly skipped still passed.
_GRAVEST_FIRST = ("error", "fail", "unexpected success", "expected failure", "pass", "skip")


class Record:
    """The file of results, and the watch that ends a process whose test hangs.

    Limits are in seconds for one test.
    """

    def __init__(self, path, default_limit, limits):
        self._path = path
        self._default_limit = default_limit
        self._limits = limits
        self._owner = os.getpid()
        # A private copy: tests replace and close sys.stderr.
        self._dump_to = os.fdopen(os.dup(2), "w")
        faulthandler.enable(file=self._dump_to)
        self._watch(default_limit)

    def _write(self, **line):
        if os.getpid() != self._owner:
            return
        with open(self._path, "a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")

    def _watch(self, seconds):
        if os.getpid() == self._owner:
            faulthandler.dump_traceback_later(seconds, exit=True, file=self._dump_to)

    def start(self, name):
        self._write(event="start", id=name)
        self._watch(self._limits.get(name, self._default_limit))

    def end(self, name, outcome, seconds=0.0, detail=""):
        self._write(
            event="end", id=name, outcome=outcome, seconds=round(seconds, 4), detail=detail[-DETAIL_CHARACTERS:]
        )
        self._watch(self._default_limit)

    def note(self, kind, text):
        self._write(event="note", kind=kind, text=text[-DETAIL_CHARACTERS:])

    def finish(self):
        self._write(event="finish")
        self._watch(self._default_limit)

    def note_unraisable_exceptions(self):
        """Notes exceptions that end in a destructor, where no test sees them."""
        previous = sys.unraisablehook

        def hook(info):
            self.note(
                "unraisable", "".join(traceback.format_exception(info.exc_type, info.exc_value, info.exc_traceback))
            )
            previous(info)

        sys.unraisablehook = hook


def _detail(reason):
    """Text of what a result was given: a reason to skip, exc_info, or a twisted Failure."""
    if isinstance(reason, tuple):
        return "".join(traceback.format_exception(*reason))
    return reason.getTraceback() if hasattr(reason, "getTraceback") else str(reason)


class _Running:
    """What the test that is running has met so far."""

    def __init__(self, record):
        self._record = record
        self._test = None
        self._met = []
        self._details = []
        self._started_at = 0.0

    @staticmethod
    def _name(test):
        return getattr(test, "recorded_as", None) or test.id()

    def start(self, test):
        self._test = test
        self._met = []
        self._details = []
        self._started_at = time.monotonic()
        self._record.start(self._name(test))

    def stop(self, test):
        outcome = next((o for o in _GRAVEST_FIRST if o in self._met), "pass")
        self._test = None
        self._record.end(self._name(test), outcome, time.monotonic() - self._started_at, "\n".join(self._details))

    def met(self, outcome, test, reason=""):
        detail = _detail(reason)
        if self._test is None:  # the set-up or tear-down of a class or a module
            self._record.end(self._name(test), outcome, 0.0, detail)
            return
        self._met.append(outcome)
        if detail and outcome != "expected failure":
            self._details.append(detail)

    def subtest(self, test, subtest, reason):
        if reason is not None:
            self.met(
                "fail" if issubclass(reason[0], test.failureException) else "error",
                test,
                f"{subtest}\n{_detail(reason)}",
            )


def attach(result_class, record):
    """Makes every result of a class, in the manner of `unittest.TestResult`, write to the record."""
    running = _Running(record)
    hooks = {
        "startTest": running.start,
        "stopTest": running.stop,
        "addSubTest": running.subtest,
        "addSuccess": lambda test: running.met("pass", test),
        "addError": lambda test, reason: running.met("error", test, reason),
        "addFailure": lambda test, reason: running.met("fail", test, reason),
        "addSkip": lambda test, reason: running.met("skip", test, reason),
        "addExpectedFailure": lambda test, *reason: running.met("expected failure", test),
        "addUnexpectedSuccess": lambda test, *reason: running.met("unexpected success", test),
    }

    def hooked(name, hook):
        original = getattr(result_class, name)

        @functools.wraps(original)
        def method(self, *arguments):
            hook(*arguments)
            return original(self, *arguments)

        return method

    for name, hook in hooks.items():
        if hasattr(result_class, name):
            setattr(result_class, name, hooked(name, hook))
