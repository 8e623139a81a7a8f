"""The figures and tables of the paper as data: which agents, in which tasks and levels, and the values that the paper prints.

Values in the text of the paper are copied with their section. Values that the paper only plots are not listed. Each trained agent has a
recipe. The `Scale` decides how long the agent is trained, and whether by the paper's recipe or by its tuned version.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Literal

from trilith.search.config import SearchConfig
from trilith.world.tasks import TASKS, Level, get_task

Kind = Literal["bars", "budgets", "curves", "pictures", "scenes", "actions"]
"""bars: a value for each agent, task and level. budgets: reward against simulations per decision. curves: reward against learner steps.
pictures: final scenes of agents. scenes: samples of the curriculum. actions: the number of actions."""
Metric = Literal["reward", "unsolved"]
"""reward: the mean return. unsolved: the fraction of episodes in which the task was not completed."""
FOUR = tuple(TASKS)
PAPER_SCRIPT = "trilith.planners.paper_scripts:PaperScript"


@dataclass(frozen=True)
class Row:
    """An agent of a figure. It is trained by a recipe, or needs no training and is given by its name."""

    label: str
    recipe: str = ""
    """Name of the paper's recipe without version; empty for an agent that needs no training."""
    name: str = ""
    """Name of the agent; empty for a trained agent. In Table D.1: the name of an action space."""
    options: tuple[tuple[str, Any], ...] = ()
    """Options of the training that differ from the recipe, by their full names."""
    search: SearchConfig = field(default_factory=SearchConfig)
    """The search with which the agent is tested."""
    model_of: Row | None = None
    """For an agent that is trained with search in a pretrained transition model: the agent on whose episodes this model is trained. None
    for other agents."""
    model: str = "graph"
    """The network of the model that `model_of` describes, see `DynamicsConfig`. The paper's model is a graph network."""
    tasks: tuple[str, ...] = FOUR
    """The tasks for which the figure shows this agent."""


@dataclass(frozen=True)
class Printed:
    """A value in the text of the paper, for the agent with the label `row`."""

    row: str
    task: str
    level: Level
    value: float
    what: str
    """The kind of value: "median" over ten seeds, "best seed", "script", "typical" (number of actions) or "share" of episodes."""
    where: str
    """Section or table of the paper."""


@dataclass(frozen=True)
class Figure:
    """A figure or a table."""

    name: str
    title: str
    kind: Kind
    tasks: tuple[str, ...] = FOUR
    levels: tuple[Level, ...] = ("hardest",)
    rows: tuple[Row, ...] = ()
    printed: tuple[Printed, ...] = ()
    note: str = ""
    """Further statements of the paper about this figure, or details that the paper leaves open."""
    metric: Metric = "reward"
    columns: tuple[tuple[str, tuple[Row, ...]], ...] = ()
    """For pictures of the best agents: (name of the column, agents of which the best is shown) for each column. Empty: all agents are
    shown."""


def mcts(budget: int, stages: Literal[1, 2] = 2) -> SearchConfig:
    """The options of the paper's search (UCT) with `budget` simulations per decision."""
    return SearchConfig(budget, algorithm="mcts", c=2.0, stages=stages)


ABSOLUTE = (("agent.actions", "absolute"),)
RS0 = {"RNN-RS0": "rnn-rs0", "CNN-RS0": "cnn-rs0", "GN-RS0": "gn-rs0"}
FAMILIES = {**RS0, "GN-DQN": "gn-dqn"}
"""Maps labels of the model-free agents of the main text to their recipes."""
TEST_BUDGETS = (0, 5, 10, 50, 100)
"""Simulations per decision in tests, as named in the text of Figure 5."""


def _both(families: dict[str, str]) -> tuple[Row, ...]:
    """Returns each agent twice: with absolute and with relative actions. `families` maps labels of agents to recipes."""
    return tuple(
        Row(f"{label}, {actions}", recipe, options=ABSOLUTE if actions == "absolute" else ())
        for label, recipe in families.items()
        for actions in ("absolute", "relative")
    )


GN_DQN = Row("GN-DQN, relative", "gn-dqn")
OBJECTS = Row("objects (ours)", "objects")
MODEL_FREE = _both(FAMILIES)
SEARCHED = {budget: Row(f"GN-DQN-MCTS, trained 0, tested {budget}", "gn-dqn", search=mcts(budget)) for budget in TEST_BUDGETS}
TRAINED = {budget: Row(f"GN-DQN-MCTS, trained 10, tested {budget}", "gn-dqn-mcts", search=mcts(budget)) for budget in TEST_BUDGETS}
_STAGES: dict[Literal[1, 2], str] = {2: "two stages", 1: "one stage"}
RAW = {
    (budget, stages): Row(f"raw MCTS ({budget}), {text}", name="random", search=mcts(budget, stages))
    for budget in (10, 100, 1000)
    for stages, text in _STAGES.items()
}
"""Agents that search without a network, over all edges and offsets. The keys are (simulations per decision, stages of a selection)."""
LEGAL = Row("random legal placements", name="legal")
"""The baseline in every figure with trained agents. An agent that earns no more has not learned anything."""
RECURRENT = {
    steps: Row(f"GN-DQN, n_rec {steps}", "gn-dqn", options=() if steps == 3 else (("agent.net.recurrent", steps),)) for steps in (1, 3, 5)
}
_RATE = (("agent.learning_rate", 2e-4),)
"""The learning rate of all agents in Figures E.2 and E.3. `make_run` leaves this option out of tuned recipes, which have the same rate
with and without search."""
_FREE = Row("model-free", "gn-dqn", options=_RATE)
_PERFECT = Row("perfect model", "gn-dqn-mcts")
_FIVE = (("agent.search.budget", 5),)
ONLINE = {
    network: Row(f"online {label}, budget 5", "gn-dqn-mcts", options=(*_FIVE, ("agent.search.world", "online"), *more))
    for network, label, more in (
        ("graph", "graph model", (("agent.model.net.network", "graph"),)), ("attention", "attention model (ours)", ()),
    )
}  # fmt: skip
"""Agents that search in a model which is learned in the same run. The keys are the networks of the model."""


def _reported(values: dict[str, tuple[float, ...]], rows: tuple[str, ...], level: Level, what: str, where: str) -> tuple[Printed, ...]:
    """The printed values of a table. `values` maps each task to its values, one for each of `rows`, in the same order."""
    return tuple(
        Printed(row, task, level, value, what, where) for task, each in values.items() for row, value in zip(rows, each, strict=True)
    )


_N_REC = _reported(
    {
        "silhouette": (3.75, 4.04, 4.06),
        "connecting": (2.49, 2.84, 2.81),
        "covering": (3.41, 3.96, 4.01),
        "covering_hard": (2.62, 3.03, 3.02),
    },
    tuple(row.label for row in RECURRENT.values()),
    "all",
    "median",
    "§5.4",
)
_DEFAULT_N_REC = tuple(
    Printed("GN-DQN, relative", each.task, "all", each.value, "median", "§5.4, n_rec 3") for each in _N_REC if each.row.endswith("n_rec 3")
)
_SCRIPT = _reported({"silhouette": (3.42,), "covering": (3.85,)}, ("script",), "all", "script", "§A.2") + _reported(
    {"silhouette": (5.27,), "covering": (5.31,)}, ("script",), "hardest", "script", "§A.2"
)
_BEST = _reported({"silhouette": (4.15,), "covering": (4.65,)}, (SEARCHED[50].label,), "all", "best seed", "§A.2") + _reported(
    {"silhouette": (7.18,), "covering": (7.18,)}, (SEARCHED[50].label,), "hardest", "best seed", "§A.2"
)
_HARDEST = (
    Printed(SEARCHED[0].label, "connecting", "hardest", 2.17, "median", "§5.2"),
    Printed(TRAINED[100].label, "connecting", "hardest", 2.72, "median", "§5.2"),
    Printed(SEARCHED[0].label, "covering_hard", "hardest", 3.60, "median", "§5.2"),
    Printed(TRAINED[10].label, "covering_hard", "hardest", 4.61, "median", "§5.2"),
)
_GENERAL = (*MODEL_FREE, SEARCHED[50], OBJECTS)
_BUILT = (
    replace(SEARCHED[50], tasks=("silhouette", "connecting")),
    replace(SEARCHED[5], tasks=("covering",)),
    replace(TRAINED[10], tasks=("covering_hard",)),
)
"""The agents that Figure 5 e–h shows."""
_ABSOLUTE_AGENTS = tuple(row for row in MODEL_FREE if row.options == ABSOLUTE)
_RELATIVE_AGENTS = tuple(row for row in MODEL_FREE if row.options != ABSOLUTE)
_BEST_AGENTS = (
    ("best absolute agent", _ABSOLUTE_AGENTS),
    ("best relative agent without a graph network", tuple(row for row in _RELATIVE_AGENTS if not row.recipe.startswith("gn-"))),
    ("best relative agent", _RELATIVE_AGENTS),
    ("best relative agent with a model", _BUILT),
)
"""The columns of Table G.1."""

FIGURES: dict[str, Figure] = {
    figure.name: figure
    for figure in (
        Figure(
            "4a", "Absolute against relative actions, all levels", "bars", levels=("all",), rows=(*MODEL_FREE, OBJECTS),
            printed=_DEFAULT_N_REC,
            note="Bars are plotted only. In the text: the best relative agents earn up to 1.7 times more than the best absolute ones.",
        ),
        Figure(
            "4b", "Absolute against relative actions, hardest level", "bars", rows=(*MODEL_FREE, OBJECTS),
            printed=tuple(Printed(GN_DQN.label, each.task, each.level, each.value, each.what, each.where) for each in _HARDEST[::2]),
            note="Bars are plotted only. In the text: factors of up to 2.4; GN-DQN is the best relative agent in all tasks; in Covering "
            "Hard GN-RS0 has the best median and GN-DQN the best seed.",
        ),
        Figure(
            "4cd", "What the best absolute and relative agents build", "pictures", ("silhouette", "connecting", "covering"),
            rows=MODEL_FREE, note="Pictures only.",
            columns=(("best absolute agent", _ABSOLUTE_AGENTS), ("best relative agent", _RELATIVE_AGENTS)),
        ),
        Figure(
            "5ad", "Training and testing budgets of GN-DQN-MCTS", "budgets",
            rows=(*SEARCHED.values(), *TRAINED.values(), RAW[1000, 2], *(
                Row(f"objects (ours), tested {budget}", "objects", search=mcts(budget)) for budget in (0, 10)
            )),
            printed=_HARDEST, note="Other points are plotted only. Raw search with 1,000 simulations is a dashed line, plotted only.",
        ),
        Figure("5eh", "What GN-DQN-MCTS builds", "pictures", rows=_BUILT, note="Pictures only."),
        Figure(
            "6a", "Generalisation to 9 and 16 targets", "bars", ("silhouette",), ("hardest", "nine_targets", "double_the_targets"),
            _GENERAL,
            note="Plotted only. In the text: GN-DQN agents cover nearly twice as many targets as in training, others plateau or fall off.",
        ),
        Figure(
            "6b", "Generalisation to targets at different heights", "bars", ("connecting",), ("hardest", "mixed_height_targets"), _GENERAL,
            note="Plotted only. In the text: GN-DQN and GN-DQN-MCTS drop only slightly, other agents to near 0.",
        ),
        Figure(
            "6c", "Generalisation to four layers of obstacles", "bars", ("connecting",), ("hardest", "additional_layer"), _GENERAL,
            note="Plotted only. In the text: both drop moderately, and stay much better than less structured agents.",
        ),
        Figure("6d", "What GN-DQN-MCTS builds with 16 targets", "pictures", ("silhouette",), ("double_the_targets",), (SEARCHED[50],)),
        Figure(
            "6ef", "What GN-DQN-MCTS builds with targets at different heights, and with four layers", "pictures", ("connecting",),
            ("mixed_height_targets", "additional_layer"), (SEARCHED[50],),
        ),
        Figure("n_rec", "Recurrent steps 1, 3 and 5", "bars", levels=("all",), rows=tuple(RECURRENT.values()), printed=_N_REC),
        Figure(
            "A.2", "Scripts, and the best agents beside them", "bars", ("silhouette", "covering"), ("all", "hardest"),
            (Row("script", name=PAPER_SCRIPT), Row("script (ours)", name="scripted"), SEARCHED[50]), (*_SCRIPT, *_BEST),
            note="The script is the paper's as printed. If rewards earned before an obstacle is touched are kept, it earns about what the "
            "paper prints ([departures](explanation/departures.md)). The budget of the best seeds is not printed.",
        ),
        Figure(
            "C.1", "All agents, with MLP and CNN-RN", "bars", levels=("all",),
            rows=(*_both({"MLP-RS0": "mlp-rs0", **RS0, "CNN-RN-RS0": "cnn-rn-rs0", "GN-DQN": "gn-dqn"}), OBJECTS),
            printed=_DEFAULT_N_REC,
            note="Plotted only. In the text: MLP is equal to RNN or worse, CNN-RN equal to CNN or worse.",
        ),
        Figure(
            "C.2", "Pixels against objects", "bars", levels=("all",),
            rows=(
                Row("CNN-RS0, relative", "cnn-rs0"), Row("CNN-GN-DQN", "cnn-gn-dqn"),
                Row("CNN-GN-DQN-MCTS", "cnn-gn-dqn-mcts", search=mcts(10)), GN_DQN, TRAINED[10],
            ),
            printed=_DEFAULT_N_REC,
            note="Plotted only. In the text: CNN-GN-DQN is almost as good as GN-DQN, and clearly above CNN-RS0.",
        ),
        Figure(
            "D.1top", "Recurrent steps, curves", "curves", levels=("all",), rows=tuple(RECURRENT.values()),
            note="Plotted only.",
        ),
        Figure(
            "D.1bottom", "Sparse and full graphs, curves", "curves", levels=("all",),
            rows=(
                RECURRENT[3], Row("sparse, n_rec 3", "gn-dqn", options=(("agent.net.connectivity", "sparse"),)),
                Row("sparse, n_rec 7", "gn-dqn", options=(("agent.net.connectivity", "sparse"), ("agent.net.recurrent", 7))),
            ),
            note="Plotted only. In the text: about 4 times fewer edges; with n_rec 7 the best sparse seed is as good as a full one.",
        ),
        Figure(
            "D.2", "Offsets along x, and along x and y, curves", "curves", levels=("all",),
            rows=(GN_DQN, Row("GN-DQN, relative (x, y)", "gn-dqn", options=(("agent.actions", "relative_xy"),))),
            note="Plotted only. In the text: the best performance is comparable.",
        ),
        Figure(
            "D.3", "Number of offsets, curves", "curves", levels=("all",),
            rows=tuple(
                Row(f"{n} offsets", "gn-dqn", options=() if n == 15 else (("agent.offsets", n),)) for n in (7, 15, 31)
            ),
            note="Plotted only; which numbers, other than 15, is not in the text.",
        ),
        Figure(
            "tableD.1", "Typical number of actions", "actions",
            rows=(
                Row("absolute", name="discrete_absolute"), Row("relative", name="discrete_relative"),
                Row("relative (x, y)", name="discrete_relative_xy"),
            ),
            printed=_reported(
                {
                    "silhouette": (9e5, 2e4, 2e5), "connecting": (7e3, 2e4, 3e5), "covering": (7e3, 2e4, 3e5),
                    "covering_hard": (7e3, 3e3, 5e4),
                },
                ("absolute", "relative", "relative (x, y)"), "hardest", "typical", "Table D.1",
            ),
        ),
        Figure(
            "E.1", "Raw search, in one stage and in two", "bars",
            rows=(GN_DQN, TRAINED[10], *RAW.values()),
            note="Plotted only; which level is not said. Bars that cannot be seen are 0.",
        ),
        Figure(
            "E.2", "Models that were trained before, curves", "curves", levels=("all",),
            rows=(
                _FREE, _PERFECT,
                Row("pretrained (a)", "gn-dqn-mcts", model_of=_FREE), Row("pretrained (b)", "gn-dqn-mcts", model_of=_PERFECT),
                Row("pretrained (b), attention model (ours)", "gn-dqn-mcts", model_of=_PERFECT, model="attention"),
            ),
            note="Plotted only. In the text: as good as the perfect model at first, slightly worse than without a model later. The model "
            "is a graph network, as in the paper, except in the last row.",
        ),
        Figure(
            "E.3", "A model that is learned online, curves", "curves", levels=("all",),
            rows=(
                _FREE, Row("perfect model, budget 5", "gn-dqn-mcts", options=_FIVE), *ONLINE.values(),
            ),
            note="Plotted only. In the text: slightly better than without a model at first in Silhouette and Covering Hard.",
        ),
        Figure(
            "tableG.1", "Films of ten episodes of the best agents", "pictures",
            levels=("hardest", "double_the_targets", "mixed_height_targets", "additional_layer"),
            rows=(*MODEL_FREE, *_BUILT), columns=_BEST_AGENTS,
            note="The best agents of the paper. Absolute: GN-RS0 in Silhouette, Covering and Covering Hard, RNN-RS0 in Connecting. "
            "Relative without a graph network: RNN-RS0, but CNN-RS0 in Covering and with 16 targets. Relative: GN-DQN. With a model: "
            "GN-DQN with MCTS at test time, in Covering Hard at training time too. Here the best seeds are shown at the ends of their "
            "episodes; `trilith reproduce --films films` writes the films.",
        ),
        Figure("H.1", "Curriculum of Silhouette", "scenes", ("silhouette",)),
        Figure("H.2", "Curriculum of Covering", "scenes", ("covering",)),
        Figure("H.3", "Curriculum of Covering Hard", "scenes", ("covering_hard",)),
        Figure("H.4", "Curriculum of Connecting", "scenes", ("connecting",)),
        Figure("H.5", "Random episodes of GN-DQN-MCTS, with reward and reason", "pictures", rows=_BUILT, note="Pictures only."),
        Figure(
            "H.6", "Random episodes of GN-DQN-MCTS beyond the curriculum", "pictures", ("silhouette", "connecting"),
            ("double_the_targets", "mixed_height_targets", "additional_layer"), (SEARCHED[50],), note="Pictures only.",
        ),
        Figure(
            "unsolved", "Share of Connecting's hardest scenes in which not all targets are reached", "bars", ("connecting",),
            rows=(SEARCHED[0], SEARCHED[50]), metric="unsolved",
            printed=(
                Printed(SEARCHED[0].label, "connecting", "hardest", 0.55, "share", "§E.2"),
                Printed(SEARCHED[50].label, "connecting", "hardest", 0.16, "share", "§E.2, budget not printed"),
            ),
        ),
    )
}  # fmt: skip
"""Every figure and table with results, by name."""


def level_name(task: str, level: Level) -> str:
    """The name of a level in the report: "all", "hardest", or the level itself."""
    return "hardest" if level in ("hardest", get_task(task).levels[-1]) else str(level)


def figures_named(names: tuple[str, ...]) -> list[Figure]:
    """The figures with these names, or all figures if no names are given. If a name is unknown, raises ValueError with the known ones."""
    for name in names:
        if name not in FIGURES:
            raise ValueError(f"there is no figure {name!r}: choose {', '.join(FIGURES)}")
    return [FIGURES[name] for name in names or FIGURES]
