"""Rules and settings that keep a connection on TCP, in either class whose connections gain memory.

The class for hosts with paths to other hosts is the same for any other connection: it is held to that here.
"""

from __future__ import annotations

import importlib

import pytest

import fastsock
from fastsock import chain, config, testing
from fastsock.testing import PairMaker

from ..helpers.paths import GAINING, environment, preferring
from ..helpers.scripts import Script

ELSEWHERE = "fastsock.channel_socket"


CHOSEN = """
import sys
from fastsock import socket
tell([repr(socket.socket), "fastsock.channel_socket" in sys.modules])
"""


@pytest.fixture(autouse=True)
def upgrade():
    with preferring("shm"):
        yield
    config.reload()


@pytest.fixture(params=(GAINING, ELSEWHERE))
def module(request):
    return importlib.import_module(request.param)


def _connected(module, listener, blocking=True):
    near = module.socket()
    near.setblocking(blocking)
    near.connect_ex(listener.getsockname())
    far, _ = listener.accept()
    near.setblocking(True)
    return near, far


def _told(near, far):
    """What both ends say after some calls, of each the path, the reason and the detail."""
    for _ in range(20):
        near.sendall(b"question")
        assert far.recv(20) == b"question"
        far.sendall(b"answer")
        assert near.recv(20) == b"answer"
    return [(told.transport, told.reason, told.detail) for told in map(fastsock.explain, (near, far))]


@pytest.mark.parametrize("blocking", (True, False))
@pytest.mark.parametrize("direction", ("connect", "listen"))
def test_a_rule_keeps_connections_of_one_listener_on_tcp(module, direction, blocking):
    with module.create_server(("127.0.0.1", 0)) as ruled, module.create_server(("127.0.0.1", 0)) as other:
        rule = f"{direction} 127.0.0.1 {ruled.getsockname()[1]} tcp"
        config.configure(rules=config.parse_rules(rule), upgrade_after=0)
        near, far = _connected(module, ruled, blocking)
        with near, far:
            told = dict(zip(("connect", "listen"), _told(near, far), strict=True))
            assert told.pop(direction) == ("tcp", "excluded_by_rule", f"{rule} (rules, line 1)")
            assert [transport for transport, *_ in told.values()] == ["tcp"]
        near, far = _connected(module, other, blocking)
        with near, far:
            assert _told(near, far) == [("shm", "joined", "")] * 2


def test_a_setting_keeps_all_on_tcp(module):
    config.configure(transports="^shm", upgrade_after=0)
    with module.create_server(("127.0.0.1", 0)) as listener:
        near, far = _connected(module, listener)
        with near, far:
            assert _told(near, far) == [("tcp", "excluded_by_setting", "")] * 2


@pytest.mark.parametrize(
    ("transports", "is_there"),
    [
        pytest.param("shm,tcp", False, marks=pytest.mark.skipif(chain.leads_elsewhere(), reason="a device is here")),
        ("rdma,shm,tcp", True),
    ],
)
def test_the_class_for_other_paths_is_there_where_one_may_be_taken(transports, is_there):
    """Else nothing of it is imported. Either class says that it is from where programs import it."""
    env = {**environment("shm"), "FASTSOCK_TRANSPORTS": transports}
    with Script("plain", CHOSEN, env=env) as program:
        assert program.hear() == ["<class 'fastsock.socket.socket'>", is_there]


@pytest.mark.parametrize("check", testing.checks(), ids=testing.name)
def test_the_class_for_hosts_with_other_paths_keeps_the_contract(check, request):
    """With memory from the begin."""
    maker = PairMaker(ELSEWHERE, transport="shm")
    differs, depends = testing.difference(maker, check), testing.dependence(maker, check)
    if differs or depends:
        request.applymarker(pytest.mark.xfail(reason=differs or depends, strict=bool(differs)))
    check(maker)
