"""Figures of measurements that one host cannot repeat, and why."""

from __future__ import annotations

_NETWORK = "needs the network {} between two hosts; bench/between_hosts.py measures what a wire without RDMA carries"
_DEVICE = "needs an RDMA device of hardware: run `python bench/rdma.py` there (docs/how-to/rdma.md)"
UNDRAWN = {
    **{f"A 3.{number}": _NETWORK.format(network) for numbers, network in (
        ((5, 6), "SCI"), ((7, 8), "Myrinet"), ((9, 10), "InfiniBand"), ((11, 12), "Gigabit Ethernet"),
    ) for number in numbers},
    **{f"A 4.{number}": _NETWORK.format(network) for number, network in (
        (5, "Gigabit Ethernet"), (6, "SCI"), (7, "Myrinet"), (8, "InfiniBand"),
    )},
    "B 10": _DEVICE,
    "B 11": _DEVICE,
    "B 12": "needs 128 processes on eight hosts with RDMA devices: run `python bench/collectives.py` there",
    "B 13": "needs eight hosts with RDMA devices and class C: run `python bench/kernels.py` there",
    "B 14": "needs jGadget, a Java program that has no Python counterpart",
    "C 2": _DEVICE,
    "C 3": _DEVICE,
    **{f"C {number}": "needs 32 hosts with RDMA devices and class C: run `python bench/kernels.py` there"
       for number in (4, 5, 6)},
}  # fmt: skip
