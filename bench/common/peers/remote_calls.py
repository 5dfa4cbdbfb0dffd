"""Peers of remote calls: one object in another process, called by fastsock.rmi, by managers, and by others' packages.

Each peer gives the connecting end `made`, its proxy or what stands for it. `prepare(what)` gives a function that makes
one call, or one round of calls, which counts as many as `CALLS` says.
"""

from __future__ import annotations

import functools
import os
import pickle
import struct
import threading
import time
import types
from collections.abc import Callable, Iterator
from typing import Any

from ..process import Unusable
from .peer import Peer
from .stream_sockets import require_paths

ADD, ARRAY, OBJECT, OBJECTS = "add(1, 2)", "1 MiB float64", "3 KB object", "100 small objects"
BATCH, ONEWAY, STREAM, TASKS, FIRST = "batch", "one-way", "stream", "64 asyncio calls", "connect and first call"
CALLS = {BATCH: 100, ONEWAY: 100, STREAM: 1000, TASKS: 64}  # in one round
ELEMENTS = 1 << 17  # of 8 bytes
FLOWING = 1024  # bytes of the argument of asyncio calls
KEY = b"the key of this bench"


class Served:
    """What is called."""

    def add(self, a: int, b: int) -> int:
        return a + b

    def same(self, value: Any) -> Any:
        return value

    def log(self, value: int) -> None:
        self.last = value

    def count_to(self, number: int) -> Iterator[int]:
        yield from range(number)

    async def same_later(self, value: Any) -> Any:
        return value


def integers(nbytes: int) -> str:
    """The call of `same` with so many bytes of int32."""
    return f"{nbytes} B of int32"


def objects(count: int) -> str:
    """The call of `same` with a list of so many objects of 3 KB."""
    return f"{count} objects of 3 KB"


def is_array(what: str) -> bool:
    """Whether the argument is one array."""
    return what == ARRAY or what.endswith("of int32")


def argument(what: str) -> Any:
    """What `same` is called with."""
    import numpy

    from ..call_values import Reading, simulation

    if what.endswith("of int32"):
        return numpy.arange(int(what.split()[0]) // 4, dtype="i4")
    if what.endswith("objects of 3 KB"):
        return [simulation() for _ in range(int(what.split()[0]))]
    if what == ARRAY:
        return numpy.arange(ELEMENTS, dtype="f8")
    return simulation() if what == OBJECT else [Reading(i, i * 1.5, f"sensor {i}") for i in range(100)]


class Caller(Peer):
    """A peer whose connecting end calls `self.made`."""

    can: tuple[str, ...] = (ADD, ARRAY, OBJECT, OBJECTS)

    def __init__(self, name: str, launched: bool = False) -> None:
        self.name = name
        self.launched = launched
        self._prepared: dict[str, Callable[[], Any]] = {}

    def launch(self) -> None:
        """What the launcher does to a program, where this peer is one."""
        if self.launched:
            import fastsock

            fastsock.install()

    def measure(self, what: str, count: int) -> float:
        """Seconds for so many rounds."""
        call = self._prepared.get(what)
        if call is None:
            call = self._prepared[what] = self.prepare(what)
        for _ in range(3):
            call()
        start = time.perf_counter()
        for _ in range(count):
            call()
        return time.perf_counter() - start

    def prepare(self, what: str) -> Callable[[], Any]:
        """A function that makes a round of calls."""
        made = self.made
        if what == ADD:
            return lambda: made.add(1, 2)
        value = argument(what)
        return lambda: made.same(value)

    def keep_busy(self) -> None:
        """A thread of this process computes for ever, in Python."""
        threading.Thread(target=_compute, daemon=True).start()


def _compute() -> None:
    total = 0
    while True:
        for each in range(1000):
            total += each


class Own(Caller):
    """fastsock.rmi.

    without: the packer's optimizations that are switched off. path: of the connection. cache: small objects that were
    sent before go as numbers.
    """

    can = (ADD, ARRAY, OBJECT, OBJECTS, BATCH, ONEWAY, STREAM, TASKS, FIRST)

    def __init__(self, name: str = "fastsock.rmi", without: frozenset[str] = frozenset(), path: str = "shm",
                 cache: bool = False) -> None:  # fmt: skip
        super().__init__(name)
        self.cache = cache
        self.path = path
        self.without = without
        self.environment = {
            "FASTSOCK_RMI_KEY": KEY.decode(),
            "FASTSOCK_TRANSPORTS": "tcp" if path == "tcp" else f"{path},tcp",
        }

    def _rmi(self) -> Any:
        from fastsock import rmi
        from fastsock.rmi import codec
        from fastsock.rmi.objects import session

        if self.without:
            packer = functools.partial(codec.Packer, without=self.without)
            session.codec = types.SimpleNamespace(**{**vars(codec), "Packer": packer})  # type: ignore[assignment]
        self._register(rmi)
        rmi.expose(Served)
        Served.log = rmi.oneway(Served.log)  # type: ignore[method-assign]
        return rmi

    def _register(self, rmi: Any) -> None:
        from ..call_values import Grid, Reading, Simulation

        rmi.register(Reading, cache=self.cache)
        for each in (Grid, Simulation):
            rmi.register(each)

    def listen(self) -> Any:
        rmi = self._rmi()
        self.daemon = rmi.Daemon()
        self.daemon.register(Served(), "bench", local=False)
        self.daemon.start()
        return self.daemon.address

    def connect(self, address: Any) -> None:
        self.rmi = self._rmi()
        self.address = "rmi://{}:{}/bench".format(*address)
        self.made = self.rmi.connect(self.address)
        self.made.add(1, 2)
        require_paths(self.path)

    def prepare(self, what: str) -> Callable[[], Any]:
        rmi, made = self.rmi, self.made
        if what == BATCH:

            def batch() -> None:
                with rmi.batch(made) as calls:
                    for each in range(CALLS[BATCH]):
                        calls.add(each, each)

            return batch
        if what == ONEWAY:

            def oneway() -> None:
                for each in range(CALLS[ONEWAY]):
                    made.log(each)
                made.add(1, 2)  # all have arrived

            return oneway
        if what == STREAM:
            return lambda: sum(made.count_to(CALLS[STREAM]))
        if what == FIRST:

            def first() -> None:
                with rmi.connect(self.address) as fresh:
                    fresh.add(1, 2)

            return first
        if what == TASKS:
            return self._tasks()
        return super().prepare(what)

    def _tasks(self) -> Callable[[], Any]:
        import asyncio  # not before the launcher's part

        from fastsock.rmi import aio

        loop = asyncio.new_event_loop()
        remote = loop.run_until_complete(aio.connect(self.address))
        value = os.urandom(FLOWING)

        async def flow() -> None:
            await asyncio.gather(*(remote.same_later(value) for _ in range(CALLS[TASKS])))

        return lambda: loop.run_until_complete(flow())

    def bytes_sent(self, what: str) -> int:
        """Bytes of one call."""
        connection = self.made._rmi_target.connection
        value = argument(what)
        self.made.same(value)
        before = connection.bytes_sent
        self.made.same(value)
        return int(connection.bytes_sent - before)


class Managers(Caller):
    """multiprocessing.managers, or fastsock.rmi.managers. family: "AF_UNIX" or "AF_INET"."""

    can = (ADD, ARRAY, OBJECT, OBJECTS, FIRST)

    def __init__(self, name: str, family: str = "AF_INET", launched: bool = False, own: bool = False) -> None:
        super().__init__(name, launched)
        self.family = family
        self.own = own

    def _class(self) -> Any:
        self.launch()
        managers: Any
        if self.own:
            from fastsock.rmi import managers
        else:
            from multiprocessing import managers

        class Manager(managers.BaseManager):  # type: ignore[misc]
            pass

        Manager.register("served", Served)
        return Manager

    def listen(self) -> Any:
        address: Any = ("127.0.0.1", 0)
        if self.family == "AF_UNIX":
            address = f"/tmp/fastsock-bench-{os.getpid()}"
        server = self._class()(address=address, authkey=KEY).get_server()
        threading.Thread(target=_serve_managers, args=(server,), daemon=True).start()
        return server.address

    def connect(self, address: Any) -> None:
        made = self._class()
        self.address = address if isinstance(address, str) else tuple(address)
        self.manager = made(address=self.address, authkey=KEY)
        self.manager.connect()
        self.made = self.manager.served()
        self.made.add(1, 2)

    def prepare(self, what: str) -> Callable[[], Any]:
        if what != FIRST:
            return super().prepare(what)
        kind = type(self.manager)

        def first() -> None:
            fresh = kind(address=self.address, authkey=KEY)
            fresh.connect()
            fresh.served().add(1, 2)

        return first


def _serve_managers(server: Any) -> None:
    try:
        server.serve_forever()
    except SystemExit:
        return


class Pyro(Caller):
    """Pyro5 with the serializer marshal, its fastest. Arrays go as bytes."""

    can = (ADD, ARRAY)

    def listen(self) -> Any:
        self.launch()
        try:
            import Pyro5.api
        except ImportError as error:
            raise Unusable(f"needs the package Pyro5: {error}") from error
        daemon = Pyro5.api.Daemon("127.0.0.1")
        address = str(daemon.register(Pyro5.api.expose(Served)))
        threading.Thread(target=daemon.requestLoop, daemon=True).start()
        return address

    def connect(self, address: Any) -> None:
        self.launch()
        import Pyro5.api

        Pyro5.api.config.SERIALIZER = "marshal"
        self.made = Pyro5.api.Proxy(address)
        self.made.add(1, 2)

    def prepare(self, what: str) -> Callable[[], Any]:
        if is_array(what):
            data = argument(what).tobytes()
            return lambda: self.made.same(data)
        return super().prepare(what)


class Rpyc(Caller):
    """RPyC, a bound method. Arrays go by its way for values, pickles."""

    can = (ADD, ARRAY)

    def listen(self) -> Any:
        self.launch()
        try:
            import rpyc
            from rpyc.utils.server import ThreadedServer
        except ImportError as error:
            raise Unusable(f"needs the package rpyc: {error}") from error

        class Service(rpyc.Service):  # type: ignore[misc,name-defined]
            def exposed_add(self, a: int, b: int) -> int:
                return a + b

            def exposed_same(self, data: bytes) -> bytes:
                return pickle.dumps(pickle.loads(data), 5)

        server = ThreadedServer(Service, hostname="127.0.0.1", port=0)
        threading.Thread(target=server.start, daemon=True).start()
        return server.port

    def connect(self, address: Any) -> None:
        self.launch()
        import rpyc

        self.connection = rpyc.connect("127.0.0.1", address)
        self.made = types.SimpleNamespace(add=self.connection.root.add, same=self.connection.root.same)
        self.made.add(1, 2)

    def prepare(self, what: str) -> Callable[[], Any]:
        if is_array(what):
            value = argument(what)
            return lambda: pickle.loads(self.made.same(pickle.dumps(value, 5)))
        return super().prepare(what)


_PAIR, _ONE = struct.Struct("<qq"), struct.Struct("<q")
_UNLIMITED = [("grpc.max_send_message_length", -1), ("grpc.max_receive_message_length", -1)]


class Grpc(Caller):
    """grpcio: unary calls of bytes, packed by struct instead of protobuf. Arrays go as bytes."""

    can = (ADD, ARRAY, TASKS)

    def listen(self) -> Any:
        try:
            import grpc
        except ImportError as error:
            raise Unusable(f"needs the package grpcio: {error}") from error
        import asyncio
        from concurrent.futures import ThreadPoolExecutor

        methods = {
            "add": grpc.unary_unary_rpc_method_handler(lambda data, _: _ONE.pack(sum(_PAIR.unpack(data)))),
            "same": grpc.unary_unary_rpc_method_handler(lambda data, _: data),
        }
        handler = grpc.method_handlers_generic_handler("bench", methods)
        self.server = grpc.server(ThreadPoolExecutor(8), options=_UNLIMITED)
        self.server.add_generic_rpc_handlers((handler,))
        port = self.server.add_insecure_port("127.0.0.1:0")
        self.server.start()
        later = asyncio.new_event_loop()
        other = asyncio.run_coroutine_threadsafe(self._serve_tasks(handler), later)
        threading.Thread(target=later.run_forever, daemon=True).start()
        return port, other.result(30)

    async def _serve_tasks(self, handler: Any) -> int:
        import grpc

        async def same(data: bytes, _: Any) -> bytes:
            return data

        methods = {"same": grpc.unary_unary_rpc_method_handler(same)}
        self.tasks_server = grpc.aio.server()
        self.tasks_server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("bench", methods),))
        port = self.tasks_server.add_insecure_port("127.0.0.1:0")
        await self.tasks_server.start()
        return int(port)

    def connect(self, address: Any) -> None:
        import grpc

        self.port, self.tasks_port = address
        channel = grpc.insecure_channel(f"127.0.0.1:{self.port}", options=_UNLIMITED)
        add, self.same = channel.unary_unary("/bench/add"), channel.unary_unary("/bench/same")
        self.made = types.SimpleNamespace(add=lambda a, b: _ONE.unpack(add(_PAIR.pack(a, b)))[0])
        self.made.add(1, 2)

    def prepare(self, what: str) -> Callable[[], Any]:
        if is_array(what):
            data = argument(what).tobytes()
            return lambda: self.same(data)
        if what == TASKS:
            return self._tasks()
        return super().prepare(what)

    def _tasks(self) -> Callable[[], Any]:
        import asyncio

        import grpc

        loop = asyncio.new_event_loop()
        value = os.urandom(FLOWING)

        async def begin() -> Any:
            return grpc.aio.insecure_channel(f"127.0.0.1:{self.tasks_port}").unary_unary("/bench/same")

        same = loop.run_until_complete(begin())

        async def flow() -> None:
            await asyncio.gather(*(same(value) for _ in range(CALLS[TASKS])))

        return lambda: loop.run_until_complete(flow())


class XmlRpc(Caller):
    """xmlrpc of the standard library, one connection kept open."""

    can = (ADD,)

    def listen(self) -> Any:
        from xmlrpc.server import SimpleXMLRPCRequestHandler, SimpleXMLRPCServer

        class Handler(SimpleXMLRPCRequestHandler):
            protocol_version = "HTTP/1.1"

        server = SimpleXMLRPCServer(("127.0.0.1", 0), Handler, logRequests=False)
        server.register_instance(Served())
        threading.Thread(target=server.serve_forever, daemon=True).start()
        return server.server_address

    def connect(self, address: Any) -> None:
        from xmlrpc.client import ServerProxy

        self.made = ServerProxy("http://{}:{}".format(*address))
        self.made.add(1, 2)
