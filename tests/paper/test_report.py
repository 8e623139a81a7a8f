"""The page says what the ledger says: the same bytes for the same entries, and no verdict without three seeds a side."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from trilith.paper.actions import pack
from trilith.paper.claims import CLAIMS, Side, answer, compare_sides
from trilith.paper.draw import draw_figure, shown, write_films
from trilith.paper.figures import FIGURES, GN_DQN, LEGAL, MODEL_FREE
from trilith.paper.ledger import read_ledger, write_entry
from trilith.paper.plan import Measurement, make_run
from trilith.paper.report import DATA, Found, collect, data_text, write_report
from trilith.paper.scales import SCALES
from trilith.world.tasks import get_task

ROOT = Path(__file__).parents[2]
LAPTOP = SCALES["laptop"]
ABSOLUTE = next(row for row in MODEL_FREE if row.label == "GN-DQN, absolute")


def measurement(row, seed: int, level="all", task: str = "covering_hard") -> Measurement:
    agent = make_run(row, "laptop", LAPTOP, task, seed) if row.recipe else row.name
    return Measurement(agent, task, level, row.search, 40)


@pytest.fixture
def entries(entry_for):
    """Three seeds of relative and of absolute actions, and chance."""
    means = {GN_DQN: (2.0, 2.1, 2.2), ABSOLUTE: (1.0, 0.9, 1.1), LEGAL: (0.2,)}
    return [entry_for(measurement(row, seed), mean) for row, each in means.items() for seed, mean in enumerate(each)]


def relative_against_absolute(data) -> dict:
    [found] = [each for each in data["claims"] if each["claim"].startswith("GN-DQN: relative") and each["level"] == "all"
               and each["task"] == "covering_hard"]  # fmt: skip
    return found


def test_three_seeds_a_side_decide(entries):
    data = collect(entries, "laptop")
    found = relative_against_absolute(data)
    assert found["verdict"] == "agrees"
    assert found["seeds"] == [3, 3]
    assert found["difference"][0] == pytest.approx(1.1, abs=0.05)
    assert data["answer"].startswith("Does structure pay? Yes")
    assert [each for each in data["claims"] if each["verdict"] != "undecided here"] == [found]


def test_two_seeds_do_not(entries):
    assert relative_against_absolute(collect([*entries[1:]], "laptop"))["verdict"] == "undecided here"


def test_agents_that_did_not_learn_are_no_evidence(entries, entry_for):
    poor = [entry_for(measurement(ABSOLUTE, seed), 0.1) for seed in range(3)]
    data = collect([*entries[:3], *poor, entries[-1]], "laptop")
    found = relative_against_absolute(data)
    assert (found["verdict"], found["seeds"], found["did_not_learn"]) == ("undecided here", [3, 0], [0, 3])
    [point] = [each for each in data["figures"]["4a"] if each["row"] == ABSOLUTE.label]
    assert point["did_not_learn"] == [0, 1, 2]
    unknown = relative_against_absolute(collect(entries[:-1], "laptop"))
    assert unknown["seeds"] == [0, 0], "without chance to compare with nothing is known to have learned"


def test_verdicts_follow_the_interval():
    three = Side({0: 1.0, 1: 1.1, 2: 1.2}, 0, True)
    assert compare_sides(three, Side({0: 5.0, 1: 5.1, 2: 5.2}, 0, True))[1] == "disagrees"
    assert compare_sides(three, Side({0: 1.0, 1: 1.1, 2: 1.3}, 0, True))[1] == "undecided here"
    assert compare_sides(three, Side({0: 0.2}, 0, False))[1] == "agrees", "an agent without training needs no seeds"
    assert compare_sides(Side({0: 0.2}, 0, False), three)[1] == "disagrees"
    assert compare_sides(three, Side({0: 0.2}, 0, False, error=0.5))[1] == "undecided here", "few scenes are uncertain too"
    assert compare_sides(Side({}, 3, True), three) == (None, "undecided here")
    assert answer([]).startswith("Does structure pay? Not known")


def test_chance_alone_is_no_data(entries, entry_for):
    hardest = entry_for(measurement(LEGAL, 0, 1))
    figures = collect([*entries, hardest], "laptop")["figures"]
    assert not figures["4b"]
    assert {each["row"] for each in figures["4a"]} == {GN_DQN.label, ABSOLUTE.label, LEGAL.label}


def test_points_are_medians_with_their_range(entries):
    points = {(each["row"], each["level"]): each for each in collect(entries, "laptop")["figures"]["4a"]}
    middle, low, high = points[GN_DQN.label, "all"]["median_low_high"]
    assert low < middle < high
    assert middle == pytest.approx(2.1, abs=0.05)
    assert points[GN_DQN.label, "all"]["scenes"] == 40


def test_the_page_has_every_figure_and_the_same_bytes_again(entries, tmp_path):
    for entry in entries:
        write_entry(tmp_path / "ledger", entry)
    page = write_report(tmp_path / "ledger", tmp_path / "one")
    text = page.read_text(encoding="utf-8")
    assert (tmp_path / "one" / DATA).read_text(encoding="utf-8") == data_text(collect(read_ledger(tmp_path / "ledger"), "laptop"))
    for figure in FIGURES.values():
        assert f": {figure.title}\n" in text
    assert "(images/paper/4a.png)" in text
    assert (tmp_path / "one/images/paper/4a.png").exists()
    assert (tmp_path / "one/images/paper/H.3.png").exists(), "curricula need no runs"
    assert "`trilith reproduce 6a --scale laptop`" in text
    assert "4.04 (median, §5.4)" in text


def test_an_agent_with_fewer_scenes_than_pictures_leaves_the_rest_of_its_row_empty(entry_for, tmp_path, monkeypatch):
    sheets = []
    monkeypatch.setattr("trilith.paper.draw.save_png", lambda *_: None)
    monkeypatch.setattr("trilith.paper.draw.contact_sheet", lambda *given: sheets.append(given))
    stopped = {"reasons": ["stopped"] * 2, "actions": pack([[None]] * 2)}
    rows = FIGURES["5eh"].rows[1:]
    tests = [measurement(row, 0, get_task(row.tasks[0]).check_level("hardest"), row.tasks[0]) for row in rows]
    made = [replace(entry_for(test, scenes=2), **stopped) for test in tests]
    draw_figure(FIGURES["5eh"], [{}], Found(made, "laptop"), tmp_path / "built.png")
    [(pictures, captions, columns)] = sheets
    assert (len(pictures), columns) == (6, 3)
    assert [caption.partition("\n")[0] for caption in captions] == [label for row in rows for label in (row.label, row.label, "")]


def test_films_are_of_the_best_agent_of_each_column(entries, entry_for, tmp_path, monkeypatch):
    """Episodes of one stop, so that films are short."""
    monkeypatch.setattr("trilith.paper.draw.FILMED", 2)
    stopped = {"reasons": ["stopped"] * 40, "actions": pack([[None]] * 40)}
    rows = {"GN-DQN, relative": (1.0, 3.0), "RNN-RS0, relative": (2.0,), "CNN-RS0, relative": (1.5,), "GN-RS0, absolute": (0.5,)}
    made = [
        replace(entry_for(measurement(row, seed, 1), mean), **stopped)
        for row in MODEL_FREE
        for seed, mean in enumerate(rows.get(row.label, ()))
    ]
    found = Found(made, "laptop")
    best = {
        column: (row.label, entry.training.seed) for column, row, entry in shown(FIGURES["tableG.1"], found, "covering_hard", "hardest")
    }
    assert best == {
        "best absolute agent": ("GN-RS0, absolute", 0),
        "best relative agent without a graph network": ("RNN-RS0, relative", 0),
        "best relative agent": ("GN-DQN, relative", 1),
    }
    films = [*write_films(found, tmp_path)]
    assert [path.name for path in films[:2]] == [f"covering_hard-hardest-best-absolute-agent-{k}.mp4" for k in range(2)]
    assert len(films) == 6
    assert all(path.stat().st_size > 1000 for path in films)


def test_the_published_numbers_are_those_of_the_ledger():
    """Anyone can make them again by `trilith reproduce --report`."""
    assert data_text(collect(read_ledger(ROOT / "ledger"), "laptop")) == (ROOT / "docs" / DATA).read_text(encoding="utf-8")


def test_claims_are_about_rows_of_figures():
    rows = {(row.recipe, row.name, row.options, row.search) for figure in FIGURES.values() for row in figure.rows}
    for claim in CLAIMS:
        for row in (claim.better, claim.worse):
            assert (row.recipe, row.name, row.options, row.search) in rows, claim.text
