"""A container without a container engine: namespaces of its own, then the command in this place.

    python sandbox.py TOLD.json

It has a root of its own, in which folders can be made that this machine lacks; mounts that nobody
else sees; and a network with nothing but its loopback, so that every pod may listen on the same
port. Two sockets lead out of it and in: what is sent to the API server's port in there comes out at
`way_out`, and what is sent to `way_in` comes to the port of the pod.

Root becomes the user that the pod names. Anybody else gets a user namespace, in which their own
user goes by that number; where that is not allowed either, it ends with `NO_NAMESPACES`.
"""

from __future__ import annotations

import ctypes
import fcntl
import json
import os
import socket
import struct
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

NO_NAMESPACES = 77
IS_ROOT = os.geteuid() == 0
EMPTY = {"run"}
"""What the root of a container has none of, though the machine has."""
SHARED = {"proc", "dev", "sys"}

_NEW_MOUNTS, _NEW_USERS, _NEW_NETWORK = 0x00020000, 0x10000000, 0x40000000
_READ_ONLY, _REMOUNT, _BIND, _RECURSIVE, _PRIVATE = 1, 32, 4096, 16384, 1 << 18
_NO_NEW_PRIVILEGES = 38
_GET_FLAGS, _SET_FLAGS, _UP = 0x8913, 0x8914, 1
_libc = ctypes.CDLL(None, use_errno=True)


def main(told: dict[str, Any]) -> None:
    """Sets everything up and becomes the command."""
    _enter_namespaces(told["user"], told["group"])
    _raise_loopback()
    _start_relays(told["api_port"], told["way_out"], told["pod_port"], told["way_in"])
    layers = _enter_root(Path(told["folder"]), told["volumes"])
    if IS_ROOT:
        for folder in {it for path in told["reached"] for it in Path(path).parents}:
            folder.chmod(folder.stat().st_mode | 0o011)
    if told["read_only"]:
        for place in layers:
            _mount("none", place, "", _BIND | _REMOUNT | _READ_ONLY)
    if IS_ROOT:
        os.setgroups([])
        os.setgid(told["group"])
        os.setuid(told["user"])
    _libc.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0)
    os.execvpe(told["command"][0], told["command"], told["environment"])


def _enter_namespaces(user: int, group: int) -> None:
    own_user, own_group = os.geteuid(), os.getegid()
    if _libc.unshare(_NEW_MOUNTS | _NEW_NETWORK | (0 if IS_ROOT else _NEW_USERS)):
        print(f"no namespaces: {os.strerror(ctypes.get_errno())}", file=sys.stderr)
        sys.exit(NO_NAMESPACES)
    if not IS_ROOT:
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"{user} {own_user} 1")
        Path("/proc/self/gid_map").write_text(f"{group} {own_group} 1")
    _mount("none", "/", "", _RECURSIVE | _PRIVATE)


def _raise_loopback() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        asked = struct.pack("16sh14x", b"lo", 0)
        _, flags = struct.unpack("16sh14x", fcntl.ioctl(any_socket, _GET_FLAGS, asked))
        fcntl.ioctl(any_socket, _SET_FLAGS, struct.pack("16sh14x", b"lo", flags | _UP))


def _enter_root(folder: Path, volumes: dict[str, str]) -> list[Path]:
    """Has a root of its own from here on, volumes in their places; what of it can be written to."""
    root = folder / "root"
    root.mkdir()
    _mount("tmpfs", root, "tmpfs", 0)
    layers = [it for it in Path("/").iterdir() if _laid(it, root / it.name, folder)]
    # What a volume holds may change later; by their numbers they are found from in there too.
    opened = {place: os.open(source, os.O_PATH) for place, source in volumes.items()}
    os.chroot(root)
    os.chdir("/")
    for place, number in opened.items():
        Path(place).mkdir(parents=True, exist_ok=True)
        _mount(f"/proc/self/fd/{number}", place, "", _BIND)
        os.close(number)
    return [Path("/"), *layers]


def _laid(there: Path, here: Path, folder: Path) -> bool:
    """Puts what this machine has there into the new root; whether it is a layer over it.

    Writing to a layer changes nothing on the machine. What cannot be one is the machine's own.
    """
    if there.is_symlink():
        here.symlink_to(there.readlink())
    elif there.is_dir():
        here.mkdir()
        if there.name in EMPTY:
            return False
        with suppress(OSError):
            if there.name not in SHARED:
                _overlay(there, here, folder)
                return True
        with suppress(OSError):
            _mount(str(there), here, "", _BIND | _RECURSIVE)
    return False


def _overlay(there: Path, here: Path, folder: Path) -> None:
    upper, work = (folder / name / there.name for name in ("upper", "work"))
    upper.mkdir(parents=True)
    work.mkdir(parents=True)
    layers = f"lowerdir={there},upperdir={upper},workdir={work}"
    _mount("overlay", here, "overlay", 0, layers if IS_ROOT else f"{layers},userxattr")


def _mount(source: str, place: str | Path, kind: str, flags: int, data: str = "") -> None:
    words = [os.fsencode(it) for it in (source, place, kind, data)]
    if _libc.mount(words[0], words[1], words[2], ctypes.c_ulong(flags), words[3]):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), os.fspath(place))


# -- the way out and in --------------------------------------------------------------------------


def _start_relays(api_port: int, way_out: str, pod_port: int, way_in: str) -> None:
    """A process that hands on what is sent, as long as the command runs."""
    api, entrance = socket.create_server(("127.0.0.1", api_port)), socket.socket(socket.AF_UNIX)
    entrance.bind(way_in)
    entrance.listen()
    # A command that is somebody else's may not signal us when it dies; its end of a pipe closes.
    alive, lifeline = os.pipe()
    if os.fork():
        for number in (api.detach(), entrance.detach(), alive):
            os.close(number)
        os.set_inheritable(lifeline, True)
        return
    os.close(lifeline)
    threading.Thread(target=_end_with, args=(alive,), daemon=True).start()
    nowhere = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(nowhere, number)
    threading.Thread(target=relay, args=(api, lambda: to_socket(way_out)), daemon=True).start()
    relay(entrance, lambda: socket.create_connection(("127.0.0.1", pod_port)))


def _end_with(alive: int) -> None:
    """Ends this process once nobody holds the other end of the pipe."""
    os.read(alive, 1)
    os._exit(0)


def to_socket(path: str) -> socket.socket:
    """A connection to whoever listens there."""
    there = socket.socket(socket.AF_UNIX)
    there.connect(path)
    return there


def relay(listener: socket.socket, connect: Callable[[], socket.socket]) -> None:
    """Hands on what comes to the listener until that is closed."""
    while True:
        try:
            here, _ = listener.accept()
        except OSError:
            return
        try:
            there = connect()
        except OSError:
            here.close()
            continue
        threading.Thread(target=_join, args=(here, there), daemon=True).start()


def _join(here: socket.socket, there: socket.socket) -> None:
    """Hands on what either side says until both have said all."""
    with here, there:
        back = threading.Thread(target=_pump, args=(there, here), daemon=True)
        back.start()
        _pump(here, there)
        back.join()


def _pump(one: socket.socket, other: socket.socket) -> None:
    try:
        while data := one.recv(1 << 16):
            other.sendall(data)
        other.shutdown(socket.SHUT_WR)
    except OSError:
        for each in (one, other):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)


if __name__ == "__main__":
    main(json.loads(Path(sys.argv[1]).read_text()))
