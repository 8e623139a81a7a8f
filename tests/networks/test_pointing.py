"""A policy that points: its components pick what they are attached to, whatever can be picked has some, and nothing else is likely."""

import numpy as np
import pytest
import torch
from networks.scenes import states

from trilith.agents.rs0.mixture import Head, Mixture
from trilith.networks.actor_critic.network import make_actor_critic
from trilith.networks.actor_critic.pointing import COMPONENTS, GLUE, PLACES
from trilith.networks.config import EncoderConfig
from trilith.networks.inputs.scene_batch import KIND_OF_SLOT, KINDS
from trilith.world.actions import ContinuousAbsolute, ContinuousRelative, first_of_width, reference_rows, rest_height
from trilith.world.scene import SLOT_WIDTHS, Scene
from trilith.world.tasks import get_task

MIDDLE = PLACES.index(0.0)


def mixture_of(scenes: list[Scene], task: str, actions: int, fresh: bool = False) -> Mixture:
    """The policy in scenes; unless it is `fresh`, with weights by which numbers stay where they begin."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    net = make_actor_critic(EncoderConfig("attention"), get_task(task), actions, 0)
    if not fresh:
        torch.nn.init.zeros_(net.actor.out.weight)  # type: ignore[union-attr, arg-type]
        torch.nn.init.zeros_(net.actor.out.bias)  # type: ignore[union-attr, arg-type]
    with torch.no_grad():
        raw = net.actor(net.encoder(net.schema.unpack(net.schema.pack(scenes))))
        return Head(actions, components=1, scale=0.3, min_scale=0.02, pointing=True).mixture(raw)


@pytest.mark.parametrize("codec", [ContinuousRelative(), ContinuousAbsolute()])
@pytest.mark.parametrize("task", ["silhouette", "covering_hard"])
def test_components_pick_what_they_are_attached_to(task: str, codec: ContinuousRelative | ContinuousAbsolute) -> None:
    scenes = [state.scene for state in states(task, 12)]
    mixture = mixture_of(scenes, task, codec.length)
    for i, scene in enumerate(scenes):
        refs, first = reference_rows(scene), first_of_width(scene)
        means = mixture.mean[i].view(-1, KINDS, len(PLACES), len(GLUE), codec.length)[:, :, MIDDLE]
        weights = mixture.log_weight[i].exp().view(-1, KINDS, COMPONENTS)
        assert float(weights.sum()) == pytest.approx(1, abs=1e-4)
        assert not weights[len(refs) :].any()
        left = {int(KIND_OF_SLOT[slot]): int(slot) for slot in np.flatnonzero(first)}
        for kind in range(KINDS):
            assert bool(weights[: len(refs), kind].all()) == bool(weights[: len(refs), kind].any()) == (kind in left)
        for kind, slot in left.items():
            for r, row in enumerate(refs.tolist()):
                for k, glue in enumerate(GLUE):
                    placement = codec.decode(scene, means[r, kind, k].tolist())
                    assert (placement.slot, placement.sticky) == (slot, glue > 0)
                    assert SLOT_WIDTHS[placement.slot] == SLOT_WIDTHS[slot]
                    if scene.pose[row, 1] >= 0:  # below the floor's edge nothing can be pointed at
                        assert placement.x == pytest.approx(np.clip(scene.pose[row, 0], -7.5, 7.5), abs=1e-5)
                        assert placement.y == pytest.approx(np.clip(rest_height(scene, row), 0, 15), abs=1e-5)


def test_what_the_planner_and_scripts_do_is_likely_to_some_component_of_fresh_weights() -> None:
    """Every placement relative to an object, on any block that is left, is within two standard deviations of a component."""
    rng = np.random.default_rng(0)
    scenes = [state.scene for state in states("covering_hard", 20)]
    codec, mixture = ContinuousRelative(), mixture_of(scenes, "covering_hard", 5)
    for i, scene in enumerate(scenes):
        for _ in range(20):
            slot, row = int(rng.choice(np.flatnonzero(first_of_width(scene)))), int(rng.choice(reference_rows(scene)))
            middle = codec.decode(scene, (float(0), float(0), float(0), float(0), float(-1)))
            x = float(scene.pose[row, 0] + rng.uniform(-1, 1) * (scene.size[row, 0] + SLOT_WIDTHS[slot]) / 2)
            placement = middle._replace(slot=slot, x=x, y=float(rest_height(scene, row)), sticky=bool(rng.random() < 0.5))
            action = torch.tensor(codec.encode(scene, placement), dtype=torch.float32)
            off = ((action - mixture.mean[i]) / mixture.scale[i]).abs().amax(dim=-1)
            assert float(off[mixture.log_weight[i] > -100].min()) < 2.0


def test_fresh_weights_draw_from_many_components_and_only_from_those_that_can_be_chosen() -> None:
    scenes = [state.scene for state in states("covering_hard", 10)]
    mixture = mixture_of(scenes, "covering_hard", 5, fresh=True)
    rng = np.random.default_rng(0)
    chance, noise = rng.random((10, 500), np.float32), rng.standard_normal((10, 500, 5), np.float32)
    component, drawn = mixture.draw(torch.from_numpy(chance), torch.from_numpy(noise))
    assert (mixture.log_weight.gather(1, component) > -100).all()
    assert drawn.isfinite().all()
    assert mixture.log_density(drawn).isfinite().all()
    for i, scene in enumerate(scenes):
        slots = {ContinuousRelative().decode(scene, action).slot for action in drawn[i].tolist()}
        assert slots == set(np.flatnonzero(first_of_width(scene)).tolist())
