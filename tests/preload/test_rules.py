"""The rules file for programs that are no Python: which connections gain memory, beside what Python's rules say."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from fastsock import config
from fastsock.launching import preloading

from . import compiled

pytestmark = compiled.needs_library

# The rules, where P is the port and Q another one; where the listener listens, and what is connected to.
CASES = [
    ("", "127.0.0.1", "127.0.0.1"),
    ("# nothing", "127.0.0.1", "127.0.0.1"),
    ("connect 127.0.0.1 * tcp", "127.0.0.1", "127.0.0.1"),
    ("listen 127.0.0.1 * tcp", "127.0.0.1", "127.0.0.1"),
    ("listen * * tcp", "127.0.0.1", "127.0.0.1"),
    ("connect 127.0.0.2 * tcp\nlisten 127.0.0.2 * tcp", "127.0.0.1", "127.0.0.1"),
    ("connect 127.0.0.2 * tcp", "0.0.0.0", "127.0.0.2"),
    ("connect 127.0.0.0/30 P tcp", "127.0.0.1", "127.0.0.1"),
    ("connect 127.0.0.0/30 * tcp", "127.0.0.9", "127.0.0.9"),
    ("connect 127.0.0.8/30 * tcp", "127.0.0.9", "127.0.0.9"),
    ("connect 0.0.0.0/0 P-Q tcp", "127.0.0.1", "127.0.0.1"),
    ("connect 127.0.0.1 Q tcp\nlisten * Q tcp", "127.0.0.1", "127.0.0.1"),
    ("connect * P shm,tcp\nconnect * * tcp", "127.0.0.1", "127.0.0.1"),
    ("connect * P ^shm\nconnect * * shm", "127.0.0.1", "127.0.0.1"),
    ("connect localhost P tcp", "127.0.0.1", "127.0.0.1"),
    ("connect ::1 * tcp\nlisten ::/0 * tcp", "127.0.0.1", "127.0.0.1"),
    ("connect ::1 * tcp", "::1", "::1"),
    ("connect ::/1 * tcp", "::1", "::1"),
    ("connect 8000::/1 * tcp", "::1", "::1"),
    ("listen ::ffff:127.0.0.1 * tcp", "::", "127.0.0.1"),
    ("listen 127.0.0.0/8 * tcp", "::", "127.0.0.1"),
    ("connect 127.0.0.1 * tcp", "127.0.0.1", "0.0.0.0"),
]


@pytest.fixture
def port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        found: int = free.getsockname()[1]
        return found


def words(listened: str, connected: str, port: int, how: str = "wait") -> list[str]:
    return [compiled.program("pair"), listened, connected, str(port), how]


@pytest.mark.parametrize("how", ["wait", "begin", "again"])
@pytest.mark.parametrize(("rules", "listened", "connected"), CASES)
def test_a_connection_gains_memory_where_python_would_give_it(
    rules: str, listened: str, connected: str, how: str, port: int, tmp_path: Path
) -> None:
    if ":" in listened and not os.path.exists("/proc/net/if_inet6"):
        pytest.skip("there is no IPv6")
    (tmp_path / "rules").write_text(text := rules.replace("P", str(port)).replace("Q", str(port + 1)))
    settings = config.Settings(rules=config.parse_rules(text))
    meant = {"0.0.0.0": "127.0.0.1"}.get(connected, connected)
    asked = [("connect", port), ("listen", port), *([("connect", port + 1)] if how == "again" else [])]
    allowed = all("shm" in settings.paths_for(way, meant, at)[0] for way, at in asked)
    report = tmp_path / "report"
    done = compiled.ours(words(listened, connected, port, how), report, UPGRADE_AFTER=3, CONFIG=tmp_path / "rules")
    assert (done.returncode, done.stdout, done.stderr) == (0, "40\n", "")
    assert compiled.gained(report) == (2 if allowed else 0)


def by_hand(port: int, folder: Path, resolved: str | None, file: str | None) -> int:
    """How many ends have memory, with that environment and no command."""
    given = {"LD_PRELOAD": preloading.LIBRARY, "FASTSOCK_UPGRADE_AFTER": "3", "FASTSOCK_STATS": str(folder / "report")}
    for name, value in (("FASTSOCK_RESOLVED_RULES", resolved), ("FASTSOCK_CONFIG", file)):
        if value is not None:
            given[name] = value
    done = subprocess.run(
        words("127.0.0.1", "127.0.0.1", port), env={**os.environ, **given}, capture_output=True, text=True
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "40\n", "")
    return compiled.gained(folder / "report")


GOOD = "connect 7f000001/32 1-2 0 1 127.0.0.1 tcp"


@pytest.mark.parametrize(
    "text",
    [
        None,
        "",
        " ",
        "1",
        "1 0",
        "2 0 /rules",
        "1  /rules",
        "1 0 /other",
        "1 0  /rules",
        "1 -1 /rules",
        "1 2 connect * 0-65535 1 1 * shm,tcp /rules",
        "1 99999999999999999999 /rules",
        f"1 1 {GOOD} /rules2",
        f"1 1 {GOOD}",
        f"1 0 {GOOD} /rules",
        f"1 1 {GOOD.replace('connect', 'both')} /rules",
        f"1 1 {GOOD.replace('7f000001', '7f0001')} /rules",
        f"1 1 {GOOD.replace('7f000001', '7F00000G')} /rules",
        f"1 1 {GOOD.replace('/32', '/33')} /rules",
        f"1 1 {GOOD.replace('/32', '')} /rules",
        f"1 1 {GOOD.replace('1-2', '2-1')} /rules",
        f"1 1 {GOOD.replace('1-2', '1-65536')} /rules",
        f"1 1 {GOOD.replace('1-2', '1')} /rules",
        f"1 1 {GOOD.replace(' 0 1 ', ' 2 1 ')} /rules",
        f"1 1 {GOOD.replace(' 0 1 ', ' 0 x ')} /rules",
        f"1 1 {GOOD.replace(' tcp', '')} /rules",
    ],
)
def test_rules_that_are_not_whole_keep_all_on_tcp(text: str | None, port: int, tmp_path: Path) -> None:
    assert by_hand(port, tmp_path, text, "/rules") == 0


def test_rules_that_are_whole_hold_for_their_file_alone(port: int, tmp_path: Path) -> None:
    for number, (text, file, expected) in enumerate(
        [
            (f"1 1 {GOOD} /rules", "/rules", 2),
            ("1 0 /rules", "/rules", 2),
            ("1 1 connect * 0-65535 0 1 * tcp /rules", None, 2),
            ("1 1 connect * 0-65535 0 1 * tcp /with space", "/with space", 0),
            ("1 1 listen * 0-65535 1 1 * shm,tcp /with space", "/with space", 2),
        ]
    ):
        (folder := tmp_path / str(number)).mkdir()
        assert by_hand(port, folder, text, file) == expected, (text, file)


def run(*given: str, folder: Path) -> subprocess.CompletedProcess[str]:
    words = [sys.executable, "-m", "fastsock", "run", *given]
    return subprocess.run(words, capture_output=True, text=True, cwd=folder)


def test_a_python_child_reads_the_file_itself(tmp_path: Path) -> None:
    (tmp_path / "rules").write_text("connect 127.0.0.1 * tcp\nlisten * 80 tcp\n")
    code = "from fastsock import config; print(len(config.settings().rules))"
    seen = run("--config", "rules", "sh", "-c", f"cd / && {sys.executable} -c '{code}'", folder=tmp_path)
    assert (seen.returncode, seen.stdout, seen.stderr) == (0, "2\n", "")


def test_a_wrong_file_is_told_before_the_program_begins(tmp_path: Path) -> None:
    (tmp_path / "rules").write_text("connect 127.0.0.1 * tcp\nlisten nowhere\n")
    seen = run("--config", "rules", "echo", "begun", folder=tmp_path)
    assert (seen.returncode, seen.stdout) == (2, "")
    assert "rules, line 2: 'listen nowhere' is no rule" in seen.stderr


def test_more_rules_than_an_environment_takes_are_refused(tmp_path: Path) -> None:
    (tmp_path / "rules").write_text("connect 127.0.0.1 * tcp\n" * 3000)
    seen = run("--config", "rules", "echo", "begun", folder=tmp_path)
    assert (seen.returncode, seen.stdout) == (2, "")
    assert "more rules than programs can be given" in seen.stderr


@pytest.mark.parametrize("scene", ["copies", "stdio", "fork", "exec", "passing", "ranges"])
@pytest.mark.parametrize("rules", ["connect * * tcp", "listen * * tcp", "connect * * shm,tcp"])
def test_numbers_of_a_connection_under_rules(scene: str, rules: str, tmp_path: Path) -> None:
    """Duplicates, streams, children: as without rules."""
    (tmp_path / "rules").write_text(rules)
    words = [compiled.program("scenes"), scene]
    expected = compiled.plain(words)
    seen = compiled.ours(words, tmp_path / "report", UPGRADE_AFTER=3, CONFIG=tmp_path / "rules")
    assert (seen.returncode, seen.stdout, seen.stderr) == (expected.returncode, expected.stdout, expected.stderr)
    assert (compiled.gained(tmp_path / "report") > 0) == ("shm" in rules)
