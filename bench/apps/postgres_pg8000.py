"""pg8000, pure Python, beside PostgreSQL, which is not: the connection stays on TCP. The cluster is private."""

from __future__ import annotations

import os
import subprocess
import tempfile
import time

import foreign
import pg8000.native
import program

NOBODY = "nobody"  # PostgreSQL does not run as root


STARTING_UP = "57P03"  # PostgreSQL listens before it can serve


def connected(port: int) -> pg8000.native.Connection:
    while True:
        try:
            return pg8000.native.Connection("bench", host="127.0.0.1", port=port, database="postgres")
        except pg8000.native.DatabaseError as error:
            if error.args[0].get("C") != STARTING_UP:
                raise
            time.sleep(0.05)


def main() -> None:
    options = program.arguments()
    user = NOBODY if os.geteuid() == 0 else None
    initdb = foreign.need("initdb", "/usr/lib/postgresql/*/bin")
    with tempfile.TemporaryDirectory() as folder:
        if user is not None:
            os.chmod(folder, 0o777)  # it is new, and gone soon
        data, port = os.path.join(folder, "data"), foreign.free_port()
        subprocess.run(
            [initdb, "--pgdata", data, "--username", "bench", "--auth", "trust", "--no-sync"],
            check=True, user=user, cwd=folder, stdout=subprocess.DEVNULL,
        )  # fmt: skip
        command = [os.path.join(os.path.dirname(initdb), "postgres"), "-D", data, "-p", str(port), "-k", folder]
        with foreign.running([*command, "-h", "127.0.0.1", "-F"], port, options.cores, user=user, cwd=folder):
            connection = connected(port)

            def query(size: int) -> None:
                ((text,),) = connection.run("SELECT repeat('x', :size)", size=size)
                assert len(text) == size

            program.report(
                small=program.rate(lambda: query(program.SMALL), options.seconds),
                large=program.rate(lambda: query(program.LARGE), options.seconds),
            )
            connection.close()


if __name__ == "__main__":
    main()
