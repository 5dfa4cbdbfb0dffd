"""redis-py beside a redis-server, which does not know Python: the connection stays on TCP."""

from __future__ import annotations

import tempfile

import foreign
import program
import redis


def main() -> None:
    options = program.arguments()
    with tempfile.TemporaryDirectory() as folder:
        port = foreign.free_port()
        command = [foreign.need("redis-server"), "--port", str(port), "--bind", "127.0.0.1", "--dir", folder]
        with foreign.running([*command, "--save", "", "--appendonly", "no"], port, options.cores):
            client = redis.Redis(port=port)
            for name, size in (("small", program.SMALL), ("large", program.LARGE)):
                client.set(name, b"x" * size)

            def get(name: str, size: int) -> None:
                assert len(client.get(name)) == size  # type: ignore[arg-type]

            program.report(
                small=program.rate(lambda: get("small", program.SMALL), options.seconds),
                large=program.rate(lambda: get("large", program.LARGE), options.seconds),
            )
            client.close()


if __name__ == "__main__":
    main()
