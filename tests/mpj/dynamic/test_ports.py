"""Groups that know nothing of each other meet by a port, a name or a socket."""

# ruff: noqa: F821  (comm, rank, size, parent, spawn, MPI, np and the bodies are the ranks' own)
from __future__ import annotations

import socket

import pytest

from fastsock.mpj.dynamic.port import Port, PortError

from . import jobs

SERVER = """
import sys
if rank == 1:
    port = MPI.Open_port()
    print(port, flush=True)
else:
    port = "?"
"""
CLIENT = """
import sys
port = sys.stdin.readline().strip() if rank == 0 else "?"
"""


def port_of(process):
    """The first line that a job writes."""
    return process.stdout.readline().strip()


@pytest.mark.parametrize("device", jobs.DEVICES)
def test_two_jobs_meet_several_times(device):
    body = """
    for number in range(4):
        between = comm.CALL(port, root=ROOT)
        assert between.is_inter and between.remote_size == OTHERS
        assert between.allgather((NAME, rank, number)) == [(OTHER, each, number) for each in range(OTHERS)]
        whole = between.Merge(HIGH)
        large = np.full(100_000, whole.rank, "f8")
        whole.Allreduce(MPI.IN_PLACE, large)
        assert (large == 10).all()
        between.send(number, rank % between.remote_size, tag=number)
        for source in range(between.remote_size):
            if source % size == rank:
                assert between.recv(source=source, tag=number) == number
        whole.Disconnect()
        between.Disconnect()
    """
    accepts = body.replace("CALL", "Accept").replace("ROOT", "1").replace("OTHERS", "3").replace("HIGH", "False")
    connects = body.replace("CALL", "Connect").replace("ROOT", "0").replace("OTHERS", "2").replace("HIGH", "True")
    accepts = accepts.replace("OTHER", "'client'").replace("NAME", "'server'")
    connects = connects.replace("OTHER", "'server'").replace("NAME", "'client'")
    server_job = jobs.job(jobs.of(SERVER, accepts), 2, device)
    with server_job as server, jobs.job(jobs.of(CLIENT, connects), 3, device) as client:
        client.stdin.write(port_of(server) + "\n")
        client.stdin.flush()
        jobs.ended(client)
        jobs.ended(server)


def test_several_jobs_meet_one_server():
    serve = """
    for _ in range(3):
        between = comm.Accept(port, root=1)
        for to in range(between.remote_size):
            between.send(between.recv(source=to) + 1, to) if rank == 0 else None
        between.Disconnect()
    MPI.Close_port(port) if rank == 1 else None
    """
    ask = """
    between = comm.Connect(port)
    between.send(rank, 0)
    assert between.recv(source=0) == rank + 1
    between.Disconnect()
    """
    with jobs.job(jobs.of(SERVER, serve), 2) as server:
        port = port_of(server)
        clients = []
        for _ in range(3):
            context = jobs.job(jobs.of(CLIENT, ask), 2)
            clients.append((context, context.__enter__()))
            clients[-1][1].stdin.write(port + "\n")
            clients[-1][1].stdin.flush()
        for context, client in clients:
            jobs.ended(client)
            context.__exit__(None, None, None)
        jobs.ended(server)


def test_a_stranger_at_the_port_holds_nobody_up():
    serve = """
    between = comm.Accept(port, root=1)
    assert between.allreduce(rank) == 0
    between.Disconnect()
    """
    ask = """
    between = comm.Connect(port)
    between.allreduce(rank)
    between.Disconnect()
    """
    with jobs.job(jobs.of(SERVER, serve), 2) as server:
        port = port_of(server)
        host, number, token = port.rsplit(":", 2)
        silent = [socket.create_connection((host, int(number))) for _ in range(3)]
        rude = socket.create_connection((host, int(number)))
        rude.sendall(b"GET / HTTP/1.1\r\n\r\n" + bytes(200))
        wrong = f"{host}:{number}:{'0' * len(token)}"
        refused = """
        try:
            comm.Connect(port)
        except MPI.Exception as error:
            assert error.Get_error_class() == MPI.ERR_PORT and "another" in str(error), error
        else:
            raise AssertionError("a wrong token was accepted")
        """
        for body, name in [(refused, wrong), (ask, port)]:
            with jobs.job(jobs.of(CLIENT, body), 1) as client:
                client.stdin.write(name + "\n")
                client.stdin.flush()
                jobs.ended(client)
        jobs.ended(server)
        for sock in (*silent, rude):
            sock.close()


@pytest.mark.parametrize("device", ["iodev", "smpdev"])
def test_ports_that_cannot_be_used_are_told_to_all(device):
    def body():
        def refused(call, *words):
            try:
                call(*words)
            except MPI.Exception as error:
                assert error.Get_error_class() == MPI.ERR_PORT, error
            else:
                raise AssertionError(f"{call} {words} was not refused")

        port = MPI.Open_port() if rank == 0 else ""
        MPI.Close_port(port) if rank == 0 else None
        refused(comm.Accept, port)
        refused(comm.Connect, port)
        refused(comm.Connect, "no port")
        refused(MPI.Close_port, "no port")
        assert comm.allreduce(1) == 2

    jobs.run(body, 2, device)


def test_a_port_that_is_closed_lets_those_go_that_wait():
    def body():
        import threading

        port = MPI.Open_port() if rank == 0 else ""
        closer = threading.Timer(0.3, lambda: MPI.Close_port(port))
        closer.start() if rank == 0 else None
        try:
            comm.Accept(port)
        except MPI.Exception as error:
            assert error.Get_error_class() == MPI.ERR_PORT, error
        else:
            raise AssertionError("somebody connected")
        closer.join() if rank == 0 else None

    jobs.run(body, 2)


def test_messages_go_on_while_a_rank_waits_at_a_port():
    def body():
        large = np.arange(4_000_000, dtype="f8")
        if rank == 0:
            port = MPI.Open_port()
            comm.send(port, 1)
            request = comm.Isend(large, 1, tag=3)
            between = MPI.COMM_SELF.Accept(port)
            request.Wait()
        else:
            port = comm.recv(source=0)
            found = np.empty_like(large)
            comm.Recv(found, 0, tag=3)  # rank 0 waits at the port
            assert np.array_equal(found, large)
            between = MPI.COMM_SELF.Connect(port)
        assert between.allgather(rank) == [1 - rank]
        between.Disconnect()

    jobs.run(body, 2)


def test_threads_meet_at_ports_of_their_own():
    def body():
        import threading

        count, rounds = 3, 4
        comms = [comm.Dup() for _ in range(count)]
        halves = [each.Split(rank) for each in comms]
        ports = [MPI.Open_port() for _ in range(count)] if rank == 0 else None
        ports = comm.bcast(ports)
        failed = []

        def meet(number):
            try:
                for turn in range(rounds):
                    half = halves[number]
                    call = half.Accept if rank == 0 else half.Connect
                    between = call(ports[number])
                    assert between.allgather((number, turn, rank)) == [(number, turn, 1 - rank)]
                    between.Disconnect()
            except BaseException as error:
                failed.append(error)
                raise

        threads = [threading.Thread(target=meet, args=(number,)) for number in range(count)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not failed

    jobs.run(body, 2)


def test_nobody_is_accepted_at_a_port_that_another_thread_has_closed():
    made = Port("127.0.0.1")
    assert made.accept_at_once() is None
    made.close()
    for accept in (made.accept, made.accept_at_once):
        with pytest.raises(PortError, match="the port was closed"):
            accept()


def test_what_a_leader_sends_may_come_in_pieces():
    """Also when the other one has given up looking, and waits in a thread."""

    def body():
        import socket
        import struct
        import threading

        from fastsock.mpj.dynamic.line import StreamLine

        listener = socket.create_server(("127.0.0.1", 0))
        there = socket.create_connection(listener.getsockname())
        line = StreamLine(listener.accept()[0], b"", comm.ob.engine)
        there.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        listener.close()

        def send_in_pieces(message):
            data = struct.pack("!I", len(message)) + message
            for first, behind in [(0, 2), (2, 4), (4, 9), (9, len(data))]:
                while not any(each.name == "fastsock-beside" for each in threading.enumerate()):
                    pass
                there.sendall(data[first:behind])

        for message in [b"0123456789", b"x" * 200_000]:
            there.sendall(struct.pack("!I", 3) + b"all")
            assert line.receive() == b"all"
            sender = threading.Thread(target=send_in_pieces, args=(message,))
            sender.start()
            assert line.receive() == message
            sender.join()
        there.close()
        try:
            line.receive()
        except OSError:
            pass
        else:
            raise AssertionError("the end of the line is no message")

    jobs.run(body, 1)


def test_names_of_services_are_found_by_other_jobs():
    serve = """
    name = f"fastsock test {MPI.Get_processor_name()} {port}" if rank == 1 else None
    if rank == 1:
        print(name, flush=True)
        MPI.Publish_name(name, port)
        try:
            MPI.Publish_name(name, port)
        except MPI.Exception as error:
            assert error.Get_error_class() == MPI.ERR_SERVICE
        else:
            raise AssertionError("a name was published twice")
        print("published", flush=True)
    between = comm.Accept(port, root=1)
    between.Disconnect()
    if rank == 1:
        MPI.Unpublish_name(name, port)
        for call, words in [(MPI.Lookup_name, (name,)), (MPI.Unpublish_name, (name, port))]:
            try:
                call(*words)
            except MPI.Exception as error:
                assert error.Get_error_class() in (MPI.ERR_NAME, MPI.ERR_SERVICE)
            else:
                raise AssertionError("the name is still there")
    """
    ask = """
    comm.Connect(MPI.Lookup_name(port)).Disconnect()
    """
    with jobs.job(jobs.of(SERVER, serve), 2) as server:
        port_of(server)
        name = port_of(server)
        assert port_of(server) == "published"
        with jobs.job(jobs.of(CLIENT, ask), 1) as client:
            client.stdin.write(name + "\n")
            client.stdin.flush()
            jobs.ended(client)
        jobs.ended(server)


def test_names_in_a_folder_are_found_from_hosts_that_see_it(tmp_path, monkeypatch):
    """The places where names lie otherwise differ, as they do between hosts."""
    monkeypatch.setenv("FASTSOCK_MPJ_NAMES", str(tmp_path / "names"))
    for which in ("first", "second"):
        (tmp_path / which).mkdir(mode=0o700)
    serve = """
    if rank == 1:
        MPI.Publish_name("sums", port)
        print("published", flush=True)
    comm.Accept(port, root=1).Disconnect()
    """
    ask = """
    comm.Connect(MPI.Lookup_name("sums")).Disconnect()
    """
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "first"))
    with jobs.job(jobs.of(SERVER, serve), 2) as server:
        port_of(server)
        assert port_of(server) == "published"
        assert len(list((tmp_path / "names").iterdir())) == 1
        monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "second"))
        with jobs.job(jobs.of(CLIENT, ask), 1) as client:
            client.stdin.write("\n")
            client.stdin.flush()
            jobs.ended(client)
        jobs.ended(server)


@pytest.mark.parametrize("folder", ["a file", "of all"])
def test_a_folder_of_names_that_will_not_do_is_an_error_that_names_it(folder, tmp_path, monkeypatch):
    path = tmp_path / "names"
    monkeypatch.setenv("FASTSOCK_MPJ_NAMES", str(path))
    if folder == "a file":
        path.touch()
    else:
        path.mkdir(mode=0o755)

    def body():
        import os

        for call in (lambda: MPI.Publish_name("sums", "a port"), lambda: MPI.Lookup_name("sums")):
            try:
                call()
            except MPI.Exception as error:
                assert error.Get_error_class() == MPI.ERR_SERVICE
                assert os.environ["FASTSOCK_MPJ_NAMES"] in str(error) and "FASTSOCK_MPJ_NAMES" in str(error), error
            else:
                raise AssertionError("the folder was taken")

    jobs.run(body, 1)


def test_the_name_of_a_program_that_was_killed_is_not_found():
    def body():
        import os

        name = f"fastsock test of a killed program {os.getppid()}"
        if rank == 0:
            child = os.fork()
            if child == 0:
                from fastsock.mpj.dynamic import names

                names.Publish_name(name, "a port")
                os.kill(os.getpid(), 9)
            os.waitpid(child, 0)
            try:
                MPI.Lookup_name(name)
            except MPI.Exception as error:
                assert error.Get_error_class() == MPI.ERR_NAME and "has ended" in str(error), error
            else:
                raise AssertionError("a dead program's name was found")

    jobs.run(body, 1)


def test_two_processes_join_by_a_socket():
    def body():
        import socket

        if rank == 0:
            listener = socket.create_server(("127.0.0.1", 0))
            comm.send(listener.getsockname(), 1)
            sock, _ = listener.accept()
            listener.close()
        else:
            sock = socket.create_connection(comm.recv(source=0))
        between = MPI.Comm.Join(sock.fileno())
        assert between.remote_size == between.size == 1
        assert between.sendrecv(rank, 0, source=0) == 1 - rank
        between.Disconnect()
        sock.sendall(b"still open")
        assert sock.recv(100) == b"still open"
        sock.close()

    jobs.run(body, 2)


def test_join_tells_what_is_no_end_of_it():
    def body():
        import socket

        one, other = socket.socketpair()
        other.sendall(bytes(64))
        try:
            MPI.Comm.Join(one.fileno())
        except MPI.Exception as error:
            assert "does not call Join" in str(error)
        else:
            raise AssertionError("nobody was there")
        one.close()
        other.close()

    jobs.run(body, 1)
