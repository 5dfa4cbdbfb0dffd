"""The headline figures of the papers, each beside what was recorded here.

Theirs are of their machines and their peers, so they are anchors, no bars.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import curves
from buffers import COPY, HANDED
from common import mpi, mpi_targets, rdma_ranks, table
from common.exchange import PING_PONG
from common.peers import remote_calls as calls
from model.fits import HOCKNEY, LEAST, PIECES, PROPOSED
from model.samples import BYTES, OBJECTS

from .buffers import rates
from .figure import Missing
from .kernels import NPB, ORDER, SOURCE, Times
from .reading import medians, megabits
from .records import Records, reading


@dataclass(frozen=True)
class Headline:
    """One line. ours: reads the record `source`; None: there is nothing to measure it with, and `why` says so."""

    where: str  # paper and section
    what: str
    theirs: str
    source: str
    ours: Callable[[Records], str] | None
    why: str = ""


def _number(value: float) -> str:
    return table.number(value)


def _result(name: str, what: str, text: Callable[[float], str], records: Records) -> str:
    """What a question measured, by its own record or by that of bench/targets.py. Raises Missing."""
    own, everything = records.folder / f"{name}.json", records.folder / "targets.json"
    path = everything if everything.exists() and not own.exists() else records.path(name)
    with reading(path):
        found = records.document_of(path)["results"]
        for line in found if path != everything else found.get(name, []):
            if line["what"] == what:
                if line["measured"] is None:
                    raise Missing(f"{what}: {line['note'] or 'not measured'}")
                cores = f" ({line['cores']})" if line["cores"] else ""
                return text(line["measured"]) + cores
    raise Missing(f"the record has no line `{what}`: run `{records.command(name)}`")


def _times(value: float) -> str:
    return f"{_number(value)} times"


def _percent_less(value: float) -> str:
    return f"{1 - value:.0%} less"


def _less(faster: float) -> str:
    return _percent_less(1 / faster)


def _percent_of(value: float) -> str:
    return f"{value:.0%}"


def _errors(collective: bool, records: Records) -> str:
    with reading(records.path("errors")):
        found = [
            each for each in records.document("errors")["errors"]
            if each["mpi"] == mpi.FASTSOCK and each["statistic"] == LEAST and (each["what"] != "send") == collective
        ]  # fmt: skip
        models = (PROPOSED, PIECES, HOCKNEY)
        means = {model: sum(each["mean"][model] for each in found) / max(1, len(found)) for model in models}
        distance = ", ".join(dict.fromkeys(each["distance"] for each in found))
    if not found:
        raise Missing(f"the record has no errors of {mpi.FASTSOCK}")
    return f"{means[PROPOSED]:.0%}, in pieces {means[PIECES]:.0%}, Hockney {means[HOCKNEY]:.0%} ({distance})"


def _substitution(records: Records) -> str:
    with reading(records.path("pairs")):
        pairs = [pair for pair in records.document("pairs")["pairs"] if pair["predicted"][PIECES] > 0.1]
        gains = [1 - pair["two"] / pair["one"] for pair in pairs]
        named = [f"{pair['mpi']} {pair['what']}" for pair in pairs]
        distance = ", ".join(dict.fromkeys(pair["distance"] for pair in pairs))
    if not pairs:
        return "no replacement is predicted to gain more than 10 %"
    most = max(zip(gains, named, strict=True))
    where = f"{most[1]}, {distance}"
    return f"{sum(gains) / len(gains):.0%} in the mean, up to {most[0]:.0%} ({where})"


def _peak(records: Records) -> str:
    samples, distance = records.samples("arrays")
    best = {}
    for peer in (curves.ARRAYS_SHM, curves.ARRAYS_TCP, curves.PICKLED):
        best[peer] = max((megabits(size, took) / 1e3 for size, took in medians(samples, PING_PONG, peer)), default=0.0)
    text = ", ".join(f"{_number(best[peer])} Gbit/s {peer}" for peer in best)
    return f"{text} ({distance})"


def _best_other(times: Times, kernel: str, letter: str, ranks: int) -> float | None:
    """The time of the better of the other MPIs over that of fastsock.mpj."""
    own = times.of(kernel, letter, mpi.FASTSOCK).get(ranks)
    others = [took for peer in mpi.OTHERS if (took := times.of(kernel, letter, peer).get(ranks))]
    return min(others) / own if own and others else None


def _kernel(kernel: str, records: Records) -> str:
    """A ratio of speedups, as the papers': of the largest class, and of the most ranks, that both were run on."""
    times = Times(records, [kernel])
    for letter in reversed(ORDER):
        ours = dict(times.speedups(kernel, letter, mpi.FASTSOCK))
        others = [dict(times.speedups(kernel, letter, peer)) for peer in mpi.OTHERS]
        shared = [ranks for ranks in ours if ranks > 1 and any(ranks in other for other in others)]
        if shared:
            ranks = max(shared)
            best = max(other[ranks] for other in others if ranks in other)
            beside = f"{ours[ranks]:.2f} by {best:.2f}, {letter} on {ranks} ranks"
            return f"{_number(ours[ranks] / best)} times the better MPI's speedup: {beside} ({times.distance})"
    advice = records.advice([SOURCE], [kernel])
    raise Missing(f"the record has no speedup of {kernel} on {mpi.FASTSOCK} and on another MPI{advice}")


def _relative(records: Records) -> str:
    times = Times(records, NPB)
    ratios = {}
    for kernel in NPB:
        for letter in reversed(ORDER):
            faster = _best_other(times, kernel, letter, 2)
            if faster is not None:
                ratios[f"{kernel} {letter}"] = faster
                break
    if not ratios:
        raise Missing(f"the record has no NPB kernel on 2 ranks of two MPIs{records.advice([SOURCE], NPB)}")
    low, high = min(ratios, key=ratios.__getitem__), max(ratios, key=ratios.__getitem__)
    return f"{ratios[low]:.2f} ({low}) to {ratios[high]:.2f} ({high}), 2 ranks ({times.distance})"


def _collective(call: str, records: Records) -> str:
    samples, distance = records.samples("collectives", [call])
    with reading(records.path("collectives")):
        ranks = max(int(s.what.rpartition(", ")[2].split()[0]) for s in samples)
    what = mpi_targets.name(call, ranks, False)
    gains = [mpi_targets.against_best(samples, what, size) for size in (1 << 10, 1 << 20)]
    if None in gains:
        raise Missing(f"the record has no {call} of 1 KiB and of 1 MiB beside another MPI")
    words = " and ".join(_number(gain) for gain in gains if gain is not None)
    return f"{words} times as fast as the better MPI, {ranks} ranks ({distance})"


def _serialization(records: Records) -> str:
    samples, distance = records.model("kinds")
    ratios = {}
    for name in dict.fromkeys(s.mpi for s in samples):
        typed = {s.size: s.least for s in samples if (s.mpi, s.kind) == (mpi.FASTSOCK, BYTES)}
        pickled = {s.size: s.least for s in samples if (s.mpi, s.kind) == (name, OBJECTS) and s.size >= 1 << 10}
        both = [pickled[n] / typed[n] for n in pickled if typed.get(n)]
        if both:
            ratios[name] = max(both)
    if not ratios:
        raise Missing("the record has no objects beside bytes")
    text = ", ".join(f"{_number(most)} ({name})" for name, most in ratios.items())
    return f"arrays up to so many times as fast as objects: {text} ({distance})"


def _threads(records: Records) -> str:
    samples, distance = records.samples("devices")
    best = {}
    for peer in ("fastsock smpdev", *mpi.OTHERS):
        reached = [(megabits(size, took) / 1e3, peer) for size, took in medians(samples, PING_PONG, peer)]
        if reached:
            best[peer] = max(reached)
    if len(best) < 2 or "fastsock smpdev" not in best:
        raise Missing("the record has no smpdev beside another MPI")
    return ", ".join(f"{_number(rate)} Gbit/s {peer}" for rate, peer in best.values()) + f" ({distance})"


def _buffer(records: Records) -> str:
    samples, distance = records.samples("buffers")
    found = {}
    for peer in (HANDED, COPY, curves.RAW):
        times = medians(samples, PING_PONG, peer)
        if len(times) < 2:
            raise Missing(f"the record has no {peer}")
        (least, short), (most, long) = times[0], times[-1]
        found[peer] = f"{peer} {_number(short)} us, {(long - short) * 1e3 / (most - least):.2g} ns/B"
    return f"{'; '.join(found.values())} ({distance})"


def _rate(records: Records) -> str:
    distance = records.samples("pmm")[1]
    best = max(rates(records, 256).items(), key=lambda each: each[1])
    return f"{_number(best[1])} Mflop/s by {best[0][1]} on {best[0][0]} workers ({distance})"


def _rdma(what: str, records: Records) -> str:
    return _result("rdma", f"{what}: {rdma_ranks.IBVDEV}, times {rdma_ranks.IODEV}", _times, records)


ADD = "request and reply, no word"
HEADLINES: Sequence[Headline] = [
    Headline("A 2.2", "error of the model, Send", "7 %, Hockney 18 %", "errors", partial(_errors, False)),
    Headline("A 2.2", "error of the model, collectives", "up to 7 %, Hockney 28 %", "errors", partial(_errors, True)),
    Headline("A 2.4.3", "calls replaced by cheaper combinations", "37 % less in the mean, up to 65 %", "pairs",
             _substitution),
    Headline("A 3.2.4", "start-up in shared memory, beside plain sockets", "half (8 us)", "ping_pong",
             partial(_result, "ping_pong", "ping-pong 1 B, times faster than TCP", _times)),
    Headline("A 3.2.4", "arrays of 512 KB, beside serialization", "+4411 % (45 times)", "send_array",
             partial(_result, "send_array", f"send_array, recv_array_into, 512 KiB float64, {PING_PONG}, times"
                     " pickle over tcp", _times)),
    Headline("A 3.2.4", "peak bandwidth of arrays", "41 Gbps, 9 without shared memory, 1.5 serialized", "arrays",
             _peak),
    Headline("A 3.3", "LUFact, speedup beside other libraries, 16 processors", "+179 %", "kernels",
             partial(_kernel, "lufact")),
    Headline("A 4.5.2", "a call with a 3 KB object", "65 % less (53 % over the same sockets)", "rmi",
             partial(_result, "rmi", f"{calls.OBJECT}: times as fast as managers, TCP", _less)),
    Headline("A 4.5.2", "bytes sent for it, by its data", "theirs a third of RMI's", "rmi",
             partial(_result, "rmi", f"{calls.OBJECT}: bytes sent", _times)),
    Headline("A 4.5.2", "lists of objects", "slower from 8 on", "rmi",
             partial(_result, "rmi", f"{calls.OBJECTS}: times as fast as managers, TCP", _times)),
    Headline("A 4.5.3", "CG on remote objects", "+157 %", "rmi",
             partial(_result, "rmi", "conjugate gradient on 2 workers: times as fast as managers, TCP", _times)),
    Headline("A 4.5.3", "MG on remote objects", "+24 %", "", None, "there is no MG on remote calls here"),
    Headline("A 5.4.2", "double arrays, beside libraries that serialize", "up to 10 and 20 times", "kinds",
             _serialization),
    Headline("A 5.4.3", "Broadcast, 1 KB and 1 MB", "up to 5.8 and 16 times", "collectives",
             partial(_collective, "bcast")),
    Headline("A 5.4.3", "Reduce, 1 KB and 1 MB", "up to 60 and 50 times", "collectives",
             partial(_collective, "reduce")),
    Headline("A 5.4.4", "Crypt, speedup beside other libraries", "up to +330 %", "kernels", partial(_kernel, "crypt")),
    Headline("A 5.4.4", "LUFact, speedup on many cores", "up to 8 times", "kernels", partial(_kernel, "lufact")),
    Headline("A 5.4.4", "MolDyn, speedup beside other libraries", "up to 3.5 times", "kernels",
             partial(_kernel, "moldyn")),
    Headline("A 6.3.2", "NPB, performance relative to MPI", "0.7 to 1.1 except IS", "kernels", _relative),
    Headline("A 6.3.5", "SP class C above 121 cores, speedup", "50 % beyond MPI's", "kernels", partial(_kernel, "sp")),
    Headline("B 5.2", "start-up over InfiniBand, beside sockets", "11 us, niodev 65 us", "rdma",
             partial(_rdma, f"{PING_PONG}, 8 B")),
    Headline("B 5.2", "bandwidth over InfiniBand, beside sockets", "7.2 Gbps, niodev below 3", "rdma",
             partial(_rdma, "stream, 1 MiB")),
    Headline("B 5.3", "collectives on 128 processes", "2 to 3 times, up to 10", "", None,
             "needs eight hosts with RDMA devices"),
    Headline("B 5.4", "NPB class C, CG and FT on 64 processes", "2 times niodev", "", None,
             "needs eight hosts with RDMA devices"),
    Headline("C 5.1", "start-up over InfiniBand, beside IPoIB", "28 us, IPoIB 80 us", "rdma",
             partial(_rdma, f"{PING_PONG}, 8 B")),
    Headline("C 5.1", "peak bandwidth, beside SDP", "16 Gbps, SDP 7.4", "rdma", partial(_rdma, "stream, 4 MiB")),
    Headline("D 4", "ranks as threads, long messages", "faster than mpiJava on MPICH2", "devices", _threads),
    Headline("E 3.1.3, 4.1.1", "round trip and cost of a byte: buffer, copy, raw",
             "20.5 us, 25 ns; 21.5 us, 42 ns; 16.5 us, 25 ns", "buffers", _buffer),
    Headline("E 5.1.1", "matrix product 256 x 256, communication by buffers", "25 % less than by copy", "pmm",
             partial(_result, "pmm", "pMM, 2 workers, 256 x 256: communication, buffer handed over, its time by copy",
                     _percent_less)),
    Headline("E 5.1.1", "the same, rate", "320 Mflops by buffers, 275 by copy", "pmm", _rate),
    Headline("E 5.2.2", "active message, no word, beside what carries it", "31 us to 20.5 us (1.5 times)", "active",
             partial(_result, "active", f"{ADD}, its time by that of 1 B over the socket", _times)),
    Headline("E 5.2.2", "16 words instead of none", "+2 us (1.06 times)", "active",
             partial(_result, "active", f"request and reply, 16 words, its time by that of {ADD}", _times)),
    Headline("E 5.2.2", "bandwidth in bulk, beside what carries it", "within 5 %", "active",
             partial(_result, "active", "bulk into the segment, 1 MiB, its bandwidth by the stream's", _percent_of)),
]  # fmt: skip


def line(headline: Headline, records: Records) -> list[str]:
    """Where, what, theirs, ours, the command."""
    start = [headline.where, headline.what, headline.theirs]
    if headline.ours is None:
        return [*start, f"cannot be measured here: {headline.why}", ""]
    command = records.command(headline.source)
    try:
        return [*start, headline.ours(records), command]
    except Missing as error:
        there = records.is_there(headline.source)
        return [*start, str(error) if there else "not recorded: run", command]
