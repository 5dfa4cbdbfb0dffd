"""Random views and accesses against arrays: every rank knows what all write, and what the file has to be then."""

# ruff: noqa: F821  (comm, rank, size, MPI, np, name, SEED, ROUNDS and HINTS are the ranks' own)
from __future__ import annotations

import os

import pytest

from ..ranks import DEVICES, run
from .test_access import begins

ROUNDS = 200 if os.environ.get("FASTSOCK_SOAK") else 25
TWO_PHASES = {"collective_buffering": "true", "cb_nodes": "2", "cb_buffer_size": "4096"}


def program():
    import random

    together, mine = random.Random(SEED), random.Random(SEED * 1000 + rank)
    file = MPI.File.Open(comm, name, MPI.MODE_CREATE | MPI.MODE_RDWR, MPI.Info.Create(HINTS))
    model = np.zeros(0, "u1")
    types = {"u1": MPI.BYTE, "i2": MPI.INT16_T, "i4": MPI.INT32_T, "f8": MPI.DOUBLE, "c16": MPI.C_DOUBLE_COMPLEX}

    def grown(least):
        global model
        if len(model) < least:
            model = np.concatenate([model, np.zeros(least - len(model), "u1")])

    def views():
        """For each rank the etypes of a tile that it has; the number in a tile; their distance; the displacement."""
        kind = together.choice(["tile", "tile", "blocks", "rows"])
        count = together.choice([together.randrange(1, 40), together.randrange(1, 2000)])
        if kind == "rows":
            width = together.choice([1, 2, 7, 600])
            places = [np.concatenate([np.arange(width) + (row * size + each) * width for row in range(1 + count // 20)])
                      for each in range(size)]  # fmt: skip
            tile = size * width * (1 + count // 20)
        elif kind == "blocks":
            places = [np.arange(count) + each * count for each in range(size)]
            tile = size * count
        else:
            owners = np.array([together.randrange(-1, size) for _ in range(count)])
            places = [np.flatnonzero(owners == each) for each in range(size)]
            tile = count
        return places, tile + together.choice([0, 0, 3]), together.choice([0, 0, 5, 4096])

    def filetype(etype, places, tile):
        way = mine.randrange(4)
        steps = np.diff(places)
        if way == 0 and len(places) > 1 and (steps == steps[0]).all():
            inner = etype.Create_vector(len(places), 1, int(steps[0]))
            made = MPI.Datatype.Create_struct([1], [int(places[0]) * etype.size], [inner])
        elif way == 1 and len(places):
            made = MPI.Datatype.Create_struct([1] * len(places), places * etype.size, [etype] * len(places))
        elif way == 2:
            made = etype.Create_hindexed([1] * len(places), places * etype.size)
        else:
            made = etype.Create_indexed_block(1, places)
        return made.Create_resized(0, tile * etype.size).Commit()

    def in_memory(data):
        """A message argument for the data, and the array to look into: sometimes they have gaps between them."""
        if mine.random() < 0.5:
            return data, data
        room = np.zeros(2 * len(data) + 1, data.dtype)
        room[: 2 * len(data) : 2] = data
        gaps = types[data.dtype.str[1:]].Create_vector(len(data), 1, 2).Commit()
        return [room, 1, gaps], room[: 2 * len(data) : 2]

    def access(writes, how, offset, argument):
        verb = "Write" if writes else "Read"
        call = {"at": f"{verb}_at", "own": verb, "at_all": f"{verb}_at_all", "all": f"{verb}_all"}[how[0]]
        explicit = [offset] if how[0].startswith("at") else []
        if not explicit:
            file.Seek(offset)
        status = MPI.Status()
        if how[1] == "i":
            getattr(file, "I" + call.lower())(*explicit, argument).Wait(status)
        elif how[1] == "halves" and how[0].endswith("all"):
            getattr(file, f"{call}_begin")(*explicit, argument)
            getattr(file, f"{call}_end")(argument, status)
        else:
            getattr(file, call)(*explicit, argument, status)
        return status.count

    for _ in range(ROUNDS):
        code = together.choice(list(types))
        datarep = together.choice(["native", "internal", "external32"])
        stored = np.dtype(code).newbyteorder(">") if datarep == "external32" else np.dtype(code)
        etype, unit = types[code], stored.itemsize
        places, tile, displacement = views()
        count, offset = together.randrange(1, 3000), together.randrange(50)
        how = together.choice(["at", "own", "at_all", "all"]), together.choice(["now", "i", "halves"])
        file.Set_view(displacement, etype, filetype(etype, places[rank], tile), datarep)
        for each in range(size):  # what every rank writes
            numbers = np.random.default_rng(together.randrange(1 << 30)).integers(0, 100, count)
            if len(places[each]) == 0:
                if each == rank and how[0].endswith("all"):
                    access(True, how, 0, np.zeros(0, code))
                continue
            data = (numbers + each).astype(code)
            elements = offset + np.arange(count)
            where = elements // len(places[each]) * tile + places[each][elements % len(places[each])]
            grown(displacement + (int(where[-1]) + 1) * unit)
            bytes_of = displacement + where[:, None] * unit + np.arange(unit)
            model[bytes_of] = data.astype(stored).view("u1").reshape(count, unit)
            if each == rank:
                assert access(True, how, offset, in_memory(data)[0]) == data.nbytes
        if together.random() < 0.2:
            file.Sync()
        comm.Barrier()
        assert file.Get_size() == len(model), (file.Get_size(), len(model))
        assert (np.fromfile(name, "u1") == model).all(), np.flatnonzero(np.fromfile(name, "u1") != model)[:9]
        comm.Barrier()
        own = places[(rank + 1) % size]
        if len(own) == 0:
            own = np.arange(tile)
        displacement = together.randrange(2 * len(model) // 3 + 1)
        file.Set_view(displacement, etype, filetype(etype, own, tile), datarep)
        elements = offset + np.arange(count)
        where = displacement + (elements // len(own) * tile + own[elements % len(own)]) * unit
        there = int((where + unit <= len(model)).sum())
        wanted = model[where[:there, None] + np.arange(unit)].copy().view(stored).ravel().astype(code)
        room = np.full(count, 99).astype(code)
        argument, room = in_memory(room)
        got = access(False, how, offset, argument)
        assert got // np.dtype(code).itemsize == there, (got, there)
        assert (room[:there].view() == wanted).all() or np.isnan(wanted.view("f8") if code == "f8" else [0]).any()
        if got == there * unit:  # no part of an element was read
            assert (room[there:] == np.array(99).astype(code)).all()
        if how == ("own", "now"):
            assert file.Get_position() == offset + there
        if together.random() < 0.2:
            smaller = together.randrange(len(model) + 1)
            file.Set_size(smaller)
            model = model[:smaller].copy()
    file.Close()


def check(ranks, device, seed, path, hints):
    run(program, ranks, device, before=begins(path) + f"SEED, ROUNDS, HINTS = {seed}, {ROUNDS}, {hints}\n")


@pytest.mark.parametrize("hints", [{}, TWO_PHASES], ids=["each by itself", "two phases"])
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("seed", range(3))
def test_random_views(device, seed, hints, tmp_path):
    check(2 + seed, device, seed, tmp_path, hints)
