"""The doctor on the guest's devices: it names what is there, as the kernel and the device know it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from fastsock.doctor.report import Colours, lines

from .guest import Guest, only_in_lab

pytestmark = only_in_lab


PYVERBS = Path("/usr/lib/python3/dist-packages/pyverbs")


@pytest.fixture(scope="module")
def findings(tmp_path_factory):
    """With Debian's pyverbs, and with nothing else of Debian's Python."""
    packages = tmp_path_factory.mktemp("packages")
    (packages / "pyverbs").symlink_to(PYVERBS)
    path = os.pathsep.join(filter(None, [os.environ.get("PYTHONPATH"), str(packages)]))
    command = [*Guest().at_h1, sys.executable, "-m", "fastsock.doctor", "--no-measure", "--json"]
    environment = os.environ | {"PYTHONPATH": path}
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, env=environment)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture
def found(findings):
    return findings["hardware"]


def test_devices_ports_and_addresses(found):
    guest = Guest()
    software, kind = {"rxe": ("SoftRoCE", "RoCE"), "siw": ("soft iWARP", "iWARP")}[os.environ["LAB_DEVICE"]]
    device = found["devices"][0]
    (port,) = device["ports"]
    assert (device["name"], device["kind"], device["software"]) == (guest.devices()[0], kind, software)
    assert device["permitted"] and not device["advice"]
    assert port["state"] == guest.state(device["name"]) == "ACTIVE"
    assert (port["packets_sent"] is not None) == guest.counts(device["name"])
    if kind == "RoCE":
        by_index = {gid["index"]: gid for gid in port["gids"]}
        first = by_index[guest.gid(device["name"])]
        assert "." in first["address"]
        assert (first["type"], first["netdev"]) == ("RoCE v2", port["netdev"])
        assert guest.own_address in [gid["address"] for gid in port["gids"]]


def test_pyverbs_says_the_same_and_tells_what_the_device_has_room_for(found):
    said = found["pyverbs"]
    print(said, [device["limits"] for device in found["devices"]])
    assert said == {"why_not": None, "differences": [], "advice": ""}
    if shutil.which("ibv_devinfo") is None:
        pytest.skip("no ibv_devinfo")
    for device in found["devices"]:
        command = [*Guest().at_h1, "ibv_devinfo", "-v", "-d", device["name"]]
        lines_of = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout.splitlines()
        words = dict(line.split(":", 1) for line in map(str.strip, lines_of) if ":" in line)
        limits = device["limits"]
        for name in ("max_qp", "max_qp_wr", "max_cq", "max_cqe", "max_mr", "max_srq"):
            assert limits[name] == int(words[name]), name
        assert limits["max_mr_size"] == int(words["max_mr_size"], 16)
        assert limits["sockets"] > 100


def test_libraries_and_what_a_program_needs(found):
    assert [library["why_not"] for library in found["libraries"]] == [None, None]
    assert found["providers"]["devices"] >= 1
    assert found["connection_manager"]["permitted"]
    assert found["memlock"]["limit"] is None


def test_smc_has_its_device_and_its_enterprise_id(found):
    kind = {"r": "smc_r", "d": "smc_d"}.get(os.environ["LAB_SMC"])
    if kind is None:
        assert not found["smc"]["opens"] or not found["smc"]["enterprise_ids"]
        return
    assert found["smc"]["opens"] and found["smc"][kind]
    assert [each["name"] for each in found["smc"]["enterprise_ids"]] == ["FASTSOCK-LAB"]
    if kind == "smc_r":
        assert found["smc"][kind][0]["name"] == Guest().devices()[0]


def test_a_reader_sees_it(findings, found):
    text = "\n".join(lines(findings, Colours(False)))
    print(text)
    assert f"rdma         {found['devices'][0]['name']}: " in text
    assert "software, so no time on it is a figure" in text
    assert "memlock      unlimited" in text
    assert "pyverbs      says the same as the kernel's files" in text
