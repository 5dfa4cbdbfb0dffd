# What the guest is made of, downloaded and built once in a folder outside the repository. Sourced by `run`.
#
#   $userland              RDMA's libraries, tools and headers, from the release that this machine runs; unpacked only
#   $cache/kernel-K        Debian's kernel K and those of its modules that the guest can use; unpacked only
#   $cache/kernel-K/*.ko   modules that Debian does not build
#
# `prepare NAME ARGUMENTS` makes what is not there. Two runs at once wait for each other. A folder appears whole or not at all.

cache=${FASTSOCK_LAB:-${XDG_CACHE_HOME:-$HOME/.cache}/fastsock-lab}
site=https://deb.debian.org/debian

packages="rdma-core ibverbs-providers libibverbs1 libibverbs-dev librdmacm1 librdmacm-dev rdmacm-utils ibverbs-utils perftest
 python3-pyverbs libibumad3 libnl-3-200 libnl-route-3-200 libpci3 iproute2 kmod libkmod2 libbpf1 libmnl0 libelf1
 libxtables12 busybox-static xz-utils zstd"
modules_of_the_root="virtio_pci 9pnet_virtio 9p overlay virtio_console"
userland=$cache/userland-$(echo "$packages" | cksum | cut -d' ' -f1)

wrong() { echo "lab: $*" >&2; exit 125; }
cannot() { echo "lab: cannot run here: $*" >&2; exit 77; }

prepare() {
    case $1 in
        userland) [ ! -d "$userland" ] || return 0 ;;
        kernel) [ ! -d "$cache/kernel-$2" ] || return 0 ;;
        module) [ ! -e "$cache/kernel-$3/$2.ko" ] || return 0 ;;
    esac
    local name
    [ "$(uname -m)" = x86_64 ] || cannot "the guest is x86_64, this machine is $(uname -m)"
    for name in apt-get apt-cache dpkg-deb flock; do
        command -v $name > /dev/null || cannot "no $name: the lab's packages are Debian's"
    done
    . /etc/os-release
    [ "$ID" = debian ] || cannot "the lab's packages are Debian's, and this machine runs $ID"
    mkdir -p "$cache" || cannot "no folder $cache: set FASTSOCK_LAB to one that can be written"
    case $cache in *[\ ,]*) cannot "QEMU takes no space and no comma in $cache: set FASTSOCK_LAB" ;; esac
    exec 9> "$cache/lock"
    flock 9
    local status=0
    # the fetching is a process of its own, so that `exit` in it ends no more than it
    (
        exec 9>&-
        fresh=$(mktemp -d "$cache/fresh.XXXXXX") || exit
        trap 'rm -rf "$fresh"' EXIT
        chmod 755 "$fresh"
        "fetch_$@"
    ) || status=$?
    exec 9>&-
    [ "$status" = 0 ] || exit "$status"
}

# apt SUITES...: sets `apt`, apt's options for these suites; the machine's own lists stay as they are.
use_suites() {
    local folder
    folder=$cache/apt-$(echo "$*" | tr ' ' +)
    mkdir -p "$folder/lists/partial" "$folder/cache/archives/partial"
    local mirror
    mirror=$(apt-get indextargets --format '$(REPO_URI)' | grep -v security | sort -u | head -n 1) # this machine's own
    printf "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] ${mirror:-$site} %s main\n" "$@" > "$folder/sources.list"
    apt=(
        -q -o "Dir::Etc::sourcelist=$folder/sources.list" -o Dir::Etc::sourceparts=- -o "Dir::State::lists=$folder/lists"
        -o "Dir::Cache=$folder/cache" -o Acquire::Retries=2 -o Acquire::http::Timeout=20 -o Acquire::https::Timeout=20
        -o APT::Sandbox::User=root
    )
    quietly timeout "$(time_left)" apt-get "${apt[@]}" --error-on=any update || cannot "no package lists of $* from ${mirror:-$site}"
}

deadline=900 # seconds after the start, for all downloads together
time_left() { echo $((deadline > SECONDS ? deadline - SECONDS : 1)); }

quietly() { "$@" > "$fresh/log" 2>&1 || { tail -n 5 "$fresh/log" >&2; return 1; }; }

download() { # FOLDER PACKAGES...: unpacks them in FOLDER
    local folder=$1 file
    shift
    mkdir -p "$fresh/files" "$folder"
    (cd "$fresh/files" && quietly timeout "$(time_left)" apt-get "${apt[@]}" download "$@") || cannot "not downloaded: $*"
    for file in "$fresh"/files/*.deb; do dpkg-deb -x "$file" "$folder" || cannot "not unpacked: $file"; done
    rm -rf "$fresh/files"
    # A real /lib would hide the machine's link to usr/lib.
    for file in bin sbin lib lib64; do
        if [ -d "$folder/$file" ]; then
            mkdir -p "$folder/usr/$file"
            cp -a "$folder/$file/." "$folder/usr/$file/"
            rm -rf "${folder:?}/$file"
        fi
    done
}

fetch_userland() {
    echo "lab: downloading RDMA's libraries and tools, 10 MB" >&2
    use_suites "$VERSION_CODENAME"
    # shellcheck disable=SC2086
    download "$fresh/tree" $packages
    rm -rf "$fresh/tree/usr/share/doc" "$fresh/tree/usr/share/man" "$fresh/tree/usr/share/locale"
    mv "$fresh/tree" "$userland"
}

fetch_kernel() {
    local kernel=$1 tree=$fresh/tree version names
    case $kernel in
        5.10) use_suites bullseye ;;
        6.1) use_suites bookworm ;;
        6.12) use_suites bookworm-backports ;;
        7.*) use_suites trixie-backports ;;
        *) wrong "--kernel $kernel: 5.10, 6.1, 6.12, or 7.2 and newer" ;;
    esac
    # since 7.1 the image and its modules are packages of their own, and linux-image is empty
    version=$(apt-cache "${apt[@]}" pkgnames linux-image- | sed -nE "s/^linux-image-($kernel\.[0-9][-+.0-9a-z]*)-amd64$/\1/p" \
        | grep -vE 'rt|cloud' | sort -V | tail -n 1)-amd64
    [ "$version" != -amd64 ] || cannot "Debian has no kernel $kernel any more: try another --kernel"
    names=linux-image-$version
    [ -z "$(apt-cache "${apt[@]}" pkgnames "linux-binary-$version")" ] || names="linux-binary-$version linux-modules-$version"
    echo "lab: downloading Debian's kernel $version, 70 MB" >&2
    # shellcheck disable=SC2086
    download "$tree" $names
    version=$(basename "$tree"/usr/lib/modules/*)
    without_other_drivers "$tree/usr/lib/modules/$version/kernel"
    unpacked_image "$tree"/boot/vmlinuz-* "$tree/usr/lib/modules/$version/vmlinuz" > "$tree/vmlinux"
    [ -s "$tree/vmlinux" ] || wrong "the kernel's image is packed in a way that the lab does not know"
    rm -rf "$tree/boot" "$tree/usr/lib/modules/$version/vmlinuz"
    kmod_as depmod -b "$tree/usr" "$version" 2> "$fresh/log" || wrong "depmod failed: $(tail -n 1 "$fresh/log")"
    boot_modules "$tree" "$version"
    echo "$version" > "$tree/version"
    mv "$tree" "$cache/kernel-$kernel"
}

kmod_as() (
    export LD_LIBRARY_PATH=$userland/usr/lib/x86_64-linux-gnu
    exec -a "$1" "$userland/usr/bin/kmod" "${@:2}"
)
busybox() { "$userland/usr/bin/busybox" "$@"; }
zstd() { "$userland/usr/bin/zstd" "$@"; }
xz() { "$userland/usr/bin/xz" "$@"; }

without_other_drivers() (
    cd "$1" || exit
    rm -rf sound drivers/net/{wireless,ethernet,usb,can,wwan,ieee802154,arcnet,fddi,hamradio}
    find drivers -mindepth 1 -maxdepth 1 \
        ! -name infiniband ! -name net ! -name virtio ! -name char ! -name crypto -exec rm -rf {} +
)

# The image is unpacked here, once: the emulated processor would spend seconds on it at each boot.
unpacked_image() {
    local image offset
    for image in "$@"; do [ ! -e "$image" ] || break; done
    offset=$(LC_ALL=C grep -obUaPm1 '\xfd7zXZ\x00' "$image" | head -n 1 | cut -d: -f1)
    if [ "$offset" ]; then
        tail -c "+$((offset + 1))" "$image" | xz --single-stream -dcq 2> /dev/null
    else
        offset=$(LC_ALL=C grep -obUaPm1 '\x28\xb5\x2f\xfd' "$image" | head -n 1 | cut -d: -f1)
        tail -c "+$((offset + 1))" "$image" | zstd -dcq 2> /dev/null
    fi
}

# The modules that mount the root, uncompressed, in the order of loading.
boot_modules() {
    local tree=$1 file name
    mkdir "$tree/boot-modules"
    # shellcheck disable=SC2086
    for name in $modules_of_the_root; do
        kmod_as modprobe -d "$tree/usr" -S "$2" --show-depends "$name"
    done 2> /dev/null | awk '$1 == "insmod" && !seen[$2]++ {print $2}' | while read -r file; do
        name=$(basename "$file")
        name=${name%.xz}
        name=${name%.zst}
        case $file in
            *.xz) xz -dc "$file" ;;
            *.zst) zstd -dcq "$file" ;;
            *) cat "$file" ;;
        esac > "$tree/boot-modules/$name"
        echo "$name" >> "$tree/boot-modules/order"
    done
}

# initramfs KERNEL: prints the file, which is made anew when inside/init changes.
initramfs() {
    local kernel=$1 file folder
    file=$cache/initramfs-$(cat "$cache/kernel-$kernel/version")-$(cksum < "$lab/inside/init" | cut -d' ' -f1)
    if [ ! -e "$file" ]; then
        folder=$(mktemp -d "$cache/initramfs.XXXXXX")
        mkdir -p "$folder"/{bin,proc,sys,dev,host,userland,kernel,job,over,new}
        cp "$userland/usr/bin/busybox" "$folder/bin"
        install -m 755 "$lab/inside/init" "$folder/init"
        cp -r "$cache/kernel-$kernel/boot-modules" "$folder/modules"
        (cd "$folder" && find . | busybox cpio -o -H newc) > "$folder.cpio" 2> /dev/null
        mv "$folder.cpio" "$file"
        rm -rf "$folder"
    fi
    echo "$file"
}

module() { echo "$cache/kernel-$2/$1.ko"; }

fetch_module() {
    [ "$(id -u)" = 0 ] || cannot "Debian does not build $1.ko, and building it needs root"
    "$lab/build-module" "$1" "$2" "$(cat "$cache/kernel-$2/version")" "$fresh/$1.ko"
    case $? in
        0) mv "$fresh/$1.ko" "$(module "$1" "$2")" ;;
        77) cannot "the compiler or the source of kernel $2 was not installed" ;;
        *) wrong "$1.ko was not built" ;;
    esac
}
