"""Every algorithm of every collective gives what a plain reference gives, to the bit, whatever the schedule."""

from __future__ import annotations

import importlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fastsock.mpj.collectives import schedule

from .cases import PRIMITIVES, Case, Check
from .operations import Product, Sum
from .simulator import World


def module(name):
    return importlib.import_module(f"fastsock.mpj.collectives.{name}")


ALGORITHMS = [(name, algorithm) for name in PRIMITIVES for algorithm in module(name).PRIMITIVE.algorithms]
BY_MESSAGES = [(name, algorithm) for name, algorithm in ALGORITHMS if algorithm != "shared_memory"]


@st.composite
def cases(draw):
    size = draw(st.integers(1, 9))
    return Case(
        size,
        root=draw(st.integers(0, size - 1)),
        items=draw(st.sampled_from([0, 1, 2, 7, 40])),
        in_place=draw(st.booleans()),
        operation=draw(st.sampled_from([Sum(), Product()])),
        seed=draw(st.integers(0, 1 << 16)),
    )


hosts = st.lists(st.integers(0, 3), min_size=9, max_size=9)


@pytest.mark.parametrize(("name", "algorithm"), BY_MESSAGES, ids=lambda value: value)
@given(case=cases(), hosts=hosts, neighbours=st.booleans(), synchronous=st.booleans())
@settings(max_examples=40, deadline=None)
def test_gives_what_the_reference_gives(name, algorithm, case, hosts, neighbours, synchronous):
    hosts = hosts[: case.size]
    if neighbours:
        hosts.sort()
    world = World(case.size, case.seed, synchronous)
    exchanges = [member.exchange() for member in world.members(hosts)]
    primitive = module(name)
    reduces = name in ("reduce", "allreduce", "scan", "exscan") or name.startswith("reduce_scatter")
    if primitive.PRIMITIVE.against(algorithm, exchanges[0], case.operation if reduces else None):
        algorithm = None  # the table then chooses another
    check = Check(case)
    arguments = PRIMITIVES[name](check)
    world.run(
        [
            primitive.steps(exchange, *passed, algorithm=algorithm)
            for exchange, passed in zip(exchanges, arguments, strict=True)
        ]
    )
    check.verify()


@given(names=st.lists(st.sampled_from(BY_MESSAGES), min_size=1, max_size=6), case=cases())
@settings(max_examples=40, deadline=None)
def test_several_at_once_in_the_same_communicator(names, case):
    """Non-blocking collectives, driven by nothing but the completion of messages."""
    world = World(case.size, case.seed)
    members = world.members()
    checks, user_requests = [], []
    for name, algorithm in names:
        check = Check(case)
        checks.append(check)
        arguments = PRIMITIVES[name](check)
        primitive = module(name)
        for member, passed in zip(members, arguments, strict=True):
            exchange = member.exchange(blocking=False)
            chosen = None if primitive.PRIMITIVE.against(algorithm, exchange) else algorithm
            user_requests.append(schedule.start(exchange, primitive.steps(exchange, *passed, algorithm=chosen)))
    world.settle()
    assert all(user_request.done and user_request.error is None for user_request in user_requests)
    for check in checks:
        check.verify()
