"""Which algorithm is chosen, and what a file and the environment change in that."""

from __future__ import annotations

import sys

import pytest

from fastsock.mpj.collectives import allreduce, bcast, table
from fastsock.mpj.collectives.exchange import Members

from .operations import NativeSum, Product
from .simulator import World


def row(line):
    return table.parse(line, "test")[0]


def test_the_row_with_the_most_ranks_and_bytes_that_a_call_reaches():
    rows = [
        row("bcast host 1 0 a"),
        row("bcast host 1 100 b"),
        row("bcast host 4 0 c,d"),
        row("bcast host 4 1000 e"),
        row("bcast messages 4 0 f"),
    ]
    found = table.Table(rows)
    assert found.candidates("bcast", "host", 2, 99) == ("a",)
    assert found.candidates("bcast", "host", 3, 100) == ("b",)
    assert found.candidates("bcast", "host", 8, 999) == ("c", "d")
    assert found.candidates("bcast", "host", 4, 1 << 30) == ("e",)
    assert found.candidates("bcast", "messages", 2, 0) == ("f",)  # fewer ranks than any row asks for
    assert found.candidates("bcast", "hosts", 2, 0) == ()
    found.replace([row("bcast host 1 0 z")])
    assert found.candidates("bcast", "host", 8, 1) == ("z",) and found.candidates("bcast", "messages", 9, 1) == ("f",)


def test_a_plan_tells_all_sizes_that_an_algorithm_is_the_first_for():
    lines = [f"bcast host 1 {10 * place} {'ab'[place % 2]},c" for place in range(12)]
    found = table.Table([row(line) for line in lines])
    assert found.plan("bcast", "host", 3).sizes("a") == [(20 * place, 20 * place + 10) for place in range(6)]
    assert found.plan("bcast", "host", 3).sizes("b")[-1] == (110, sys.maxsize)
    assert found.plan("bcast", "host", 3).sizes("c") == found.plan("gather", "host", 3).sizes("a") == []
    found.force("bcast", "c")
    assert found.plan("bcast", "host", 3).sizes("c") == [(0, sys.maxsize)]


@pytest.mark.parametrize("line", ["bcast host 1 0", "bcast here 1 0 a", "bcast host x 0 a", "bcast host 1 -5 a"])
def test_a_line_that_is_none_is_told_with_its_number(line):
    with pytest.raises(ValueError, match="mine, line 2"):
        table.parse("# comment\n" + line, "mine")


def test_a_file_and_the_environment(tmp_path):
    file = tmp_path / "table.txt"
    file.write_text("bcast messages 1 0 flat_tree  # mine\n")
    found = table.load({"FASTSOCK_MPJ_COLLECTIVES": str(file), "FASTSOCK_MPJ_GATHER": "flat_tree_blocking"})
    assert found.candidates("bcast", "messages", 8, 1 << 20) == ("flat_tree",)
    assert found.candidates("gather", "messages", 8, 8)[0] == "flat_tree_blocking"
    assert found.candidates("gather", "messages", 8, 8)[1:] == table.load({}).candidates("gather", "messages", 8, 8)


def test_the_shipped_table_names_algorithms_that_exist():
    from .test_algorithms import module

    with open(table.SHIPPED) as file:
        rows = table.parse(file.read(), "table.txt")
    for one in rows:
        assert set(one.algorithms) <= set(module(one.primitive).PRIMITIVE.algorithms), one.primitive


@pytest.fixture
def forced():
    yield table.TABLE.force
    table.TABLE.force("bcast", None)
    table.TABLE.force("allreduce", None)


def exchange(hosts=(0, 0, 0), blocking=True, team=None):
    world = World(len(hosts), 0)
    return Members(world.engines[0], 1, 0, range(len(hosts)), hosts, team).exchange(blocking)


def test_a_forced_algorithm_is_taken_where_it_can_be(forced):
    forced("bcast", "binomial_tree")
    assert bcast.PRIMITIVE.choose(exchange(), 8, None) is bcast.binomial_tree
    forced("bcast", "shared_memory")
    assert bcast.PRIMITIVE.choose(exchange(), 8, None) is not bcast.shared_memory
    assert bcast.PRIMITIVE.choose(exchange(team=object()), 8, None) is bcast.shared_memory
    assert bcast.PRIMITIVE.choose(exchange(blocking=False, team=object()), 8, None) is not bcast.shared_memory
    forced("bcast", "no_such")
    with pytest.raises(ValueError, match=r"no_such.*flat_tree"):
        bcast.PRIMITIVE.choose(exchange(), 8, None)


def test_a_named_algorithm_that_cannot_serve_says_why():
    with pytest.raises(ValueError, match=r"bcast has no algorithm 'tree'; it has minimum_spanning_tree, "):
        bcast.steps(exchange(), memoryview(bytearray(8)), 0, "tree")
    with pytest.raises(ValueError, match=r"bcast cannot use the algorithm 'shared_memory' here: its ranks share no"):
        bcast.steps(exchange(), memoryview(bytearray(8)), 0, "shared_memory")
    data = memoryview(bytearray(8))
    with pytest.raises(ValueError, match=r"two_level.*no host has two"):
        allreduce.steps(exchange((1, 2, 3)), data, data, NativeSum(), "two_level")
    with pytest.raises(ValueError, match=r"two_level.*does not commute"):
        allreduce.steps(exchange((1, 2, 1)), data, data, Product(), "two_level")
    with pytest.raises(ValueError, match=r"shared_memory.*kernels do not know"):
        allreduce.steps(exchange(team=object()), data, data, Product(), "shared_memory")


def test_operations_that_the_kernels_do_not_know_go_by_messages():
    chosen = allreduce.PRIMITIVE.choose(exchange(team=object()), 8, None, Product())
    assert chosen is not allreduce.shared_memory
    assert allreduce.PRIMITIVE.choose(exchange(team=object()), 8, None, NativeSum()) is allreduce.shared_memory
