"""A container without a container engine: enters new namespaces, then becomes the command.

    python sandbox.py SETTINGS.json

The container has its own root filesystem, in which folders can be created that this machine lacks;
its own mounts; and a network with only a loopback interface, so that every pod may listen on the
same port. Two Unix sockets connect it to the outside: connections to the port of the API server in
the container are forwarded to `outbound_socket`, connections to `inbound_socket` to the port of the
pod.

Root becomes the user that the pod names. Other users get a user namespace that maps their user to
that number; where that is not allowed either, the process exits with `NO_NAMESPACES`.
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
"""Folders of the machine that are empty in the container."""
SHARED = {"proc", "dev", "sys"}

_NEW_MOUNTS, _NEW_USERS, _NEW_NETWORK = 0x00020000, 0x10000000, 0x40000000
_READ_ONLY, _REMOUNT, _BIND, _RECURSIVE, _PRIVATE = 1, 32, 4096, 16384, 1 << 18
_NO_NEW_PRIVILEGES = 38
_GET_FLAGS, _SET_FLAGS, _UP = 0x8913, 0x8914, 1
_libc = ctypes.CDLL(None, use_errno=True)


def main(settings: dict[str, Any]) -> None:
    """Sets up the container, then replaces this process by the command."""
    _enter_namespaces(settings["user"], settings["group"])
    _raise_loopback()
    _start_forwarding(
        settings["api_port"],
        settings["outbound_socket"],
        settings["pod_port"],
        settings["inbound_socket"],
    )
    layers = _enter_root(Path(settings["folder"]), settings["volumes"])
    if IS_ROOT:
        for folder in {parent for path in settings["readable"] for parent in Path(path).parents}:
            folder.chmod(folder.stat().st_mode | 0o011)
    if settings["read_only"]:
        for mount_point in layers:
            _mount("none", mount_point, "", _BIND | _REMOUNT | _READ_ONLY)
    if IS_ROOT:
        os.setgroups([])
        os.setgid(settings["group"])
        os.setuid(settings["user"])
    _libc.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0)
    os.execvpe(settings["command"][0], settings["command"], settings["environment"])


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
        request = struct.pack("16sh14x", b"lo", 0)
        _, flags = struct.unpack("16sh14x", fcntl.ioctl(any_socket, _GET_FLAGS, request))
        fcntl.ioctl(any_socket, _SET_FLAGS, struct.pack("16sh14x", b"lo", flags | _UP))


def _enter_root(folder: Path, volumes: dict[str, str]) -> list[Path]:
    """Changes to a new root with the volumes mounted; returns the mounts that are writable."""
    root = folder / "root"
    root.mkdir()
    _mount("tmpfs", root, "tmpfs", 0)
    layers = [path for path in Path("/").iterdir() if _add_to_root(path, root / path.name, folder)]
    # Opened before the chroot: afterwards the source is reached by its file descriptor.
    descriptors = {
        mount_point: os.open(source, os.O_PATH) for mount_point, source in volumes.items()
    }
    os.chroot(root)
    os.chdir("/")
    for mount_point, number in descriptors.items():
        Path(mount_point).mkdir(parents=True, exist_ok=True)
        _mount(f"/proc/self/fd/{number}", mount_point, "", _BIND)
        os.close(number)
    return [Path("/"), *layers]


def _add_to_root(there: Path, here: Path, folder: Path) -> bool:
    """Adds a folder of this machine to the new root; returns whether it is an overlay.

    Writing to an overlay changes nothing on the machine. Where an overlay is not possible, the
    folder of the machine is mounted.
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


def _mount(source: str, mount_point: str | Path, kind: str, flags: int, data: str = "") -> None:
    words = [os.fsencode(word) for word in (source, mount_point, kind, data)]
    if _libc.mount(words[0], words[1], words[2], ctypes.c_ulong(flags), words[3]):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), os.fspath(mount_point))


# -- connections out and in ----------------------------------------------------------------------


def _start_forwarding(
    api_port: int, outbound_socket: str, pod_port: int, inbound_socket: str
) -> None:
    """Starts a process that forwards connections for as long as the command runs."""
    api, inbound = socket.create_server(("127.0.0.1", api_port)), socket.socket(socket.AF_UNIX)
    inbound.bind(inbound_socket)
    inbound.listen()
    # The command may run as another user, so its end is seen by the closing of a pipe.
    pipe_end, keep_open = os.pipe()
    if os.fork():
        for number in (api.detach(), inbound.detach(), pipe_end):
            os.close(number)
        os.set_inheritable(keep_open, True)
        return
    os.close(keep_open)
    threading.Thread(target=_exit_with_pipe, args=(pipe_end,), daemon=True).start()
    devnull = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(devnull, number)
    threading.Thread(
        target=forward, args=(api, lambda: connect_to(outbound_socket)), daemon=True
    ).start()
    forward(inbound, lambda: socket.create_connection(("127.0.0.1", pod_port)))


def _exit_with_pipe(pipe_end: int) -> None:
    """Exits this process once the other end of the pipe is closed."""
    os.read(pipe_end, 1)
    os._exit(0)


def connect_to(path: str) -> socket.socket:
    """A connection to the Unix socket at this path."""
    there = socket.socket(socket.AF_UNIX)
    there.connect(path)
    return there


def forward(listener: socket.socket, connect: Callable[[], socket.socket]) -> None:
    """Forwards the connections of the listener until it is closed."""
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
    """Copies both directions until both are closed."""
    with here, there:
        back = threading.Thread(target=_copy, args=(there, here), daemon=True)
        back.start()
        _copy(here, there)
        back.join()


def _copy(source: socket.socket, target: socket.socket) -> None:
    try:
        while data := source.recv(1 << 16):
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)
    except OSError:
        for side in (source, target):
            with suppress(OSError):
                side.shutdown(socket.SHUT_RDWR)


if __name__ == "__main__":
    main(json.loads(Path(sys.argv[1]).read_text()))
