"""Generalized requests: operations of the program's own, waited for as any other."""

from __future__ import annotations

import sys
from collections.abc import Callable

from .. import ranks
from ..constants import ANY_SOURCE, ANY_TAG, ERR_OTHER, ERR_REQUEST, SUCCESS
from ..exceptions import Exception as MPIException
from ..handle import public
from .operation_records import Operation
from .request import Request
from .status import Status

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class Generalized(Operation):
    """Complete when the program says so. A user request wakes the waiting threads."""

    __slots__ = (
        "arguments",
        "bell",
        "cancel_function",
        "completed",
        "free_function",
        "home",
        "keywords",
        "query_function",
        "value",
    )

    def __init__(self, query: Any, free: Any, cancel: Any, arguments: Any, keywords: Any) -> None:
        super().__init__()
        self.query_function = query
        self.free_function = free
        self.cancel_function = cancel
        self.arguments = tuple(arguments or ())
        self.keywords = dict(keywords or {})
        self.completed = False
        self.value: Any = None
        home = ranks.current()
        self.home = home
        self.bell = home.engine.user_request()

    @property
    def engine(self) -> Any:
        return self.home.engine

    @property
    def active(self) -> bool:
        return True

    def ready(self) -> bool:
        return self.completed

    def waits_for(self) -> list[Any]:
        return [self.bell]

    def complete(self) -> None:
        """Says that the operation is complete."""
        if self.completed:
            raise MPIException(ERR_REQUEST, "the request is complete already")
        self.completed = True
        self.bell.complete()

    def look(self, status: Any) -> None:
        inner = Status()
        inner._set(ANY_SOURCE, ANY_TAG, 0, SUCCESS)
        if self.query_function is not None:
            self._call(self.query_function, inner)
            if self.cancel_function is None:
                inner.Set_cancelled(False)
        if status is not None:
            status._set(inner.Get_source(), inner.Get_tag(), inner.count, inner.Get_error(), inner.Is_cancelled())

    def finish(self, status: Any) -> None:
        try:
            self.look(status)
        finally:
            self.free()

    def result(self) -> Any:
        return self.value

    def cancel(self) -> None:
        if self.cancel_function is not None:
            self._call(self.cancel_function, self.completed)

    def free(self) -> None:
        function, self.free_function = self.free_function, None
        if function is not None:
            self._call(function)

    def _call(self, function: Callable[..., Any], *first: Any) -> None:
        """Calls the program's function. Its exception is printed, and becomes an error of the request."""
        try:
            function(*first, *self.arguments, **self.keywords)
        except BaseException as error:
            import traceback  # slow to import

            traceback.print_exc(file=sys.stderr)
            code = int(error) if isinstance(error, MPIException) else ERR_OTHER
            raise MPIException(code, f"a callback of the generalized request raised {error!r}") from error


@public
class Grequest(Request, wraps=Generalized):
    """A request for an operation of the program's own (MPI 4.1, chapter 13)."""

    __slots__ = ("_started",)

    _started: Operation

    def __new__(cls, request: Request | None = None) -> Any:
        """Returns another handle of a generalized request. Raises TypeError for any other request."""
        if request is not None and request and not isinstance(request, Grequest):
            raise TypeError(f"expected a Grequest, got {type(request).__name__}")
        self: Any = super().__new__(cls, request)
        self._started = self.ob
        return self

    @classmethod
    def Start(
        cls,
        query_fn: Callable[..., None] | None = None,
        free_fn: Callable[..., None] | None = None,
        cancel_fn: Callable[..., None] | None = None,
        args: tuple[Any] | None = None,
        kwargs: dict[str, Any] | None = None,
    ) -> Grequest:
        """Return a request that is complete when the program calls `Complete`.

        The functions get `args` and `kwargs`. Before these `query_fn` gets the status to fill, and `cancel_fn` whether
        the operation is complete. What a function raises is printed, and raised as MPI.Exception by the call that led
        to it.
        """
        request = cls.of(Generalized(query_fn, free_fn, cancel_fn, args, kwargs))
        request._started = request.ob
        return request

    def Complete(self) -> None:
        """Say that the operation is complete. Raises MPI.Exception (ERR_REQUEST) where it is already."""
        operation = self._started
        if not isinstance(operation, Generalized):
            raise MPIException(ERR_REQUEST, "the request is not a generalized one")
        operation.complete()

    def complete(self, obj: Any = None) -> None:
        """Say that the operation is complete; `Request.wait` returns `obj`. Raises as `Complete` does."""
        if isinstance(self._started, Generalized):
            self._started.value = obj
        Grequest.Complete(self)
