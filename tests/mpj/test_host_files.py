"""Host files of the runner."""

from __future__ import annotations

import pytest

from fastsock.mpj.runner import hosts


def test_host_files(tmp_path):
    path = tmp_path / "hosts"
    path.write_text("# all\nlocalhost\nn1:2 # two\n\nn2 slots=3 max_slots=4\n[fe80::1]:2\n")
    found = hosts.read(str(path))
    assert found == [("localhost", 1), ("n1", 2), ("n2", 3), ("fe80::1", 2)]
    assert hosts.place(found, 4) == {"": [0], "n1": [1, 2], "n2": [3]}
    assert hosts.place(found, 10)["n1"] == [1, 2, 9]


@pytest.mark.parametrize("text", ["", "# nothing\n", "-oProxyCommand=x\n", "a b\n", "a:x\n", "a:0\n"])
def test_no_host_file(tmp_path, text):
    path = tmp_path / "hosts"
    path.write_text(text)
    with pytest.raises(ValueError):
        hosts.read(str(path))
