"""The doctor: what it finds, what it says, and its exit status. What it measures is not judged here."""

from __future__ import annotations

import io
import json
import os
import pty
import socket
import subprocess
import sys
from collections.abc import Iterator

import pytest

from fastsock import chain, config, core
from fastsock.doctor import examine as finding
from fastsock.doctor import measure
from fastsock.doctor.examine import examine
from fastsock.doctor.report import Colours, colours_for, lines
from fastsock.transport import Capability, Reason, Transport

from .helpers.paths import EVERY, why_not

FASTEST = "shm" if core.available else "tcp"

PLAIN = Colours(False)


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Nobody's settings but the test's."""
    for name in [*os.environ]:
        if name.startswith("FASTSOCK_") or name in ("NO_COLOR", "TERM"):
            monkeypatch.delenv(name)
    monkeypatch.setattr(config.in_force, "current", None)
    yield


@pytest.fixture
def plain_listener() -> Iterator[tuple[str, int]]:
    """A server that knows nothing of fastsock."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener.getsockname()


def run(*arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "fastsock.doctor", *arguments]
    return subprocess.run(command, capture_output=True, text=True, env={**os.environ, **environ})


def said(**changes: object) -> str:
    """What a reader sees, with some of the findings changed."""
    findings = examine(measuring=False)
    findings.update(changes)
    return "\n".join(lines(findings, PLAIN))


class OnlyHere(Transport):
    """A path that may or may not work."""

    name = "sdp"
    number = 250
    capabilities = Capability.SAME_HOST

    def __init__(self, reason: Reason | None) -> None:
        self.reason = reason

    def usable(self) -> Reason | None:
        return self.reason

    def advice(self, reason: Reason) -> str:
        return f"mend the {reason}"


class TestCommand:
    def test_json(self) -> None:
        done = run("--json")
        assert (done.returncode, done.stderr) == (0, "")
        findings = json.loads(done.stdout)
        assert findings["healthy"] and not findings["problems"]
        assert findings["transports"] == [name for name in EVERY if name != "sdp"]
        assert findings["native_core"]["built"] == core.available
        assert findings["cores"]["usable"] == len(os.sched_getaffinity(0))
        assert findings["direct_copy"]["permitted"] in ((True, False) if core.available else (None,))
        paths = {path["name"]: path for path in findings["paths"]}
        assert paths.keys() >= {*EVERY}
        for path in paths.values():
            assert path["works"] == (path["round_trip_us"] is not None) or not path["same_host"]
            assert path["works"] or path["reason"]
        for name in [name for name in EVERY if not why_not(name)]:
            assert paths[name]["works"]
            assert paths[name]["round_trip_us"] > 0 and paths[name]["gigabytes_per_second"] > 0
            assert paths[name]["times_faster"] > 0 and paths[name]["times_the_rate"] > 0

    def test_text(self) -> None:
        done = run()
        assert (done.returncode, done.stderr) == (0, "")
        assert "native core" in done.stdout and "1 MiB messages" in done.stdout and " x tcp)" in done.stdout
        assert "\033" not in done.stdout

    def test_not_measuring(self) -> None:
        done = run("--no-measure")
        assert done.returncode == 0
        assert "tcp    works" in done.stdout and "GB/s" not in done.stdout

    @pytest.mark.parametrize(
        "arguments", [("localhost",), ("localhost", "http"), ("localhost", "70000"), ("a", "1", "2"), ("--nonsense",)]
    )
    def test_command_line_that_makes_no_sense(self, arguments: tuple[str, ...]) -> None:
        done = run(*arguments)
        assert done.returncode == 2 and "usage" in done.stderr

    def test_settings_that_cannot_be_used(self) -> None:
        done = run(FASTSOCK_SPIN_US="fast")
        assert done.returncode == 1
        assert "every program that uses fastsock will fail: FASTSOCK_SPIN_US: spin_us is 'fast'" in done.stdout
        assert "tcp    works" in done.stdout

    def test_misspelt_setting(self) -> None:
        done = run("--no-measure", FASTSOCK_TRANSPORT="shm")
        assert done.returncode == 0
        assert "FASTSOCK_TRANSPORT is set, but is no setting" in done.stdout


class TestColour:
    @pytest.mark.parametrize(
        ("environ", "coloured"),
        [({"TERM": "xterm"}, True), ({"TERM": "dumb"}, False), ({"TERM": "xterm", "NO_COLOR": "1"}, False)],
    )
    def test_only_on_a_terminal_that_wants_it(self, environ: dict[str, str], coloured: bool) -> None:
        reader, writer = pty.openpty()
        command = [sys.executable, "-m", "fastsock.doctor", "--no-measure"]
        with subprocess.Popen(command, stdout=writer, env={**os.environ, **environ}) as child:
            os.close(writer)
            text = b""
            try:
                while chunk := os.read(reader, 4096):
                    text += chunk
            except OSError:
                assert text  # a terminal's end is an input/output error
            os.close(reader)
        assert child.returncode == 0
        assert (b"\033[32mworks" in text) == coloured
        assert (b"\033" in text) == coloured

    def test_not_in_a_file(self) -> None:
        assert colours_for(io.StringIO()).paint("\033[1m", "x") == "\033[1mx"
        assert colours_for(io.StringIO()).good == ""


class TestPaths:
    @pytest.mark.parametrize("reason", [Reason.NO_MEMORY, Reason.OTHER_USER])
    def test_path_that_does_not_work(self, monkeypatch: pytest.MonkeyPatch, reason: Reason) -> None:
        known = [OnlyHere(reason), *chain.transports()]
        monkeypatch.setattr(chain, "transports", lambda: iter(known))
        findings = examine(measuring=False)
        path = findings["paths"][0]
        assert (path["works"], path["reason"], path["advice"]) == (False, str(reason), f"mend the {reason}")
        assert findings["healthy"]
        text = said()
        assert "sdp    does not work" in text
        assert f"sdp: {str(reason).replace('_', ' ')}; mend the {reason}" in text

    def test_without_tcp_nothing_is_well(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(chain, "transports", lambda: iter([OnlyHere(None)]))
        assert not examine(measuring=False)["healthy"]

    def test_path_between_hosts_is_not_measured(self, monkeypatch: pytest.MonkeyPatch) -> None:
        class Far(OnlyHere):
            capabilities = Capability(0)

        known = [Far(None), *(path for path in chain.transports() if path.name == "tcp")]
        monkeypatch.setattr(chain, "transports", lambda: iter(known))
        far = examine()["paths"][0]
        assert far["works"] and far["round_trip_us"] is None

    def test_path_left_out_by_the_settings(self) -> None:
        config.configure(transports="tcp", rules=config.parse_rules("connect * 80 tcp", file="my.conf"))
        text = said()
        assert "order        tcp" in text
        assert "rule         connect * 80 tcp (my.conf, line 1)" in text
        assert "shm: " in text and ("not asked for" in text or not core.available)

    def test_no_native_core(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(core, "available", False)
        monkeypatch.setattr(core, "why_not", "no compiler was found; install one")
        findings = examine(measuring=False)
        assert findings["native_core"] == {"built": False, "why_not": "no compiler was found; install one"}
        assert findings["cores"]["distance"] is None
        assert findings["direct_copy"]["permitted"] is None
        assert findings["healthy"]
        text = said()
        assert "not built: no compiler was found; install one; without it every connection stays on TCP" in text
        assert "shm: no native core; " in text

    @pytest.mark.parametrize(
        ("permitted", "from_bytes", "text"),
        [
            (True, 256 << 10, "direct copy  permitted, for messages of 256 KiB and more"),
            (True, None, "direct copy  permitted, but turned off; see FASTSOCK_DIRECT_MIN"),
            (False, 256 << 10, "direct copy  not permitted (for a reason): large messages are copied twice"),
            (None, None, "direct copy  needs the native core"),
        ],
    )
    def test_direct_copy(self, permitted: bool | None, from_bytes: int | None, text: str) -> None:
        why_not = "for a reason" if permitted is False else None
        assert text in said(direct_copy={"permitted": permitted, "why_not": why_not, "from_bytes": from_bytes})

    def test_lost_child(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(measure, "LONGEST_SECONDS", 0.0)
        findings = examine()
        assert any("could not be measured" in problem for problem in findings["problems"])
        assert findings["healthy"]

    @pytest.mark.parametrize(
        ("round_trip", "distance", "text"),
        [
            (0.07, "near", "near to each other now (a cache line's round trip takes 0.07 us)"),
            (0.48, "far", "far from each other now (a cache line's round trip takes 0.48 us), which makes"),
            (9.0, None, "too busy to tell"),
            (None, None, "usable"),
        ],
    )
    def test_cores(
        self, monkeypatch: pytest.MonkeyPatch, round_trip: float | None, distance: str | None, text: str
    ) -> None:
        monkeypatch.setattr(core, "available", True)
        monkeypatch.setattr(core, "cache_line_round_trip_us", lambda: round_trip, raising=False)
        monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 1})
        assert finding._cores() == {"usable": 2, "cache_line_round_trip_us": round_trip, "distance": distance}
        assert text in said(cores=finding._cores())

    def test_one_core(self) -> None:
        found = {"usable": 1, "cache_line_round_trip_us": None, "distance": None}
        assert "both ends take turns on it" in said(cores=found)


class TestConnection:
    def test_server_without_fastsock(self, plain_listener: tuple[str, int]) -> None:
        host, port = plain_listener
        done = run("--no-measure", host, str(port))
        assert done.returncode == 0
        assert f"{host} port {port}: takes tcp: " in done.stdout
        assert "what to do: " in done.stdout

    def test_server_with_fastsock(self) -> None:
        code = (
            "from fastsock import attach, config, socket\n"
            f"config.configure(transports={FASTEST!r}, meeting_ms=10_000)\n"
            "with socket.create_server(('127.0.0.1', 0)) as listener:\n"
            "    print(listener.getsockname()[1], flush=True); sock = listener.accept()[0]\n"
            "    with sock:\n"
            "        attach(sock, 30)"
        )
        with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as server:
            assert server.stdout is not None
            port = int(server.stdout.readline())
            done = run("--no-measure", "--json", "localhost", str(port), FASTSOCK_MEETING_MS="10000")
        assert server.returncode == 0 and done.returncode == 0
        found = json.loads(done.stdout)["connection"]
        assert (found["transport"], found["reason"], found["peer_pid"]) == (FASTEST, "joined", server.pid)
        assert found["rule"] is None and found["advice"] is None

    def test_rule_that_chose(self, plain_listener: tuple[str, int]) -> None:
        host, port = plain_listener
        config.configure(rules=config.parse_rules(f"connect * {port} tcp", file="my.conf"))
        findings = examine(host, port, measuring=False)
        assert findings["connection"]["allowed"] == ["tcp"]
        text = "\n".join(lines(findings, PLAIN))
        assert f"{host} port {port}: takes tcp: " in text
        assert f"chosen by the rule: connect * {port} tcp (my.conf, line 1)" in text

    def test_nobody_listens(self) -> None:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            port = listener.getsockname()[1]
        done = run("--no-measure", "127.0.0.1", str(port))
        assert done.returncode == 1
        assert "not reached: Connection refused" in done.stdout

    def test_no_such_host(self) -> None:
        findings = examine("no.such.host.invalid", 80, measuring=False)
        assert not findings["healthy"] and findings["connection"]["error"]


class TestMeasure:
    def test_leaves_everything_as_it_was(self) -> None:
        before = config.settings()
        cores = os.sched_getaffinity(0)
        results = measure.measure([FASTEST, "tcp"])
        assert [each.name for each in results] == [each.transport for each in results] == [FASTEST, "tcp"]
        assert all(len(each.round_trips_us) == len(each.gigabytes_per_second) == measure.TURNS for each in results)
        assert config.settings() == before and os.sched_getaffinity(0) == cores

    def test_on_one_core(self) -> None:
        cores = os.sched_getaffinity(0)
        os.sched_setaffinity(0, {min(cores)})
        try:
            assert measure.measure(["tcp"])[0].works
        finally:
            os.sched_setaffinity(0, cores)

    def test_the_users_settings_do_not_show(self, monkeypatch: pytest.MonkeyPatch, tmp_path) -> None:
        stats = tmp_path / "stats"
        monkeypatch.setenv("FASTSOCK_TRANSPORTS", "tcp")
        monkeypatch.setenv("FASTSOCK_STATS", str(stats))
        assert measure.measure([FASTEST])[0].works
        assert not stats.exists()

    def test_middle_and_ratio(self) -> None:
        assert measure.middle([3, 1, 2]) == 2 and measure.middle([]) is None
        assert measure.ratio([2, 9, 4], [1, 3, 4]) == 2 and measure.ratio([], [1]) is None
