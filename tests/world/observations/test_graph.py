"""The scene as a graph, full and sparse, against its description in plain loops."""

import numpy as np
import pytest
from worlds import FIRST, SMALL_SLOT, build, played

from trilith.world.observations.graph import EDGE_FEATURES, edge_features, graph
from trilith.world.observations.objects import objects
from trilith.world.scene import FLOOR, Placement, Role, fresh_scene
from trilith.world.tasks import TASKS


def scenes(task):
    return [state.scene for seed in range(3) for state in played(task, "hardest", seed, careful=True)]


@pytest.mark.parametrize("task", TASKS)
def test_a_full_graph_has_every_ordered_pair_of_different_objects(task):
    for scene in scenes(task):
        g = graph(scene)
        n = len(scene)
        pairs = list(zip(g.senders.tolist(), g.receivers.tolist(), strict=True))
        assert pairs == [(i, j) for i in range(n) for j in range(n) if i != j]
        assert g.edges.shape == (n * (n - 1), EDGE_FEATURES)
        np.testing.assert_array_equal(g.nodes, objects(scene))


def linked(scene, i, j) -> bool:
    """The sparse rule in words, from i to j."""
    one, other = Role(scene.role[i]), Role(scene.role[j])
    if Role.AVAILABLE in (one, other):
        return one == Role.AVAILABLE != other
    solid = (Role.BLOCK, Role.FLOOR)
    if one in (Role.TARGET, Role.OBSTACLE) or other in (Role.TARGET, Role.OBSTACLE):
        return one not in solid and other in solid
    return [min(i, j), max(i, j)] in scene.contact.tolist()


@pytest.mark.parametrize("task", TASKS)
def test_a_sparse_graph_links_what_the_rule_says(task):
    for scene in scenes(task):
        everything = [(i, j) for i in range(len(scene)) for j in range(len(scene)) if i != j]
        g, both = graph(scene, "sparse"), graph(scene, "sparse-both")
        pairs = list(zip(g.senders.tolist(), g.receivers.tolist(), strict=True))
        assert pairs == [(i, j) for i, j in everything if linked(scene, i, j)]
        assert len(g.edges) == len(pairs) < len(everything)
        either = list(zip(both.senders.tolist(), both.receivers.tolist(), strict=True))
        assert either == [(i, j) for i, j in everything if linked(scene, i, j) or linked(scene, j, i)]


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("connectivity", ["full", "sparse", "sparse-both"])
def test_edges_say_who_touches_and_who_is_glued_in_both_directions(task, connectivity):
    touching = glued = 0
    for scene in scenes(task):
        contact, glue = ({tuple(pair) for pair in pairs.tolist()} for pairs in (scene.contact, scene.glue))
        g = graph(scene, connectivity)
        for i, j, (touches, sticks) in zip(g.senders.tolist(), g.receivers.tolist(), g.edges, strict=True):
            pair = (min(i, j), max(i, j))
            assert touches == (pair in contact)
            assert sticks == (pair in glue)
            touching += int(touches)
            glued += int(sticks)
    assert touching
    assert glued


def test_a_glued_pair_in_contact_has_both_features():
    scene = build(Placement(SMALL_SLOT, 0.0, 0.36, True), Placement(SMALL_SLOT, 3.0, 0.36))
    features = edge_features(scene)
    assert features.dtype == np.float32
    assert features[FLOOR, FIRST].tolist() == features[FIRST, FLOOR].tolist() == [1, 1]
    assert features[FLOOR, FIRST + 1].tolist() == [1, 0]
    assert features[FIRST, FIRST + 1].tolist() == [0, 0]


def test_before_the_first_placement_sparse_links_are_few():
    scene = fresh_scene([(0.0, 1.0, 0.35, 0.35)], [(3.0, 0.35, 1.0, 0.35)])
    # from seven available blocks to floor, target and obstacle, and from target and obstacle to the floor
    assert len(graph(scene, "sparse").edges) == 7 * 3 + 2
    assert len(graph(scene, "sparse-both").edges) == 2 * (7 * 3 + 2)


def test_writing_to_a_graph_leaves_the_next_one_alone():
    scene = fresh_scene([], [(3.0, 0.35, 1.0, 0.35)])
    g = graph(scene)
    g.edges[:] = 7
    g.nodes[:] = 7
    assert not (graph(scene).edges == 7).any()
    assert not (graph(scene).nodes == 7).all()


def test_another_connectivity_is_refused_by_name():
    with pytest.raises(ValueError, match=r"'dense'.*full, sparse or sparse-both"):
        graph(fresh_scene([], []), "dense")
