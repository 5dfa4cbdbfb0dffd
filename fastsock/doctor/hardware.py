"""What this host has for connections between hosts: RDMA devices and what they need, AF_SMC, AF_INET_SDP.

All comes from the kernel's own files below one root, so a test can show it another tree. Libraries are opened only
where the kernel has a device, and only in the doctor's own process. `by_pyverbs` asks the devices themselves.
"""

from __future__ import annotations

import contextlib
import ctypes
import ipaddress
import os
import platform
import re
import shutil
import socket
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import by_pyverbs, smc

if TYPE_CHECKING:
    from collections.abc import Iterator

Findings = dict[str, Any]

CONNECTION_BYTES = 5 << 19  # that a socket over rdma registers: two rings of 1 MiB, and 128 frames of 4 KiB
PEER_BYTES = 1 << 20  # that ibvdev registers for each peer: 64 buffers of 8 KiB to receive, as many to send
PACKET_OVERHEAD = 96  # bytes of a network packet that the kernel sets aside for RoCE's headers
AF_INET_SDP, AF_SMC = 27, 43
_LIBRARIES = ("libibverbs.so.1", "librdmacm.so.1")
_SOFTWARE = {"rxe": "SoftRoCE", "Software iWARP stack": "soft iWARP"}  # by node_desc
# PCI: (class, vendor) of cards for RDMA, and the module that makes a device of each
_INFINIBAND_CLASS, _MELLANOX = "0x0207", "0x15b3"
_CAP_IPC_LOCK = 14


def find(root: str | os.PathLike[str] = "/") -> Findings:
    """The findings, as plain values. ``advice`` in them says what to do; it is empty where all is well."""
    base = Path(root)
    classes = base / "sys/class"
    devices = [_device(folder, base) for folder in _entries(classes / "infiniband")]
    found: Findings = {
        "devices": devices,
        "cards_without_device": _cards_without_device(base),
        "smc": _smc(base, bool(devices)),
        "sdp": _has_protocol(base, "SDP") and _opens(AF_INET_SDP),
    }
    if devices:
        manager = base / "dev/infiniband/rdma_cm"
        found["libraries"] = [_library(name) for name in _LIBRARIES]
        found["memlock"] = _memlock(base)
        found["connection_manager"] = {
            "file": str(manager),
            "permitted": _permitted(manager),
            "advice": _advice_on_file(manager, "rdma_ucm"),
        }
        seen = _devices_of_library()
        found["providers"] = {"devices": seen, "advice": _advice_on_providers(found["libraries"], seen, len(devices))}
        found["pyverbs"] = by_pyverbs.ask(devices)
    return found


def advice(found: Findings) -> Iterator[str]:
    """All that there is to do, most important first, each once."""
    lines = []
    for each in found["cards_without_device"]:
        lines.append(each["advice"])
    for device in found["devices"]:
        lines += [*device["advice"], *(line for port in device["ports"] for line in port["advice"])]
    for name in ("connection_manager", "providers", "pyverbs", "memlock"):
        if found["devices"]:
            lines.append(found[name]["advice"])
    for library in found.get("libraries", ()):
        lines.append(library["advice"])
    lines.append(found["smc"]["advice"])
    yield from dict.fromkeys(line for line in lines if line)


# --- RDMA devices -------------------------------------------------------------------------------------------------


def _device(folder: Path, base: Path) -> Findings:
    name = folder.name
    node = _read(folder / "node_type").partition(":")[2].strip()
    description = _read(folder / "node_desc")
    file = next(
        (
            base / "dev/infiniband" / each.name
            for each in _entries(base / "sys/class/infiniband_verbs")
            if _read(each / "ibdev") == name
        ),
        None,
    )
    driver = folder / "device/driver"
    ports = [_port(each, name, node, base) for each in _entries(folder / "ports", by_number=True)]
    if file is None:
        to_do = [f"{name} has no file for programs: modprobe ib_uverbs"]
    else:
        to_do = [line for line in [_advice_on_file(file, "ib_uverbs")] if line]
    return {
        "name": name,
        "kind": _kind(node, ports),
        "software": _SOFTWARE.get(description) or ("SoftRoCE" if (folder / "parent").exists() else None),
        "driver": driver.resolve().name if driver.exists() else None,
        "firmware": _read(folder / "fw_ver") or None,
        "file": None if file is None else str(file),
        "permitted": file is not None and _permitted(file),
        "ports": ports,
        "advice": to_do,
    }


def _kind(node: str, ports: list[Findings]) -> str:
    if node == "RNIC":
        return "iWARP"
    layers = {port["link_layer"] for port in ports}
    return "RoCE" if "Ethernet" in layers else "InfiniBand" if "InfiniBand" in layers else node or "unknown"


def _port(folder: Path, device: str, node: str, base: Path) -> Findings:
    gids = list(_gids(folder))
    layer = _read(folder / "link_layer") or "InfiniBand"  # kernels before 2.6.37 knew no other
    netdev = _netdev(folder, gids)
    state = _word(folder / "state")
    port: Findings = {
        "number": int(folder.name),
        "state": state,
        "physical_state": _word(folder / "phys_state"),
        "link_layer": layer,
        "rate": _read(folder / "rate"),
        "netdev": netdev,
        "mtu": _mtu(base, netdev, node) if layer == "Ethernet" else None,
        "gids": gids,
        "packets_sent": _packets_sent(folder),
    }
    name = f"{device} port {folder.name}"
    port["advice"] = list(_advice_on_port(name, port, node, base))
    return port


def _gids(port: Path) -> Iterator[Findings]:
    for entry in _entries(port / "gids", by_number=True):
        text = _read(entry)
        if not text.replace(":", "").strip("0"):
            continue
        try:
            address = ipaddress.IPv6Address(text)
        except ValueError:
            continue
        attributes = port / "gid_attrs"
        kind = _read(attributes / "types" / entry.name)
        yield {
            "index": int(entry.name),
            "gid": text,
            "address": str(address.ipv4_mapped or address),
            "type": {"IB/RoCE v1": "RoCE v1" if _read(port / "link_layer") == "Ethernet" else "IB"}.get(kind, kind),
            "netdev": _read(attributes / "ndevs" / entry.name) or None,
        }


def _netdev(port: Path, gids: list[Findings]) -> str | None:
    device = port.parent.parent
    named = [gid["netdev"] for gid in gids if gid["netdev"]]
    named += [_read(device / "parent")]
    named += [each.name for each in _entries(device / "device/net")]
    return next(filter(None, named), None)


def _mtu(base: Path, netdev: str | None, node: str) -> int | None:
    """The bytes of a packet. Those of RoCE are a power of two that fits the network device's."""
    text = "" if netdev is None else _read(base / "sys/class/net" / netdev / "mtu")
    if not text.isdigit():
        return None
    room = int(text) if node == "RNIC" else int(text) - PACKET_OVERHEAD
    return room if node == "RNIC" else next((size for size in (4096, 2048, 1024, 512) if size <= room), 256)


def _packets_sent(port: Path) -> int | None:
    """The counter that proves that a path was used."""
    for name in ("hw_counters/sent_pkts", "counters/port_xmit_packets"):
        text = _read(port / name)
        if text.isdigit():
            return int(text)
    return None


def _advice_on_port(name: str, port: Findings, node: str, base: Path) -> Iterator[str]:
    netdev = port["netdev"]
    if port["state"] == "INIT":
        yield f"{name} waits for a subnet manager: start opensm on one host of the fabric, or that of the switch"
        return
    if port["state"] != "ACTIVE":
        where = f"ip link set {netdev} up" if netdev else "check the cable and the switch's port"
        yield f"{name} is {port['state'] or 'in no known state'} ({port['physical_state']}): {where}"
        return
    if port["link_layer"] == "InfiniBand":
        if not _ipoib(base):
            yield f"{name}: connections find it by an IP address: modprobe ib_ipoib, then ip address add ... dev ib0"
        return
    if node == "RNIC":
        return  # its GIDs are no IP addresses
    addresses = [gid for gid in port["gids"] if not ipaddress.ip_address(gid["address"]).is_link_local]
    if not addresses:
        yield f"{name}: connections find it by an IP address: ip address add ADDRESS/BITS dev {netdev or 'DEVICE'}"
    elif not any(gid["type"] == "RoCE v2" for gid in addresses):
        yield f"{name} speaks RoCE v1 only: both hosts must be on one Ethernet, without a router between them"
    if port["mtu"] is not None and port["mtu"] < 4096:
        yield (
            f"{name} sends packets of {port['mtu']} bytes: ip link set {netdev} mtu 4200 makes them 4096, "
            "where the switch and the other hosts have that too"
        )


def _ipoib(base: Path) -> bool:
    return any(_read(each / "type") == "32" for each in _entries(base / "sys/class/net"))  # ARPHRD_INFINIBAND


def _cards_without_device(base: Path) -> list[Findings]:
    """Cards for RDMA whose driver made no RDMA device."""
    found = []
    for card in _entries(base / "sys/bus/pci/devices"):
        vendor = _read(card / "vendor")
        infiniband = _read(card / "class").startswith(_INFINIBAND_CLASS)
        network = _read(card / "class").startswith("0x02")
        if not (infiniband or (network and vendor == _MELLANOX)) or _entries(card / "infiniband"):
            continue
        driver = (card / "driver").resolve().name if (card / "driver").exists() else None
        module = {"mlx5_core": "mlx5_ib", "mlx4_core": "mlx4_ib"}.get(driver or "")
        to_do = f"modprobe {module}" if module else "install its driver: the kernel's modules, or the maker's package"
        found.append({
            "address": card.name, "vendor": vendor, "device": _read(card / "device"), "driver": driver,
            "advice": f"the card {card.name} can do RDMA, but no RDMA device was made of it: {to_do}",
        })  # fmt: skip
    return found


# --- what a program needs to use one ------------------------------------------------------------------------------


def _permitted(file: Path) -> bool:
    return os.access(file, os.R_OK | os.W_OK)


def _advice_on_file(file: Path, module: str) -> str:
    if not file.exists():
        return f"{file} is not there: modprobe {module}; in a container, pass the files of /dev/infiniband through"
    if not _permitted(file):
        mode = file.stat().st_mode & 0o777
        return f"{file} (mode {mode:o}) is closed to this user: install rdma-core, whose udev rule sets mode 666"
    return ""


def _library(name: str) -> Findings:
    """Opens it as the core does, and tells which file and package that is."""
    found: Findings = {"name": name, "file": None, "package": None, "why_not": None, "advice": ""}
    try:
        ctypes.CDLL(name)
    except OSError as error:
        found["why_not"] = str(error)
        found["advice"] = (
            f"{name} cannot be opened: apt-get install libibverbs1 ibverbs-providers librdmacm1, "
            "or dnf install libibverbs librdmacm"
        )
        return found
    stem = name.partition(".")[0]
    for line in _read(Path("/proc/self/maps")).splitlines():
        path = line.partition("/")[2]
        if path.rpartition("/")[2].startswith(f"{stem}.so"):
            found["file"] = f"/{path}"
            found["package"] = _package(f"/{path}")
            break
    return found


def _package(path: str) -> str | None:
    """Name and version of the package that owns the file, by dpkg or rpm."""
    # Where /lib is a link to /usr/lib, dpkg may know the file by the other name.
    for each in dict.fromkeys([path, path.removeprefix("/usr"), f"/usr{path}"]):
        if shutil.which("dpkg-query"):
            owner = _output("dpkg-query", "-S", each).partition(": ")[0]
            if owner:
                return _output("dpkg-query", "-W", "-f", "${Package} ${Version}", owner) or owner
        elif shutil.which("rpm"):
            owner = _output("rpm", "-qf", "--qf", "%{NAME} %{VERSION}-%{RELEASE}", each)
            if owner:
                return owner
    return None


def _output(*command: str) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=10)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def _devices_of_library() -> int | None:
    """For how many devices libibverbs has a driver of its own (a provider)."""
    try:
        library = ctypes.CDLL(_LIBRARIES[0])
    except OSError:
        return None
    library.ibv_get_device_list.restype = ctypes.c_void_p
    count = ctypes.c_int(0)
    listed = library.ibv_get_device_list(ctypes.byref(count))
    if not listed:
        return 0
    library.ibv_free_device_list(ctypes.c_void_p(listed))
    return count.value


def _advice_on_providers(libraries: list[Findings], seen: int | None, devices: int) -> str:
    if seen is None or seen >= devices:
        return ""
    return f"libibverbs drives {seen} of {devices} devices: apt-get install ibverbs-providers, or check permissions"


def _memlock(base: Path) -> Findings:
    """How much this process may register with a device, and for how many sockets, or ranks, that is enough."""
    import resource  # which Windows lacks

    soft, hard = resource.getrlimit(resource.RLIMIT_MEMLOCK)
    exempt = _has_capability(base, _CAP_IPC_LOCK)
    unlimited = exempt or soft == resource.RLIM_INFINITY
    connections, peers = (None, None) if unlimited else (soft // CONNECTION_BYTES, soft // PEER_BYTES)
    return {
        "limit": None if unlimited else soft,
        "hard_limit": None if hard == resource.RLIM_INFINITY else hard,
        "exempt": exempt,
        "connection_bytes": CONNECTION_BYTES,
        "connections": connections,
        "peer_bytes": PEER_BYTES,
        "peers": peers,
        "advice": ""
        if unlimited
        else f"memory for {connections} sockets over rdma may be locked: put `* - memlock unlimited` into "
        "/etc/security/limits.d/rdma.conf and log in anew; for a service of systemd, LimitMEMLOCK=infinity; "
        "for a container, --ulimit memlock=-1",
    }


def _has_capability(base: Path, number: int) -> bool:
    found = re.search(r"^CapEff:\s*([0-9a-f]+)$", _read(base / "proc/self/status"), re.MULTILINE)
    return found is not None and bool(int(found[1], 16) >> number & 1)


# --- sockets that the kernel makes --------------------------------------------------------------------------------


def _smc(base: Path, has_devices: bool) -> Findings:
    found: Findings = {"kernel": "absent", "opens": False, "smc_r": [], "smc_d": [], "enterprise_ids": []}
    to_do = ""
    if _has_protocol(base, "SMC"):
        found["kernel"] = "loaded"
        found["opens"] = _opens(AF_SMC)
        if not found["opens"]:
            to_do = "AF_SMC is in the kernel, but closed to this process: a filter of system calls (seccomp) forbids it"
        else:
            with contextlib.suppress(OSError, KeyError, IndexError):
                found.update(smc.devices())
            if not (found["smc_r"] or found["smc_d"]):
                to_do = "AF_SMC has no device, so its connections fall back to TCP"
            elif not found["enterprise_ids"]:
                to_do = "AF_SMC has no enterprise id, so hosts do not agree: smcd ueid add NAME, the same on all hosts"
    elif _has_module(base, "smc"):
        found["kernel"] = "module"
        if has_devices:
            to_do = "AF_SMC can be tried beside RDMA: modprobe smc smc_diag, then FASTSOCK_TRANSPORTS=sdp,tcp"
    found["advice"] = to_do
    return found


def _has_protocol(base: Path, name: str) -> bool:
    return any(line.startswith(f"{name} ") for line in _read(base / "proc/net/protocols").splitlines())


def _has_module(base: Path, name: str) -> bool:
    table = _read(base / "lib/modules" / platform.release() / "modules.dep")
    return re.search(rf"/{name}\.ko[^:/]*:", table) is not None


def _opens(family: int) -> bool:
    try:
        socket.socket(family, socket.SOCK_STREAM, 0).close()
    except OSError:
        return False
    return True


# --- files --------------------------------------------------------------------------------------------------------


def _entries(folder: Path, *, by_number: bool = False) -> list[Path]:
    try:
        found = list(folder.iterdir())
    except OSError:
        return []
    if by_number:
        return sorted((each for each in found if each.name.isdigit()), key=lambda each: int(each.name))
    return sorted(each for each in found if each.is_dir())


def _read(file: Path) -> str:
    """The text, or "" where there is none: an attribute may be empty, closed or gone."""
    try:
        return file.read_text(errors="replace").strip()
    except OSError:
        return ""


def _word(file: Path) -> Any:
    """ "4: ACTIVE" without its number."""
    return _read(file).rpartition(":")[2].strip()
