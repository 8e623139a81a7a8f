"""A report says what the results say, beside the paper, and says so where there is nothing to say."""

from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from trilith.evaluation.report import PAPER, _colours, load_results, write_report
from trilith.evaluation.runner import Evaluation, Run
from trilith.search.config import SearchConfig
from trilith.utils.files import read_json, sealed, write_json
from trilith.world.episode import REASONS
from trilith.world.tasks import TASKS, get_task


def result(agent: str, task: str, level: int | str, reward: float, seed: int = 0, scenes: int = 10, **changes) -> dict:
    """A result as `trilith evaluate` writes it, with the figures that a test is about."""
    rules = get_task(task)
    levels = rules.levels if level == "all" else (rules.check_level(level),)
    return {
        **Evaluation(agent, task, level, scenes=scenes, seed=seed).identity(),
        "episodes": scenes,
        "reward": reward,
        "kept": reward,
        "forfeited": None,
        "interval": 0.125,
        "share": reward / 8,
        "most": 8.0,
        "solved": 0.25,
        "blocks": 4.5,
        "glue": 1.75,
        "reasons": {reason: scenes if reason == "max_steps" else 0 for reason in REASONS},
        "by_level": {str(each): {"episodes": scenes, "reward": reward, "most": 8.0} for each in levels},
        "rewards": [reward] * scenes,
        "worst": [],
        **changes,
    }


def report(folder: Path, *results: dict) -> str:
    for number, each in enumerate(results):
        write_json(folder / "results" / f"{number}.json", sealed(each))
    path = write_report(folder / "results", folder / "report")
    assert path == folder / "report" / "report.md"
    return path.read_text(encoding="utf-8")


def table(text: str, heading: str = "| agent | Silhouette") -> dict[str, list[str]]:
    """Rows of the table with this heading, by their first cell."""
    lines = text[text.index(heading) :].split("\n\n")[0].splitlines()
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if not line.startswith("|--")]
    assert len({len(row) for row in rows}) == 1, "every row has as many cells as the heading"
    return {row[0]: row[1:] for row in rows}


def drawn(path: Path) -> np.ndarray:
    """(4, height, width / 4): how dark each panel of a figure is."""
    dark = 255 - np.asarray(Image.open(path).convert("L")).astype(int)
    width = dark.shape[1] // 4
    return np.stack([dark[:, k * width : (k + 1) * width] for k in range(4)])


def test_rewards_stand_beside_those_of_the_paper(tmp_path):
    text = report(
        tmp_path,
        result("legal", "silhouette", "all", 1.234),
        result("planner", "silhouette", "hardest", 7.5),
        result("planner", "covering_hard", 1, 4.75),
        result("planner", "connecting", 4, 2.5),
    )
    rows = table(text)
    assert rows["legal"] == ["1.23", *["–"] * 7]
    assert rows["planner"] == ["–", "7.50", "–", "–", "–", "–", "–", "4.75"], "level 4 of Connecting is neither all nor hardest"
    assert rows["*paper: script*"] == ["3.42", "5.27", "–", "–", "3.85", "5.31", "–", "–"]
    assert list(rows)[1:] == ["legal", "planner", *(f"*{name}*" for name in PAPER)]
    every = table(text, "| agent | task")
    assert every["legal"] == ["silhouette", "all", "10 test", "1.234 ± 0.125", "15%", "25%", "4.5", "1.75"]
    assert "| planner | connecting | 4 |" in text
    assert text.count("No data") == 1, "nobody searched"
    for name in ("rewards", "reasons", "levels"):
        assert f"({name}.png)" in text


def test_several_seeds_give_their_median_and_range(tmp_path):
    results = [result("legal", "covering", "all", reward, seed) for seed, reward in enumerate((3.0, 1.0, 1.5))]
    text = report(tmp_path, *results, result("legal", "covering", "hardest", 2.0))
    assert table(text)["legal"][4:6] == ["1.50 (1.00–3.00)", "2.00"]
    assert "| legal (seed 2) | covering | all" in text


def test_seeds_of_one_training_are_one_agent_and_runs_of_one_name_are_not(tmp_path):
    """As `trilith train --seeds` leaves them, and as people name folders."""
    agents = {"runs/x/seed0": 1.0, "runs/x/seed1": 3.0, "runs/x/seed2": 2.0, "old/y": 4.0, "new/y": 5.0, "seed3": 6.0}
    text = report(tmp_path, *({**result("legal", "covering", "all", reward), "agent": agent} for agent, reward in agents.items()))
    rows = table(text)
    found = {name: row[4] for name, row in rows.items() if not name.startswith(("*", "agent"))}
    assert found == {"x": "2.00 (1.00–3.00)", "old/y": "4.00", "new/y": "5.00", "seed3": "6.00"}
    assert "| x (trained with seed 2) | covering" in text


def test_of_one_seed_the_largest_run_counts(tmp_path):
    text = report(tmp_path, *(result("legal", "covering", "all", scenes / 100, scenes=scenes) for scenes in (20, 300, 100)))
    assert table(text)["legal"][4] == "3.00"


def test_only_test_scenes_count_and_the_papers_rule_has_a_row_of_its_own(tmp_path):
    text = report(
        tmp_path,
        result("legal", "covering", "all", 5.0, split="valid"),
        result("legal", "covering", "all", 6.0, zero_on_hit=True),
        result("legal", "connecting", "all", 1.0),
    )
    assert table(text)["legal"] == ["–", "–", "1.00", "–", "–", "–", "–", "–"]
    assert table(text)["legal (zero on hit)"] == ["–", "–", "–", "–", "6.00", "–", "–", "–"]
    assert "| legal (zero on hit) | covering |" in text
    assert "| 10 valid |" in text


def test_a_figure_without_data_says_so(tmp_path):
    text = report(tmp_path, result("legal", "covering", "all", 5.0, split="valid"))
    assert text.count("No data for this figure yet.") == 4
    assert sorted(path.name for path in (tmp_path / "report").iterdir()) == ["report.md"]
    text = report(tmp_path, result("legal", "covering", "all", 5.0))
    assert text.count("No data for this figure yet.") == 2, "why hardest episodes ended is not known, and nobody searched"
    assert sorted(path.name for path in (tmp_path / "report").iterdir()) == ["levels.png", "report.md", "rewards.png"]


def test_a_figure_that_lost_its_data_is_removed(tmp_path):
    report(tmp_path, result("legal", "covering", "hardest", 5.0))
    assert (tmp_path / "report" / "reasons.png").exists()
    report(tmp_path, result("legal", "covering", 0, 5.0))
    assert not (tmp_path / "report" / "reasons.png").exists()


def test_a_panel_has_bars_where_there_are_results_and_words_where_there_are_none(tmp_path):
    report(tmp_path, result("legal", "silhouette", "hardest", 5.0), result("planner", "silhouette", "hardest", 7.0))
    for name in ("rewards", "reasons", "levels"):
        panels = drawn(tmp_path / "report" / f"{name}.png")
        panels = panels[:, : int(panels.shape[1] * 0.8)]  # without the legend
        ink = (panels > 60).sum(axis=(1, 2))
        assert ink[0] > 3 * ink[1:].max(), name
        assert (panels[1:].reshape(3, -1).max(axis=1) > 60).all(), "no panel is empty: it says that there is no data"


def test_budgets_are_a_curve_for_each_agent_and_raw_searches_are_lines(tmp_path):
    def searched(agent: str, budget: int, reward: float, **options) -> dict:
        search = asdict(SearchConfig(budget, **options)) if budget else None
        return result("legal", "covering_hard", "hardest", reward) | {"agent": agent, "search": search}

    results = [searched("runs/mine", budget, 2 + budget / 20) for budget in (0, 5, 20)]
    results += [searched("runs/mine", 20, 4.0, c=0.5), searched("legal", 10, 0.5), searched("legal", 0, 0.1)]
    text = report(tmp_path, *results)
    rows = table(text)
    assert rows["mine"][-1] == "2.00"
    assert rows["mine (search 5)"][-1] == "2.25"
    assert rows["mine (search 20, c 0.5)"][-1] == "4.00"
    assert rows["legal (search 10)"][-1] == "0.50"
    panels = drawn(tmp_path / "report" / "budgets.png")
    ink = (panels[:, : int(panels.shape[1] * 0.8)] > 60).sum(axis=(1, 2))
    assert ink[3] > 1.5 * ink[:3].max()
    many = [searched(agent, budget, 1.0) | {"plain": agent, "agent": f"{agent} {budget}"} for agent in "xy" for budget in range(9)]
    colours = _colours(many)
    assert colours["x"] != colours["y"], "agents differ, however many budgets they were given"
    raw = searched("legal", 100, 0.5, c=2.0)  # never measured without search
    text = report(tmp_path / "unusual", searched("runs/mine", 0, 2.0), searched("runs/mine", 20, 4.0, c=0.5), raw)
    assert "(budgets.png)" in text, "without search it is the same agent, however it searches"


def test_why_episodes_ended_is_over_all_seeds(tmp_path):
    def ended(reason: str, seed: int) -> dict:
        reasons = {each: 10 if each == reason else 0 for each in REASONS}
        return result("legal", "silhouette", "hardest", 1.0, seed, reasons=reasons)

    def colours(*results: dict) -> set[tuple[int, int, int]]:
        report(tmp_path, *results)
        panel = np.asarray(Image.open(tmp_path / "report" / "reasons.png").convert("RGB"))[100:250, : 1848 // 4]
        found, count = np.unique(panel.reshape(-1, 3), axis=0, return_counts=True)
        return {tuple(map(int, each)) for each, n in zip(found, count, strict=True) if n > 2000}

    one, other = (colours(ended(reason, 0), ended(reason, 1)) for reason in ("complete", "obstacle_hit"))
    both = colours(ended("complete", 0), ended("obstacle_hit", 1))
    assert one != other
    assert both == one | other


def test_a_result_from_before_stopping_was_a_reason_is_still_read(tmp_path):
    old = {reason: 5 if reason in ("invalid_edge", "max_steps") else 0 for reason in REASONS if reason != "stopped"}
    assert "(reasons.png)" in report(tmp_path, result("scripted", "silhouette", "hardest", 6.0, reasons=old))


def test_an_agent_has_one_colour_in_all_panels(tmp_path):
    everywhere = [result("planner", task, "hardest", 5.0) for task in TASKS]
    report(tmp_path, *everywhere, result("legal", "silhouette", "hardest", 2.0))
    for name in ("rewards", "levels"):
        figure = np.asarray(Image.open(tmp_path / "report" / f"{name}.png").convert("RGB"))[:350].astype(int)
        width = figure.shape[1] // 4
        planner, legal = (
            [(np.abs(figure[:, k * width : (k + 1) * width] - colour).max(axis=-1) < 9).any() for k in range(4)]
            for colour in ((0xE0, 0x8A, 0x2C), (0x3B, 0x6F, 0xB6))
        )
        assert planner == [True] * 4, name
        assert legal == [True, False, False, False], name


def test_results_of_real_evaluations_are_reported(tmp_path):
    for number, e in enumerate(
        [
            Evaluation("legal", "silhouette", "all", scenes=12, worst=0),
            Evaluation("random", "covering", scenes=5, worst=1),
            Evaluation("legal", "silhouette", get_task("silhouette").generalisation[0], scenes=3),
        ]
    ):
        run = Run(e, tmp_path / "results" / f"{number}.json")
        for _ in run.run(1):
            pass
        run.finish()
    text = write_report(tmp_path / "results", tmp_path / "report").read_text(encoding="utf-8")
    assert table(text)["legal"][0] == f"{read_json(tmp_path / 'results' / '0.json')['reward']:.2f}"
    assert sorted(path.name for path in (tmp_path / "report").iterdir()) == ["levels.png", "reasons.png", "report.md", "rewards.png"]


def test_the_figures_of_the_paper_are_of_tasks_there_are():
    assert all(set(figures) <= set(TASKS) for figures in PAPER.values())


def test_what_is_not_a_result_is_passed_over(tmp_path):
    folder = tmp_path / "results"
    write_json(folder / "recording.json", {"start": {}, "placements": []})
    write_json(folder / "list.json", [1, 2])
    write_json(folder / "part.json", {"by_level": {}, "reasons": {}, "task": "covering"})
    write_json(folder / "other.json", sealed(result("legal", "covering", "all", 1.0) | {"task": "tower"}))
    (folder / ".x.123.json").write_text('{"agent": "le')  # on its way when the process was killed
    (folder / "notes.txt").write_text("hello")
    with pytest.raises(ValueError, match=r"results has no result of trilith evaluate"):
        load_results(folder)
    write_json(folder / "a.json", sealed(result("legal", "covering", "all", 1.0)))
    assert [each["agent"] for each in load_results(folder)] == ["legal"]


@pytest.mark.parametrize("change", [{"reward": 7.25}, {"solved": 1.0}, {"agent": "planner"}, {"rewards": [9.0]}, {"rewardx": 1.0}])
def test_a_result_whose_numbers_were_changed_is_not_reported(tmp_path, change):
    write_json(tmp_path / "a.json", sealed(result("legal", "covering", "all", 1.0)))
    assert len(load_results(tmp_path)) == 1
    write_json(tmp_path / "a.json", read_json(tmp_path / "a.json") | change)
    with pytest.raises(ValueError, match=r"a\.json is damaged: its checksum does not match its content"):
        load_results(tmp_path)


def test_a_folder_that_is_none_or_broken_is_refused(tmp_path):
    with pytest.raises(ValueError, match=r"nowhere is not a folder with results"):
        write_report(tmp_path / "nowhere", tmp_path / "report")
    (tmp_path / "results").mkdir()
    with pytest.raises(ValueError, match=r"results has no result"):
        write_report(tmp_path / "results", tmp_path / "report")
    (tmp_path / "results" / "cut.json").write_text('{"agent": "le')
    with pytest.raises(ValueError, match=r"cut\.json is not JSON"):
        write_report(tmp_path / "results", tmp_path / "report")
    assert not (tmp_path / "report").exists()


def test_results_on_different_scenes_are_not_compared(tmp_path, monkeypatch):
    monkeypatch.setattr("trilith.evaluation.schema.VERSION", 2)
    with pytest.raises(ValueError, match=r"results on different versions of the test scenes: \[1, 2\]"):
        report(tmp_path, result("legal", "covering", "all", 1.0, version=1), result("random", "covering", "all", 1.0, version=2))
    assert not (tmp_path / "report").exists()


def test_results_of_other_physics_have_a_row_of_their_own(tmp_path):
    old = result("planner", "covering", "hardest", 7.5)
    old["physics"] = 1
    rows = table(report(tmp_path, result("planner", "covering", "hardest", 7.9), old))
    assert [name for name in rows if name.startswith("planner")] == ["planner", "planner (physics 1)"]


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"version": 99}, "is on version 99 of the scenes, this version of trilith knows 1"),
        ({"physics": 99}, "physics 99: must be a version"),
        ({"share": "much"}, "share: Expected float, got str"),
        ({"episodes": 0}, "episodes: Expected int >= 1"),
        ({"search": {"budget": None}}, "search.budget: Expected int"),
        ({"by_level": {"0": {"episodes": 1}}}, "by_level"),
        ({"reasons": []}, "reasons: Expected object"),
    ],
)
def test_a_result_that_cannot_be_is_refused_by_its_file_and_field(tmp_path, change, told):
    with pytest.raises(ValueError, match=rf"0\.json.*{told}") as error:
        report(tmp_path, result("legal", "covering", "all", 1.0, **change))
    assert "\n" not in str(error.value)
    assert not (tmp_path / "report").exists()
