"""The small client of PMI-1, the protocol between ranks and the process manager of MPICH, Intel MPI and Slurm's pmi2.

Lines of key=value words over a descriptor that the rank inherits, or over TCP; one question, one answer.
"""

from __future__ import annotations

import _socket
import os

from .addresses import STREAM, Raw, WireupError, split_host

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

_LONGEST_LINE = 1 << 16


class Pmi1:
    """A connection to the process manager. Raises WireupError where it answers otherwise than PMI-1 does."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._buffer = b""
        try:
            self._sock = _inherited(environ["PMI_FD"]) if "PMI_FD" in environ else _connected(environ["PMI_PORT"])
        except (OSError, ValueError) as error:
            raise WireupError(
                "the environment names a PMI process manager (PMI_FD, PMI_PORT) that cannot be reached: "
                f"{error}. Where this process is no rank of its own, unset these"
            ) from None
        try:
            answers = environ if "PMI_FD" in environ else self._introduce(environ)
            self.rank, self.size = int(answers["PMI_RANK"]), int(answers["PMI_SIZE"])
            self._ask("response_to_init", "cmd=init pmi_version=1 pmi_subversion=1")
            self._space = self._ask("my_kvsname", "cmd=get_my_kvsname")["kvsname"]
        except (KeyError, ValueError):
            self._sock.close()
            raise WireupError("the PMI process manager does not tell what each rank must know") from None
        except WireupError:
            self._sock.close()
            raise

    @property
    def name(self) -> str:
        """Of this job's key-value space: the same in all its ranks, of no other job at this time."""
        return self._space

    def put(self, key: str, value: str) -> None:
        """Visible to other ranks after a barrier."""
        self._ask("put_result", f"cmd=put kvsname={self._space} key={key} value={value}")

    def get(self, key: str) -> str | None:
        """None where nobody has put it."""
        answer = self._talk("get_result", f"cmd=get kvsname={self._space} key={key}")
        return answer.get("value") if answer.get("rc", "0") == "0" else None

    def barrier(self) -> None:
        """Until all ranks are here."""
        self._ask("barrier_out", "cmd=barrier_in")

    def finalize(self) -> None:
        """From now on the end of this process is no failure to the process manager."""
        self._ask("finalize_ack", "cmd=finalize")
        self._sock.close()

    def _introduce(self, environ: Mapping[str, str]) -> dict[str, str]:
        """Over TCP: what its environment tells other ranks."""
        self._ask("initack", f"cmd=initack pmiid={environ['PMI_ID']}")
        answers = {}
        for _ in ("size", "rank", "debug"):  # in any order
            _, _, words = self._read_line().partition("cmd=set ")
            name, _, value = words.strip().partition("=")
            answers[f"PMI_{name.upper()}"] = value
        return answers

    def _ask(self, answer: str, question: str) -> dict[str, str]:
        words = self._talk(answer, question)
        if words.get("rc", "0") != "0":
            raise WireupError(f"the PMI process manager refuses {question.split()[0]}: {words.get('msg', words)}")
        return words

    def _talk(self, answer: str, question: str) -> dict[str, str]:
        try:
            self._sock.sendall(question.encode() + b"\n")
            line = self._read_line()
        except OSError as error:
            raise WireupError(f"the PMI process manager is gone: {error.strerror}") from None
        words = dict(word.partition("=")[::2] for word in line.split())
        if words.get("cmd") != answer:
            raise WireupError(f"the PMI process manager answers {line[:80]!r} to {question.split()[0]}")
        return words

    def _read_line(self) -> str:
        while b"\n" not in self._buffer:
            data = self._sock.recv(4096)
            if not data or len(self._buffer) > _LONGEST_LINE:
                raise WireupError("the PMI process manager closed the connection")
            self._buffer += data
        line, _, self._buffer = self._buffer.partition(b"\n")
        return line.decode("latin-1")


def _inherited(number: str) -> Raw:
    sock = Raw(fileno=int(number))
    sock.setblocking(True)
    os.set_inheritable(sock.fileno(), False)
    return sock


def _connected(address: str) -> Raw:
    host, port = split_host(address, "PMI_PORT")
    sock = Raw(_socket.AF_INET, STREAM)
    try:
        sock.connect(_socket.getaddrinfo(host, port, _socket.AF_INET)[0][4])
    except OSError:
        sock.close()
        raise
    return sock
