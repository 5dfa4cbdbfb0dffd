"""The header before each array's memory. It is checked when it is read, because a peer writes it.

numpy is imported where it is needed, so that programs that send no arrays never pay for it.

The header is 64 bytes, little-endian, so that one receive takes it whole:

    offset  bytes  field
    0       4      magic, 93 46 53 41
    4       1      version, 1
    5       1      flags; bit 0: the items are in Fortran order
    6       1      byte order of the items: '<', '>' or '|' (none)
    7       1      kind of the items, as numpy.dtype.kind
    8       4      size of one item in bytes
    12      1      number of dimensions
    13      1      fraction bits of the sender's long double where the items hold one, else 0
    14      2      length of the description in bytes
    16      8      length of the payload in bytes
    24      40     the first five dimensions, 8 bytes each; 0 where there are fewer

Then come the further dimensions, 8 bytes each, the description, and the payload. Only two kinds of
types have a description: datetimes (their unit) and structured types (JSON, see ``_describe``).
"""

from __future__ import annotations

import struct

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    import numpy

    Type = numpy.dtype[Any]
    Shape = tuple[int, ...]

MAGIC = b"\x93FSA"
VERSION = 1
HEADER_BYTES = 64

_FORTRAN = 1
_FIXED = struct.Struct("<4sBBccIBBHQ5Q")
_INLINE_DIMENSIONS = 5
_LONGEST_DESCRIPTION = 0xFFFF
_LARGEST_ITEM = (1 << 31) - 1
_DEEPEST_NESTING = 16
_ORDERS = "<>|"
_KINDS = "biufcSUVmM"


class ArrayFormatError(ValueError):
    """The bytes that arrived are no array, or an array larger than ``max_bytes``. The text names the fault.

    If they are no array, the connection has been shut down, because later bytes have no meaning.
    """


def check_sendable(dtype: Type) -> None:
    """Raise TypeError if the dtype's memory means nothing to another process."""
    if dtype.hasobject:
        raise TypeError(
            f"an array of dtype {dtype} holds Python objects, whose memory means nothing to another process: "
            "convert it to a numeric, string or structured dtype, or pickle it"
        )
    if dtype.num >= 256 or dtype.kind not in _KINDS:
        raise TypeError(
            f"an array of dtype {dtype} cannot be sent: only numpy's own numbers, times, strings of fixed length and "
            "structures have plain memory; convert it, or send array.view('u2') or the like and view it back"
        )


def pack_header(dtype: Type, shape: Shape, fortran: bool) -> bytes:
    """The whole header of an array. Raises TypeError if no header can describe its dtype."""
    description = _describe(dtype)
    size = dtype.itemsize
    for dimension in shape:
        size *= dimension
    inline = (shape + (0,) * _INLINE_DIMENSIONS)[:_INLINE_DIMENSIONS]
    further = shape[_INLINE_DIMENSIONS:]
    return (
        _FIXED.pack(
            MAGIC,
            VERSION,
            _FORTRAN if fortran else 0,
            dtype.str[0].encode(),
            dtype.kind.encode(),
            dtype.itemsize,
            len(shape),
            _long_double_bits() if _holds_long_double(dtype) else 0,
            len(description),
            size,
            *inline,
        )
        + struct.pack(f"<{len(further)}Q", *further)
        + description
    )


def check_magic(data: bytes) -> None:
    """Raise ArrayFormatError if this cannot be the start of a header."""
    if not data.startswith(MAGIC[: len(data)]):
        raise ArrayFormatError(
            f"the bytes that arrive are no array: they start with {data[:4]!r}, not {MAGIC!r}; send arrays by "
            "send_array only"
        )


def extra_bytes(fixed: bytes) -> int:
    """How many bytes of header follow its fixed part of 64 bytes.

    Raises ArrayFormatError if the version is unknown or numpy holds fewer dimensions.
    """
    _, version, _, _, _, _, dimensions, _, description, *_ = _FIXED.unpack(fixed)
    if version != VERSION:
        advice = "install the same version of fastsock at both ends"
        raise ArrayFormatError(f"the array has format version {version}, this is version {VERSION}; {advice}")
    if dimensions > 32:  # every numpy can hold 32
        import numpy

        most = getattr(numpy, "MAXDIMS", 64)  # numpy 1 has it
        if dimensions > most:
            raise ArrayFormatError(f"the array has {dimensions} dimensions, this numpy holds at most {most}")
    return int(8 * max(0, dimensions - _INLINE_DIMENSIONS) + description)


def unpack_header(header: bytes) -> tuple[Type, Shape, bool, int]:
    """Check a whole header. Gives the dtype, the shape, whether in Fortran order, and the payload's bytes.

    Raises ArrayFormatError if the header contradicts itself, or describes a type or a size that cannot be.
    """
    fields = _FIXED.unpack_from(header)
    _, _, flags, order, kind, itemsize, count, long_double, description_bytes, size = fields[:10]
    if flags & ~_FORTRAN:
        raise ArrayFormatError(f"the array's flags are {flags:#04x}, of which only {_FORTRAN:#04x} is known")
    further = struct.unpack_from(f"<{max(0, count - _INLINE_DIMENSIONS)}Q", header, HEADER_BYTES)
    dimensions = fields[10:] + further
    shape = dimensions[:count]
    if any(dimensions[count:]):
        raise ArrayFormatError(f"the array has {count} dimensions, but sizes for more: {dimensions}")
    expected = itemsize
    extent = max(1, itemsize)  # numpy bounds this size: as if no dimension were 0
    for dimension in shape:
        expected *= dimension
        extent *= dimension or 1
    if expected != size:
        raise ArrayFormatError(f"the payload has {size} bytes, but shape {shape} of {itemsize} each makes {expected}")
    if extent >> 63:
        raise ArrayFormatError(f"shape {shape} of {itemsize} bytes each is more than memory can hold")
    dtype = _read_type(order, kind, itemsize, header[len(header) - description_bytes :])
    holds = _holds_long_double(dtype)
    if long_double != (_long_double_bits() if holds else 0):
        here = f"this machine's has {_long_double_bits()}" if holds else "there is none in its dtype"
        raise ArrayFormatError(f"the array's long double has {long_double} bits of fraction, {here}")
    return dtype, shape, bool(flags & _FORTRAN), size


# Descriptions of types
#
# A plain type needs none. A datetime has its unit, as "[25s]". A structured type is the JSON of
# {"size": bytes, "fields": [[name, offset, type, shape, title], ...]}, where a type is such an object
# or a string as numpy.dtype.str gives it, shape is [] unless the field is itself an array, and title
# is null unless the field has one.


def _describe(dtype: Type) -> bytes:
    if dtype.names is not None:
        import json

        text = json.dumps(_structure(dtype, 1), separators=(",", ":")).encode("ascii")
        if len(text) > _LONGEST_DESCRIPTION:
            advice = f"at most {_LONGEST_DESCRIPTION} are possible; send its fields apart"
            raise TypeError(f"the structured dtype needs {len(text)} bytes to describe, {advice}")
        return text
    return dtype.str[3:].encode("ascii") if dtype.kind in "mM" else b""


def _structure(dtype: Type, depth: int) -> dict[str, object]:
    if depth > _DEEPEST_NESTING:
        raise TypeError(f"the structured dtype is nested more than {_DEEPEST_NESTING} deep; send its fields apart")
    fields = []
    for name in dtype.names or ():
        kind, offset, *title = dtype.fields[name]  # type: ignore[index]
        if title and not isinstance(title[0], str):
            raise TypeError(f"the title of field {name!r} is no text, so it cannot be sent; leave it out")
        base, shape = kind.subdtype or (kind, ())
        check_sendable(base)
        described = base.str if base.names is None else _structure(base, depth + 1)
        fields.append([name, offset, described, list(shape), title[0] if title else None])
    return {"size": dtype.itemsize, "fields": fields}


def _read_type(order: bytes, kind: bytes, itemsize: int, description: bytes) -> Type:
    try:
        text = (order + kind).decode("ascii")
        if kind == b"V" and description:
            if order != b"|":
                raise ArrayFormatError(f"a structured dtype has the byte order {order!r} as a whole")
            import json

            dtype = _read_structure(json.loads(description.decode("ascii")), 1)
        else:
            items = itemsize // 4 if kind == b"U" else itemsize
            dtype = _read_scalar(f"{text}{items}{description.decode('ascii')}")
    except ArrayFormatError:
        raise
    except (ValueError, RecursionError) as error:
        raise ArrayFormatError(f"the array's dtype cannot be read: {str(error)[:200]}") from error
    if dtype.itemsize != itemsize:
        raise ArrayFormatError(f"an item of {dtype} has {dtype.itemsize} bytes, not {itemsize}")
    return dtype


def _read_scalar(text: object) -> Type:
    if isinstance(text, str) and _looks_like_scalar(text):
        dtype = _numpy_dtype(text)
        # Each type has one spelling, numpy's own. So a text that numpy takes for another type is refused, too.
        if dtype.str == text:
            return dtype
    raise ArrayFormatError(f"{str(text)[:80]!r} is no dtype that an array can have")


def _looks_like_scalar(text: str) -> bool:
    """Whether this is an order, a kind, a number and perhaps a unit. numpy takes and evaluates other texts too."""
    number, bracket, unit = text[2:].partition("[")
    plain = text.isascii() and len(text) < 32 and text[:1] in _ORDERS and text[1:2] in _KINDS and number.isdigit()
    return plain and (not bracket or (unit[:-1].isalnum() and unit[-1:] == "]"))


def _read_structure(value: object, depth: int) -> Type:
    if depth > _DEEPEST_NESTING:
        raise ArrayFormatError(f"the structured dtype is nested more than {_DEEPEST_NESTING} deep")
    if not isinstance(value, dict) or value.keys() != {"size", "fields"} or not isinstance(value["fields"], list):
        raise ArrayFormatError("the structured dtype is no object of a size and a list of fields")
    size = _whole(value["size"])
    names, formats, offsets, titles = [], [], [], []
    for field in value["fields"]:
        if not isinstance(field, list) or len(field) != 5:
            raise ArrayFormatError("a field of the structured dtype is no list of name, offset, type, shape and title")
        name, offset, kind, shape, title = field
        if not isinstance(name, str) or not isinstance(shape, list) or not isinstance(title, str | None):
            raise ArrayFormatError("a field of the structured dtype has a name, shape or title of the wrong kind")
        base = _read_structure(kind, depth + 1) if isinstance(kind, dict) else _read_scalar(kind)
        extent = base.itemsize
        for dimension in shape:
            extent *= max(1, _whole(dimension))
        if extent > _LARGEST_ITEM:
            raise ArrayFormatError(f"field {name[:80]!r} is larger than a dtype can be")
        if _whole(offset) > size:
            raise ArrayFormatError(f"field {name[:80]!r} lies beyond the item's {size} bytes")
        names.append(name)
        formats.append((base, tuple(shape)) if shape else base)
        offsets.append(offset)
        titles.append(title)
    form = {"names": names, "formats": formats, "offsets": offsets, "itemsize": size}
    if any(title is not None for title in titles):
        form["titles"] = titles
    return _numpy_dtype(form)


def _whole(value: object) -> int:
    if type(value) is not int or not 0 <= value <= _LARGEST_ITEM:
        raise ArrayFormatError(f"the structured dtype holds {str(value)[:80]!r} where a size belongs")
    return value


def _numpy_dtype(form: object) -> Type:
    import numpy

    try:
        dtype: Type = numpy.dtype(form)  # type: ignore[call-overload]
    except (TypeError, ValueError, OverflowError) as error:
        raise ArrayFormatError(f"the array's dtype is impossible: {str(error)[:200]}") from error
    return dtype


# A long double of one size has two meanings: 63 bits of fraction on x86, 112 elsewhere.


def _long_double_bits() -> int:
    import numpy

    return int(numpy.finfo(numpy.longdouble).nmant)


def _holds_long_double(dtype: Type) -> bool:
    if dtype.names is not None:
        return any(_holds_long_double(field[0].base) for field in (dtype.fields or {}).values())
    return (dtype.kind == "f" and dtype.itemsize > 8) or (dtype.kind == "c" and dtype.itemsize > 16)
