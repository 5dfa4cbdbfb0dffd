"""The whole stream contract, on every path, in both roles, and on plain TCP as the reference."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import fastsock
from fastsock import testing
from fastsock.chain import transports
from fastsock.tcp import TcpTransport

from ..helpers.paths import GAINING, PATHS, maker_of, preferring, taking

LIMITS = Path(fastsock.__file__).parent.parent / "docs" / "reference" / "checks.md"


@pytest.fixture(params=("plain", *PATHS, "gaining"))
def kind(request):
    """As in tests/conftest.py. "shm" has memory from its first byte on, "gaining" gains it within a check."""
    if request.param == "plain":
        yield "plain"
        return
    with taking("shm" if request.param == "gaining" else request.param):
        yield request.param


@pytest.fixture
def near(kind):
    """As in tests/conftest.py. Nobody asks what carries the bytes where that changes."""
    return testing.PairMaker(GAINING) if kind == "gaining" else maker_of(kind)


@pytest.mark.parametrize("check", testing.checks(), ids=testing.name)
def test_stream(check, maker):
    differs, depends = testing.difference(maker, check), testing.dependence(maker, check)
    if differs is None and depends is None:
        check(maker)
    elif not testing.passes(check, maker):
        pytest.xfail(differs or depends)
    else:
        assert differs is None, f"it passes, but the {maker.transport} path says: {differs}"


def test_differences_are_those_of_checks_that_exist():
    names = {testing.name(check) for check in testing.checks()}
    for path in transports():
        assert {*path.differs, *path.depends} <= names, path.name


@pytest.mark.skipif(not LIMITS.exists(), reason="fastsock is installed without its repository")
def test_the_page_of_limits_names_every_difference_and_no_other():
    table = LIMITS.read_text()
    rows = re.findall(r"^\| (`[^|]+`) \| .+ \| (.+) \|$", table, re.MULTILINE)
    quoted = re.compile(r"`([^`]+)`")
    named = sorted(
        (path, check) for paths, checks in rows for path in quoted.findall(paths) for check in quoted.findall(checks)
    )
    told = {(path.name, check) for path in transports() for check in (*path.differs, *path.depends)}
    assert named == sorted(told)


def test_a_check_that_hangs_does_not_pass():
    def check_that_hangs(maker):
        with maker.pair() as pair:
            pair.near.recv(1)

    assert not testing.passes(check_that_hangs, testing.PairMaker(), 0.5)


def test_a_path_that_no_forked_process_takes_is_tested_in_this_one():
    ran = []
    maker = testing.PairMaker(fresh=True)

    def check_that_fails(maker):
        ran.append("fails")
        raise AssertionError

    assert testing.passes(lambda maker: ran.append("passes"), maker)
    assert not testing.passes(check_that_fails, maker)
    assert ran == ["passes", "fails"]


def test_the_whole_suite_on_a_path_that_differs(monkeypatch):
    """check_stream() passes where a path differs as it says, and fails where it says so and does not differ."""

    def check_that_holds(maker):
        with maker.pair() as pair:
            pair.near.sendall(b"x")
            assert pair.far.recv(1) == b"x"

    def check_that_fails(maker):
        with maker.pair() as pair:
            pair.near.sendall(b"x")
            assert pair.far.recv(1) == b"y"

    monkeypatch.setattr(testing, "checks", lambda concept: [check_that_holds, check_that_fails])
    maker = testing.PairMaker("fastsock.socket", transport="tcp")
    holds, fails = testing.name(check_that_holds), testing.name(check_that_fails)
    with preferring("tcp"):
        with pytest.raises(AssertionError):
            testing.check_stream(maker)
        monkeypatch.setattr(TcpTransport, "differs", {fails: "it is told so"})
        assert testing.check_stream(maker) == {fails: "it is told so"}
        monkeypatch.setattr(TcpTransport, "differs", {})
        monkeypatch.setattr(TcpTransport, "depends", {fails: "here", holds: "elsewhere"})
        assert testing.check_stream(maker) == {fails: "here"}
        monkeypatch.setattr(TcpTransport, "differs", {fails: "it is told so", holds: "it is not so"})
        with pytest.raises(AssertionError, match="passes, but the tcp path says"):
            testing.check_stream(maker)
