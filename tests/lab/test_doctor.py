"""The doctor on the guest's devices: it names what is there, as the kernel and the device know it."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from fastsock.doctor.tell import Colours, lines

from .guest import Guest, only_in_lab

pytestmark = only_in_lab


@pytest.fixture(scope="module")
def findings():
    command = [*Guest().at_h1, sys.executable, "-m", "fastsock.doctor", "--no-measure", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240)
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
