"""Progress in a terminal and without one."""

from types import SimpleNamespace

from trilith.utils import console


def test_without_a_terminal_progress_is_a_line_now_and_then(capsys, monkeypatch):
    clock = iter([0.0, 0.0, 4.0, 12.0, 15.0, 24.0])
    monkeypatch.setattr(console, "time", SimpleNamespace(monotonic=lambda: next(clock)))
    with console.Progress("legal, covering", 100, done=20) as progress:
        for count in (10, 14, 3, 5):
            progress.add(count, "reward 1.000")
    assert capsys.readouterr().err == (
        "legal, covering: 44 of 100, 2.0/s, 28 s left, reward 1.000\nlegal, covering: 52 of 100, 1.3/s, 36 s left, reward 1.000\n"
    )


def test_in_a_terminal_progress_is_a_bar(capsys, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")  # which rich takes for a terminal
    monkeypatch.setenv("COLUMNS", "120")
    with console.Progress("legal, covering", 100, done=20) as progress:
        progress.add(30, "reward 1.000")
    assert "50 of 100" in (shown := capsys.readouterr().err)
    assert "reward 1.000" in shown


def test_shares_that_sum_to_a_hair_above_the_whole_leave_no_time(capsys, monkeypatch):
    monkeypatch.setattr(console.Progress, "pause", 0.0)
    with console.Progress("building", 0.6, share=True) as progress:
        for _ in range(3):
            progress.add(0.2, "a film")  # 0.6000000000000001
    assert capsys.readouterr().err.splitlines()[-1] == "building: 100%, 0 s left, a film"
