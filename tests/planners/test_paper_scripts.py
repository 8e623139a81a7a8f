"""The paper's scripts, as printed: where they use glue, and what they earn."""

import numpy as np
import pytest

from trilith.evaluation.play import play
from trilith.evaluation.scene_sets import start_in_set
from trilith.planners.paper_scripts import PaperScript, covering, silhouette
from trilith.planners.registry import script_for
from trilith.world.scene import BLOCK_HEIGHT, Placement, Role, Scene, fresh_scene, place
from trilith.world.tasks.task import layer_y

SMALL, MEDIUM = 0.7, 2.1


def targets(*places: tuple[float, int, float]) -> Scene:
    """A scene with targets at x, layer and width."""
    return fresh_scene([(x, layer_y(layer), width, BLOCK_HEIGHT) for x, layer, width in places], [])


def filled(scene: Scene, *rows: tuple[int, bool]) -> Scene:
    """The scene with a block in each of these targets, by number."""
    for number, sticky in rows:
        target = scene.rows(Role.TARGET)[number]
        slot = int(np.argmin(np.abs(scene.size[:7, 0] - scene.size[target, 0])))
        scene = place(scene, Placement(slot, *scene.pose[target, :2].tolist(), sticky), keep=True)
    return scene


def test_a_block_above_a_support_needs_no_glue():
    scene = filled(targets((0.0, 0, MEDIUM), (0.5, 1, MEDIUM)), (0, False))
    made = silhouette(scene)
    assert (made.x, made.sticky) == (0.5, False)


def test_a_block_beyond_its_support_gets_glue_unless_it_touches_some():
    places = targets((0.0, 0, SMALL), (1.0, 1, MEDIUM))
    assert silhouette(filled(places, (0, False))).sticky
    assert not silhouette(filled(places, (0, True))).sticky


def test_lower_layers_and_the_centre_come_first():
    scene = targets((-3.0, 0, SMALL), (0.2, 0, SMALL), (3.0, 0, SMALL), (0.2, 1, SMALL))
    order = []
    for number in (1, 2, 0, 3):
        order.append(silhouette(scene).x)
        scene = filled(scene, (number, False))
    assert order == [0.2, 3.0, -3.0, 0.2]
    assert silhouette(scene) is None


def test_gaps_beside_an_obstacle_are_filled_before_it_is_covered():
    scene = fresh_scene([], [(0.0, layer_y(0), 1.4, 0.35)])
    made = covering(scene)
    assert scene.size[made.slot, 0] == 3.5, "the largest block that fits"
    assert made.y < layer_y(1), "on the floor"
    assert not made.sticky


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("script", [covering, silhouette, script_for("covering"), script_for("covering_hard"), script_for("silhouette")])
def test_a_scene_with_nothing_to_do_gets_no_placement(script):
    assert script(fresh_scene([], [])) is None


@pytest.mark.slow
@pytest.mark.parametrize(("task", "printed"), [("silhouette", 5.27), ("covering", 5.31)])
def test_they_earn_what_the_paper_prints_if_rewards_are_kept(task, printed):
    states = [start_in_set(task, "hardest", "test", k) for k in range(100)]
    played = play(PaperScript(), states, [np.random.default_rng(0)] * 100)
    assert np.mean([end.total for _, end in played]) == pytest.approx(printed, abs=0.8)


def test_there_is_no_script_for_the_other_tasks():
    with pytest.raises(ValueError, match="no script for connecting: it has one for silhouette, covering"):
        PaperScript().act([start_in_set("connecting", "hardest", "test", 0)], [])
