#!/bin/sh
# with_postgres.sh COMMAND: runs it beside a fresh server of PostgreSQL, in a new folder, as a user that is not root.
# PGHOST and PGPORT name the server, also to itself; BIN is the folder of the installed programs.
set -e
if [ "$(id -u)" = 0 ]; then
    exec setpriv --reuid=postgres --regid=postgres --init-groups "$0" "$@"
fi
BIN=$(ls -d /usr/lib/postgresql/*/bin | tail -1)
FOLDER=$(mktemp -d)
export BIN PGHOST=127.0.0.1 PGPORT=$((20000 + $$ % 10000)) PGUSER=postgres
ended() {
    "$BIN/pg_ctl" -D "$FOLDER/data" -m immediate stop >"$FOLDER/stop" 2>&1 || true
    cd /
    rm -rf "$FOLDER"
}
trap ended EXIT
cd "$FOLDER"
"$BIN/initdb" -D data -U "$PGUSER" -A trust -E UTF8 --locale=C --no-sync >initdb
"$BIN/pg_ctl" -D data -w -l log -o "-p $PGPORT -k $FOLDER -c listen_addresses=$PGHOST -c fsync=off" start >start
"$@"
"$BIN/pg_ctl" -D data -m fast stop >stop
