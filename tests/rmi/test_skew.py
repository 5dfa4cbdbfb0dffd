"""Ends that are not alike: another version of the protocol, another byte order."""

from __future__ import annotations

import array
import sys
from collections import OrderedDict

import numpy
import pytest

from fastsock import rmi
from fastsock.rmi.codec.values import classes
from fastsock.rmi.wire import hello
from fastsock.testing.process import FarProcess

from . import objects
from .codecs import Way
from .conftest import begin_daemon, fresh_name


def begin_of_versions(here, oldest, newest, name):
    hello.OLDEST, hello.NEWEST = oldest, newest
    return begin_daemon(here, name, {})


@pytest.mark.parametrize(
    ("there", "here", "agreed"), [((1, 2), (1, 1), 1), ((1, 1), (1, 2), 1), ((2, 3), (1, 2), 2)], ids=str
)
def test_a_newer_end_speaks_the_older_protocol(path, monkeypatch, there, here, agreed):
    name = fresh_name()
    with FarProcess() as far:
        far.run(begin_of_versions, *there, name)
        monkeypatch.setattr(hello, "OLDEST", here[0])
        monkeypatch.setattr(hello, "NEWEST", here[1])
        seen = []
        connector = hello.Connector
        monkeypatch.setattr(hello, "Connector", lambda *arguments: seen.append(connector(*arguments)) or seen[-1])
        with rmi.connect(f"rmi:{name}", objects.Store) as store:
            assert store.add(1, 2) == 3
            if agreed < 2:
                with pytest.raises(rmi.NotPackable, match="OrderedDict is not registered"):
                    store.same(OrderedDict(a=1))
            else:
                assert type(store.same(OrderedDict(a=1))) is OrderedDict
            assert store.add(1, 2) == 3
        assert [end.other.version for end in seen] == [agreed]


@pytest.mark.parametrize(("there", "here"), [((2, 3), (1, 1)), ((1, 1), (2, 3))], ids=str)
def test_ends_too_far_apart_are_told_their_versions(path, monkeypatch, there, here):
    name = fresh_name()
    with FarProcess() as far:
        far.run(begin_of_versions, *there, name)
        monkeypatch.setattr(hello, "OLDEST", here[0])
        monkeypatch.setattr(hello, "NEWEST", here[1])
        with pytest.raises(rmi.Refused, match=f"versions {there[0]} to {there[1]} are spoken here"):
            rmi.connect(f"rmi:{name}", objects.Store)


def test_one_version_back_is_spoken():
    assert max(hello.NEWEST - 1, 1) == hello.OLDEST


@pytest.mark.parametrize("order", [">", "<"])
@pytest.mark.parametrize("kind", ["i2", "i8", "f4", "f8", "c16"])
@pytest.mark.parametrize("count", [5, 100_000])
def test_arrays_of_either_byte_order_keep_their_values(store, order, kind, count):
    given = numpy.arange(count).astype(order + kind)
    found = store.same(given)
    assert numpy.array_equal(found, given)
    assert numpy.array_equal(store.add(given, given), given + given)


@pytest.mark.parametrize("code", "hilqfd")
def test_an_array_of_an_end_of_the_other_byte_order_is_converted(monkeypatch, code):
    other = "little" if sys.byteorder == "big" else "big"
    given = array.array(code, range(100))
    there = array.array(code, given)
    there.byteswap()  # as it lies in such an end's memory
    way = Way(classes)
    with monkeypatch.context() as patched:
        patched.setattr(sys, "byteorder", other)
        body, segments = way.pack(there)
    assert way.unpack(body, segments) == [given]


def test_what_errors_are_called_between_two_versions():
    names = ("LimitExceeded", "NotPackable", "UnknownMethod", "UnknownObject", "VersionMismatch")
    assert {f"fastsock.rmi.{name}" for name in names} <= set(classes.by_name)
