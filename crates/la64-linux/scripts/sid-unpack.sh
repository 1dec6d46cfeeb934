#!/bin/sh
# [SUITE=NAME] sid-unpack.sh DIR ARCH PACKAGE...
#
# Unpacks Debian packages of one architecture, with all they depend on, into DIR/ARCH: those of
# suite NAME, or sid. Nothing is installed and no maintainer script runs. The mirror is the one this
# machine's apt is configured with; only suite and architecture change. Writes DIR/ARCH.versions, one package a line.
set -eu
dir=${1:?usage: sid-unpack.sh DIR ARCH PACKAGE...}
# apt takes relative folders for folders of its own.
case $dir in /*) ;; *) dir=$PWD/$dir ;; esac
command -v apt-get >/dev/null || { echo "apt-get is missing: this script needs Debian's" >&2; exit 3; }
mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 'Origin: Debian' \
    'Component: main' | grep -v security | head -n 1)
[ -n "$mirror" ] || mirror=$(sed -n 's/^URIs: *//p' /etc/apt/sources.list.d/debian.sources | head -n 1)
[ -n "$mirror" ] || { echo "no Debian mirror in this machine's apt configuration" >&2; exit 3; }
keyring=/usr/share/keyrings/debian-archive-keyring.gpg

unpack() {
    arch=$1
    shift
    work=$dir/apt-$arch
    mkdir -p "$work/lists/partial" "$work/archives/partial" "$dir/$arch"
    : >"$work/status"
    echo "deb [arch=$arch signed-by=$keyring] $mirror ${SUITE:-sid} main" >"$work/sources.list"
    apt() {
        apt-get -q -o Dir::Etc::sourcelist="$work/sources.list" -o Dir::Etc::sourceparts=- \
            -o Dir::State::lists="$work/lists" -o Dir::State::status="$work/status" \
            -o Dir::Cache="$work" -o Dir::Cache::archives="$work/archives" \
            -o APT::Architecture="$arch" -o APT::Architectures="$arch" \
            -o APT::Install-Recommends=false -o Debug::NoLocking=true \
            -o APT::Sandbox::User=root "$@"
    }
    apt update
    apt install -y --download-only "$@"
    for deb in "$work"/archives/*.deb; do
        dpkg-deb -x "$deb" "$dir/$arch"
    done
    # Older packages have files outside usr, where an installed system has links.
    for name in bin sbin lib lib32 lib64; do
        [ -d "$dir/$arch/$name" ] && [ ! -L "$dir/$arch/$name" ] || continue
        mkdir -p "$dir/$arch/usr/$name"
        cp -a "$dir/$arch/$name/." "$dir/$arch/usr/$name/"
        rm -r "$dir/$arch/$name"
        ln -s "usr/$name" "$dir/$arch/$name"
    done
    for deb in "$work"/archives/*.deb; do
        dpkg-deb -W --showformat '${Package} ${Version}\n' "$deb"
    done | sort >"$dir/$arch.versions"
}

shift
unpack "$@"
