"""Networks of actors and critics: they see what the environment shows, and each reads it in its own way."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from networks.scenes import states
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from worlds import mirrored

from trilith.agents.rs0.mixture import Head
from trilith.networks.actor_critic.cnn import RelationEncoder, pixels, pool
from trilith.networks.actor_critic.mlp_rnn import ROW_FEATURES, RNNEncoder, longest, rows
from trilith.networks.actor_critic.network import ENCODERS, POINTING, ActorCritic, make_actor_critic
from trilith.networks.actor_critic.pointing import PointingActor
from trilith.networks.config import EncoderConfig
from trilith.world.observations.image import image
from trilith.world.observations.objects import objects
from trilith.world.scene import FLOOR, Role, Scene
from trilith.world.tasks import TASKS, get_task

ACTIONS, OUTPUTS = 5, 10
POINTING_HEAD = Head(ACTIONS, components=1, scale=0.5, min_scale=0.2, pointing=True)
CLOSE = {"rtol": 1e-4, "atol": 1e-5}
LISTS = ["mlp", "rnn"]
"""Encoders that read lists of objects."""


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)


def small(encoder: str) -> EncoderConfig:
    return EncoderConfig(encoder, features=20, embedding=24, width=16, graph=16)  # type: ignore[arg-type]


def make(encoder: str, task: str = "silhouette") -> ActorCritic:
    return make_actor_critic(small(encoder), get_task(task), ACTIONS, OUTPUTS)


def scenes_of(task: str, count: int, level: str = "all") -> list[Scene]:
    return [state.scene for state in states(task, count, level=level)]


def policy_of(net: ActorCritic, seen: Any) -> Tensor:
    """(B, outputs): what the actor says of states seen. Of one that points, whose outputs are as many as there is to choose from, in
    the order of objects: what weights say of each way to choose and glue, all together, whatever the order."""
    raw = net.actor(seen)
    if not isinstance(net.actor, PointingActor):
        return raw
    mixture = POINTING_HEAD.mixture(raw)
    grid = torch.cartesian_prod(*([torch.tensor([-0.8, 0.1, 0.7])] * 2), torch.tensor([-0.9, -0.5]), torch.tensor([-0.3, 0.4]))
    actions = torch.cat([grid, torch.ones(len(grid), 1)], dim=1)[None].expand(len(raw), -1, -1).to(raw.device)
    return mixture.log_density(actions)


def outputs(net: ActorCritic, scenes: list[Scene], actions: Tensor) -> tuple[Tensor, Tensor]:
    seen = net.encoder(net.schema.unpack(net.schema.pack(scenes)))
    return policy_of(net, seen), net.value(seen, actions)


def reordered(scene: Scene, order: np.ndarray) -> Scene:
    """The scene with its rows in another order."""
    place = np.argsort(order)
    contact, glue = (np.sort(place[pairs], axis=1) for pairs in (scene.contact, scene.glue))
    columns = (each[order] for each in (scene.pose, scene.size, scene.velocity, scene.role, scene.sticky))
    return Scene(*columns, contact, glue, scene.glue_frame)


def shuffled(scene: Scene, rng: np.random.Generator) -> Scene:
    """The scene with everything but available blocks and floor in another order."""
    return reordered(scene, np.concatenate([np.arange(FLOOR + 1), rng.permutation(np.arange(FLOOR + 1, len(scene)))]))


@pytest.mark.parametrize("encoder", ENCODERS)
@pytest.mark.parametrize("task", ["silhouette", "covering_hard"])
def test_every_encoder_has_a_policy_and_values(encoder: str, task: str) -> None:
    net, scenes = make(encoder, task), scenes_of(task, 5)
    policy, values = outputs(net, scenes, torch.randn(5, 3, ACTIONS))
    assert policy.shape[0] == 5
    assert policy.shape[1] == OUTPUTS or encoder in POINTING
    assert values.shape == (5, 3)
    assert policy.isfinite().all()
    assert values.isfinite().all()
    assert len({tuple(row) for row in policy.tolist()}) == 5


@pytest.mark.parametrize("encoder", ENCODERS)
def test_several_actions_at_once_have_the_values_of_one_at_a_time(encoder: str) -> None:
    net = make(encoder)
    actions = torch.randn(6, 4, ACTIONS)
    seen = net.encoder(net.schema.unpack(net.schema.pack(scenes_of("silhouette", 6))))
    together = net.value(seen, actions)
    apart = torch.cat([net.value(seen, actions[:, k : k + 1]) for k in range(4)], dim=1)
    torch.testing.assert_close(together, apart, **CLOSE)
    assert not torch.allclose(together[:, 0], together[:, 1])


@pytest.mark.parametrize("encoder", ENCODERS)
def test_gradients_of_both_heads_reach_the_shared_weights_and_not_each_other(encoder: str) -> None:
    net = make(encoder)
    actions = torch.randn(6, 2, ACTIONS, requires_grad=True)
    policy, values = outputs(net, scenes_of("silhouette", 6), actions)
    parts = [list(part()) for part in (net.encoder.parameters, net.actor.parameters, net.critic.parameters)]
    assert sum(map(len, parts)) == len(list(net.parameters())) == len({id(each) for part in parts for each in part})

    def reached(of: Tensor) -> list[bool]:
        """Whether each part, and the actions, have gradients; all weights of a part or none."""
        hit = []
        for part in (*parts, [actions]):
            grads = torch.autograd.grad(of.square().sum(), part, retain_graph=True, allow_unused=True)
            some = [each for each in grads if each is not None]
            assert len(some) in (0, len(part))
            hit.append(any(bool(each.abs().max() > 0) for each in some))
        return hit

    assert reached(policy) == [True, True, False, False]
    assert reached(values) == [True, False, True, True]


@pytest.mark.parametrize("encoder", ENCODERS)
def test_the_slope_is_the_gradient_of_the_values_along_the_actions_and_of_nothing_else(encoder: str) -> None:
    net = make(encoder)
    actions = torch.randn(5, 3, ACTIONS, requires_grad=True)
    seen = net.encoder(net.schema.unpack(net.schema.pack(scenes_of("silhouette", 5))))
    values = net.value(seen, actions)
    [expected] = torch.autograd.grad(values.sum(), actions, retain_graph=True)
    with torch.no_grad():
        found, slope = net.slope(seen, actions)
    torch.testing.assert_close(found, values.detach(), **CLOSE)
    torch.testing.assert_close(slope, expected, **CLOSE)
    assert all(each.requires_grad and each.grad is None for each in net.parameters())


def test_the_slope_leaves_a_frozen_critic_frozen() -> None:
    net = make("mlp")
    net.critic.requires_grad_(False)
    net.slope(net.encoder(net.schema.unpack(net.schema.pack(scenes_of("silhouette", 2)))), torch.randn(2, 1, ACTIONS))
    assert not any(each.requires_grad for each in net.critic.parameters())


@pytest.mark.parametrize("encoder", ENCODERS)
def test_a_scene_is_seen_alike_whatever_else_is_in_the_batch(encoder: str) -> None:
    net, scenes, actions = make(encoder), scenes_of("silhouette", 6), torch.randn(6, 1, ACTIONS)
    assert len({len(scene) for scene in scenes}) > 2
    together = outputs(net, scenes, actions)
    for i, scene in enumerate(scenes):
        for one, all_ in zip(outputs(net, [scene], actions[i : i + 1]), together, strict=True):
            torch.testing.assert_close(one[0], all_[i], **CLOSE)


@pytest.mark.parametrize("encoder", ["mlp", "rnn", "gn", "attention"])
def test_the_order_of_objects_matters_to_lists_and_not_to_graphs(encoder: str) -> None:
    net, scenes, actions = make(encoder), scenes_of("silhouette", 6, "hardest"), torch.randn(6, 1, ACTIONS)
    rng = np.random.default_rng(0)
    before, after = (outputs(net, each, actions) for each in (scenes, [shuffled(scene, rng) for scene in scenes]))
    for one, other in zip(before, after, strict=True):
        if encoder in LISTS:
            assert (one - other).abs().amax(dim=1).min() > 1e-5
        else:
            torch.testing.assert_close(one, other, **CLOSE)


@pytest.mark.parametrize("encoder", ENCODERS)
@pytest.mark.parametrize("task", ["silhouette", "covering_hard"])
def test_mirrored_records_are_the_records_of_the_mirrored_scene(encoder: str, task: str) -> None:
    net, scenes, actions = make(encoder, task), scenes_of(task, 8), torch.randn(8, 1, ACTIONS)
    mirror = np.arange(8) % 3 > 0
    seen = net.encoder(net.schema.unpack(net.schema.pack(scenes), mirror))
    expected = outputs(net, [mirrored(scene) if yes else scene for scene, yes in zip(scenes, mirror, strict=True)], actions)
    for one, other in zip((policy_of(net, seen), net.value(seen, actions)), expected, strict=True):
        torch.testing.assert_close(one, other, **CLOSE)
    assert (policy_of(net, seen) - outputs(net, scenes, actions)[0]).abs().amax(dim=1)[torch.from_numpy(mirror)].min() > 1e-6


@pytest.mark.parametrize("task", TASKS)
def test_a_list_has_the_rows_of_the_environment_and_padding(task: str) -> None:
    length = longest(get_task(task))
    net, scenes = make("mlp", task), scenes_of(task, 12)
    listed = rows(net.schema.unpack(net.schema.pack(scenes)), length)
    assert listed.shape == (12, length, ROW_FEATURES)
    for each, scene in zip(listed, scenes, strict=True):
        n = len(scene)
        expected = objects(scene)
        np.testing.assert_allclose(each[:n, :6], expected[:, :6], atol=1e-6)
        np.testing.assert_allclose(each[:n, 6:9], expected[:, 6:9], rtol=1e-3, atol=1e-6)  # velocities are stored in half precision
        np.testing.assert_array_equal(each[:n, 9:15], expected[:, 9:])
        assert not each[:n, 15].any()
        assert not each[n:, :15].any()
        assert each[n:, 15].all()


def test_of_too_many_objects_those_that_appeared_first_are_left_out_but_not_blocks_to_use_nor_the_floor() -> None:
    length = longest(get_task("silhouette"))
    scenes = [scene for scene in scenes_of("silhouette", 40, "double_the_targets") if len(scene) > length]
    assert {len(scene) - length for scene in scenes} >= {1, 2, 5}
    net = make("mlp")
    for listed, scene in zip(rows(net.schema.unpack(net.schema.pack(scenes)), length), scenes, strict=True):
        kept = np.r_[: FLOOR + 1, FLOOR + 1 + len(scene) - length : len(scene)]
        assert len(kept) == length
        np.testing.assert_allclose(listed[:, :15], objects(scene)[kept], atol=1e-3)
        assert not listed[:, 15].any()
        out = np.setdiff1d(np.arange(len(scene)), kept)
        assert out.tolist() == list(range(FLOOR + 1, FLOOR + 1 + len(out)))
        assert set(scene.role[out]) == {Role.TARGET}


@pytest.mark.parametrize("encoder", LISTS)
def test_lists_are_as_long_as_training_needs(encoder: str) -> None:
    """Room in the records for generalisation levels changes nothing, so that weights fit both."""
    task, actions = get_task("silhouette"), torch.randn(4, 1, ACTIONS)
    nets = [make_actor_critic(small(encoder), task, ACTIONS, OUTPUTS, beyond) for beyond in (False, True)]
    nets[1].load_state_dict(nets[0].state_dict())
    assert nets[0].schema.dtype.itemsize < nets[1].schema.dtype.itemsize
    for one, other in zip(*(outputs(net, scenes_of("silhouette", 4), actions) for net in nets), strict=True):
        torch.testing.assert_close(one, other)


def test_an_encoder_that_is_not_there_is_named_in_one_line() -> None:
    with pytest.raises(ValueError, match="choose mlp, rnn"):
        make("lstm")
    with pytest.raises(ValueError, match="width 0: must be 1 or more"):
        replace(small("gn"), width=0)


class OneDevice(TorchDispatchMode):
    """Raises where an operation mixes devices, numbers aside; only copies may."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        devices = {each.device.type for each in tree_leaves((args, kwargs)) if isinstance(each, Tensor) and each.dim()}
        copies = func.overloadpacket in (torch.ops.aten.copy_, torch.ops.aten._to_copy)
        assert len(devices) < 2 or copies, f"{func} is given tensors on {sorted(devices)}"
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("encoder", ENCODERS)
def test_a_step_stays_on_its_device(encoder: str) -> None:
    """Where there is no GPU, the device `meta` shows it, which has no data."""
    net = make(encoder).to("meta")
    records = net.schema.pack(scenes_of("silhouette", 4))
    actions = torch.zeros(4, 3, ACTIONS, device="meta")
    with OneDevice():
        seen = net.encoder(net.schema.unpack(records, np.arange(4) % 2 == 0, "meta"))
        policy, values = net.actor(seen), net.value(seen, actions)
        (policy.sum() + values.sum()).backward()
    assert policy.device.type == values.device.type == "meta"
    assert all(each.grad is not None and each.grad.device.type == "meta" for each in net.parameters())


@pytest.mark.parametrize("task", TASKS)
def test_images_of_a_batch_are_those_of_the_environment(task: str) -> None:
    """To the bit, though states are stored in single precision: no pixel of these has its centre that near to an edge."""
    net, scenes = make("cnn", task), scenes_of(task, 24)
    found = pixels(net.schema.unpack(net.schema.pack(scenes))).permute(0, 2, 3, 1)
    assert max(len(scene.glue) for scene in scenes)
    for each, scene in zip(found, scenes, strict=True):
        np.testing.assert_array_equal(each, image(scene))


def test_images_of_mirrored_records_are_those_of_the_mirrored_scene() -> None:
    net, scenes = make("cnn", "covering_hard"), scenes_of("covering_hard", 24)
    found = pixels(net.schema.unpack(net.schema.pack(scenes), np.ones(24, dtype=bool))).permute(0, 2, 3, 1)
    for each, scene in zip(found, scenes, strict=True):
        np.testing.assert_array_equal(each, image(mirrored(scene)))


def test_convolutions_and_pools_are_same_padded_as_printed() -> None:
    """64 × 64 becomes 32 × 32 by a pool whose windows begin at 0, 2, 4 …, the last one cut off at the end."""
    x = torch.randn(2, 3, 8, 8)
    expected = torch.stack(
        [torch.stack([x[..., i : i + 3, j : j + 3].amax(dim=(2, 3)) for j in (0, 2, 4, 6)], -1) for i in (0, 2, 4, 6)], -2
    )
    assert torch.equal(pool(x), expected)
    assert [tuple(layer.weight.shape[:2]) for layer in make("cnn").encoder.layers] == [(16, 5), (32, 16), (32, 32), (32, 32)]  # type: ignore[union-attr]


def test_the_relation_network_averages_over_all_pairs_of_places() -> None:
    """By loops over pairs, from what its convolutions give."""
    net = make("cnn-rn")
    encoder, batch = net.encoder, net.schema.unpack(net.schema.pack(scenes_of("silhouette", 2)))
    assert isinstance(encoder, RelationEncoder)
    x = pixels(batch)
    for block in encoder.blocks:
        x = block(x)
    assert x.shape == (2, 8, 8, 8)
    weights, found, expected = list(encoder.parameters()), encoder(batch), []
    for places in x.flatten(2).transpose(1, 2):
        pairs = torch.stack([torch.cat([one, other]) for one in places for other in places])
        expected.append(encoder.linear(encoder.second(encoder.pair(pairs).relu()).relu().mean(dim=0)))
    torch.testing.assert_close(found, torch.stack(expected), **CLOSE)
    grads = [torch.autograd.grad(each.square().sum(), weights) for each in (found, torch.stack(expected))]
    for one, other in zip(*grads, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-5)


def test_a_list_that_is_not_clipped_is_read_whole_whatever_else_is_in_the_batch() -> None:
    task, length = get_task("silhouette"), longest(get_task("silhouette"))
    clipped, whole = (make_actor_critic(replace(small("rnn"), clip=clip), task, ACTIONS, OUTPUTS) for clip in (True, False))
    whole.load_state_dict(clipped.state_dict())
    assert isinstance(whole.encoder, RNNEncoder)
    scenes = [*scenes_of("silhouette", 3), *scenes_of("silhouette", 12, "double_the_targets")]
    batch = whole.schema.unpack(whole.schema.pack(scenes))
    for scene, one, other in zip(scenes, clipped.encoder(batch), whole.encoder(batch), strict=True):
        alone = whole.schema.unpack(whole.schema.pack([scene]))
        _, last = whole.encoder.gru(rows(alone, max(len(scene), length)))
        torch.testing.assert_close(other, last[0, 0], **CLOSE)
        assert torch.allclose(one, other, **CLOSE) == (len(scene) <= length)
    assert any(len(scene) > length for scene in scenes)
