"""A 4.14 to 4.18: remote calls."""

from __future__ import annotations

from functools import partial
from statistics import median

import curves
import rmi

from .figure import Bars, Figure, Panel, with_data
from .reading import curve, half, latency_and_bandwidth, peers_of
from .records import Records

OVERHEAD, ARRAYS, OBJECTS, GRADIENT = "overhead", "remote_arrays", "remote_objects", "gradient"
PROTOCOL = "protocol"
OVER_TCP = [rmi.TCP, rmi.PYRO, rmi.GRPC, curves.OWN_TCP]
IN_MEMORY = [rmi.TCP, rmi.LAUNCHED, rmi.PYRO, rmi.PYRO_LAUNCHED, curves.OWN]


def _overhead(records: Records) -> list[Panel]:
    samples, _ = records.samples(OVERHEAD)
    taken = {
        peer: {
            what: median(values)
            for what in (curves.WHOLE, curves.NETWORK, curves.SERIALIZATION)
            if (values := [s.value for s in samples if (s.what, s.peer) == (what, peer)])
        }
        for peer in peers_of(samples)
    }
    whole = {peer: of for peer, of in taken.items() if len(of) == 3}
    parts = {
        curves.NETWORK: [of[curves.NETWORK] for of in whole.values()],
        PROTOCOL: [max(0.0, of[curves.WHOLE] - of[curves.NETWORK] - of[curves.SERIALIZATION]) for of in whole.values()],
        curves.SERIALIZATION: [of[curves.SERIALIZATION] for of in whole.values()],
    }
    tops = {peer: f"{of[curves.WHOLE]:.0f} us" for peer, of in whole.items()}
    bars = Bars(list(whole), parts, stacked=True, tops=tops) if whole else None
    return with_data([Panel("an object of 3 KB, and back", "", "overhead, us", bars=bars)], "A 4.14")


def _arrays(figure: str, peers: list[str], title: str, records: Records) -> list[Panel]:
    return with_data(latency_and_bandwidth(records.samples(ARRAYS)[0], curves.INTEGERS, peers, title), figure)


def _objects(records: Records) -> list[Panel]:
    samples, _ = records.samples(OBJECTS)
    panels = []
    for title, peers in (("over TCP", [rmi.TCP, curves.OWN_TCP]), ("in memory", [rmi.TCP, rmi.LAUNCHED, curves.OWN])):
        lines = [curve(samples, curves.OBJECTS, peer, half) for peer in peers]
        panels.append(Panel(title, "objects of 3 KB in a call", "latency, us", lines, logarithmic="xy"))
    return with_data(panels, "A 4.17")


def _gradient(records: Records) -> list[Panel]:
    samples, _ = records.samples(GRADIENT)
    peers = peers_of(samples)
    numbers = sorted({int(s.what.split()[3]) for s in samples})
    steps = {
        (peer, workers): median(values)
        for peer in peers
        for workers in numbers
        if (values := [s.value for s in samples if s.peer == peer and int(s.what.split()[3]) == workers])
    }
    labels = [str(workers) for workers in numbers]

    def bars(value: str) -> Bars:
        return Bars(labels, {
            peer: [
                None if (peer, n) not in steps
                else steps[peer, n] / 1e3 if value == "time"
                else steps[peer, 1] / steps[peer, n] if (peer, 1) in steps else None
                for n in numbers
            ]
            for peer in peers
        })  # fmt: skip

    return with_data([
        Panel("CG, time", "workers", "ms a step", bars=bars("time")),
        Panel("CG, speedup", "workers", "speedup", bars=bars("speedup")),
    ], "A 4.18")  # fmt: skip


FIGURES = [
    Figure("A 4.14", "overhead of a remote call with an object of 3 KB", [OVERHEAD], _overhead, 1,
           "Network: as many bytes there and back alone. Serialization: packed and unpacked twice alone. Protocol: the"
           " rest. No call collects distributed garbage here."),
    Figure("A 4.15", "remote calls with integer arrays (Gigabit Ethernet in the thesis)", [ARRAYS],
           partial(_arrays, "A 4.15", OVER_TCP, "TCP on loopback"), note="Half of a call that gives the array back."),
    Figure("A 4.16", "remote calls with integer arrays (SCI in the thesis)", [ARRAYS],
           partial(_arrays, "A 4.16", IN_MEMORY, "shared memory"),
           note="Half of a call that gives the array back. Under the launcher managers and Pyro5 are unchanged; their"
                " sockets use shared memory, as RMI's did over JFS."),
    Figure("A 4.17", "remote calls with lists of objects of 3 KB", [OBJECTS], _objects,
           note="Half of a call that gives the list back."),
    Figure("A 4.18", "a conjugate gradient on remote workers", [GRADIENT], _gradient,
           note="Stands for ProActive's NPB CG; there is no MG on remote calls here."),
]  # fmt: skip
