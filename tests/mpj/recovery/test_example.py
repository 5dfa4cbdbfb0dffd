"""examples/train_on.py goes on with the ranks that are left, whenever others are killed."""

from __future__ import annotations

import pytest

from . import soak


@pytest.mark.skipif(not soak.EXAMPLE.exists(), reason="fastsock is installed without its repository")
@pytest.mark.parametrize("seed", range(3))
def test_it_trains_on_with_the_ranks_that_are_left(seed):
    killed, wrong = soak.train(seed)
    assert killed > 0 and not wrong
