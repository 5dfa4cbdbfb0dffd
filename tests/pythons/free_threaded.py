"""A Python without the GIL, which Debian does not package: built from its source packages."""

from __future__ import annotations

from pathlib import Path

import folder

TO_BUILD = (
    "make", "pkg-config", "xz-utils", "dpkg-dev", "libssl-dev", "zlib1g-dev", "libffi-dev", "libbz2-dev", "liblzma-dev",
    "libsqlite3-dev",
)  # fmt: skip
# The newest that the mirror has the source of: unstable's, else that of the stable release.
_SOURCES = """
mirror=$(sed -n 's/^deb \\([^ ]*\\) .*/\\1/p' /etc/apt/sources.list | head -n 1)
printf 'deb-src %s sid main\\ndeb-src %s stable main\\n' "$mirror" "$mirror" > /etc/apt/sources.list.d/source.list
export DEBIAN_FRONTEND=noninteractive
# a mirror may stand still: its signature holds beyond the date of its release file
apt-get update -q -o Acquire::Check-Valid-Until=false && apt-get install -q -y --no-install-recommends "$@" || exit 1
mkdir -p /opt/source && cd /opt/source
for package in python3.14 python3.13 python3.14/stable python3.13/stable; do
    if apt-get source -q --download-only "$package"; then break; fi
done
mkdir -p tree && tar xf python3.*.orig.tar.xz -C tree --strip-components=1
"""
_BUILD = """
cd /opt/source/tree
./configure -q --disable-gil --prefix=/opt/free-threaded && make -s -j "$(nproc)" && make -s install
"""


def build(place: Path) -> tuple[str, str]:
    """Its version, such as "3.13t", and its interpreter in there; built where it is not there yet."""
    binaries = place / "opt/free-threaded/bin"
    if not binaries.exists():
        for script, arguments in ((_SOURCES, TO_BUILD), (_BUILD, ())):
            if folder.run(place, "/", ["sh", "-c", script, "build", *arguments]) != 0:
                raise folder.Unavailable("Python could not be built without the GIL from Debian's source; see above")
    names = sorted(path.name for path in binaries.glob("python3.*t"))
    return names[0].removeprefix("python"), f"/opt/free-threaded/bin/{names[0]}"
