"""What the doctor finds of hardware, in trees that look as the kernel's files do, and what it says to do about it."""

from __future__ import annotations

import math
import re
import resource
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

from fastsock.doctor import by_pyverbs, hardware
from fastsock.doctor.examine import examine
from fastsock.doctor.report import Colours, lines

NOTHING = "0000:0000:0000:0000:0000:0000:0000:0000"
LINK_LOCAL = "fe80:0000:0000:0000:c016:5cff:fedc:8517"
V4 = "0000:0000:0000:0000:0000:ffff:0a4d:0001"


@pytest.fixture(autouse=True)
def no_library(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing of this machine but the tree."""
    opened = {"file": "/lib/x.so", "package": "x 1", "why_not": None, "advice": ""}
    monkeypatch.setattr(hardware, "_library", lambda name: {"name": name, **opened})
    monkeypatch.setattr(hardware, "_devices_of_library", lambda: None)
    monkeypatch.setattr(hardware, "_opens", lambda family: False)
    monkeypatch.setitem(sys.modules, "pyverbs", None)
    monkeypatch.setattr(resource, "getrlimit", lambda which: (resource.RLIM_INFINITY, resource.RLIM_INFINITY))


class Tree:
    """A host's files below `root`, with a RoCE device in good order."""

    def __init__(self, root: Path) -> None:
        self.root = root
        device = "sys/class/infiniband/mlx5_0"
        self.port = f"{device}/ports/1"
        self.write(f"{device}/node_type", "1: CA")
        self.write(f"{device}/node_desc", "host1 mlx5_0")
        self.write(f"{device}/fw_ver", "16.35.2000")
        self.write(f"{device}/device/net/eth0/type", "1")
        self.write(f"{self.port}/state", "4: ACTIVE")
        self.write(f"{self.port}/phys_state", "5: LinkUp")
        self.write(f"{self.port}/link_layer", "Ethernet")
        self.write(f"{self.port}/rate", "100 Gb/sec (4X EDR)")
        self.write("sys/class/net/eth0/mtu", "4200")
        self.write("sys/class/net/eth0/type", "1")
        for index, (gid, kind) in enumerate([(LINK_LOCAL, "IB/RoCE v1"), (V4, "IB/RoCE v1"), (V4, "RoCE v2")]):
            self.gid(index, gid, kind)
        self.write(f"{self.port}/gids/10", NOTHING)
        self.write("sys/class/infiniband_verbs/uverbs0/ibdev", "mlx5_0")
        self.write("dev/infiniband/uverbs0", "")
        self.write("dev/infiniband/rdma_cm", "")

    def write(self, path: str, text: str) -> None:
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{text}\n")

    def gid(self, index: int, gid: str, kind: str) -> None:
        self.write(f"{self.port}/gids/{index}", gid)
        self.write(f"{self.port}/gid_attrs/types/{index}", kind)
        self.write(f"{self.port}/gid_attrs/ndevs/{index}", "eth0")

    def find(self) -> dict:
        return hardware.find(self.root)

    def advice(self) -> str:
        return "\n".join(hardware.advice(self.find()))


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    return Tree(tmp_path)


def text_of(found: dict) -> str:
    findings = examine(measuring=False)
    findings["hardware"] = found
    return "\n".join(lines(findings, Colours(False)))


def test_no_hardware_is_one_line(tmp_path: Path) -> None:
    found = hardware.find(tmp_path)
    assert not found["devices"] and not [*hardware.advice(found)]
    assert "libraries" not in found  # nothing was opened
    text = text_of(found)
    assert len(re.findall("^rdma {9}", text, re.MULTILINE)) == 1
    assert "rdma         no device, and no AF_SMC: between hosts connections use tcp" in text
    assert "what to do" not in text and "memlock" not in text


def test_device_in_good_order(tree: Tree) -> None:
    found = tree.find()
    (device,) = found["devices"]
    assert (device["name"], device["kind"], device["software"]) == ("mlx5_0", "RoCE", None)
    (port,) = device["ports"]
    assert (port["state"], port["mtu"], port["netdev"]) == ("ACTIVE", 4096, "eth0")
    assert [(gid["index"], gid["address"], gid["type"]) for gid in port["gids"]] == [
        (0, "fe80::c016:5cff:fedc:8517", "RoCE v1"),
        (1, "10.77.0.1", "RoCE v1"),
        (2, "10.77.0.1", "RoCE v2"),
    ]
    assert not [*hardware.advice(found)]
    text = text_of(found)
    assert "mlx5_0: RoCE, firmware 16.35.2000" in text
    assert "port 1      ACTIVE, Ethernet, 100 Gb/sec (4X EDR), on eth0, packets of 4096 bytes" in text
    assert "GID 2       10.77.0.1, RoCE v2, eth0" in text
    assert "libibverbs.so.1 (x 1), librdmacm.so.1 (x 1)" in text


@pytest.mark.parametrize(
    ("path", "value", "to_do"),
    [
        ("PORT/state", "1: DOWN", "mlx5_0 port 1 is DOWN (LinkUp): ip link set eth0 up"),
        ("PORT/state", "2: INIT", "start opensm"),
        ("PORT/link_layer", "InfiniBand", "modprobe ib_ipoib"),
        ("sys/class/net/eth0/mtu", "1500", "packets of 1024 bytes: ip link set eth0 mtu 4200"),
        ("PORT/gid_attrs/types/2", "IB/RoCE v1", "speaks RoCE v1 only"),
        ("sys/class/infiniband_verbs/uverbs0/ibdev", "mlx5_9", "mlx5_0 has no file for programs: modprobe ib_uverbs"),
    ],
)
def test_what_to_do(tree: Tree, path: str, value: str, to_do: str) -> None:
    tree.write(path.replace("PORT", tree.port), value)
    assert to_do in tree.advice()
    assert f"what to do: {tree.advice()}" in text_of(tree.find())


def test_infiniband_with_an_ip_address_is_well(tree: Tree) -> None:
    tree.write(f"{tree.port}/link_layer", "InfiniBand")
    tree.write("sys/class/net/ib0/type", "32")
    assert tree.advice() == ""
    assert tree.find()["devices"][0]["kind"] == "InfiniBand"


def test_port_without_an_address(tree: Tree) -> None:
    for index in (1, 2):
        tree.write(f"{tree.port}/gids/{index}", NOTHING)
    assert "ip address add ADDRESS/BITS dev eth0" in tree.advice()


def test_no_connection_manager(tree: Tree) -> None:
    (tree.root / "dev/infiniband/rdma_cm").unlink()
    assert "rdma_cm is not there: modprobe rdma_ucm" in tree.advice()
    assert not tree.find()["connection_manager"]["permitted"]


def test_file_closed_to_this_user(tree: Tree, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hardware, "_permitted", lambda file: "uverbs" not in file.name)
    (tree.root / "dev/infiniband/uverbs0").chmod(0o600)
    assert "uverbs0 (mode 600) is closed to this user: install rdma-core" in tree.advice()
    assert "uverbs0 (closed)" in text_of(tree.find())


@pytest.mark.parametrize(
    ("description", "node", "software", "kind"),
    [("rxe", "1: CA", "SoftRoCE", "RoCE"), ("Software iWARP stack", "4: RNIC", "soft iWARP", "iWARP")],
)
def test_software_is_no_figure(tree: Tree, description: str, node: str, software: str, kind: str) -> None:
    tree.write("sys/class/infiniband/mlx5_0/node_desc", description)
    tree.write("sys/class/infiniband/mlx5_0/node_type", node)
    (device,) = tree.find()["devices"]
    assert (device["software"], device["kind"]) == (software, kind)
    assert f"{software}: software, so no time on it is a figure" in text_of(tree.find())


def test_counter_that_proves_use(tree: Tree) -> None:
    tree.write(f"{tree.port}/hw_counters/sent_pkts", "1234")
    assert tree.find()["devices"][0]["ports"][0]["packets_sent"] == 1234
    assert "1234 packets sent" in text_of(tree.find())


def test_limited_memory(tree: Tree, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda which: (8 << 20, resource.RLIM_INFINITY))
    tree.write("proc/self/status", "CapEff:\t0000000000000000")
    found = tree.find()
    assert (found["memlock"]["connections"], found["memlock"]["peers"]) == (3, 8)
    assert "memlock      8 MiB: 3 sockets over rdma of 2.5 MiB, or 8 ranks of ibvdev of 1 MiB" in text_of(found)
    assert "/etc/security/limits.d" in tree.advice()
    tree.write("proc/self/status", "CapEff:\t000001ffffffffff")
    assert tree.find()["memlock"]["limit"] is None and not tree.advice()


def _sizes(*files: str) -> dict[str, int]:
    """What the core's own files define, by name."""
    core = Path(hardware.__file__).parents[1] / "core"
    text = "".join((core / file).read_text() for file in files)
    return {
        name: math.prod(map(int, re.findall(r"\d+", value)))
        for name, value in re.findall(r"#define (\w+) (\(?\d+u(?: \* \d+)?\)?)(?=\s)", text)
    }


def test_what_a_rank_needs_for_each_peer_is_what_the_core_registers() -> None:
    sizes = _sizes("verbs/ibvx_internal.h")
    assert 2 * sizes["FS_IBVX_SEGMENT"] * sizes["FS_IBVX_CREDITS"] == hardware.PEER_BYTES


def test_what_a_socket_needs_is_what_the_core_registers() -> None:
    sizes = _sizes("remote/span.c", "remote/carrier.h", "stream/layout.h")
    rings = 2 * sizes["FS_GROWTH"] * sizes["RING_SMALL"]
    assert rings + 2 * sizes["FS_FRAMES"] * sizes["FS_FRAME_ROOM"] == hardware.CONNECTION_BYTES


def test_library_that_is_not_there(tree: Tree, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    monkeypatch.setattr(hardware, "_LIBRARIES", ("libnosuch.so.1", "libnosuch.so.2"))
    found = tree.find()
    assert all(library["why_not"] for library in found["libraries"])
    assert "libnosuch.so.1 cannot be opened: apt-get install libibverbs1" in tree.advice()


def test_library_without_a_driver_for_the_device(tree: Tree, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hardware, "_devices_of_library", lambda: 0)
    assert "libibverbs drives 0 of 1 devices" in tree.advice()


def test_card_without_a_device(tmp_path: Path) -> None:
    tree = Tree(tmp_path / "with")
    bare = tmp_path / "bare"
    card = "sys/bus/pci/devices/0000:03:00.0"
    for root in (tree.root, bare):
        for name, value in {"class": "0x020700", "vendor": "0x15b3", "device": "0x1017"}.items():
            (root / card).mkdir(parents=True, exist_ok=True)
            (root / card / name).write_text(value)
    (tree.root / card / "infiniband/mlx5_0").mkdir(parents=True)
    assert not tree.find()["cards_without_device"]
    (advice,) = hardware.advice(hardware.find(bare))
    assert "0000:03:00.0 can do RDMA, but no RDMA device was made of it" in advice


class TestPyverbs:
    """A stand-in for its module, which says the same as the tree, but for what a test has it say."""

    def says(self, monkeypatch: pytest.MonkeyPatch, **otherwise: object) -> list[str]:
        """The names of the devices that are closed again, as they are."""
        limits = {"max_qp": 1000, "max_qp_wr": 4096, "max_cq": 900, "max_cqe": 4096, "max_mr": 300}
        limits |= {"max_mr_size": 1 << 40, "max_srq": 10, "max_srq_wr": 4096, "phys_port_cnt": 1}
        port = {"state": 4, "link_layer": 2, "active_mtu": 5}
        gids = {0: LINK_LOCAL, 1: V4, 2: V4}
        closed: list[str] = []

        class Context:
            def __init__(self, name: str) -> None:
                if "refuses" in otherwise:
                    raise RuntimeError(otherwise["refuses"])
                self.name = name

            def query_device(self) -> SimpleNamespace:
                return SimpleNamespace(**limits)

            def query_port(self, number: int) -> SimpleNamespace:
                assert number == 1
                return SimpleNamespace(**port)

            def query_gid(self, number: int, index: int) -> object:
                assert number == 1
                return otherwise.get("gid", gids[index])

            def close(self) -> None:
                closed.append(self.name)

        for what in (limits, port):
            what |= {name: value for name, value in otherwise.items() if name in what}
        device = ModuleType("pyverbs.device")
        device.Context = Context  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, "pyverbs", ModuleType("pyverbs"))
        monkeypatch.setitem(sys.modules, "pyverbs.device", device)
        return closed

    def test_it_tells_limits_and_agrees(self, tree: Tree, monkeypatch: pytest.MonkeyPatch) -> None:
        closed = self.says(monkeypatch)
        found = tree.find()
        assert closed == ["mlx5_0"]
        assert found["devices"][0]["limits"]["max_mr_size"] == 1 << 40
        assert not found["pyverbs"]["differences"] and not tree.advice()
        text = text_of(found)
        assert "  limits      1,000 queue pairs of 4,096 requests, 900 completion queues, 300 regions of" in text
        assert "enough for 100 sockets over rdma" in text
        assert "pyverbs      says the same as the kernel's files" in text

    @pytest.mark.parametrize(
        ("otherwise", "difference"),
        [
            ({"state": 1}, "mlx5_0 port 1: state DOWN by pyverbs, ACTIVE by the kernel's files"),
            ({"link_layer": 1}, "mlx5_0 port 1: link layer InfiniBand by pyverbs, Ethernet by the kernel's files"),
            ({"active_mtu": 3}, "mlx5_0 port 1: bytes of a packet 1024 by pyverbs, 4096 by the kernel's files"),
            ({"gid": V4}, f"mlx5_0 port 1: GID 0 {V4} by pyverbs, {LINK_LOCAL} by the kernel's files"),
            ({"phys_port_cnt": 2}, "mlx5_0: 2 ports by pyverbs, 1 by the kernel's files"),
            ({"refuses": "no such device"}, "pyverbs cannot open mlx5_0: no such device"),
        ],
    )
    def test_a_disagreement_is_told(
        self, tree: Tree, monkeypatch: pytest.MonkeyPatch, otherwise: dict[str, object], difference: str
    ) -> None:
        self.says(monkeypatch, **otherwise)
        found = tree.find()
        assert found["pyverbs"]["differences"] == [difference]
        assert "pyverbs and the kernel's files disagree: compare with ibv_devinfo -v" in tree.advice()
        text = text_of(found)
        assert "pyverbs      says otherwise than the kernel's files" in text
        assert f"they differ: {difference}" in text

    def test_a_device_whose_queues_are_too_short_for_a_socket(
        self, tree: Tree, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        self.says(monkeypatch, max_qp_wr=by_pyverbs.SOCKET_REQUESTS - 1)
        assert "enough for 0 sockets over rdma" in text_of(tree.find())

    def test_not_there(self, tree: Tree) -> None:
        found = tree.find()
        assert found["devices"][0]["limits"] is None
        assert found["pyverbs"]["why_not"] and not tree.advice()
        assert "pyverbs      cannot be imported here" in text_of(found)

    def test_there_and_broken(self, tree: Tree, monkeypatch: pytest.MonkeyPatch) -> None:
        def fails(name: str) -> ModuleType:
            raise ImportError("undefined symbol: ibv_new")

        monkeypatch.setattr(by_pyverbs, "importlib", SimpleNamespace(import_module=fails))
        assert "pyverbs cannot be loaded (undefined symbol: ibv_new): take the distribution's" in tree.advice()

    def test_what_a_socket_needs_of_a_device_is_what_the_core_asks_it_for(self) -> None:
        text = (Path(hardware.__file__).parents[1] / "core/remote/queue_pair.c").read_text()
        assert text.count("ibv_reg_mr(") == by_pyverbs.SOCKET_REGIONS
        assert "#define MOST_REQUESTS (2 * FS_FRAMES)" in text
        assert 2 * _sizes("remote/carrier.h")["FS_FRAMES"] == by_pyverbs.SOCKET_REQUESTS


class TestSmc:
    @pytest.fixture(autouse=True)
    def kernel(self, tree: Tree, monkeypatch: pytest.MonkeyPatch) -> None:
        tree.write("proc/net/protocols", "protocol  size sockets\nSMC       1    0")
        monkeypatch.setattr(hardware, "_opens", lambda family: family == hardware.AF_SMC)

    def told(self, monkeypatch: pytest.MonkeyPatch, **told: list) -> None:
        empty: dict[str, list] = {"smc_r": [], "smc_d": [], "enterprise_ids": []}
        monkeypatch.setattr(hardware.smc, "devices", lambda: {**empty, **told})

    def test_ready(self, tree: Tree, monkeypatch: pytest.MonkeyPatch) -> None:
        self.told(monkeypatch, smc_r=[{"name": "mlx5_0", "active_ports": [1]}], enterprise_ids=[{"name": "US"}])
        assert "sockets      AF_SMC: SMC-R on mlx5_0; enterprise id US" in text_of(tree.find())
        assert not tree.advice()

    def test_no_enterprise_id(self, tree: Tree, monkeypatch: pytest.MonkeyPatch) -> None:
        self.told(monkeypatch, smc_d=[{"name": "loopback-ism"}])
        assert "smcd ueid add NAME" in tree.advice()

    def test_no_device(self, tree: Tree, monkeypatch: pytest.MonkeyPatch) -> None:
        self.told(monkeypatch)
        assert "fall back to TCP" in tree.advice()

    def test_kernel_that_does_not_answer(self, tree: Tree, monkeypatch: pytest.MonkeyPatch) -> None:
        def silent() -> dict:
            raise TimeoutError

        monkeypatch.setattr(hardware.smc, "devices", silent)
        assert tree.find()["smc"]["opens"]

    def test_filter_of_system_calls(self, tree: Tree, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(hardware, "_opens", lambda family: False)
        assert "closed to this process" in tree.advice()

    def test_module_that_is_not_loaded(self, tree: Tree, monkeypatch: pytest.MonkeyPatch) -> None:
        (tree.root / "proc/net/protocols").unlink()
        monkeypatch.setattr(hardware.platform, "release", lambda: "6.1")
        tree.write("lib/modules/6.1/modules.dep", "kernel/net/smc/smc.ko.xz: kernel/ib_core.ko.xz")
        assert tree.find()["smc"]["kernel"] == "module"
        assert "modprobe smc smc_diag" in tree.advice()
