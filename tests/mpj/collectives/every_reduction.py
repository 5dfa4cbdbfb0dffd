"""A program of a few ranks: every predefined operation on every named datatype, through every call that reduces.

Each result is compared with numpy's, the bytes around each buffer must stay as they are, and an operation that is not
defined on a datatype must be refused with ERR_OP by all calls alike.
"""

import struct

import numpy as np

from fastsock.mpj import MPI

WORLD = MPI.COMM_WORLD
RANK, SIZE = WORLD.rank, WORLD.size
GUARD = 64
FILL = 0xAB

NUMBERS = {
    "SUM": np.add,
    "PROD": np.multiply,
    "MAX": np.maximum,
    "MIN": np.minimum,
    "LAND": np.logical_and,
    "LOR": np.logical_or,
    "LXOR": np.logical_xor,
    "BAND": np.bitwise_and,
    "BOR": np.bitwise_or,
    "BXOR": np.bitwise_xor,
}
SIDES = {"REPLACE": lambda early, late: early, "NO_OP": lambda early, late: late}
LOCATIONS = ("MAXLOC", "MINLOC")
OPERATIONS = (*NUMBERS, *LOCATIONS, *SIDES)

ORDERED = ("MAX", "MIN")
ARITHMETIC = ("SUM", "PROD")
LOGICAL = ("LAND", "LOR", "LXOR")
BITWISE = ("BAND", "BOR", "BXOR")
# What the standard defines; "sides" are defined on all of them here.
STANDARD = {
    "i": (*ORDERED, *ARITHMETIC, *LOGICAL, *BITWISE),
    "f": (*ORDERED, *ARITHMETIC),
    "c": ARITHMETIC,
    "b": LOGICAL,
    "V": BITWISE,
    "P": LOCATIONS,
    "S": (),
}
# What neither MPICH nor Open MPI does.
REFUSED = {
    "i": LOCATIONS,
    "f": (*BITWISE, *LOCATIONS),
    "c": (*ORDERED, *BITWISE, *LOCATIONS),
    "b": LOCATIONS,
    "V": LOCATIONS,
    "P": (*ORDERED, *ARITHMETIC, *LOGICAL, *BITWISE),
    "S": LOCATIONS,
}
PAIRS = {"SHORT_INT": "h", "INT_INT": "i", "LONG_INT": "l", "FLOAT_INT": "f", "DOUBLE_INT": "d", "LONG_DOUBLE_INT": "g"}
# No C type and no MPI with arithmetic on these: only that all calls agree.
UNKNOWN = {"INTEGER16", "LOGICAL16", "REAL2", "FLOAT16_T", "BFLOAT16_T", "COMPLEX4", "PACKED", "WCHAR"}


def quad(number):
    """A number as IEEE binary128, little endian."""
    if number == 0:
        return bytes(16)
    (bits,) = struct.unpack("<Q", struct.pack("<d", number))
    exponent = (bits >> 52 & 0x7FF) - 1023 + 16383
    return ((bits >> 63) << 127 | exponent << 112 | (bits & (1 << 52) - 1) << 60).to_bytes(16, "little")


class Kind:
    """How the items of a datatype are made of small numbers, and which operations it should take."""

    def __init__(self, name, datatype, letter=None, width=1):
        self.name, self.datatype, self.width = name, datatype, width
        self.extent = datatype.extent
        code = datatype.typestr if letter is None else letter
        self.pair = name in PAIRS
        self.quad = name in ("REAL16", "COMPLEX32")
        if self.pair:
            self.kind, self.dtype = "P", np.dtype([("value", PAIRS[name]), ("index", "i")], align=True)
        elif self.quad:
            self.kind, self.dtype = "c" if name == "COMPLEX32" else "f", np.dtype("D" if name == "COMPLEX32" else "d")
        elif name in UNKNOWN:
            self.kind, self.dtype = "?", np.dtype(f"u{self.extent}") if self.extent <= 8 else None
        else:
            self.dtype = np.dtype(code)
            self.kind = {"u": "i", "i": "i", "U": "S"}.get(self.dtype.kind, self.dtype.kind)
            if name.startswith("LOGICAL"):
                self.kind, self.dtype = "b", np.dtype(f"i{self.extent}")
            elif name == "BYTE":
                self.kind = "V"
            elif self.kind == "S":
                self.dtype = np.dtype(f"u{self.extent}")
        if self.kind == "?":
            self.defined, self.refused = (), ()
        else:
            self.defined, self.refused = (*STANDARD[self.kind], *SIDES), REFUSED[self.kind]

    def values(self, rank, count):
        """The numbers that a rank gives."""
        count *= self.width
        numbers = (np.arange(count) * 7 + 3 * rank + count) % (2 if self.kind == "b" else 3)
        if self.pair:
            found = np.zeros(count, self.dtype)
            found["value"], found["index"] = numbers, rank
            return found
        return numbers.astype(self.dtype)

    def memory(self, values):
        """The bytes of items."""
        if self.quad:
            parts = values.view("d")
            return b"".join(quad(float(part)) for part in parts)
        return values.tobytes()

    def same(self, memory, values):
        """Whether these are the bytes of items of that value; what lies in gaps does not matter."""
        if self.pair:
            found = np.frombuffer(memory, self.dtype)
            return all((found[field] == values[field]).all() for field in ("value", "index"))
        if self.dtype.char in "gG":  # what a long double has beyond its number may be anything
            return (np.frombuffer(memory, self.dtype) == values).all()
        return memory == self.memory(values)


def combined(operation, kind, many):
    """All ranks' values, from the first on."""
    total = many[0]
    for values in many[1:]:
        if operation in SIDES:
            total = SIDES[operation](total, values)
        elif operation in LOCATIONS:
            better = np.greater if operation == "MAXLOC" else np.less
            wins = better(values["value"], total["value"])
            wins |= (values["value"] == total["value"]) & (values["index"] < total["index"])
            total = np.where(wins, values, total)
        else:
            total = NUMBERS[operation](total, values).astype(kind.dtype)
    return total


class Guarded:
    """Memory for some items, with bytes before and behind it that nobody may touch."""

    def __init__(self, kind, count, values=None):
        self.kind, self.length = kind, count * kind.extent
        self.raw = np.full(GUARD + self.length + GUARD, FILL, "u1")
        self.items = self.raw[GUARD : GUARD + self.length]
        if values is not None:
            self.items[:] = np.frombuffer(kind.memory(values), "u1")

    def check(self, what):
        touched = [np.flatnonzero(part != FILL) for part in (self.raw[:GUARD], self.raw[GUARD + self.length :])]
        assert not any(map(len, touched)), (what, "bytes around the buffer", touched)

    def untouched(self):
        return (self.raw == FILL).all()


def wait(request):
    request.Wait()


def persistent(request):
    for _ in range(2):
        request.Start()
        request.Wait()
    request.Free()


def ways(op):
    """(name, call(send, receive), items sent for each one given, ranks whose values count, kind of receive buffer)."""
    everybody, up_to, before = range(SIZE), range(RANK + 1), range(RANK)
    last = SIZE - 1
    place = MPI.IN_PLACE

    def at_root(receive):
        return receive if last == RANK else None

    yield "Allreduce", lambda s, r: WORLD.Allreduce(s, r, op), everybody, False
    yield "Iallreduce", lambda s, r: wait(WORLD.Iallreduce(s, r, op)), everybody, False
    yield "Allreduce_init", lambda s, r: persistent(WORLD.Allreduce_init(s, r, op)), everybody, False
    yield "Allreduce in place", lambda s, r: WORLD.Allreduce(place, r, op), everybody, True
    yield "Iallreduce in place", lambda s, r: wait(WORLD.Iallreduce(place, r, op)), everybody, True
    root = everybody if last == RANK else ()
    yield "Reduce", lambda s, r: WORLD.Reduce(s, at_root(r), op, last), root, False
    yield "Ireduce", lambda s, r: wait(WORLD.Ireduce(s, at_root(r), op, last)), root, False
    reduce_in_place = (lambda s, r: (place, r)) if last == RANK else (lambda s, r: (r, None))
    yield "Reduce in place", lambda s, r: WORLD.Reduce(*reduce_in_place(s, r), op, last), root, True
    yield "Ireduce in place", lambda s, r: wait(WORLD.Ireduce(*reduce_in_place(s, r), op, last)), root, True
    yield "Scan", lambda s, r: WORLD.Scan(s, r, op), up_to, False
    yield "Iscan", lambda s, r: wait(WORLD.Iscan(s, r, op)), up_to, False
    yield "Scan in place", lambda s, r: WORLD.Scan(place, r, op), up_to, True
    yield "Exscan", lambda s, r: WORLD.Exscan(s, r, op), before, False
    yield "Iexscan", lambda s, r: wait(WORLD.Iexscan(s, r, op)), before, False


def scattering(op, counts):
    yield "Reduce_scatter_block", lambda s, r: WORLD.Reduce_scatter_block(s, r, op), None
    yield "Ireduce_scatter_block", lambda s, r: wait(WORLD.Ireduce_scatter_block(s, r, op)), None
    yield "Reduce_scatter", lambda s, r: WORLD.Reduce_scatter(s, r, counts, op), counts
    yield "Ireduce_scatter", lambda s, r: wait(WORLD.Ireduce_scatter(s, r, counts, op)), counts


def attempt(call, *arguments):
    """Whether the operation is defined; any other refusal is a failure."""
    try:
        call(*arguments)
    except MPI.Exception as error:
        assert error.Get_error_class() == MPI.ERR_OP, error
        return False
    return True


def spec(buffer, count, kind, long):
    return [buffer.items, count, kind.datatype] if long else [buffer.items, kind.datatype]


def check(kind, name, count):
    """Whether the operation is defined on the datatype, by all calls alike."""
    op = getattr(MPI, name)
    verdicts = {}
    for number, (what, call, ranks, in_place) in enumerate(ways(op)):
        own = kind.values(RANK, count) if kind.dtype is not None else None
        send = Guarded(kind, count, own)
        receive = Guarded(kind, count, own if in_place else None)
        what = (kind.name, name, what, count)
        verdicts[what] = attempt(
            call, spec(send, count, kind, number % 2), spec(receive, count, kind, (number + RANK) % 2)
        )
        send.check(what)
        receive.check(what)
        if kind.dtype is None or not verdicts[what] or kind.kind == "?":
            continue
        if len(ranks):
            expected = combined(name, kind, [kind.values(rank, count) for rank in ranks])
            assert kind.same(receive.items.tobytes(), expected), (what, receive.items.tobytes(), expected)
        elif not in_place:
            assert receive.untouched(), what
    uneven = [count + rank for rank in range(SIZE)]
    for what, call, counts in scattering(op, uneven):
        counts = counts or [count] * SIZE
        total, mine, at = sum(counts), counts[RANK], sum(counts[:RANK])
        many = [kind.values(rank, total) for rank in range(SIZE)] if kind.dtype is not None else None
        for in_place in (False, True):
            told = (kind.name, name, what, count, in_place)
            send = Guarded(kind, total, many and many[RANK])
            receive = Guarded(kind, total, many and many[RANK]) if in_place else Guarded(kind, mine)
            if in_place:
                verdicts[told] = attempt(call, MPI.IN_PLACE, [receive.items, kind.datatype])
            else:
                verdicts[told] = attempt(call, [send.items, kind.datatype], [receive.items, kind.datatype])
            send.check(told)
            receive.check(told)
            if many is None or not verdicts[told] or kind.kind == "?":
                continue
            expected = combined(name, kind, many)[at * kind.width : (at + mine) * kind.width]
            found = receive.items[: mine * kind.extent].tobytes()
            assert kind.same(found, expected), (told, found, expected)
    source, target = (Guarded(kind, count, many and kind.values(rank, count)) for rank in (0, 1))
    verdicts["Reduce_local"] = attempt(op.Reduce_local, [source.items, kind.datatype], [target.items, kind.datatype])
    target.check("Reduce_local")
    assert len(set(verdicts.values())) == 1, (kind.name, name, verdicts)
    return next(iter(verdicts.values()))


def kinds():
    seen = {}
    for name in dir(MPI):
        datatype = getattr(MPI, name)
        if isinstance(datatype, MPI.Datatype) and datatype != MPI.DATATYPE_NULL and datatype.size > 0:
            seen.setdefault(datatype.toint(), (name, datatype))
    for _, datatype in seen.values():
        constant = datatype.name.removeprefix("MPI_")
        yield Kind({"2INT": "INT_INT", "LONG_LONG_INT": "LONG_LONG"}.get(constant, constant), datatype)


found = 0
for each in kinds():
    for operation in OPERATIONS:
        defined = check(each, operation, 3)
        assert defined or operation not in each.defined, (each.name, operation, "should be defined")
        assert not defined or operation not in each.refused, (each.name, operation, "should be refused")
        found += 1
assert found > 50 * len(OPERATIONS), found
# more than goes through small buffers, and items of several elements
for each in (Kind("INT_INT", MPI.INT_INT), Kind("DOUBLE_INT", MPI.DOUBLE_INT)):
    assert check(each, "MAXLOC", 9001)
twice = MPI.INT.Create_contiguous(2).Commit()
for many in (3, 9001):
    assert check(Kind("two INT", twice, "i", 2), "SUM", many)
twice.Free()
