"""C programs that know nothing of fastsock, plain and with the preloaded library: every byte, and what they see."""

from __future__ import annotations

import os
import shlex
from pathlib import Path

import pytest

from . import compiled

pytestmark = compiled.needs_library

SCENES = [
    "half_close",
    "reset",
    "pipe",
    "killed",
    "stopped",
    "left",
    "lingers",
    "lingers_long",
    "timeout",
    "nonblocking",
    "full",
    "signals",
    "cancelled",
    "peek",
    "peek_parts",
    "vectors",
    "messages",
    "file",
    "zerocopy",
    "refused",
    "options",
    "low_water",
    "asynchronous",
    "copies",
    "ranges",
    "fork",
    "exec",
    "spawn",
    "vfork",
    "clone",
    "passing",
    "shell",
    "at_directory",
    "waits",
    "level",
    "wide",
    "edge",
    "shared_word",
    "two_by_edges",
    "two_by_level",
    "armed",
    "stdio",
    "bare",
    "by_another_thread",
    "submitted",
    "deepbind",
    "namespace",
]
TALKS = [
    ("thread", "recv"),
    ("thread", "all"),
    ("fork", "read"),
    ("poll", "polls"),
    ("select", "vector"),
    ("epoll", "message"),
    ("epoll", "read"),
    ("edge", "recv"),
]


@pytest.mark.parametrize("scene", SCENES)
def test_a_program_sees_what_tcp_shows(scene: str, tmp_path: Path) -> None:
    words = [compiled.program("scenes"), scene]
    report = tmp_path / "report"
    expected, seen = compiled.plain(words), compiled.ours(words, report, UPGRADE_AFTER=3)
    assert (seen.returncode, seen.stdout, seen.stderr) == (expected.returncode, expected.stdout, expected.stderr)
    assert compiled.gained(report) > 0


def test_no_scene_is_left_out() -> None:
    assert compiled.plain([compiled.program("scenes")]).stdout.split() == SCENES


@pytest.mark.parametrize("how", ["close", "dup2"])
def test_what_a_thread_sends_while_another_one_closes_comes_or_fails(how: str, tmp_path: Path) -> None:
    words = [compiled.program("closing"), how, "200"]
    report = tmp_path / "report"
    seen = compiled.ours(words, report, UPGRADE_AFTER=3)
    assert (seen.returncode, seen.stdout, seen.stderr) == (0, "200 of 200 right\n", "")
    assert compiled.gained(report) > 0


@pytest.mark.parametrize(
    ("how", "gains"),
    [
        ("early", False),
        ("standard", False),
        ("reused", True),
        ("duplicated", False),
        ("forked", False),
        ("given", False),
    ],
)
def test_a_number_that_others_have_too_stays_on_tcp(how: str, gains: bool, tmp_path: Path) -> None:
    words = [compiled.program("streams"), how]
    report = tmp_path / "report"
    seen = compiled.ours(words, report, UPGRADE_AFTER=3)
    assert (seen.returncode, seen.stdout, seen.stderr) == (0, "b line\nc line\nd line\n", "")
    assert (compiled.gained(report) > 0) == gains


@pytest.mark.parametrize("after", ["0", "1", "3", "9", "pays"])
def test_a_thread_that_waits_for_edges_hears_of_what_comes_while_another_one_reads(after: str, tmp_path: Path) -> None:
    words = [compiled.program("handover"), "300"]
    report = tmp_path / "report"
    for _ in range(3):
        seen = compiled.ours(words, report, UPGRADE_AFTER=after)
        assert (seen.returncode, seen.stdout, seen.stderr) == (0, "300 answers\n", "")
    assert compiled.gained(report) > 0


@pytest.mark.parametrize("connections", ["2", "8", "50"])
@pytest.mark.parametrize("what", ["all", "some", "threads", "forked", "closes"])
def test_threads_that_poll_several_connections_hear_of_each_answer(what: str, connections: str, tmp_path: Path) -> None:
    words = [compiled.program("polled"), "mixed", what, connections, "240"]
    report = tmp_path / "report"
    seen = compiled.ours(words, report, UPGRADE_AFTER=0)
    assert (seen.returncode, seen.stdout, seen.stderr) == (0, "240 rounds\n", "")
    assert compiled.gained(report) > 0


@pytest.mark.parametrize("how", ["poll", "ppoll", "select"])
def test_a_thread_that_polls_several_connections_is_told_by_bits(how: str, tmp_path: Path) -> None:
    """Tokens are bytes on TCP: about 10,000 answers come, and where tokens tell of them each has one."""
    words = [compiled.program("polled"), how, "all", "8", "2000", "tcp"]
    report = tmp_path / "report"
    seen = compiled.ours(words, report, UPGRADE_AFTER=0)
    assert (seen.returncode, seen.stderr) == (0, "")
    assert compiled.gained(report) == 16
    assert int(seen.stdout) < 4000


@pytest.mark.parametrize(("server", "client"), TALKS)
@pytest.mark.parametrize(("after", "ring"), [(0, "1M"), (5, "4096")])
def test_every_byte_comes_back(server: str, client: str, after: int, ring: str, tmp_path: Path) -> None:
    words = [compiled.program("talk"), server, client, "3", "60", "100000"]
    report = tmp_path / "report"
    expected = compiled.plain(words)
    seen = compiled.ours(words, report, UPGRADE_AFTER=after, RING_BYTES=ring)
    assert (seen.returncode, seen.stdout, seen.stderr) == (expected.returncode, expected.stdout, expected.stderr)
    assert compiled.gained(report) > 0


def test_a_program_that_may_write_no_file_stays_on_tcp() -> None:
    """Memory is a file, and one that is larger than RLIMIT_FSIZE ends the program by SIGXFSZ."""
    talk = shlex.join([compiled.program("talk"), "epoll", "read", "3", "12", "20000"])
    words = ["/bin/sh", "-c", f"ulimit -f 0; exec {talk} 2>&1"]
    expected = compiled.plain(words)
    seen = compiled.ours_at_once(words, Path(os.devnull), UPGRADE_AFTER=3)
    assert (seen.returncode, seen.stdout) == (expected.returncode, expected.stdout)
