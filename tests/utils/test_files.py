"""Files appear whole or not at all, and what goes wrong with them is told in one line that names them."""

import os
import signal
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest
from shell import ENVIRONMENT

from trilith.agents.registry import fingerprint
from trilith.agents.weights import read_card
from trilith.evaluation.runner import Evaluation, Run
from trilith.evaluation.schema import read_result
from trilith.training import checkpoint
from trilith.training.config import run_config
from trilith.training.log import JSONL, Log, read_log
from trilith.utils import files
from trilith.utils.files import (
    atomic_write,
    clear_leftovers,
    folder_lock,
    make_folder,
    name_path_in_errors,
    read_json,
    write_json,
)
from trilith.utils.tensors import load_tensors
from trilith.web.server import create_app
from trilith.world.trajectory import read_episodes


def names(folder) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_what_is_written_can_be_read_and_nothing_else_is_left(tmp_path):
    path = tmp_path / "deep" / "down" / "x.json"
    write_json(path, {"a": [1, 2.5, None, "ü"]})
    assert read_json(path) == {"a": [1, 2.5, None, "ü"]}
    assert names(path.parent) == ["x.json"]
    write_json(path, 0.1 + 0.2)
    assert read_json(path) == 0.1 + 0.2, "numbers are written in full"


def test_a_file_that_fails_half_way_leaves_the_old_one_as_it_was(tmp_path):
    path = tmp_path / "x.txt"
    path.write_text("old")

    def fail() -> None:
        with atomic_write(path) as aside:
            aside.write_text("half")
            assert path.read_text() == "old"
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fail()
    assert path.read_text() == "old"
    assert names(tmp_path) == ["x.txt"]


def test_the_path_to_write_to_keeps_the_suffix_and_is_hidden_beside_the_file(tmp_path):
    with atomic_write(tmp_path / "film.gif") as aside:
        assert aside.suffix == ".gif"
        assert aside.name.startswith(".")
        assert aside.parent == tmp_path
        aside.touch()
    assert names(tmp_path) == ["film.gif"]


@pytest.mark.parametrize("value", [float("nan"), float("inf"), object()])
def test_what_is_not_json_is_never_written(tmp_path, value):
    with pytest.raises((ValueError, TypeError)):
        write_json(tmp_path / "x.json", [value])
    assert names(tmp_path) == []


@pytest.mark.parametrize("content", [b"", b"{", b'{"a": 1', b"\xff\xfe", b"1" * 5000, b"[" * 200_000])
def test_a_file_that_is_not_json_is_refused_in_one_line_with_its_name(tmp_path, content):
    path = tmp_path / "bad.json"
    path.write_bytes(content)
    with pytest.raises(ValueError, match="not JSON") as error:
        read_json(path)
    assert str(path) in str(error.value)
    assert "\n" not in str(error.value)


def test_a_missing_file_and_a_folder_are_told_apart(tmp_path):
    with pytest.raises(ValueError, match=r"cannot read .*none\.json: No such file"):
        read_json(tmp_path / "none.json")
    with pytest.raises(ValueError, match=r"cannot read .*: Is a directory"):
        read_json(tmp_path)


def test_a_file_in_the_place_of_a_folder_is_told_as_such(tmp_path):
    (tmp_path / "file").write_text("kept")
    for write in (lambda path: write_json(path, 1), lambda path: make_folder(path.parent)):
        with pytest.raises(OSError, match=r"cannot write .*file.*: .*file is not a folder"):
            write(tmp_path / "file" / "x.json")
    with pytest.raises(OSError, match=r"cannot write .*: Not a directory"):
        write_json(tmp_path / "file" / "deeper" / "x.json", 1)
    assert (tmp_path / "file").read_text() == "kept"
    assert names(tmp_path) == ["file"]


def test_a_folder_in_the_place_of_a_file_is_told_as_such(tmp_path):
    (tmp_path / "x.json").mkdir()
    with pytest.raises(OSError, match=r"cannot write .*x\.json: Is a directory"):
        write_json(tmp_path / "x.json", 1)
    assert names(tmp_path) == ["x.json"]


def test_a_folder_that_nobody_may_write_to_is_told_before_any_work(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "access", lambda path, mode: False)  # those who run tests as root may write anywhere
    with pytest.raises(OSError, match=r"cannot write .*locked: Permission denied"):
        make_folder(tmp_path / "locked")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs a device that is always full")
def test_a_full_disk_is_told_with_the_name_of_the_file():
    def fill() -> None:
        with name_path_in_errors("result.json"), open("/dev/full", "wb", buffering=0) as full:
            full.write(b"x")

    with pytest.raises(OSError, match=r"^cannot write result\.json: No space left on device$"):
        fill()


def test_errors_with_a_message_of_their_own_keep_it(tmp_path):
    def fail() -> None:
        with atomic_write(tmp_path / "x.gif"):
            raise OSError("the encoder gave up")

    with pytest.raises(OSError, match=r"^the encoder gave up$"):
        fail()


@pytest.mark.skipif(not os.path.exists("/proc/self/fd"), reason="it looks at open files")
def test_what_is_durable_is_on_the_disk_before_it_has_its_name_and_its_name_after(tmp_path, monkeypatch):
    calls = []
    fsync, replace = os.fsync, os.replace
    monkeypatch.setattr(os, "fsync", lambda handle: (calls.append(os.readlink(f"/proc/self/fd/{handle}")), fsync(handle)))
    monkeypatch.setattr(os, "replace", lambda *paths: (calls.append("replace"), replace(*paths)))
    write_json(tmp_path / "x.json", 1)
    assert calls == [str(tmp_path / f".x.{os.getpid()}.part.json"), "replace", str(tmp_path)]


def test_the_file_before_is_kept_and_there_always_is_one(tmp_path):
    path, previous = tmp_path / "x.txt", tmp_path / "old.txt"
    for number in range(3):
        with atomic_write(path, previous=previous) as aside:
            aside.write_text(str(number))
    assert (path.read_text(), previous.read_text()) == ("2", "1")
    assert names(tmp_path) == ["old.txt", "x.txt"]


@pytest.mark.skipif(os.name != "posix", reason="elsewhere nothing is cleared")
def test_only_what_dead_writers_left_is_cleared(tmp_path):
    for name in (".x.999999999.part.json", ".y.z.999999999.part", f".x.{os.getpid()}.part.json", ".x.123.journal", ".notes", "x.json"):
        (tmp_path / name).write_text("")
    clear_leftovers(tmp_path)
    assert names(tmp_path) == sorted([f".x.{os.getpid()}.part.json", ".x.123.journal", ".notes", "x.json"])
    clear_leftovers(tmp_path / "none")


def test_modes_are_those_of_any_other_file(tmp_path):
    from trilith.utils.tensors import save_tensors

    (tmp_path / "plain").write_text("")
    save_tensors(tmp_path / "x.safetensors", {})
    write_json(tmp_path / "x.json", 1)
    assert {path.stat().st_mode for path in tmp_path.iterdir()} == {(tmp_path / "plain").stat().st_mode}


@pytest.mark.parametrize(("data", "told"), [("x", "Expected int, got str"), ([1], "Expected int, got array"), (1.5, "got float")])
def test_a_value_of_another_type_is_refused_with_its_file(tmp_path, data, told):
    write_json(tmp_path / "x.json", {"a": {"b": data}})
    with pytest.raises(ValueError, match=rf"x\.json is not valid: .*({told})"):
        read_json(tmp_path / "x.json", dict[str, dict[str, int]])


def test_a_folder_is_locked_for_others_and_free_again_after_also_where_one_was_killed(tmp_path):
    code = f"""
import os, sys
from trilith.utils.files import folder_lock
with folder_lock({str(tmp_path)!r}):
    print("locked", flush=True)
    sys.stdin.read()
    os._exit(9)  # as if killed: nothing is tidied up
"""
    command = [sys.executable, "-c", code]
    with subprocess.Popen(command, env=ENVIRONMENT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout.readline() == "locked\n"
        with pytest.raises(ValueError, match=f"another process is at work in {tmp_path}: wait for it, or stop it"), folder_lock(tmp_path):
            pass
        other.communicate("")
    for _ in range(2):
        with folder_lock(tmp_path):
            pass


def test_where_a_file_system_knows_no_locks_the_work_goes_on(tmp_path, monkeypatch):
    def refuse(*_, **__):
        raise NotImplementedError("no locks here")

    monkeypatch.setattr(files.FileLock, "acquire", refuse)
    with folder_lock(tmp_path):
        (tmp_path / "done").touch()
    assert (tmp_path / "done").exists()


@contextmanager
def within(seconds: int):
    """Fails if the block takes longer."""

    def late(*_):
        raise TimeoutError(f"more than {seconds} s")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


READERS = {
    "recording.json": read_json,
    "result.json": read_result,
    "out.json": lambda path: Run(Evaluation("legal", "covering", scenes=1), path),
    "card.json": lambda path: read_card(path.with_suffix(".safetensors")),
    "weights.safetensors": load_tensors,
    "last.safetensors": lambda path: fingerprint(str(path.parent), "covering"),
    "config.json": lambda path: run_config(path.parent),
    checkpoint.NAME: checkpoint.load,
    JSONL: lambda path: read_log(path.parent),
    "dataset.json": lambda path: list(read_episodes(path.parent)),
    "episode.json": lambda path: create_app(path=path),
}
"""Readers of all kinds of files, by the name of such a file."""


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs FIFOs")
@pytest.mark.parametrize("name", READERS)
def test_a_special_file_is_refused_in_one_line_and_not_read(tmp_path, name):
    os.mkfifo(tmp_path / name)
    with within(5), pytest.raises(ValueError, match=rf"^cannot read .*{name}: not a regular file$"):
        READERS[name](tmp_path / name)
    (tmp_path / name).unlink()
    (tmp_path / name).symlink_to("/dev/null")  # as /dev/zero, but it does no harm where it is read
    with within(5), pytest.raises(ValueError, match=rf"^cannot read .*{name}: not a regular file$"):
        READERS[name](tmp_path / name)
    (tmp_path / name).unlink()
    (tmp_path / name).mkdir()
    with pytest.raises(ValueError, match=rf"^cannot read .*{name}: Is a directory$"):
        READERS[name](tmp_path / name)


@pytest.mark.parametrize("name", READERS)
def test_a_file_that_is_too_large_for_its_kind_is_refused_before_it_is_read(tmp_path, name, monkeypatch):
    with (tmp_path / name).open("wb") as file:
        file.truncate(2**36 + 1)  # it takes no space on the disk
    monkeypatch.setattr(Path, "read_bytes", lambda path: pytest.fail("it was read"))
    with within(5), pytest.raises(ValueError, match=rf"^cannot read .*{name}: it has 68719476737 bytes, more than \d+$"):
        READERS[name](tmp_path / name)


def test_the_largest_file_of_a_kind_is_still_read(tmp_path):
    (tmp_path / "x.json").write_bytes(b"[]" + b" " * (files.MAX_JSON - 2))
    assert read_json(tmp_path / "x.json") == []
    with (tmp_path / "x.json").open("ab") as file:
        file.write(b" ")
    with pytest.raises(ValueError, match=f"more than {files.MAX_JSON}"):
        read_json(tmp_path / "x.json")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs FIFOs")
def test_a_log_does_not_wait_for_the_reader_of_a_fifo(tmp_path):
    os.mkfifo(tmp_path / JSONL)
    with within(5), pytest.raises(ValueError, match="not a regular file"):
        Log(tmp_path, screen=False).write("train", 0, {})
