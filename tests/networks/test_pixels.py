"""Networks that see segmented images: windows are the whole images, and nothing else of a scene gets through."""

from dataclasses import fields, replace
from itertools import pairwise

import numpy as np
import pytest
import torch
from networks.plain_cnn import plain_features
from networks.scenes import as_states, odd_scenes, states
from torch import Tensor
from worlds import mirrored

from trilith.agents.dqn.policy import observe
from trilith.agents.target_learner import optimizer_step
from trilith.networks.config import Mask, NetConfig
from trilith.networks.inputs.objects import SCALE, SHARP, describe
from trilith.networks.inputs.scene_batch import ReplaySchema, SceneBatch, SceneSchema
from trilith.networks.kernels.image_windows import add_to_map, add_to_map_plain, pool_added, pool_added_plain
from trilith.networks.layers.object_cnn import ObjectCNN, segments_of
from trilith.networks.q.graph import PixelGraphNet
from trilith.networks.q.pixel_attention import PixelAttentionNet
from trilith.world.actions import DiscreteAbsolute, DiscreteRelative, reference_rows
from trilith.world.observations.segments import segments
from trilith.world.scene import SLOTS, Role, Scene, fresh_scene
from trilith.world.tasks import get_task

Net = type[PixelGraphNet] | type[PixelAttentionNet]
BOTH: tuple[Net, ...] = (PixelGraphNet, PixelAttentionNet)
MASKS: tuple[tuple[Net, Mask], ...] = (
    (PixelGraphNet, "none"),
    (PixelGraphNet, "edges"),
    (PixelGraphNet, "legal"),
    (PixelAttentionNet, "edges"),
    (PixelAttentionNet, "legal"),
)


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)


def of_nodes(scenes: list[Scene]) -> np.ndarray:
    """(V, 64, 64, 6): segmented images of all objects, of each scene the available blocks first."""
    rows = [np.r_[np.flatnonzero(scene.role[:SLOTS] == Role.AVAILABLE), reference_rows(scene)] for scene in scenes]
    return np.concatenate([segments(scene)[each] for scene, each in zip(scenes, rows, strict=True)])


def drawn(scenes: list[Scene], task: str = "silhouette", mirror: np.ndarray | None = None) -> SceneBatch:
    rows = max(SceneSchema.rows_of(get_task(task)), *(len(scene) for scene in scenes))
    schema = SceneSchema(rows, points=2 * rows)
    return schema.unpack(schema.pack(scenes), mirror)


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


def test_after_a_learner_step_features_without_gradients_are_those_of_the_new_weights() -> None:
    """The maps of an empty picture are kept for a set of weights. A fused step changes weights without telling autograd."""
    net, batch = ObjectCNN(), drawn([states("silhouette", 1)[0].scene], "silhouette")
    optimiser = torch.optim.Adam(net.parameters(), fused=True)
    with torch.no_grad():
        before = net(batch)
    optimizer_step(optimiser, net(batch).sum(), 0.01, 0.0)
    with torch.no_grad():
        after = net(batch)
    assert not torch.equal(after, before)
    torch.testing.assert_close(after, net(batch).detach(), rtol=0, atol=0)


def test_windows_that_are_the_same_are_computed_once() -> None:
    scene = states("silhouette", 1)[0].scene
    once, twice = (segments_of(drawn([scene] * n)) for n in (1, 2))
    assert sum(len(each.top) for each in once.sizes) == sum(len(each.top) for each in twice.sizes)
    assert twice.which.tolist() == once.which.tolist() * 2


@pytest.mark.parametrize("reach", [(1, 2), (2, 1), (1, 1)])
def test_compiled_pools_of_windows_are_those_of_tensors(reach: tuple[int, int]) -> None:
    """Values and gradients, of windows that lie across every border, in corners and on the whole map."""
    side, pad = 16, reach[0]
    at = torch.tensor([-4, 0, 4, side - 4, side]) + pad  # so that pools begin at even places
    top, left = (each.flatten() for each in torch.meshgrid(at, at, indexing="ij"))
    given = [torch.randn(shape, requires_grad=True) for shape in ((len(top), 3, 8, 6), (1, 3, side, side), (1, 3, side // 2, side // 2))]
    added, down, across = pool_added(*given, top, left, reach)
    plain = pool_added_plain(*given, top - pad, left - pad, *added.shape[2:], reach)
    whole, plain_whole = add_to_map(added, given[2], down, across), add_to_map_plain(plain, given[2], down, across)
    torch.testing.assert_close(added, plain)
    torch.testing.assert_close(whole, plain_whole)
    pull = torch.randn_like(whole)
    for one, other in zip(*(torch.autograd.grad((each * pull).sum(), given) for each in (whole, plain_whole)), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("task", ["silhouette", "covering_hard"])
def test_objects_differ_in_most_features_from_the_first_weights_on(task: str) -> None:
    """With kaiming weights and no bias, nearly half of all features are the same for every object, and others hardly differ."""
    features = ObjectCNN()(drawn([state.scene for state in states(task, 6, level="hardest")], task))
    alive = features.std(dim=0) > 0.01
    assert alive.sum() >= 26
    assert (features.std(dim=0) / features.mean(dim=0))[alive].median() > 0.5
    torch.testing.assert_close(ObjectCNN(blank=True)(drawn([states(task, 1)[0].scene], task)).max(), torch.tensor(0.0), atol=1e-4, rtol=0)


def noisy(batch: SceneBatch) -> SceneBatch:
    """The batch with noise for all that it holds, but for its windows, who is there and available, links and the mask."""
    seen, rng = segments_of(batch), np.random.default_rng(0)
    kept = ("present", "available", "touch", "glue", "legal", "device", "memo", "points", "glued")
    noise = {
        name: rng.integers(5, size=value.shape) if name == "role" else 10 * rng.normal(size=value.shape).astype(np.float32)
        for name in (each.name for each in fields(SceneBatch))
        if name not in kept and (value := getattr(batch, name)) is not None
    }
    assert set(noise) == {"pose", "size", "velocity", "role", "sticky"}
    return replace(batch, **noise, memo={(segments_of.__wrapped__, (), ()): seen})  # type: ignore[attr-defined]


@pytest.mark.parametrize(("kind", "mask"), MASKS)
def test_nothing_but_pixels_links_and_mask_reaches_the_values(kind: Net, mask: Mask) -> None:
    schema = ReplaySchema.of(get_task("covering_hard"), DiscreteRelative(), mask == "legal", pictures=True)
    net = kind(schema, mask, NetConfig(width=16))
    batch = schema.unpack(observe(schema, states("covering_hard", 6)))
    other = noisy(batch)
    assert torch.equal(net.q(other), net.q(batch))
    assert torch.equal(net.mask(other), net.mask(batch))
    actions, values = net.best(batch)
    torch.testing.assert_close(net.q_at(other, actions), values)


@pytest.mark.parametrize("kind", BOTH)
def test_what_may_be_chosen_is_no_part_of_the_values(kind: Net) -> None:
    """Where all may be chosen, what the mask of legal actions allows is worth the same."""
    schema = ReplaySchema.of(get_task("covering_hard"), DiscreteRelative(), True, pictures=True)
    net = kind(schema, "legal", NetConfig(width=16))
    batch = schema.unpack(observe(schema, states("covering_hard", 6)))
    assert batch.legal is not None
    other = replace(batch, legal=np.ones_like(batch.legal))
    mask = net.mask(batch)
    assert not mask.equal(net.mask(other))
    torch.testing.assert_close(net.q(other)[mask], net.q(batch)[mask])


@pytest.mark.parametrize("kind", BOTH)
def test_pictures_touching_and_glue_reach_the_values(kind: Net) -> None:
    schema = ReplaySchema.of(get_task("covering_hard"), DiscreteRelative(), False, pictures=True)
    net, blank = kind(schema, "edges", NetConfig(width=16)), kind(schema, "edges", NetConfig(width=16, blank=True))
    blank.load_state_dict(net.state_dict())
    batch = schema.unpack(observe(schema, states("covering_hard", 6)))
    mask = net.mask(batch)
    for other in (replace(batch, touch=1 - batch.touch, memo={}), replace(batch, glue=1 - batch.glue, memo={})):
        assert (net.q(other) - net.q(batch))[mask].abs().max() > 1e-6
    assert (blank.q(batch) - net.q(batch))[mask].abs().max() > 1e-6


@pytest.mark.parametrize("kind", BOTH)
def test_blank_pictures_show_nothing(kind: Net) -> None:
    """Every object and every block has the same values, if none touch: those of scenes with as many objects elsewhere."""
    schema = ReplaySchema.of(get_task("silhouette"), DiscreteRelative(), False, pictures=True)
    net = kind(schema, "edges", NetConfig(width=16, blank=True))
    one = fresh_scene([(-3, 0.35, 2.1, 0.7)], [(3, 1.05, 2.1, 0.35)])
    two = fresh_scene([], [(-5, 3.0, 0.7, 0.7), (5, 1.0, 1.4, 0.7)])
    batch = schema.unpack(observe(schema, as_states([one, two])))
    first, second = (values[mask] for values, mask in zip(net.q(batch), net.mask(batch), strict=True))
    torch.testing.assert_close(first, second)
    torch.testing.assert_close(first.view(-1, net.outputs), first[: net.outputs].expand(len(first) // net.outputs, -1))


@pytest.mark.parametrize("form", ["graph", "absolute graph", "attention"])
def test_gradients_reach_the_pixels_weights(form: str) -> None:
    codec = DiscreteAbsolute(4, 8) if form == "absolute graph" else DiscreteRelative()
    schema = ReplaySchema.of(get_task("covering_hard"), codec, False, pictures=True)
    net = (PixelAttentionNet if form == "attention" else PixelGraphNet)(schema, "edges", NetConfig(width=16))
    batch = schema.unpack(observe(schema, states("covering_hard", 4)))
    net.q(batch).square().sum().backward()
    assert all(each.grad is not None and each.grad.abs().max() > 0 for each in net.cnn.parameters())


@pytest.mark.parametrize("kind", BOTH)
def test_the_order_of_segments_does_not_matter_and_colours_do(kind: Net) -> None:
    """Rows in another order have the same values in that order; a target that is drawn as an obstacle has others."""
    schema = ReplaySchema.of(get_task("silhouette"), DiscreteRelative(), False, pictures=True)
    net, scene = kind(schema, "edges", NetConfig(width=16)), fresh_scene([(-3, 0.35, 2.1, 0.7)], [(3, 1.05, 2.1, 0.35)])
    order = [*range(SLOTS + 1), SLOTS + 2, SLOTS + 1]
    columns = (each[order] for each in (scene.pose, scene.size, scene.velocity, scene.role, scene.sticky))
    shuffled = Scene(*columns, scene.contact, scene.glue, scene.glue_frame)
    role = scene.role.copy()
    role[-2:] = role[-2:][::-1]
    batches = (schema.unpack(observe(schema, as_states([each]))) for each in (scene, shuffled, replace(scene, role=role)))
    values, others, swapped = (net.q(batch)[0] for batch in batches)
    torch.testing.assert_close(others[:, [0, 2, 1]], values, rtol=1e-4, atol=1e-6)
    assert (swapped - values).abs().max() > 1e-4


@pytest.mark.parametrize("kind", BOTH)
def test_values_of_given_actions_are_those_of_all(kind: Net) -> None:
    schema = ReplaySchema.of(get_task("covering_hard"), DiscreteRelative(), True, pictures=True)
    net = kind(schema, "legal", NetConfig(width=16))
    batch = schema.unpack(observe(schema, states("covering_hard", 6)))
    actions, values = net.best(batch)
    torch.testing.assert_close(net.q_at(batch, actions), values)
    every, taken = net.q(batch)[:2], net.q_at(batch, actions)
    torch.testing.assert_close(taken, values)
    torch.testing.assert_close(every.flatten(1).gather(1, net.place(actions[:2], every.shape[2])[:, None])[:, 0], values[:2])


def test_a_sparse_graph_is_refused_in_one_line() -> None:
    schema = ReplaySchema.of(get_task("silhouette"), DiscreteRelative(), False, pictures=True)
    with pytest.raises(ValueError, match="choose connectivity full"):
        PixelGraphNet(schema, "none", NetConfig("pixels", connectivity="sparse"))


def test_moments_are_those_of_whole_pictures() -> None:
    """Of alpha, by the coordinates that the picture itself has; nothing for what is out of it."""
    schema = ReplaySchema.of(get_task("silhouette"), DiscreteRelative(), False, pictures=True)
    scenes = [state.scene for state in states("silhouette", 3)] + odd_scenes()
    schema = replace(schema, rows=max(len(scene) for scene in scenes), points=40)
    batch = schema.unpack(schema.pack(scenes))
    pictures = of_nodes(scenes).astype(float)
    alpha = pictures[..., 3]
    x, y = np.moveaxis(pictures[..., 4:], -1, 0) * 8 * 63 / 64  # coordinates are 1 in the middle of the last pixel
    found = segments_of(batch).moments.numpy()
    area = alpha.sum(axis=(1, 2))
    assert (found[area == 0] == 0).all()
    assert 0 < (area == 0).sum() < len(area)
    seen = area > 0
    mean = [(alpha * each).sum(axis=(1, 2))[seen] / area[seen] for each in (x, y, x * x, y * y, x * y)]
    wide, tall = np.sqrt(3 * np.maximum(mean[2] - mean[0] ** 2, 0)), np.sqrt(3 * np.maximum(mean[3] - mean[1] ** 2, 0))
    colours = [pictures[..., k].sum(axis=(1, 2))[seen] / area[seen] for k in range(3)]
    ends = [(mean[0] - wide) / 2, (mean[0] + wide) / 2, (mean[1] - tall) / 2, (mean[1] + tall) / 2]
    wanted = [area[seen] / 64, mean[0] / 2, mean[1] / 2, *ends, wide, tall, 4 * (mean[4] - mean[0] * mean[1]), *colours]
    np.testing.assert_allclose(found[seen], np.stack(wanted, axis=1), atol=2e-4)
    first = (
        SLOTS + len(reference_rows(scenes[0])) - 1
    )  # the last object of a scene of the task: upright and whole, so its extent is its size
    size, pose = scenes[0].size[-1], scenes[0].pose[-1]
    assert abs(2 * found[first, 7] - size[0]) < 0.15
    assert abs(2 * found[first, 1] - pose[0]) < 0.1
    assert abs(2 * found[first, 2] + 5 - pose[1]) < 0.1


@pytest.mark.parametrize("task", ["silhouette", "covering_hard"])
def test_relations_of_pictures_are_those_of_the_objects_to_a_pixel(task: str) -> None:
    schema = ReplaySchema.of(get_task(task), DiscreteRelative(), False, pictures=True)
    batch = schema.unpack(observe(schema, states(task, 4)))
    seen, told = segments_of(batch).relations.numpy(), describe(batch)[1]
    whole = (np.abs(batch.pose[..., 0]) + batch.size[..., 0] / 2 < 8)[batch.present]  # in the picture, which the floor is not
    both = np.concatenate([np.outer(whole[a:b], whole[a:b]).flatten() for a, b in pairwise(batch.first)])
    assert both.sum() > 50
    np.testing.assert_allclose(SCALE * seen[both, :8], told[both], atol=0.3)
    np.testing.assert_allclose(seen[:, 8:], np.tanh(SHARP * SCALE * seen[:, :8]), atol=1e-4)
