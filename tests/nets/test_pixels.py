"""Networks that see segmented images: windows are the whole images, and nothing else of a scene gets through."""

from dataclasses import fields, replace

import numpy as np
import pytest
import torch
from nets.plain_cnn import plain_features
from nets.scenes import states
from torch import Tensor
from worlds import mirrored, with_blocks

from trilith.agents.dqn.policy import observe
from trilith.nets.batch import Batch, Layout, SceneLayout, reference_rows
from trilith.nets.config import Mask
from trilith.nets.object_cnn import ObjectCNN, segments_of
from trilith.nets.pixel_graph import PixelGraphNet
from trilith.world.actions import DiscreteAbsolute, DiscreteRelative
from trilith.world.observe.segments import segments
from trilith.world.scene import SLOTS, Role, Scene, fresh_scene
from trilith.world.tasks import get_task

MASKS: tuple[Mask, ...] = ("none", "edges", "legal")


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)


def of_nodes(scenes: list[Scene]) -> np.ndarray:
    """(V, 64, 64, 6): segmented images of all objects, of each scene the available blocks first."""
    rows = [np.r_[np.flatnonzero(scene.role[:SLOTS] == Role.AVAILABLE), reference_rows(scene)] for scene in scenes]
    return np.concatenate([segments(scene)[each] for scene, each in zip(scenes, rows, strict=True)])


def odd_scenes() -> list[Scene]:
    """Objects across every border of the picture, in its corners, wholly out of it, upright and at any angle, and over each other."""
    places = [(-8, 13), (8, 13), (8, -3), (-8, -3), (-9, 5), (0, 14), (30, 5), (0, 0.4), (0.3, 0.8), (5, -40)]
    angles = [0.0, 1.0, 0.3, 2.0]
    scene = fresh_scene([(-7.9, 12.8, 2.1, 0.7), (0.1, 0.35, 0.7, 0.7)], [(7.9, 6.0, 3.0, 0.35)])
    return [with_blocks(scene, [(i % SLOTS, x, y, angle) for i, (x, y) in enumerate(places)]) for angle in angles]


def drawn(scenes: list[Scene], task: str = "silhouette", mirror: np.ndarray | None = None) -> Batch:
    rows = max(SceneLayout.rows_of(get_task(task)), *(len(scene) for scene in scenes))
    layout = SceneLayout(rows, points=2 * rows)
    return layout.unpack(layout.pack(scenes), mirror)


def same(found: Tensor, expected: Tensor, net: ObjectCNN) -> None:
    """Values and gradients to 1e-4 of the largest."""
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)
    pull, weights = torch.randn_like(expected), list(net.parameters())
    for one, other in zip(*(torch.autograd.grad((each * pull).sum(), weights) for each in (found, expected)), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-4 * float(other.abs().max()))


@pytest.mark.parametrize("task", ["silhouette", "connecting", "covering_hard"])
def test_features_of_windows_are_those_of_whole_images(task: str) -> None:
    scenes, net = [state.scene for state in states(task, 4)], ObjectCNN()
    same(net(drawn(scenes, task)), plain_features(net, of_nodes(scenes)), net)


def test_so_they_are_at_the_border_and_beyond() -> None:
    scenes, net = odd_scenes(), ObjectCNN()
    for layer in net.layers:  # so that what is beyond the border matters, if it were looked at
        torch.nn.init.normal_(layer.bias, std=3.0)  # type: ignore[arg-type]
    same(net(drawn(scenes)), plain_features(net, of_nodes(scenes)), net)


def test_windows_of_a_mirrored_batch_are_those_of_the_mirrored_scenes() -> None:
    scenes, net = [state.scene for state in states("covering_hard", 4)], ObjectCNN()
    found = net(drawn(scenes, mirror=np.array([True, False, True, True])))
    torch.testing.assert_close(found, net(drawn([mirrored(scenes[0]), scenes[1], *(mirrored(scene) for scene in scenes[2:])])))


def test_windows_that_are_the_same_are_computed_once() -> None:
    scene = states("silhouette", 1)[0].scene
    once, twice = (segments_of(drawn([scene] * n)) for n in (1, 2))
    assert sum(len(each.top) for each in once.sizes) == sum(len(each.top) for each in twice.sizes)
    assert twice.which.tolist() == once.which.tolist() * 2


def noisy(batch: Batch) -> Batch:
    """The batch with noise for all that it holds, but for its windows, who is there and available, links and the mask."""
    seen = segments_of(batch)
    kept = ("present", "available", "touch", "glue", "legal", "source", "memo", "points", "glued")
    noise = {
        name: torch.randint(5, value.shape) if name == "role" else 10 * torch.randn(value.shape)
        for name in (each.name for each in fields(Batch))
        if name not in kept and (value := getattr(batch, name)) is not None
    }
    assert set(noise) == {"pose", "size", "velocity", "role", "sticky"}
    return replace(batch, **noise, memo={"segments": seen})


@pytest.mark.parametrize("mask", MASKS)
def test_nothing_but_pixels_links_and_mask_reaches_the_values(mask: Mask) -> None:
    layout = Layout.of(get_task("covering_hard"), DiscreteRelative(), mask == "legal", pictures=True)
    net = PixelGraphNet(layout, mask, 16)
    batch = layout.unpack(observe(layout, [state.scene for state in states("covering_hard", 6)]))
    other = noisy(batch)
    assert torch.equal(net.q(other), net.q(batch))
    assert torch.equal(net.mask(other), net.mask(batch))
    actions, values = net.best(batch)
    torch.testing.assert_close(net.q_at(other, actions), values)


@pytest.mark.parametrize("relative", [False, True])
def test_gradients_reach_the_pixels_weights(relative: bool) -> None:
    layout = Layout.of(get_task("covering_hard"), DiscreteRelative() if relative else DiscreteAbsolute(4, 8), False, pictures=True)
    net = PixelGraphNet(layout, "edges", 16)
    batch = layout.unpack(observe(layout, [state.scene for state in states("covering_hard", 4)]))
    net.q(batch).square().sum().backward()
    assert all(each.grad is not None and each.grad.abs().max() > 0 for each in net.cnn.parameters())


def test_the_order_of_segments_does_not_matter_and_colours_do() -> None:
    """Rows in another order have the same values in that order; a target that is drawn as an obstacle has others."""
    layout = Layout.of(get_task("silhouette"), DiscreteRelative(), False, pictures=True)
    net, scene = PixelGraphNet(layout, "edges", 16), fresh_scene([(-3, 0.35, 2.1, 0.7)], [(3, 1.05, 2.1, 0.35)])
    order = [*range(SLOTS + 1), SLOTS + 2, SLOTS + 1]
    columns = (each[order] for each in (scene.pose, scene.size, scene.velocity, scene.role, scene.sticky))
    shuffled = Scene(*columns, scene.contact, scene.glue, scene.glue_frame)
    role = scene.role.copy()
    role[-2:] = role[-2:][::-1]
    values, others, swapped = (net.q(layout.unpack(observe(layout, [each])))[0] for each in (scene, shuffled, replace(scene, role=role)))
    torch.testing.assert_close(others[:, [0, 2, 1]], values, rtol=1e-4, atol=1e-6)
    assert (swapped - values).abs().max() > 1e-4


def test_a_sparse_graph_is_refused_in_one_line() -> None:
    layout = Layout.of(get_task("silhouette"), DiscreteRelative(), False, pictures=True)
    with pytest.raises(ValueError, match="choose connectivity full"):
        PixelGraphNet(layout, "none", connectivity="sparse")
