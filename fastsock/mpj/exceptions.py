"""Error classes, error codes and the exception that carries them."""

from __future__ import annotations

from fastsock.system.forkable import new_lock

from . import constants
from .constants import ERR_ARG, ERR_LASTCODE, ERR_UNKNOWN, SUCCESS
from .handle import public

_TEXTS = {
    "SUCCESS": "no error",
    "ERR_BUFFER": "invalid buffer",
    "ERR_COUNT": "invalid count",
    "ERR_TYPE": "invalid datatype",
    "ERR_TAG": "invalid tag",
    "ERR_COMM": "invalid communicator",
    "ERR_RANK": "invalid rank",
    "ERR_ROOT": "invalid root",
    "ERR_GROUP": "invalid group",
    "ERR_OP": "invalid reduction operation",
    "ERR_TOPOLOGY": "invalid topology",
    "ERR_DIMS": "invalid dimensions",
    "ERR_ARG": "invalid argument",
    "ERR_UNKNOWN": "unknown error",
    "ERR_TRUNCATE": "message truncated: it is longer than the receive buffer",
    "ERR_OTHER": "other error",
    "ERR_INTERN": "internal error",
    "ERR_IN_STATUS": "the error code is in the status",
    "ERR_PENDING": "pending request",
    "ERR_REQUEST": "invalid request",
    "ERR_INFO": "invalid info object",
    "ERR_INFO_KEY": "invalid info key",
    "ERR_INFO_VALUE": "invalid info value",
    "ERR_INFO_NOKEY": "no such info key",
    "ERR_KEYVAL": "invalid attribute key",
    "ERR_NO_MEM": "out of memory",
    "ERR_SESSION": "invalid session",
    "ERR_ERRHANDLER": "invalid error handler",
    "ERR_REVOKED": "the communicator is revoked",
    "ERR_PROC_FAILED": "a process has failed",
    "ERR_PROC_FAILED_PENDING": "a process has failed; the operation may still complete",
    "ERR_PROC_ABORTED": "a process was aborted",
    "ERR_UNSUPPORTED_DATAREP": "unsupported data representation",
    "ERR_VALUE_TOO_LARGE": "value too large",
    "ERR_LASTCODE": "last error code",
}

_predefined = {
    value: f"MPI_{name}: {_TEXTS.get(name, name[4:].lower().replace('_', ' '))}"
    for name, value in vars(constants).items()
    if name.startswith("ERR_") or name == "SUCCESS"
}


class _Codes:
    """The error classes and codes that the program added. `last` never decreases."""

    def __init__(self) -> None:
        self.lock = new_lock()
        self.last = ERR_LASTCODE
        self.class_of: dict[int, int] = {}
        self.strings: dict[int, str] = {}

    def add(self, errorclass: int | None) -> int:
        with self.lock:
            self.last += 1
            self.class_of[self.last] = self.last if errorclass is None else errorclass
            return self.last


_codes = _Codes()


@public
class Exception(RuntimeError):
    """What a call of MPI raises (MPI 4.1, chapter 9); equal to its error code.

    `detail` says what failed, if that is known.
    """

    detail: str

    def __init__(self, ierr: int = SUCCESS, /, detail: str = "") -> None:
        """Take an error code; a negative one becomes ERR_UNKNOWN."""
        if ierr < SUCCESS:
            ierr = ERR_UNKNOWN
        super().__init__(ierr)
        self.detail = detail

    def __int__(self) -> int:
        """Return int(self)."""
        code: int = self.args[0]
        return code

    def __bool__(self) -> bool:
        """Return bool(self)."""
        return int(self) != SUCCESS

    def __hash__(self) -> int:
        """Return hash(self)."""
        return hash(int(self))

    def __eq__(self, other: object, /) -> bool:
        """Return self==value."""
        return int(self) == other

    def __ne__(self, other: object, /) -> bool:
        """Return self!=value."""
        return int(self) != other

    def __lt__(self, other: Exception | int, /) -> bool:
        """Return self<value."""
        return int(self) < other

    def __le__(self, other: Exception | int, /) -> bool:
        """Return self<=value."""
        return int(self) <= other

    def __gt__(self, other: Exception | int, /) -> bool:
        """Return self>value."""
        return int(self) > other

    def __ge__(self, other: Exception | int, /) -> bool:
        """Return self>=value."""
        return int(self) >= other

    def __repr__(self) -> str:
        """Return repr(self)."""
        return f"MPI.Exception({int(self)})"

    def __str__(self) -> str:
        """Return str(self)."""
        text = self.Get_error_string()
        return f"{text}: {self.detail}" if self.detail else text

    def Get_error_code(self) -> int:
        """Return the error code."""
        return int(self)

    def Get_error_class(self) -> int:
        """Return the error class of the code."""
        return Get_error_class(int(self))

    def Get_error_string(self) -> str:
        """Return the text of the error code, without `detail`."""
        return Get_error_string(int(self))

    @property
    def error_code(self) -> int:
        """The error code."""
        return self.Get_error_code()

    @property
    def error_class(self) -> int:
        """The error class of the code."""
        return self.Get_error_class()

    @property
    def error_string(self) -> str:
        """The text of the error code."""
        return self.Get_error_string()


def Get_error_class(errorcode: int) -> int:
    """Return the class of an error code; ERR_UNKNOWN where there is no such code."""
    if errorcode in _predefined:
        return errorcode
    return _codes.class_of.get(errorcode, ERR_UNKNOWN)


def Get_error_string(errorcode: int) -> str:
    """Return the text of an error class or code."""
    if errorcode in _predefined:
        return _predefined[errorcode]
    if errorcode in _codes.class_of:
        return _codes.strings.get(errorcode, "")
    return f"unknown error code {errorcode}"


def Add_error_class() -> int:
    """Return a new error class."""
    return _codes.add(None)


def Remove_error_class(errorclass: int) -> None:
    """Remove an error class that the program added.

    Raises MPI.Exception (ERR_ARG) where it did not, or where the class still has codes or a text.
    """
    with _codes.lock:
        members = [code for code, of in _codes.class_of.items() if of == errorclass]
        if members != [errorclass]:
            raise Exception(ERR_ARG, f"error class {errorclass} was not added, or still has codes")
        _forget(errorclass)


def Add_error_code(errorclass: int) -> int:
    """Return a new code of an error class. Raises MPI.Exception (ERR_ARG) where there is no such class."""
    if errorclass not in _predefined and _codes.class_of.get(errorclass) != errorclass:
        raise Exception(ERR_ARG, f"{errorclass} is not an error class")
    return _codes.add(errorclass)


def Remove_error_code(errorcode: int) -> None:
    """Remove an error code that the program added. Raises MPI.Exception (ERR_ARG) as `Remove_error_class`."""
    with _codes.lock:
        if _codes.class_of.get(errorcode, errorcode) == errorcode:
            raise Exception(ERR_ARG, f"{errorcode} is not an error code that was added")
        _forget(errorcode)


def Add_error_string(errorcode: int, string: str) -> None:
    """Give a text to a class or code that the program added. Raises MPI.Exception (ERR_ARG) for any other."""
    _codes.strings[_added(errorcode)] = string


def Remove_error_string(errorcode: int) -> None:
    """Remove the text of an error class or code. Raises MPI.Exception (ERR_ARG) where it has none."""
    with _codes.lock:
        if _codes.strings.pop(_added(errorcode), None) is None:
            raise Exception(ERR_ARG, f"error code {errorcode} has no string")


def last_used_code() -> int:
    """Returns the greatest error class or code in use (attribute LASTUSEDCODE)."""
    return _codes.last


def _added(errorcode: int) -> int:
    if errorcode not in _codes.class_of:
        raise Exception(ERR_ARG, f"{errorcode} is not an error class or code that was added")
    return errorcode


def _forget(errorcode: int) -> None:
    if errorcode in _codes.strings:
        raise Exception(ERR_ARG, f"error code {errorcode} still has a string")
    del _codes.class_of[errorcode]
