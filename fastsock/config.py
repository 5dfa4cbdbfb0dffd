"""Settings: from the environment, from the rules file that it names, and defaults.

This module imports nothing heavy, because every Python process under the launcher imports it before
its own program. That is also why ``Settings`` and ``Rule`` are written out: ``dataclasses`` alone
would add about ten milliseconds to each start.
"""

from __future__ import annotations

import os
from operator import index

from .system import variables

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from typing import Any, Self

    Network = tuple[int, int, int]  # address bits (32 or 128), masked address, mask

KNOWN_TRANSPORTS = ("shm", "rdma", "rsockets", "sdp", "tcp")  # every path, fastest first: the only list of them
ONLY_BY_NAME = ("rdma", "rsockets", "sdp")  # taken only where a setting or a rule names them
BETWEEN_HOSTS = ("rdma", "rsockets")  # these join two hosts, and mean nothing within one
DEFAULT_TRANSPORTS = tuple(name for name in KNOWN_TRANSPORTS if name not in ONLY_BY_NAME)
LAST_RESORT = "tcp"
PEERS = ("same-user", "any")
FAILOVER = ("error", "resume")
RENDEZVOUS = ("write", "read")
SMALLEST_RING = 4096
LARGEST_RING = 1 << 30

_RULE_FORM = "'connect|listen host[/prefix] port|first-last|* paths', as 'connect 10.0.0.0/8 5000-5999 shm,tcp'"
_YES = ("1", "true", "yes", "on")
_NO = ("0", "false", "no", "off", "")
_UNITS = {"k": 1 << 10, "m": 1 << 20, "g": 1 << 30}


class ConfigError(ValueError):
    """A setting cannot be used. The text says where the setting stands and what to write instead.

    ``file`` and ``line`` name the place: a path and a line number for a rule, the variable's name
    and None for the environment, None and None for a call.
    """

    def __init__(self, message: str, *, file: str | None = None, line: int | None = None) -> None:
        self.file = file
        self.line = line
        place = file if line is None else f"{file}, line {line}"
        super().__init__(message if place is None else f"{place}: {message}")


class Frozen:
    """Equality, hash and repr by the public fields; no field changes after construction."""

    __slots__ = ()
    _fields: tuple[str, ...] = ()

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{type(self).__name__} cannot be changed; use fastsock.config.configure()")

    def __delattr__(self, name: str) -> None:
        self.__setattr__(name, None)

    def _values(self) -> tuple[object, ...]:
        return tuple(getattr(self, name) for name in self._fields)

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self._values() == other._values()

    def __hash__(self) -> int:
        return hash(self._values())

    def __repr__(self) -> str:
        fields = ", ".join(f"{name}={getattr(self, name)!r}" for name in self._fields)
        return f"{type(self).__name__}({fields})"

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuild, (type(self), dict(zip(self._fields, self._values(), strict=True)))


class Checked(Frozen):
    """Settings that the constructor checks. It takes each setting by name."""

    __slots__ = ()

    def replace(self, **changes: object) -> Self:
        """A copy with the named settings changed. Raises ConfigError if a value is bad or a name is unknown."""
        unknown = [name for name in changes if name not in self._fields]
        if unknown:
            raise ConfigError(f"there is no setting {unknown[0]!r}; there are {', '.join(self._fields)}")
        fields = dict(zip(self._fields, self._values(), strict=True))
        fields.update(changes)
        return type(self)(**fields)

    __replace__ = replace

    def reading(self, variables: Mapping[str, str], environ: Mapping[str, str]) -> Self:
        """A copy with the settings of these variables. An empty variable counts as unset.

        variables: names of environment variables, each with the setting that it gives. Raises ConfigError if a value
        cannot be used. The error names the variable.
        """
        found = self
        for variable, name in variables.items():
            text = environ.get(variable, "")
            if text.strip():
                try:
                    found = found.replace(**{name: text})
                except ConfigError as error:
                    raise ConfigError(str(error), file=variable) from None
        return found


class InForce:
    """The settings in force in this process, of one class. ``read`` gives the environment's settings.

    Native code follows ``current`` in this object's dictionary. So the class has no slots.
    """

    current: Any

    def __init__(self, read: Callable[[], Checked]) -> None:
        self._read = read
        self.current = None

    def settings(self) -> Any:
        """The settings in force. The first call reads the environment, and raises ConfigError if it is wrong."""
        return self.current if self.current is not None else self.reload()

    def reload(self) -> Any:
        """Read the environment and its rules file again. This undoes ``configure``. Returns the new settings.

        Raises ConfigError if a setting cannot be used. Then the settings in force stay.
        """
        self.current = self._read()
        return self.current

    def configure(self, **changes: object) -> Any:
        """Change settings for later connections and devices. Returns the new settings.

        Takes the arguments of ``Settings``: ``configure(transports="^shm", spin_us=0)``. Raises ConfigError
        if a value or a name is wrong. Then nothing has changed.
        """
        self.current = self.settings().replace(**changes)
        return self.current


def _rebuild(kind: type, fields: dict[str, object]) -> object:
    return kind(**fields)


class Rule(Frozen):
    """One line of the rules file: the paths, in order, that matching connections may take."""

    direction: str
    host: str
    first_port: int
    last_port: int
    transports: tuple[str, ...]
    networks: tuple[Network, ...] | None
    file: str | None
    line: int | None

    _fields = ("direction", "host", "first_port", "last_port", "transports", "networks", "file", "line")
    __slots__ = _fields

    def __init__(
        self,
        direction: str,
        host: str,
        first_port: int,
        last_port: int,
        transports: tuple[str, ...],
        networks: tuple[Network, ...] | None,
        file: str | None = None,
        line: int | None = None,
    ) -> None:
        _set(self, "direction", direction)
        _set(self, "host", host)
        _set(self, "first_port", first_port)
        _set(self, "last_port", last_port)
        _set(self, "transports", transports)
        _set(self, "networks", networks)  # None matches every address
        _set(self, "file", file)
        _set(self, "line", line)

    def __str__(self) -> str:
        if (self.first_port, self.last_port) == (0, 65535):
            ports = "*"
        elif self.first_port == self.last_port:
            ports = str(self.first_port)
        else:
            ports = f"{self.first_port}-{self.last_port}"
        text = f"{self.direction} {self.host} {ports} {','.join(self.transports)}"
        return text if self.file is None else f"{text} ({self.file}, line {self.line})"

    def matches(self, direction: str, ip: str, port: int) -> bool:
        """Whether the rule covers a connection to this numeric address and port, or a listener there."""
        return direction == self.direction and self.first_port <= port <= self.last_port and self._covers(ip)

    def _covers(self, ip: str) -> bool:
        if self.networks is None:
            return True
        address = _address(ip)
        if address is None:
            return False
        bits, number = address
        return any(bits == wide and number & mask == network for wide, network, mask in self.networks)


class Settings(Checked):
    """Every setting, checked. Times are microseconds (``*_us``) or milliseconds (``*_ms``), sizes are bytes.

    Numbers, sizes and flags may be given as text, as the environment does ("64K", "1"). Raises
    ConfigError if a value cannot be used. docs/reference/settings.md says what each setting does.
    """

    transports: tuple[str, ...]
    rules: tuple[Rule, ...]
    exports: tuple[tuple[str, str], ...]
    spin_us: float
    look_us: float
    meeting_ms: float
    ring_bytes: int
    direct_min: int
    peers: str
    failover: str
    rdma_rendezvous: str
    stats: str | None
    shown: bool
    trace: bool
    upgrade_after: int | None
    _connect: tuple[tuple[Rule, tuple[str, ...]], ...]
    _listen: tuple[tuple[Rule, tuple[str, ...]], ...]

    _fields = (
        "transports",
        "rules",
        "exports",
        "spin_us",
        "look_us",
        "meeting_ms",
        "ring_bytes",
        "direct_min",
        "peers",
        "failover",
        "rdma_rendezvous",
        "stats",
        "shown",
        "trace",
        "upgrade_after",
    )
    __slots__ = (*_fields, "_connect", "_listen")

    def __init__(
        self,
        *,
        transports: str | Sequence[str] = DEFAULT_TRANSPORTS,
        rules: Iterable[Rule] = (),
        exports: Iterable[tuple[str, str]] = (),
        spin_us: float | str = 50.0,
        look_us: float | str = 2.0,
        meeting_ms: float | str = 10.0,
        ring_bytes: int | str = 1 << 20,
        direct_min: int | str = 64 << 10,
        peers: str = "same-user",
        failover: str = "error",
        rdma_rendezvous: str = "write",
        stats: str | None = None,
        shown: bool | str = True,
        trace: bool | str = False,
        upgrade_after: int | str | None = None,
    ) -> None:
        text = transports if isinstance(transports, str) else ",".join(transports)
        _set(self, "transports", parse_transports(text))
        _set(self, "rules", _rules(rules))
        _set(self, "exports", tuple(exports))
        _set(self, "spin_us", duration("spin_us", spin_us))
        _set(self, "look_us", duration("look_us", look_us))
        _set(self, "meeting_ms", duration("meeting_ms", meeting_ms))
        _set(self, "ring_bytes", _ring_bytes(ring_bytes))
        _set(self, "direct_min", size("direct_min", direct_min))
        _set(self, "peers", choice("peers", peers, PEERS))
        _set(self, "failover", choice("failover", failover, FAILOVER))
        _set(self, "rdma_rendezvous", choice("rdma_rendezvous", rdma_rendezvous, RENDEZVOUS))
        _set(self, "stats", stats or None)
        _set(self, "shown", flag("shown", shown))
        _set(self, "trace", flag("trace", trace))
        _set(self, "upgrade_after", _calls("upgrade_after", upgrade_after))
        # a rule may name more than the default, which leaves these out for whoever did not ask
        allowed = KNOWN_TRANSPORTS if self.transports == DEFAULT_TRANSPORTS else self.transports
        narrowed = [(rule, tuple(name for name in rule.transports if name in allowed)) for rule in self.rules]
        _set(self, "_connect", tuple(pair for pair in narrowed if pair[0].direction == "connect"))
        _set(self, "_listen", tuple(pair for pair in narrowed if pair[0].direction == "listen"))

    def paths_for(self, direction: str, ip: str, port: int) -> tuple[tuple[str, ...], Rule | None]:
        """The paths to try, best first, and the rule that chose them, or None. The last path is "tcp".

        ``direction`` is "connect" or "listen", ``ip`` a numeric address. Rules choose among the
        transports of this object: a path that FASTSOCK_TRANSPORTS leaves out stays out.
        """
        rules = self._connect if direction == "connect" else self._listen
        for rule, paths in rules:
            if rule.matches(direction, ip, port):
                return paths, rule
        return self.transports, None


_set = object.__setattr__


def parse_transports(
    text: str,
    known: Sequence[str] = KNOWN_TRANSPORTS,
    *,
    default: Sequence[str] = DEFAULT_TRANSPORTS,
    file: str | None = None,
    line: int | None = None,
) -> tuple[str, ...]:
    """Read ``shm,tcp`` (these, in this order) or ``^shm`` (all of ``default`` but these).

    The answer always ends in "tcp": every connection can stay on that path. Paths written after
    "tcp" would never be reached, so they are dropped. Raises ConfigError if a name is no path, or
    if ``text`` leaves "tcp" out. ``file`` and ``line`` go into the error.
    """
    stripped = text.strip()
    excluding = stripped.startswith("^")
    names = [name.strip().lower() for name in stripped[1 if excluding else 0 :].split(",")]
    for name in names:
        if name not in known:
            what = f"{name!r} is no path" if name else f"a path's name is missing in {text!r}"
            advice = f"write some of {', '.join(known)}, separated by commas, or ^ before those to leave out"
            raise ConfigError(f"{what}; {advice}", file=file, line=line)
    if not excluding:
        ordered = list(dict.fromkeys(names))
        end = ordered.index(LAST_RESORT) if LAST_RESORT in ordered else len(ordered)
        return (*ordered[:end], LAST_RESORT)
    if LAST_RESORT in names:
        advice = "every connection must be able to stay on it; leave out others, or write the ones that you want"
        raise ConfigError(f"tcp cannot be left out: {advice}", file=file, line=line)
    return (*(name for name in default if name not in names and name != LAST_RESORT), LAST_RESORT)


def parse_rules(text: str, *, file: str = "rules", default: Sequence[str] = DEFAULT_TRANSPORTS) -> tuple[Rule, ...]:
    """Read a rules file's text. Host names are resolved now, to all their addresses.

    Raises ConfigError if a line is no rule or a host is unknown. The error names the line.
    """
    rules = []
    for number, line in enumerate(text.split("\n"), 1):
        content = line.partition("#")[0].strip()
        if content and content.split(None, 1)[0].lower() != "export":
            rules.append(_parse_rule(content, file, number, default))
    return tuple(rules)


def parse_exports(text: str, *, file: str = "rules") -> tuple[tuple[str, str], ...]:
    """The lines of a rules file's text that say where an object of fastsock.rmi is: pairs of a name and an address.

    Raises ConfigError if such a line has not both. fastsock.rmi reads the address when it needs it.
    """
    exports = []
    for number, line in enumerate(text.split("\n"), 1):
        fields = line.partition("#")[0].split()
        if fields and fields[0].lower() == "export":
            if len(fields) != 3 or not fields[2].startswith(("rmi:", "rmis:")):
                raise ConfigError("write export name rmi://host:port/name", file=file, line=number)
            exports.append((fields[1], fields[2]))
    return tuple(exports)


def load_rules(path: str, *, default: Sequence[str] = DEFAULT_TRANSPORTS) -> tuple[Rule, ...]:
    """Read a rules file. Raises ConfigError if it cannot be read or a line is no rule."""
    return parse_rules(_text_of(path), file=path, default=default)


def _text_of(path: str) -> str:
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or str(error)
        advice = "correct FASTSOCK_CONFIG or --config, or leave it unset"
        raise ConfigError(f"the rules file cannot be read ({why}); {advice}", file=path) from error


def _check_report(path: str) -> None:
    """Raises ConfigError where the report of the end could not be written. It makes no file."""
    if path == "-":
        return
    folder = os.path.dirname(os.path.abspath(path))
    if os.path.isdir(path):
        why = "it is a folder"
    elif os.path.exists(path):
        why = "" if os.access(path, os.W_OK) else "this user may not write it"
    elif not os.path.isdir(folder):
        why = f"there is no folder {folder}"
    else:
        why = "" if os.access(folder, os.W_OK | os.X_OK) else f"this user may not write in {folder}"
    if why:
        advice = "correct FASTSOCK_STATS or --stats, or leave it unset"
        raise ConfigError(f"the statistics cannot be written to {path}: {why}; {advice}")


def _parse_rule(content: str, file: str, line: int, default: Sequence[str]) -> Rule:
    fields = content.split(None, 3)
    if len(fields) < 4:
        raise ConfigError(f"{content!r} is no rule; write {_RULE_FORM}", file=file, line=line)
    direction, host, ports, paths = fields
    direction = direction.lower()
    if direction not in ("connect", "listen"):
        raise ConfigError(f"a rule starts with connect or listen, not {direction!r}", file=file, line=line)
    first, last = _parse_ports(ports, file, line)
    transports = parse_transports(paths, default=default, file=file, line=line)
    return Rule(direction, host, first, last, transports, _parse_host(host, file, line), file, line)


def _parse_ports(text: str, file: str, line: int) -> tuple[int, int]:
    if text == "*":
        return 0, 65535
    low, dash, high = text.partition("-")
    parts = (low, high) if dash else (low, low)
    if not all(part.isascii() and part.isdigit() and len(part) <= 5 for part in parts):
        raise ConfigError(f"{text!r} is no port; write a number, first-last, or *", file=file, line=line)
    first, last = (int(part) for part in parts)
    if not first <= last <= 65535:
        raise ConfigError(f"ports {text} are out of order or above 65535", file=file, line=line)
    return first, last


def _parse_host(text: str, file: str, line: int) -> tuple[Network, ...] | None:
    if text == "*":
        return None
    host, slash, prefix = text.partition("/")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    if not slash:
        single = _address(host)
        addresses = [single] if single is not None else _resolve(host, file, line)
        return tuple((bits, number, (1 << bits) - 1) for bits, number in addresses)
    full = _raw_address(host)
    if full is None:
        raise ConfigError(f"{host!r} is no address; only a numeric one takes a /prefix", file=file, line=line)
    bits, number = full
    if not (prefix.isascii() and prefix.isdigit() and len(prefix) <= 3 and int(prefix) <= bits):
        raise ConfigError(f"/{prefix} is no prefix; write a number from 0 to {bits}", file=file, line=line)
    length = int(prefix)
    if bits == 128 and length >= 96 and number >> 32 == _MAPPED:
        bits, number, length = 32, number & 0xFFFFFFFF, length - 96
    mask = ((1 << length) - 1) << (bits - length)
    return ((bits, number & mask, mask),)


_MAPPED = 0xFFFF  # the upper 96 bits of an IPv4 address written as IPv6, ::ffff:a.b.c.d


def _raw_address(ip: str) -> tuple[int, int] | None:
    import _socket  # not `socket`, which fastsock may have patched

    # inet_pton raises ValueError for a null character, OSError for anything else that is no address.
    try:
        if ":" in ip:
            return 128, int.from_bytes(_socket.inet_pton(_socket.AF_INET6, ip.partition("%")[0]), "big")
        return 32, int.from_bytes(_socket.inet_pton(_socket.AF_INET, ip), "big")
    except (OSError, ValueError):
        return None


def _address(ip: str) -> tuple[int, int] | None:
    """Bits and value of a numeric address, or None. IPv4 and the same address as mapped IPv6 give the same."""
    address = _raw_address(ip)
    if address is not None and address[0] == 128 and address[1] >> 32 == _MAPPED:
        return 32, address[1] & 0xFFFFFFFF
    return address


def _resolve(host: str, file: str, line: int) -> list[tuple[int, int]]:
    import _socket

    try:
        answers = _socket.getaddrinfo(host, None, 0, _socket.SOCK_STREAM)
    except (OSError, ValueError) as error:
        advice = "write a host that resolves here, a numeric address, or *"
        raise ConfigError(f"host {host!r} is unknown ({error}); {advice}", file=file, line=line) from error
    addresses = (_address(str(answer[4][0])) for answer in answers)
    return list(dict.fromkeys(address for address in addresses if address is not None))


def _rules(value: Iterable[Rule]) -> tuple[Rule, ...]:
    rules = tuple(value)
    if not all(isinstance(rule, Rule) for rule in rules):
        raise ConfigError("rules holds something that is no Rule; use fastsock.config.load_rules or parse_rules")
    return rules


def duration(name: str, value: object) -> float:
    """The value of a setting that is a time, in the setting's unit. Raises ConfigError unless 0 to 1,000,000."""
    form = "a number from 0 to 1000000"
    try:
        number = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        raise ConfigError(f"{name} is {value!r}; write {form}") from None
    if not 0 <= number <= 1_000_000:  # also refuses not-a-number
        raise ConfigError(f"{name} is {value!r}; write {form}")
    return number


def size(name: str, value: object) -> int:
    """The value of a setting that is a number of bytes; "64K" is 65536. Raises ConfigError if it is no such number."""
    form = "a number of bytes, not negative, as 65536 or 64K"
    unit = 1
    if isinstance(value, str) and value.strip()[-1:].lower() in _UNITS:
        value = value.strip()
        unit = _UNITS[value[-1].lower()]
        value = value[:-1]
    try:
        number = unit * (int(value) if isinstance(value, str) else index(value))  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        raise ConfigError(f"{name} is {value!r}; write {form}") from None
    if not 0 <= number < 1 << 62:
        raise ConfigError(f"{name} is {value!r}; write {form}")
    return number


def _calls(name: str, value: object) -> int | None:
    """A number of calls, or None for "pays": as many as make it pay."""
    if value is None or str(value).strip() == "pays":
        return None
    try:
        number = int(value) if isinstance(value, str) else index(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        number = -1
    if not 0 <= number < 1 << 31:
        raise ConfigError(f"{name} is {value!r}; write a number of calls, or pays")
    return number


def _ring_bytes(value: object) -> int:
    number = size("ring_bytes", value)
    if number & (number - 1) or not SMALLEST_RING <= number <= LARGEST_RING:
        advice = f"write a power of two from {SMALLEST_RING} to {LARGEST_RING}, as 1048576 or 1M"
        raise ConfigError(f"ring_bytes is {value!r}; {advice}")
    return number


def choice(name: str, value: object, choices: Sequence[str]) -> str:
    text = str(value).strip()
    if text not in choices:
        raise ConfigError(f"{name} is {value!r}; write one of {', '.join(choices)}")
    return text


def flag(name: str, value: object) -> bool:
    text = str(value).strip().lower()
    if text not in _YES + _NO:
        raise ConfigError(f"{name} is {value!r}; write 1 or 0")
    return text in _YES


_VARIABLES = {
    "FASTSOCK_TRANSPORTS": "transports",
    "FASTSOCK_SPIN_US": "spin_us",
    "FASTSOCK_LOOK_US": "look_us",
    "FASTSOCK_MEETING_MS": "meeting_ms",
    "FASTSOCK_RING_BYTES": "ring_bytes",
    "FASTSOCK_DIRECT_MIN": "direct_min",
    "FASTSOCK_PEERS": "peers",
    "FASTSOCK_FAILOVER": "failover",
    "FASTSOCK_RDMA_RENDEZVOUS": "rdma_rendezvous",
    "FASTSOCK_STATS": "stats",
    "FASTSOCK_SHOWN": "shown",
    "FASTSOCK_TRACE": "trace",
    "FASTSOCK_UPGRADE_AFTER": "upgrade_after",
}
LAUNCHED = "FASTSOCK_LAUNCHED"  # the process that the launcher became


def from_environment(environ: Mapping[str, str] | None = None) -> Settings:
    """The settings of the FASTSOCK_ variables. An empty variable counts as unset.

    Raises ConfigError if a value, the rules file or the report's file cannot be used.
    """
    environ = os.environ if environ is None else environ
    found = Settings().reading(_VARIABLES, environ)
    if found.stats is not None:
        _check_report(found.stats)
    path = environ.get("FASTSOCK_CONFIG", "")
    if not path:
        return found
    text = _text_of(path)
    rules = parse_rules(text, file=path, default=found.transports)
    return found.replace(rules=rules, exports=parse_exports(text, file=path))


def _at_first() -> Settings:
    """The settings of this process's environment. Misspelt variables are warned of, once for it and its children."""
    variables.warn_of_unknown()
    return from_environment()


in_force = InForce(_at_first)
settings: Callable[[], Settings] = in_force.settings
reload: Callable[[], Settings] = in_force.reload
configure: Callable[..., Settings] = in_force.configure
