"""Trees reach every rank once, over runs of ranks where they say so, and in as few rounds as they promise."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastsock.mpj.collectives import trees
from fastsock.mpj.collectives.folding import Folding

KINDS = (trees.minimum_spanning, trees.binomial, trees.binomial_reversed, trees.four_ary, trees.flat)
sizes = st.integers(1, 70)


def rounds(kind, size, root):
    """When each rank has the data, where a rank serves one other in each round."""
    reached = {root: 0}
    todo = [root]
    while todo:
        rank = todo.pop()
        for number, child in enumerate(kind(rank, size, root).children, 1):
            assert child.rank not in reached
            reached[child.rank] = reached[rank] + number
            todo.append(child.rank)
    assert set(reached) == set(range(size))
    return max(reached.values())


@pytest.mark.parametrize("kind", KINDS)
@given(size=sizes, data=st.data())
def test_parents_and_children_agree_and_all_are_reached(kind, size, data):
    root = data.draw(st.integers(0, size - 1))
    most = rounds(kind, size, root)
    for rank in range(size):
        tree = kind(rank, size, root)
        assert (tree.parent < 0) == (rank == root)
        for child in tree.children:
            assert kind(child.rank, size, root).parent == rank
            if tree.first >= 0:
                below = kind(child.rank, size, root)
                assert (below.first, below.end) == (child.first, child.end)
                assert child.first <= child.rank < child.end
    if kind in (trees.minimum_spanning, trees.binomial, trees.binomial_reversed):
        assert most == (size - 1).bit_length()


@given(size=sizes)
def test_minimum_spanning_subtrees_are_runs_that_meet(size):
    for root in range(size):
        for rank in range(size):
            tree = trees.minimum_spanning(rank, size, root)
            runs = sorted([(child.first, child.end) for child in tree.children] + [(rank, rank + 1)])
            assert runs[0][0] == tree.first and runs[-1][1] == tree.end
            assert all(one[1] == other[0] for one, other in pairwise(runs))


@given(size=sizes)
def test_folded_places_are_a_power_of_two_and_runs_of_ranks(size):
    folds = [Folding.of(rank, size) for rank in range(size)]
    places = folds[0].places
    assert places & (places - 1) == 0 and places <= size < 2 * places
    held = {}
    for rank, fold in enumerate(folds):
        if fold.place >= 0:
            held.setdefault(fold.place, []).append(rank)
            assert fold.rank(fold.place) == rank
            if fold.other >= 0:
                held[fold.place].append(fold.other)
                assert folds[fold.other].place < 0 and folds[fold.other].other == rank
    assert [rank for place in range(places) for rank in held[place]] == list(range(size))
    assert folds[0].rank(places) == size
