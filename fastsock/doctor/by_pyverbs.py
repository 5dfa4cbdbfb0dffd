"""What pyverbs says of the RDMA devices: limits that no file of the kernel has, and a second opinion on the rest.

pyverbs is rdma-core's own binding of libibverbs. fastsock does not need it. Where this Python has it, the doctor asks
it, and tells where it disagrees with what `hardware` read.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

Findings = dict[str, Any]

SOCKET_REGIONS = 3  # that a socket over rdma registers: its frames, and two rings
SOCKET_REQUESTS = 128  # that its queue pair has room for
_LIMITS = ("max_qp", "max_qp_wr", "max_cq", "max_cqe", "max_mr", "max_mr_size", "max_srq", "max_srq_wr")
_STATES = {1: "DOWN", 2: "INIT", 3: "ARMED", 4: "ACTIVE", 5: "ACTIVE_DEFER"}  # enum ibv_port_state
_LAYERS = {1: "InfiniBand", 2: "Ethernet"}  # IBV_LINK_LAYER_
_MTUS = {1: 256, 2: 512, 3: 1024, 4: 2048, 5: 4096}  # enum ibv_mtu


def ask(devices: list[Findings]) -> Findings:
    """Fills in the `limits` of each device, and gives what else pyverbs says. `devices`: of `hardware`."""
    found: Findings = {"why_not": None, "differences": [], "advice": ""}
    for device in devices:
        device["limits"] = None
    try:
        library = importlib.import_module("pyverbs.device")
    except ImportError as error:
        found["why_not"] = str(error)
        if not isinstance(error, ModuleNotFoundError):  # it is there, beside an older libibverbs for example
            to_do = "take the distribution's, apt-get install python3-pyverbs"
            found["advice"] = f"pyverbs cannot be loaded ({error}): {to_do}"
        return found
    for device in devices:
        found["differences"] += _ask_about(library, device)
    if found["differences"]:
        found["advice"] = (
            "pyverbs and the kernel's files disagree: compare with ibv_devinfo -v; libibverbs and its providers may be "
            "older than the kernel's driver"
        )
    return found


def _ask_about(library: Any, device: Findings) -> list[str]:
    name = device["name"]
    try:
        context = library.Context(name=name)
    except Exception as error:  # pyverbs has errors of its own
        return [f"pyverbs cannot open {name}: {error}"]
    try:
        said = context.query_device()
        device["limits"] = {each: getattr(said, each) for each in _LIMITS}
        device["limits"]["sockets"] = _sockets(device["limits"])
        return [*_differences(context, said, device)]
    except Exception as error:
        return [f"pyverbs cannot ask {name}: {error}"]
    finally:
        context.close()


def _sockets(limits: Findings) -> int:
    """How many sockets over rdma the device has room for."""
    if limits["max_qp_wr"] < SOCKET_REQUESTS:
        return 0
    return min(limits["max_qp"], limits["max_cq"], limits["max_mr"] // SOCKET_REGIONS)  # type: ignore[no-any-return]


def _differences(context: Any, said: Any, device: Findings) -> Iterator[str]:
    name, ports = device["name"], device["ports"]
    if said.phys_port_cnt != len(ports):
        yield f"{name}: {said.phys_port_cnt} ports by pyverbs, {len(ports)} by the kernel's files"
    for port in ports[: said.phys_port_cnt]:
        number = port["number"]
        attributes = context.query_port(number)
        pairs: list[tuple[str, Any, Any]] = [
            ("state", _STATES.get(attributes.state), port["state"]),
            ("link layer", _LAYERS.get(attributes.link_layer), port["link_layer"]),
        ]
        if device["kind"] == "RoCE" and port["mtu"] is not None:  # of iWARP it is no enum
            pairs.append(("bytes of a packet", _MTUS.get(attributes.active_mtu), port["mtu"]))
        for gid in port["gids"]:
            pairs.append((f"GID {gid['index']}", str(context.query_gid(number, gid["index"])), gid["gid"]))
        for what, by_pyverbs, by_kernel in pairs:
            if by_pyverbs != by_kernel:
                yield f"{name} port {number}: {what} {by_pyverbs} by pyverbs, {by_kernel} by the kernel's files"
