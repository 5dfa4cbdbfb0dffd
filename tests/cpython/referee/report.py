"""Prints what came out, and writes it as JSON."""

from __future__ import annotations

from collections import Counter
from typing import Any

from .connections import Paths
from .match import Played
from .process import Outcome
from .verdicts import Difference

KINDS = ("regression", "unsteady", "flaky", "excluded")

# A path that carried fewer ends of connections than this in a whole run was not really tested.
EXERCISED = 20
BETTER = ("shm", "rdma")


def progress(played: Played) -> str:
    """One line for one module run one way."""
    plain, subject = (Counter(o.outcome for o in run.outcomes.values()) for run in (played.plain, played.subject))
    kinds = ", ".join(f"{len(found)} {kind}" for kind in KINDS if (found := played.of_kind(kind))) or "same"
    seconds = f"{played.plain.seconds:5.1f} -> {played.subject.seconds:5.1f} s"
    return (
        f"{played.interpreter.version:8}{played.way.name:12}{played.module.removeprefix('test.'):39}"
        f"pass {plain['pass']:4} -> {subject['pass']:4}  {seconds}  {kinds}"
    )


def _groups(all_played: list[Played]) -> dict[tuple[str, str], list[Played]]:
    groups: dict[tuple[str, str], list[Played]] = {}
    for played in all_played:
        groups.setdefault((played.interpreter.version, played.way.name), []).append(played)
    return groups


def not_exercised(all_played: list[Played]) -> list[str]:
    """Paths that were preferred and that hardly any connection took, although there were connections."""
    found = []
    for (version, path), group in _groups(all_played).items():
        paths = _sum(group)
        if not paths.processes:
            found.append(f"Python {version}, {path}: no process wrote its connections: was fastsock installed at all?")
        streams = sum(count for name, count in paths.taken.items() if name != "plain")
        carrier = group[0].way.carrier
        if carrier in BETTER and paths.taken[carrier] < EXERCISED <= streams:
            reason = group[0].interpreter.why_no_core if carrier == "shm" else ""
            found.append(
                f"Python {version}: {path} was preferred and {paths.taken[carrier]} of {streams} took it"
                + (f" ({reason})" if reason else "")
            )
    return found


def not_run(all_played: list[Played]) -> list[str]:
    """Modules of which no test ran plain, though the process failed: nothing was compared."""
    found = []
    for played in all_played:
        tests = [name for name in played.plain.outcomes if " (" not in name]
        leaving = played.plain.outcomes.get(f"exit ({played.module})")
        if not tests and leaving is not None and not leaving.passed:
            found.append(
                f"Python {played.interpreter.version}: {played.module} does not run plain: {_last_line(leaving.detail)}"
            )
    return sorted(set(found))


def _sum(group: list[Played]) -> Paths:
    paths = Paths()
    for played in group:
        paths.add(played.paths)
    return paths


def _last_line(detail: str) -> str:
    lines = detail.strip().splitlines()
    return lines[-1][:160] if lines else ""


def _cause(outcome: Outcome) -> str:
    """The line of a traceback that says most: its last, or for a dump of stacks the innermost call."""
    lines = outcome.detail.strip().splitlines()
    dumped = [number for number, line in enumerate(lines) if line.endswith("(most recent call first):")]
    if not dumped or not outcome.outcome.startswith(("crash", "hang")):
        return _last_line(outcome.detail)
    return " <- ".join(line.strip().removeprefix("File ") for line in lines[dumped[-1] + 1 : dumped[-1] + 4])


def text(all_played: list[Played], details: bool) -> str:
    """The summary: a part for each version and path, then each test that differs with where it does."""
    out = []
    for (version, path), group in sorted(_groups(all_played).items()):
        plain = [outcome.outcome for played in group for outcome in played.plain.outcomes.values()]
        subject = [outcome.outcome for played in group for outcome in played.subject.outcomes.values()]
        out.append(
            f"\nPython {version}, {path}: {plain.count('pass')} pass plain, {subject.count('pass')} here"
            f" ({len(plain)} tests; {sum(played.plain.seconds for played in group):.0f} s plain,"
            f" {sum(played.subject.seconds for played in group):.0f} s here)"
        )
        if group[0].way.reports:
            out.append(f"   ends of connections: {_sum(group)}")
    for kind in KINDS:
        out += _of_kind(kind, all_played, details)
    out += _side_effects(all_played, details)
    out += _plain_failures(all_played)
    return "\n".join(out)


def _place(played: Played) -> str:
    return f"{played.interpreter.minor} {played.way.name}"


def _of_kind(kind: str, all_played: list[Played], details: bool) -> list[str]:
    tests: dict[str, list[tuple[Played, Difference]]] = {}
    for played in all_played:
        for difference in played.of_kind(kind):
            tests.setdefault(difference.test, []).append((played, difference))
    out = []
    for test, found in sorted(tests.items()):
        outcomes = ", ".join(sorted({difference.subject.outcome for _, difference in found}))
        places = ", ".join(sorted(_place(played) for played, _ in found))
        out.append(f"\n{kind.upper()}: {test}: {outcomes} ({places})")
        for how in sorted({difference.how or "not run again" for _, difference in found}):
            out.append(f"   {how}")
        if kind != "excluded":
            out += [f"   {cause}" for cause in sorted({_cause(difference.subject) for _, difference in found}) if cause]
        if details and kind in ("regression", "unsteady"):
            for played, difference in found:
                out += [f"   in {_place(played)}:", _indent(difference.subject.detail)]
    return out


def _side_effects(all_played: list[Played], details: bool) -> list[str]:
    out = []
    for played in all_played:
        for note in played.new_notes():
            out.append(
                f"\nside effect in {played.module} ({_place(played)}): {note['kind']}: {_last_line(note['text'])}"
            )
            if details:
                out.append(_indent(note["text"]))
    return out


def _plain_failures(all_played: list[Played]) -> list[str]:
    found: dict[str, set[str]] = {}
    for played in all_played:
        for test, outcome in played.plain.outcomes.items():
            if outcome.outcome not in ("pass", "skip", "expected failure"):
                found.setdefault(f"{test}: {outcome.outcome}: {_last_line(outcome.detail)}", set()).add(
                    played.interpreter.minor
                )
    head = [
        "\nFail plain on this machine, so are not counted:" if found else "\nEvery test passes plain on this machine."
    ]
    return head + [f"   {what} ({', '.join(sorted(where))})" for what, where in sorted(found.items())]


def _indent(detail: str) -> str:
    return "\n".join("      | " + line for line in detail.splitlines())


def as_json(all_played: list[Played], complaints: list[str]) -> dict[str, Any]:
    """Everything, for programs: for each run every test's outcome and seconds on both sides."""
    runs = []
    for played in all_played:
        names = dict.fromkeys([*played.plain.outcomes, *played.subject.outcomes])
        runs.append(
            {
                "python": played.interpreter.version,
                "path": played.way.name,
                "module": played.module,
                "seconds": [round(played.plain.seconds, 2), round(played.subject.seconds, 2)],
                "connections": dict(played.paths.taken),
                "reasons": {f"{path}/{reason}": n for (path, reason), n in played.paths.reasons.items()},
                "differences": [
                    {
                        "test": d.test,
                        "kind": d.kind,
                        "how": d.how,
                        "plain": d.plain.outcome,
                        "outcome": d.subject.outcome,
                        "detail": d.subject.detail,
                    }
                    for d in played.differences
                ],
                "side_effects": played.new_notes(),
                "tests": {
                    name: [
                        None if (o := run.outcomes.get(name)) is None else [o.outcome, o.seconds]
                        for run in (played.plain, played.subject)
                    ]
                    for name in names
                },
            }
        )
    return {"runs": runs, "complaints": complaints}
