"""Servers that are killed under load, a few times: `python -m tests.soak.programs` does so for as long as one likes."""

from __future__ import annotations

import pytest

from ..soak.programs.campaign import campaign
from ..soak.programs.servers import SERVERS, why_not
from . import compiled

pytestmark = compiled.needs_library


@pytest.mark.parametrize("name", list(SERVERS))
@pytest.mark.parametrize("after", ["0", "3"])
def test_clients_of_killed_servers_hear_of_it_and_no_wrong_byte(name: str, after: str) -> None:
    reason = why_not(name)
    if reason is not None:
        pytest.skip(reason)
    outcome = campaign(name, 4, 1, after)
    assert outcome.problems == []
    assert outcome.kills == 4 and outcome.gained > 0
