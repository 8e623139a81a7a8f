"""The plan: figures share their runs, commands train what was planned, and what the ledger has is not planned again."""

from itertools import pairwise

import pytest
from msgspec.structs import replace

from trilith.cli import main as cli
from trilith.evaluation.report import PAPER
from trilith.paper.figures import FIGURES, figures_named
from trilith.paper.plan import Run, index, make_plan, make_run, measurements_of, missing, run_seconds, runs_of
from trilith.paper.scales import SCALES
from trilith.world.tasks import TASKS


def planned(*names: str, scale: str = "laptop", tasks: tuple[str, ...] = (), seeds: int = 1):
    return make_plan(figures_named(names), scale, SCALES[scale], tasks, seeds)


def test_figures_share_their_runs():
    first, both = planned("4a"), planned("4a", "4b", "n_rec")
    assert len(runs_of(first)) == 4 * 9
    assert len(runs_of(both)) == 4 * (9 + 2), "hardest scenes need no new run, and three recurrent steps are the recipe's"
    assert len(runs_of(planned("4a", seeds=3))) == 3 * 4 * 9
    assert len([test for test in planned("4a", seeds=3) if test.agent == "legal"]) == 4, "an agent without training has one seed"


def test_the_first_seed_of_all_figures_comes_first():
    seeds = [test.agent.seed for test in planned("4a", "n_rec", scale="paper", seeds=2) if isinstance(test.agent, Run)]
    assert seeds == sorted(seeds)


def test_the_laptop_begins_with_what_matters_most():
    """The order of the runs: Figure 4 in all tasks, its other seeds in two, search in training, more recurrent steps, pixels, models."""
    runs = runs_of(planned(seeds=3))
    assert len({run.name for run in runs}) == len(runs)
    figure_4 = runs[:36]
    assert {run.task for run in figure_4} == set(TASKS)
    assert {run.family for run in figure_4} == {"gn-dqn", "gn-rs0", "rnn-rs0", "cnn-rs0", "objects"}
    assert {run.seed for run in figure_4} == {0}
    more = runs[36:72]
    assert {(run.task, run.seed) for run in more} == {(task, seed) for task in ("covering_hard", "silhouette") for seed in (1, 2)}
    assert {run.family for run in more} == {run.family for run in figure_4}
    rest = runs[72:]
    assert [(run.family, run.task) for run in rest[:4]] == [("gn-dqn-mcts", task) for task in TASKS]
    assert [(run.family, dict(run.options)["agent.net.recurrent"]) for run in rest[4:8]] == [("gn-dqn", 1), ("gn-dqn", 5)] * 2
    assert {run.family for run in rest[8:12]} == {"cnn-gn-dqn", "cnn-gn-dqn-mcts"}
    assert {run.task for run in rest[4:12]} == {"covering_hard", "silhouette"}
    assert all("model" in run.name or "world" in run.name or "budget" in run.name for run in rest[12:18]), [run.name for run in rest[12:18]]
    assert {run.task for run in rest[12:18]} == {"covering_hard"}
    assert {run.seed for run in rest[:18]} == {0}
    only = runs_of(make_plan(figures_named(()), "laptop", SCALES["laptop"], (), 3, only_first=True))
    assert only == runs[:90]
    assert sum(map(run_seconds, only)) < 30 * 3600


def test_an_agent_is_measured_for_all_figures_before_the_next_one_is_trained():
    plan = planned("4a", "4b", "6a")
    assert {test.task for test in plan[:20]} == {"covering_hard"}, "it comes first, because agents learn fastest there"
    assert [(test.agent, test.level) for test in plan[20:22]] == [(plan[20].agent, "all"), (plan[20].agent, 7)]
    for part in (plan[:20], plan[20:80]):
        changes = sum(one.agent != other.agent for one, other in pairwise(part))
        assert changes == len({test.agent for test in part}) - 1


def test_a_part_never_has_more_seeds_than_were_asked_for():
    assert {run.seed for run in runs_of(planned("4a"))} == {0}
    assert {run.task for run in runs_of(planned("4a", tasks=("covering",), seeds=3))} == {"covering"}


def test_runs_have_names_of_their_own():
    for scale in SCALES:
        runs = runs_of(planned(scale=scale, seeds=2))
        assert len({run.name for run in runs}) == len(runs)
        assert all(set(run.name) <= set("abcdefghijklmnopqrstuvwxyz0123456789-_.") for run in runs)


@pytest.mark.parametrize("scale", SCALES)
def test_a_command_trains_what_was_planned(scale):
    """One run for each set of options of a figure; parsing the command line takes a while."""
    runs = {(run.recipe, run.options): run for run in runs_of(planned(scale=scale, tasks=("covering_hard",)))}
    seen = set()
    for run in runs.values():
        names = frozenset(name for name, _ in run.options)
        if names not in seen:
            seen.add(names)
            assert cli._parse([*run.arguments(), "--actors=0", "--out=x"]).config == _as_run(run)


def _as_run(run: Run):
    from dataclasses import replace
    from pathlib import Path

    return replace(run.config(), seed=run.seed, actors=0, out=Path("x"))


def test_the_scale_decides_recipe_budgets_and_scenes():
    def budgets(scale):
        return {test.search.budget for test in planned("5ad", scale=scale) if isinstance(test.agent, Run)}

    assert budgets("paper") == {0, 5, 10, 50, 100}
    assert budgets("laptop") == {0, 5, 10, 50}
    assert {test.scenes for test in planned("E.1")} == {1000, 200, 100}
    assert {run.recipe for run in runs_of(planned("n_rec"))} == {"gn-dqn-tuned-v1"}
    assert {run.recipe for run in runs_of(planned("n_rec", scale="paper"))} == {"gn-dqn-v2"}
    assert {test.task for test in planned(scale="smoke")} == {"silhouette", "connecting", "covering", "covering_hard"}
    assert {test.task for test in planned("4a", scale="smoke")} == {"covering_hard"}


def test_levels_belong_to_their_tasks():
    found = {(test.task, test.level) for test in planned("H.6")}
    assert found == {("silhouette", "double_the_targets"), ("connecting", "mixed_height_targets"), ("connecting", "additional_layer")}


def test_a_pretrained_model_comes_from_a_run_before():
    runs = runs_of(planned("E.2", tasks=("covering_hard",)))
    [first, *_] = [run for run in runs if run.model_of]
    assert runs.index(first.model_of) < runs.index(first)
    assert dict(first.options)["agent.search.world"] == f"models/{first.model_of.name}-graph"


def test_costs_are_the_stated_minutes():
    row = FIGURES["4a"].rows[0]
    assert 1140 <= run_seconds(make_run(row, "laptop", SCALES["laptop"], "covering", 0)) <= 1200
    assert run_seconds(make_run(row, "paper", SCALES["paper"], "covering", 0)) > 6 * 86400


def test_what_the_ledger_has_is_not_planned_again(entry_for):
    tests = planned("4b", tasks=("covering_hard",))
    entries = index([entry_for(tests[0]), entry_for(tests[1], scenes=tests[1].scenes - 1)])
    assert missing(tests, entries) == tests[1:], "too few scenes are not enough"
    assert missing(tests, index([replace(entry_for(tests[0]), seed=5)])) == tests, "another seed is another measurement"


@pytest.mark.parametrize("name", FIGURES)
def test_every_figure_says_what_it_needs(name):
    figure = FIGURES[name]
    assert figure.title
    labels = {row.label for row in figure.rows}
    for value in figure.printed:
        assert value.row in labels, value
        assert value.task in figure.tasks
        assert value.level in figure.levels
        assert value.where
    rows = [row.label for row in figure.rows]
    assert len(rows) == len(set(rows))
    if figure.kind not in ("scenes", "actions"):
        found = {task for _, test in measurements_of(figure, "paper", SCALES["paper"], (), 0) for task in [test.task]}
        assert found == set(figure.tasks) <= set(TASKS)


def test_an_unknown_figure_is_refused():
    with pytest.raises(ValueError, match="there is no figure '7': choose 4a, 4b"):
        figures_named(("7",))


def test_the_report_has_the_printed_values_of_the_figures():
    printed = {(each.task, each.level, each.value) for figure in FIGURES.values() for each in figure.printed}
    for rewards in PAPER.values():
        for task, pair in rewards.items():
            for level, value in zip(("all", "hardest"), pair, strict=True):
                assert value is None or (task, level, value) in printed, (task, level, value)
