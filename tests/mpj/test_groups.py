"""Groups against lists."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastsock.mpj import MPI
from fastsock.mpj.communicators.group import Group

members = st.lists(st.integers(0, 9), unique=True, max_size=8)


def group(ranks: list[int]) -> Group:
    return Group._make(ranks, 3)


def ranks(found: Group) -> list[int]:
    everyone = group(list(range(10)))
    return found.Translate_ranks(group=everyone)


@given(members, members)
def test_of_two(one: list[int], other: list[int]) -> None:
    first, second = group(one), group(other)
    assert ranks(Group.Union(first, second)) == one + [rank for rank in other if rank not in one]
    assert ranks(Group.Intersection(first, second)) == [rank for rank in one if rank in other]
    assert ranks(Group.Difference(first, second)) == [rank for rank in one if rank not in other]
    expected = MPI.IDENT if one == other else MPI.SIMILAR if set(one) == set(other) else MPI.UNEQUAL
    assert first.Compare(second) == expected
    assert first.rank == (one.index(3) if 3 in one else MPI.UNDEFINED)
    translated = [other.index(rank) if rank in other else MPI.UNDEFINED for rank in one]
    assert first.Translate_ranks(range(len(one)), second) == translated


@given(members, st.data())
def test_choosing(one: list[int], data: st.DataObject) -> None:
    chosen = data.draw(st.lists(st.sampled_from(range(len(one))), unique=True)) if one else []
    assert ranks(group(one).Incl(chosen)) == [one[rank] for rank in chosen]
    assert ranks(group(one).Excl(chosen)) == [rank for i, rank in enumerate(one) if i not in chosen]


def test_ranges() -> None:
    whole = group(list(range(10)))
    assert ranks(whole.Range_incl([(1, 7, 3), (9, 8, -1)])) == [1, 4, 7, 9, 8]
    assert ranks(whole.Range_excl([(0, 8, 2)])) == [1, 3, 5, 7, 9]


@pytest.mark.parametrize("wrong", [[10], [-1], [1, 1]])
def test_ranks_that_are_none(wrong: list[int]) -> None:
    with pytest.raises(MPI.Exception) as caught:
        group(list(range(10))).Incl(wrong)
    assert caught.value.Get_error_class() == MPI.ERR_RANK


@pytest.mark.parametrize("wrong", [(0, 3, 0), (3, 0, 1)])
def test_ranges_that_are_none(wrong: tuple[int, int, int]) -> None:
    with pytest.raises(MPI.Exception) as caught:
        group(list(range(10))).Range_incl([wrong])
    assert caught.value.Get_error_class() == MPI.ERR_ARG
