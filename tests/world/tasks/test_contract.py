"""What every task owes at every level; a new one is tested by being among the names, be it in the registry or one's own."""

import json
import pickle
import sys

import numpy as np
import pytest
from worlds import digest, in_another_process, played, shared_area

from trilith.world.episode import start
from trilith.world.scene import FLOOR, Role, Scene, fresh_scene
from trilith.world.tasks import TASKS, get_task

SEEDS = range(40)
NAMES = [*TASKS, "own_task:Tower"]
ALL = [(name, level) for name in NAMES for level in (*get_task(name).levels, *get_task(name).generalisation)]
each_level = pytest.mark.parametrize(("name", "level"), ALL)
each_task = pytest.mark.parametrize("task", [get_task(name) for name in NAMES], ids=NAMES)


def scene_of(name, level, seed) -> Scene:
    return get_task(name).generate(np.random.default_rng(seed), level)


@each_level
def test_scenes_lie_within_their_bounds(name, level):
    for scene in (scene_of(name, level, seed) for seed in SEEDS):
        laid = (scene.role == Role.TARGET) | (scene.role == Role.OBSTACLE)
        assert laid.any()
        assert (np.abs(scene.pose[laid, 0]) + scene.size[laid, 0] / 2 <= 7 + 1e-9).all()
        assert (scene.pose[laid, 1] - scene.size[laid, 1] / 2 >= -1e-9).all()
        assert (scene.pose[laid, 1] + scene.size[laid, 1] / 2 <= 13).all()
        assert (scene.pose[:, 2] == 0).all()
        assert (scene.size[scene.role == Role.OBSTACLE, 1] == 0.35).all()
        assert not scene.velocity.any()
        assert not scene.sticky.any()
        assert not scene.contact.size
        assert not scene.glue.size


@each_level
def test_nothing_overlaps_at_the_start(name, level):
    for scene in (scene_of(name, level, seed) for seed in range(10)):
        rows = np.flatnonzero(scene.role != Role.AVAILABLE)
        for i in rows:
            for j in rows[rows > i]:
                assert shared_area(scene.pose[i], scene.size[i], scene.pose[j], scene.size[j]) < 1e-9


@each_level
def test_layers_are_where_blocks_rest(name, level):
    for scene in (scene_of(name, level, seed) for seed in SEEDS):
        layer = (scene.pose[FLOOR + 1 :, 1] - 0.35) / 0.70
        np.testing.assert_allclose(layer, layer.round(), atol=1e-9)


@each_level
def test_starts_differ_between_seeds_and_the_same_seed_gives_the_same_bytes(name, level):
    scenes = [scene_of(name, level, seed) for seed in SEEDS]
    assert len({scene.tobytes() for scene in scenes}) == len(SEEDS)
    assert [scene_of(name, level, seed) for seed in SEEDS] == scenes


def test_another_process_makes_the_same_scenes():
    code = """
import hashlib, sys
sys.path = eval(sys.argv[1])
import numpy as np
from trilith.world.tasks import get_task
for task in map(get_task, sys.argv[2:]):
    for level in (*task.levels, *task.generalisation):
        scenes = [task.generate(np.random.default_rng(seed), level).tobytes() for seed in range(5)]
        print(hashlib.sha256(b"".join(scenes)).hexdigest())
"""
    found = in_another_process(code, repr(sys.path), *NAMES)
    assert found == [digest(*(scene_of(name, level, seed).tobytes() for seed in range(5))) for name, level in ALL]


@each_level
def test_no_global_generator_has_a_say(name, level):
    np.random.seed(0)  # noqa: NPY002
    first = scene_of(name, level, 3)
    np.random.seed(1)  # noqa: NPY002
    assert scene_of(name, level, 3) == first


@each_level
def test_max_objects_is_the_most_there_can_be(name, level):
    task = get_task(name)
    most = 0
    for scene in (scene_of(name, level, seed) for seed in range(80)):
        added = task.max_steps(scene, level) if task.keeps_supply else 0
        most = max(most, len(scene) + added)
    assert most == task.max_objects(level) == task.objects_for(level)


@each_level
def test_arrays_are_read_only_and_storing_a_scene_changes_nothing(name, level):
    scene = scene_of(name, level, 0)
    for field in Scene.__dataclass_fields__:
        assert not getattr(scene, field).flags.writeable
    assert Scene.from_json(json.loads(json.dumps(scene.to_json()))) == scene
    assert pickle.loads(pickle.dumps(scene)) == scene


@each_level
def test_an_empty_scene_has_earned_nothing_and_is_not_complete(name, level):
    task = get_task(name)
    scene = scene_of(name, level, 0)
    assert task.score(scene) == 0.0
    assert task.best(scene) > 0
    assert not task.complete(scene, 0.0)
    assert task.complete(scene, task.best(scene))


@each_task
def test_what_is_shown_of_the_progress_agrees_with_the_score(task):
    for state in (state for seed in range(10) for state in played(task.name, "all", seed)):
        score, (done, covered) = task.score(state.scene), task.progress(state.scene)
        if done:
            assert len(done) == np.count_nonzero(state.scene.role == Role.TARGET)
            assert sum(done) == score
        if covered:
            assert sum(right - left for left, right, _ in covered) == pytest.approx(score)
    assert bool(done) == (task.name in ("silhouette", "connecting"))
    assert not covered or task.name.startswith("covering")


@each_task
def test_levels_are_found_by_number_name_and_hardest(task):
    for level in (*task.levels, *task.generalisation):
        assert task.check_level(level) == level
        assert task.check_level(str(level)) == level
    assert task.check_level("hardest") == task.levels[-1]
    found = task.check_level(np.int64(task.levels[-1]))
    assert type(found) is int  # so that a state can be written to JSON


@each_task
@pytest.mark.parametrize("level", [-1, 99, 0.5, "easy", "", "-1", None, True])
def test_a_level_that_is_not_there_is_refused_by_name(task, level):
    with pytest.raises(ValueError, match=f"{task.name} has no level {level!r}.*0 to {task.levels[-1]}"):
        start(task, level, np.random.default_rng(0))


def test_a_task_that_is_not_there_is_refused_by_name():
    with pytest.raises(ValueError, match=r"no task 'tower'.*silhouette, connecting, covering, covering_hard"):
        get_task("tower")


@each_task
def test_all_draws_levels_in_the_stated_mix(task):
    rng = np.random.default_rng(0)
    n = 4000
    drawn = [task.draw_level(rng, "all") for _ in range(n)]
    mix = {"covering_hard": (2 / 3, 1 / 3)}.get(task.name, [1 / len(task.levels)] * len(task.levels))
    for level, share in zip(task.levels, mix, strict=True):
        assert drawn.count(level) / n == pytest.approx(share, abs=4 * (share * (1 - share) / n) ** 0.5)
    assert task.objects_for("all") == max(task.max_objects(level) for level in task.levels)


def mean_of(name, level, measure, n=3000) -> tuple[float, float]:
    """Mean over many scenes, and four standard errors of it."""
    rng = np.random.default_rng(7)
    values = [measure(start(name, level, rng).scene) for _ in range(n)]
    return float(np.mean(values)), 4 * float(np.std(values)) / n**0.5


@pytest.mark.parametrize(
    ("name", "level", "mean"),
    [("covering", "all", 5.25), ("covering", "hardest", 7.875), ("covering_hard", "all", 4.2), ("covering_hard", "hardest", 6.3)],
)
def test_the_mean_length_to_cover_is_the_papers(name, level, mean):
    measured, error = mean_of(name, level, lambda scene: scene.size[scene.role == Role.OBSTACLE, 0].sum())
    assert error < 0.2
    assert measured == pytest.approx(mean, abs=error)
    assert TASKS[name].best(start(name, level, np.random.default_rng(0)).scene) > 0


def test_the_mean_number_of_targets_is_the_papers():
    measured, error = mean_of("silhouette", "all", lambda scene: np.count_nonzero(scene.role == Role.TARGET), n=2500)
    assert error < 0.2
    assert measured == pytest.approx(4.5, abs=error)
    assert mean_of("connecting", "all", lambda scene: np.count_nonzero(scene.role == Role.TARGET), n=200) == (3.0, 0.0)


@each_task
def test_scenes_of_a_level_fall_into_few_groups_that_files_can_name(task):
    for level in task.levels:
        groups = [task.group(task.generate(np.random.default_rng(seed), level)) for seed in SEEDS]
        assert groups == json.loads(json.dumps(groups))
        assert len({tuple(group) for group in groups}) == 1, "all scenes are described by the same names"
        assert len({json.dumps(group) for group in groups}) < len(SEEDS)


def test_a_group_counts_targets_and_obstacles_and_names_the_layer_of_the_highest():
    low, high = (0.0, 0.35, 0.7, 0.7), (3.0, 0.35 + 2 * 0.70, 0.7, 0.35)
    group = get_task("silhouette").group
    assert group(fresh_scene([low, low, high], [high])) == {"targets": 3, "highest_target": 2, "obstacles": 1, "highest_obstacle": 2}
    assert group(fresh_scene([], [low])) == {"targets": 0, "highest_target": -1, "obstacles": 1, "highest_obstacle": 0}
