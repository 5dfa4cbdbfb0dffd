"""Remote calls without a compiler: the same text, run by Python, beside the compiled one at the other end."""

from __future__ import annotations

import subprocess
import sys

import pytest

from fastsock import rmi

from . import objects
from .conftest import fresh_name

PROGRAM = """
import sys
from importlib.machinery import PathFinder, SourceFileLoader
from importlib.util import spec_from_file_location

class Interpreted:
    def find_spec(self, name, path=None, target=None):
        if name.startswith("fastsock.rmi."):
            found = PathFinder.find_spec(name, path)
            source = path[0] + "/" + name.rpartition(".")[2] + ".py"
            return spec_from_file_location(name, source) if found is not None else None

sys.meta_path.insert(0, Interpreted())
from fastsock import rmi
from fastsock.rmi import _connection
assert _connection.__file__.endswith(".py")
import numpy
with rmi.connect(sys.argv[1], timeout=60) as store:
    assert store.add(1, 2) == 3
    array = numpy.arange(300_000.0)
    assert numpy.array_equal(store.same(array), array)
    assert sum(store.count_to(1000)) == 499500
    assert store.call(rmi.callback(lambda value: value * 2), 5) == 10
    counter = store.counter()
    assert [counter.increase(), counter.increase()] == [1, 2]
    with rmi.batch(store) as calls:
        results = [calls.add(each, each) for each in range(10)]
    assert [result.result() for result in results] == [each * 2 for each in range(10)]
    try:
        store.refuse("no")
    except ValueError as error:
        assert error.args == ("no", 42)
    del counter
print("good")
"""


@pytest.mark.usefixtures("path")
def test_an_interpreted_end(tmp_path):
    name = fresh_name()
    with rmi.Daemon() as daemon:
        daemon.register(objects.Store(), name)
        daemon.start()
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM, f"rmi:{name}"], capture_output=True, text=True, timeout=100, check=False
        )
        assert done.stdout == "good\n", done.stderr
