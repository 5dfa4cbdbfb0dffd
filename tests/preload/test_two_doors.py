"""Python processes that have the class and the library: C code and the class use one descriptor by turns."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import trustme

from . import compiled

pytestmark = compiled.needs_library

ECHOES = compiled.PROGRAMS / "echoes.py"
KINDS = ("class", "asyncio", "uvloop", "number", "turns")
CONNECTIONS, ROUNDS = 3, 60


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    authority = trustme.CA()
    file = tmp_path_factory.mktemp("certificate") / "all.pem"
    authority.issue_cert("127.0.0.1").private_key_and_cert_chain_pem.write_to_path(str(file))
    authority.cert_pem.write_to_path(str(file), append=True)
    return file


def run(server: str, talker: str, certificate: Path, folder: Path) -> list[dict[str, object]]:
    words = [str(word) for word in (sys.executable, ECHOES, server, talker, certificate, CONNECTIONS, ROUNDS)]
    plain = compiled.plain(words)
    assert (plain.returncode, plain.stderr) == (0, "")
    done = compiled.ours(words, folder / "report", UPGRADE_AFTER=3)
    assert (done.returncode, done.stdout, done.stderr) == (0, plain.stdout, "")
    return compiled.report_lines(folder / "report")


def all_gained(told: list[dict[str, object]]) -> None:
    """Each connection is told once by each end, and has moved most of its bytes by memory."""
    rows = [line for line in told if "role" in line]
    assert [row["transport"] for row in rows] == ["shm"] * 2 * CONNECTIONS
    assert [row["role"] for row in rows].count("connect") == CONNECTIONS
    totals = [line["totals"] for line in told if "totals" in line]
    assert sum(one.get("shm", 0) for one in totals) == 2 * CONNECTIONS  # type: ignore[attr-defined]
    assert sum(one.get("tcp", 0) for one in totals) == 0  # type: ignore[attr-defined]


@pytest.mark.parametrize("server", KINDS)
@pytest.mark.parametrize("talker", KINDS)
def test_each_kind_of_code_meets_each_other(server: str, talker: str, certificate: Path, tmp_path: Path) -> None:
    if "uvloop" in (server, talker):
        pytest.importorskip("uvloop")
    all_gained(run(server, talker, certificate, tmp_path))


@pytest.mark.parametrize("server", ["class", "asyncio", "uvloop"])
@pytest.mark.parametrize("talker", ["class", "asyncio", "uvloop"])
def test_tls_goes_by_memory(server: str, talker: str, certificate: Path, tmp_path: Path) -> None:
    if "uvloop" in (server, talker):
        pytest.importorskip("uvloop")
    all_gained(run(f"{server}tls", f"{talker}tls", certificate, tmp_path))


@pytest.mark.parametrize("after", [1, 3, 40])
def test_forked_children_and_threads_use_both(after: int, tmp_path: Path) -> None:
    # Python 3.12 warns where a process has a thread more when it forks (docs/explanation/limits.md)
    words = [sys.executable, "-W", "ignore::DeprecationWarning", str(compiled.PROGRAMS / "forks.py")]
    plain = compiled.plain(words)
    assert (plain.returncode, plain.stderr) == (0, "")
    done = compiled.ours(words, tmp_path / "report", UPGRADE_AFTER=after)
    assert (done.returncode, done.stdout, done.stderr) == (0, plain.stdout, "")


def test_a_socket_is_closed_while_c_code_sends_on_it(tmp_path: Path) -> None:
    words = [sys.executable, str(compiled.PROGRAMS / "closings.py")]
    done = compiled.ours(words, tmp_path / "report", UPGRADE_AFTER=3)
    assert (done.returncode, done.stdout, done.stderr) == (0, "60\n", "")
    assert compiled.report_lines(tmp_path / "report")


@pytest.mark.parametrize("way", ["class", "number"])
def test_a_receive_ends_by_its_time_also_where_memory_was_offered_in_vain(way: str, tmp_path: Path) -> None:
    words = [sys.executable, str(compiled.PROGRAMS / "timeouts.py"), way]
    assert compiled.plain(words).returncode == 0
    done = compiled.ours(words, tmp_path / "report", UPGRADE_AFTER=3)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert "nobody took the memory" in (tmp_path / "report").read_text()
