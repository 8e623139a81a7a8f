"""Levels are raised evenly, or as they are passed, and end in the task's own mix."""

import json
from collections.abc import Iterable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from training.tiny import AGENT, policy

from trilith.evaluation.play import play
from trilith.training import checkpoint
from trilith.training.actor import AssessRequest, PlayRequest, Result, collect
from trilith.training.actor_pool import Inline
from trilith.training.config import TrainConfig, run_config
from trilith.training.curriculum import LEAST, RARE, SHARE, WINDOW, Assessed, CurriculumConfig, Performance, Schedule
from trilith.training.plot import passes, plot
from trilith.training.run import Run, resume, train
from trilith.utils.config import to_json
from trilith.utils.files import write_json
from trilith.world.episode import start
from trilith.world.tasks import TASKS

pytestmark = pytest.mark.slow

BY_PERFORMANCE = CurriculumConfig(kind="performance", hardest_share=0.0)


def episodes(level: int, group: str, count: int, reward: float, steps: int = 3) -> list[Assessed]:
    """So many episodes that earned a share of the most there was to earn, which is 4."""
    return [Assessed(level, group, 4 * reward, 4.0, steps)] * count


def reported(*parts: list[Assessed], task: str = "silhouette") -> Performance:
    """A curriculum that was told all these at once."""
    curriculum = Performance(task, BY_PERFORMANCE)
    curriculum.report(each for part in parts for each in part)
    return curriculum


@pytest.mark.parametrize("task", TASKS)
def test_levels_rise_from_the_first_to_the_last(task: str) -> None:
    schedule = Schedule(task, CurriculumConfig(1000, 0.0))
    levels = [schedule.levels(step) for step in range(0, 1200, 10)]
    tops = [max(i for i, p in enumerate(each) if p > 0) for each in levels]
    count = len(TASKS[task].levels)
    assert tops == [schedule.top(step) for step in range(0, 1200, 10)]
    assert tops == sorted(tops)
    assert set(tops[100:]) == {count - 1}
    held = [tops[:100].count(level) for level in range(count)]
    assert max(held) - min(held) <= 1, "evenly"
    assert levels[-1] == schedule.final() == pytest.approx(TASKS[task].mix)
    assert all(sum(each) == pytest.approx(1) for each in levels)


def test_a_share_goes_to_the_hardest_level_reached() -> None:
    assert Schedule("covering_hard", CurriculumConfig(0, 0.5)).levels(0) == pytest.approx((1 / 3, 2 / 3))


def test_a_schedule_needs_no_evaluator() -> None:
    schedule = Schedule("silhouette", CurriculumConfig())
    assert not schedule.due(10**9, 1)
    assert not schedule.report(episodes(0, "a", 1000, 1.0))
    assert schedule.figures() == schedule.state() == {}


@pytest.mark.parametrize(("task", "mark"), [("silhouette", 0.5), ("covering_hard", 0.5), ("connecting", 0.25), ("covering", 0.25)])
def test_a_level_is_passed_with_the_papers_share_of_reward_in_that_share_of_episodes(task: str, mark: float) -> None:
    enough = round(mark * WINDOW)
    for good, reward, passed in ((enough, mark, 1), (enough - 1, mark, 0), (WINDOW, mark - 0.01, 0), (enough, 1.0, 1)):
        history = reported(episodes(0, "a", WINDOW - good, 0.0), episodes(0, "a", good, reward), task=task)
        assert history.passed == passed, (good, reward)
        assert history.top(0) == passed
    assert Performance(task, replace(BY_PERFORMANCE, pass_mark=0.9)).mark == 0.9


def test_the_levels_reached_are_played_in_the_mix_of_the_task() -> None:
    curriculum = Performance("silhouette", BY_PERFORMANCE)
    assert curriculum.levels(10**9) == (1.0, *[0.0] * 7), "no number of steps raises it"
    for level in range(8):
        assert curriculum.levels(0) == pytest.approx([1 / (level + 1)] * (level + 1) + [0.0] * (7 - level))
        assert not curriculum.report(episodes(level, f"{level}", WINDOW - 1, 1.0))
        assert curriculum.report(episodes(level, f"{level}", 1, 1.0))
    assert curriculum.levels(0) == curriculum.final() == pytest.approx(TASKS["silhouette"].mix)
    assert curriculum.figures()["levels_passed"] == 8
    assert not curriculum.due(10**9, 1), "nothing is left to find out"
    assert not curriculum.report(episodes(7, "7", 5, 1.0)), "its groups are known, but there is no level left"


def test_one_group_that_fails_blocks() -> None:
    good = [episodes(0, f"{k}", WINDOW, 1.0) for k in range(9)]
    history = reported(*good, episodes(0, "bad", LEAST, 0.0))
    assert history.passed == 0
    assert history.groups()[0, "bad"] is False
    assert history.figures()["groups_passed"] == 0.9
    history.report(episodes(0, "bad", LEAST - 1, 1.0))
    assert history.passed == 0
    assert history.report(episodes(0, "bad", 1, 1.0)), "half of its episodes were good"


def test_what_an_agent_has_unlearnt_of_a_passed_level_blocks_the_next() -> None:
    history = reported(episodes(0, "a", WINDOW, 1.0))
    history.report(episodes(0, "a", WINDOW, 0.0))
    assert not history.report(episodes(1, "b", WINDOW, 1.0))
    assert history.passed == 1, "a passed level stays passed"
    assert history.report(episodes(0, "a", WINDOW, 1.0))


def test_episodes_are_forgotten_after_two_hundred_of_their_group() -> None:
    history = reported(episodes(0, "a", 10 * WINDOW, 0.0))
    history.report(episodes(0, "a", WINDOW // 2 - 1, 1.0))
    assert history.passed == 0
    assert history.report(episodes(0, "a", 1, 1.0))


def test_rare_groups_are_pooled_and_none_of_them_blocks_alone() -> None:
    """Thirty kinds of scenes of 19 episodes each; one that is never solved is one of thirty."""
    rare = [episodes(0, f"{k}", LEAST - 1, 1.0) for k in range(29)]
    history = reported(*rare, episodes(0, "impossible", LEAST - 1, 0.0))
    assert history.groups() == {(0, RARE): True}
    assert history.passed == 1
    unsolved = reported(*rare[:9], *[episodes(0, f"bad {k}", LEAST - 1, 0.0) for k in range(10)])
    assert unsolved.groups() == {(0, RARE): False}
    assert unsolved.passed == 0
    few = reported(episodes(0, "a", WINDOW, 1.0), episodes(0, "impossible", LEAST - 1, 0.0))
    assert few.groups() == {(0, "a"): True}, "too few even together"
    assert few.passed == 1


def test_easy_levels_do_not_make_up_for_the_rare_groups_of_a_hard_one() -> None:
    history = reported(episodes(0, "a", WINDOW, 1.0))
    history.report([each for k in range(50) for each in episodes(0, f"easy {k}", LEAST - 1, 1.0)])
    history.report([each for k in range(20) for each in episodes(1, f"hard {k}", LEAST - 1, 0.0)])
    assert history.groups() == {(0, "a"): True, (0, RARE): True, (1, RARE): False}
    assert history.passed == 1


def test_a_level_is_not_passed_by_what_was_played_of_the_one_before() -> None:
    """Whatever its groups are: those of the third level of Connecting are also of its fourth."""
    history = reported(episodes(0, "same", 5 * WINDOW, 1.0))
    assert not history.report(episodes(1, "same", WINDOW - 1, 0.0))
    assert not history.report(episodes(1, "same", 1, 0.0))
    assert history.passed == 1


def test_a_level_that_the_mix_leaves_out_holds_nothing_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(TASKS["covering"], "mix", (0.5, 0.0, 0.5))
    history = reported(episodes(0, "a", WINDOW, 1.0), task="covering")
    assert history.passed == 1
    assert history.levels(0) == (1.0, 0.0, 0.0)
    assert history.report(episodes(0, "a", 1, 1.0))
    assert history.levels(0) == (0.5, 0.0, 0.5)
    monkeypatch.setattr(TASKS["covering"], "mix", (0.0, 0.5, 0.5))
    assert Performance("covering", BY_PERFORMANCE).levels(0) == (1.0, 0.0, 0.0)


@pytest.mark.parametrize("task", TASKS)
def test_the_evaluator_never_has_more_than_a_fifth_of_the_steps_of_the_actors(task: str) -> None:
    """Even if all its episodes are as long as they can be; and if actors go on, it gets on too."""
    rules = TASKS[task]
    curriculum, rng, actor_steps = Performance(task, BY_PERFORMANCE), np.random.default_rng(0), 0
    for _ in range(3000):
        actor_steps += int(rng.integers(1, 100))
        while curriculum.due(actor_steps, 8):
            levels = rng.choice(len(rules.levels), 8, p=curriculum.levels(0))
            limits = [start(rules, rules.levels[level], rng).max_steps for level in levels]
            curriculum.report(Assessed(level, f"{level}", 0.8, 1.0, steps) for level, steps in zip(levels.tolist(), limits, strict=True))
        assert SHARE * curriculum.steps <= actor_steps
    assert curriculum.passed > 1
    assert curriculum.passed > rules.levels[-1] or SHARE * curriculum.steps > 0.9 * actor_steps


def test_its_state_goes_through_json_and_comes_back() -> None:
    rng = np.random.default_rng(3)

    def some(count: int) -> Iterable[Assessed]:
        for _ in range(count):
            yield Assessed(int(rng.integers(2)), f"targets {rng.integers(3)}, x", float(rng.random() < 0.6), 1.0, int(rng.integers(1, 5)))

    one, two = Performance("silhouette", BY_PERFORMANCE), Performance("silhouette", BY_PERFORMANCE)
    one.report(some(900))
    state = json.loads(json.dumps(one.state()))
    assert state == one.state()
    two.load(state)
    after = list(some(500))
    assert one.report(after) == two.report(after)
    assert (one.state(), one.figures(), one.good) == (two.state(), two.figures(), two.good)
    assert 0 < one.passed < 3
    assert max(len(good) for good in one.good.values()) == WINDOW
    with pytest.raises(ValueError, match="another curriculum"):
        Schedule("silhouette", CurriculumConfig()).load(state)
    with pytest.raises(ValueError, match="missing required field"):
        two.load({})


def test_what_no_curriculum_can_have_is_refused() -> None:
    with pytest.raises(ValueError, match="kind 'chance' of a curriculum: must be schedule or performance"):
        CurriculumConfig(kind="chance")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"pass_mark 1\.5: must be from 0 to 1"):
        CurriculumConfig(pass_mark=1.5)


# ---- in a run


def test_an_assessment_plays_new_scenes_without_exploring_and_says_what_came_of_each() -> None:
    acting, request = policy(), AssessRequest((0, 7), 12, (0.5, 0.5), False)
    result = collect(acting, "covering_hard", request)
    assert result == collect(acting, "covering_hard", request)
    assert result.episodes == []
    assert {each.level for each in result.assessed} == {0, 1}
    for each in result.assessed:
        assert f"highest_obstacle {each.level}" in each.group
        assert 1 <= each.steps <= 7
        assert each.reward <= each.best
    rules, rng = TASKS["covering_hard"], np.random.default_rng(request.seed)
    first = [start(rules, int(level), rng) for level in rng.choice(2, 12, p=(0.5, 0.5))]
    ends = [end for _, end in play(acting.agent, first, [np.random.default_rng(0)] * 12)]  # a network draws nothing
    assert [each.reward for each in result.assessed] == [end.total for end in ends]
    other = collect(acting, "covering_hard", replace(request, seed=(0, 8)))
    assert [each.best for each in other.assessed] != [each.best for each in result.assessed]


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """A level is judged by a few episodes."""
    monkeypatch.setattr("trilith.training.curriculum.WINDOW", 12)
    monkeypatch.setattr("trilith.training.curriculum.LEAST", 4)


def tiny(out: Path, **options: Any) -> TrainConfig[Any]:
    curriculum = CurriculumConfig(kind="performance", pass_mark=0.15)  # so that a level is soon passed
    given = {
        "task": "own_task:Tower",
        "actors": 0,
        "episodes": 4,
        "evaluate_every": 50,
        "evaluate_scenes": 2,
        "log_seconds": 0.0,
        **options,
    }
    agent = replace(AGENT, stop=False, learning_rate=3e-3, warmup=0)
    return TrainConfig(out=out, curriculum=curriculum, agent=agent, **given)


def kept(out: Path) -> tuple[dict[str, bytes], dict[str, Any]]:
    arrays, found = checkpoint.load(out / checkpoint.NAME)
    facts = asdict(found)
    for mine in ("seconds", "core_seconds", "validated", "best", "last_valid"):
        del facts[mine]
    return {name: array.tobytes() for name, array in arrays.items()}, facts


@pytest.mark.longest
@pytest.mark.usefixtures("hasty")
def test_a_run_passes_a_level_and_goes_on_bit_for_bit(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    train(tiny(tmp_path / "whole", steps=140), screen=True)
    told = capsys.readouterr().err
    assert ": level 0 is passed" in told
    assert "level 0 (0% of groups passed)" in told
    assert "level 1 (" in told
    whole = kept(tmp_path / "whole")
    assert whole[1]["curriculum"]["passed"] >= 1
    assert 0 < SHARE * whole[1]["curriculum"]["steps"] <= whole[1]["actor_steps"]
    train(tiny(tmp_path / "parts", steps=20), screen=False)
    assert kept(tmp_path / "parts")[1]["curriculum"]["passed"] == 0
    for steps in (21, 47, 140):
        resume(replace(run_config(tmp_path / "parts"), steps=steps), screen=False)
    assert kept(tmp_path / "parts") == whole
    [(x, level), *_] = passes(tmp_path / "whole", "step")
    assert level == 0
    assert 20 < x <= 140
    plot([tmp_path / "whole", tmp_path / "parts"], tmp_path / "curves.png")


@pytest.mark.usefixtures("hasty")
def test_nothing_is_learnt_from_the_evaluator_and_one_is_at_work_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = tiny(tmp_path, steps=60)
    write_json(config.out / "config.json", to_json(config))
    run = Run(config)
    played: list[Result] = []
    receive = Inline.receive
    monkeypatch.setattr(Inline, "receive", lambda self, timeout: played.extend(new := receive(self, timeout)) or new)
    run.go(screen=False)
    learner: Any = run.learner
    explored = sum(len(episode.steps) for result in played if isinstance(result.request, PlayRequest) for episode in result.episodes)
    assert learner.replay.added == run.facts.actor_steps == explored
    assessed = [each for result in played if isinstance(result.request, AssessRequest) for each in result.assessed]
    assert run.curriculum.state()["steps"] == sum(each.steps for each in assessed) > 0
    run.facts.actor_steps = 10**6
    assert isinstance(run._next_request(wanted=False), AssessRequest)
    assert run._next_request(wanted=False) is None


@pytest.mark.usefixtures("hasty")
def test_an_actor_process_assesses_too(tmp_path: Path) -> None:
    train(tiny(tmp_path, steps=80, actors=1), screen=False)
    curriculum = kept(tmp_path)[1]["curriculum"]
    assert curriculum["steps"] > 0
    assert curriculum["good"]
