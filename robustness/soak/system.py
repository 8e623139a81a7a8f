"""System functions for the soak test: processes and their children, memory, descriptors, a small disk. Linux only."""

from __future__ import annotations

import os
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple


class Process(NamedTuple):
    """A process as /proc shows it. `state` is one letter, such as Z for a zombie."""

    pid: int
    parent: int
    state: str
    command: str


def processes() -> list[Process]:
    """All processes of the system."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError, ValueError, IndexError):
            state, parent = (folder / "stat").read_text().rpartition(")")[2].split()[:2]
            command = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            found.append(Process(int(folder.name), int(parent), state, command))
    return found


def children(pid: int) -> list[Process]:
    """The worker processes of a process, sorted by id, without Python's resource tracker."""
    return sorted(each for each in processes() if each.parent == pid and "resource_tracker" not in each.command)


def marked(mark: str) -> list[Process]:
    """Other processes with TRILITH_SOAK=`mark` in their environment, which child processes inherit."""
    wanted, found = f"TRILITH_SOAK={mark}".encode(), []
    for each in processes():
        with suppress(OSError):
            if each.pid != os.getpid() and wanted in Path(f"/proc/{each.pid}/environ").read_bytes().split(b"\0"):
                found.append(each)
    return found


def usage(pid: int) -> tuple[float, int] | None:
    """Memory in MB and open descriptors of a process; None if it is gone."""
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") / 1e6, len(os.listdir(f"/proc/{pid}/fd"))
    except (OSError, ValueError, IndexError):
        return None


def mount(folder: Path, megabytes: int) -> bool:
    """Mounts a tmpfs of this size at a folder. Returns whether this worked; it needs root."""
    folder.mkdir(parents=True, exist_ok=True)
    line = ["mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "tmpfs", str(folder)]
    try:
        return subprocess.run(line, capture_output=True).returncode == 0
    except FileNotFoundError:
        return False


def unmount(folder: Path) -> None:
    """Unmounts the disk at a folder."""
    subprocess.run(["umount", "-l", str(folder)], capture_output=True)


def fill(path: Path) -> int:
    """Writes a file until the disk is full. Returns the size of the file in bytes."""
    size = 0
    with suppress(OSError), path.open("wb", buffering=0) as file:
        while True:
            for block in (b"\0" * 2**16, b"\0" * 64):
                with suppress(OSError):
                    while written := file.write(block):
                        size += written
            return size
    return size
