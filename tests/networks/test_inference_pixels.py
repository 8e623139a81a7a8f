"""Acting from segmented images: nothing but pixels gets through, and what was seen before changes nothing."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch
from networks.scenes import as_states, odd_scenes, states

from trilith.agents.dqn.policy import observe
from trilith.agents.registry import load
from trilith.evaluation.scene_sets import start_in_set
from trilith.networks.config import Mask, NetConfig
from trilith.networks.inference import pixels as acting_pixels
from trilith.networks.inference.pixels import ActingPixels
from trilith.networks.inputs.scene_batch import Floats32, Records, ReplaySchema, SceneBatch
from trilith.networks.q.pixel_attention import PixelAttentionNet
from trilith.world.actions import DiscreteRelative
from trilith.world.episode import State
from trilith.world.scene import FLOOR, Ints, Role, Scene
from trilith.world.tasks import get_task

CONFIG = NetConfig("pixel-attention")
TASKS = ("silhouette", "covering_hard")


def schema_of(task: str, mask: Mask = "legal") -> ReplaySchema:
    return ReplaySchema.of(get_task(task), DiscreteRelative(), mask == "legal", pictures=True)


def learning(schema: ReplaySchema, mask: Mask = "legal", bias: float = 0.0, blank: bool = False) -> PixelAttentionNet:
    """The form that learns, with fresh weights, biases of convolutions spread by `bias` among them."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    net = PixelAttentionNet(schema, mask, NetConfig("pixel-attention", blank=blank))
    for layer in net.cnn.layers:
        torch.nn.init.normal_(layer.bias, std=bias)  # type: ignore[arg-type]
    return net


def acting(net: PixelAttentionNet) -> ActingPixels:
    """A form that acts, which has seen nothing yet."""
    found = ActingPixels(net.schema, net.mask_rule, replace(CONFIG, blank=net.cnn.blank))
    found.load(net.weights())
    return found


def seen(task: str, count: int = 16, seed: int = 0) -> Records:
    return observe(schema_of(task), states(task, count, seed, "hardest"))


def test_objects_across_every_border_and_beyond_have_the_values_of_the_form_that_learns() -> None:
    """With biases by which what lies beyond the border would matter, if it were looked at."""
    scenes = odd_scenes()
    schema = replace(schema_of("silhouette", "edges"), rows=max(len(scene) for scene in scenes), points=40)
    net = learning(schema, "edges", bias=3.0)
    records = observe(schema, as_states(scenes))
    values, mask = acting(net).values(records)
    expected, _ = net.values(records)
    assert np.abs(values - expected)[mask].max() < 1e-4 * max(1.0, np.abs(expected).max())
    others, _ = acting(net).values(records[::-1])
    assert (others[::-1] == values).all()


@pytest.mark.parametrize("task", TASKS)
def test_what_was_seen_before_changes_no_bit(task: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Alone, after other states, in another order, and where hardly anything is remembered."""
    net, records = learning(schema_of(task)), seen(task)
    fresh, _ = acting(net).values(records)
    used = acting(net)
    used.values(seen(task, seed=1))
    for _ in range(2):
        assert (used.values(records)[0] == fresh).all()
    assert (used.values(records[::-1])[0][::-1] == fresh).all()
    order = np.random.default_rng(0).permutation(len(records))
    assert (acting(net).values(records[order])[0] == fresh[order]).all()
    monkeypatch.setattr(acting_pixels, "MOST", 5)
    forgetful = acting(net)
    for i, count in enumerate(records["count"].tolist()):
        assert (forgetful.values(records[i : i + 1])[0][0] == fresh[i, :, :count]).all()


@pytest.fixture
def computed(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many windows were computed, call by call."""
    counts: list[int] = []

    def counted(boxes: Floats32, first: Floats32, pixels: Floats32, which: Floats32, *rest: object) -> object:
        counts.append(len(which))
        return whole(boxes, first, pixels, which, *rest)

    whole: Callable[..., object] = acting_pixels.convolve_windows
    monkeypatch.setattr(acting_pixels, "convolve_windows", counted)
    return counts


def test_windows_are_computed_once_and_anew_for_other_weights(computed: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    net, records = learning(schema_of("covering_hard")), seen("covering_hard")
    agent = acting(net)
    first, _ = agent.values(records)
    agent.values(records)
    [count] = computed
    assert count < len(net.schema.unpack(records).windows()[0]) / 3
    others = {name: value * np.float32(0.9) for name, value in net.weights().items()}
    agent.load(others)
    assert (agent.values(records)[0] != first).any()
    agent.load(net.weights())
    assert (agent.values(records)[0] == first).all()
    assert computed == [count] * 3
    monkeypatch.setattr(acting_pixels, "MOST", count - 1)
    agent.values(records)
    assert computed == [count] * 4, "more than are kept: all is forgotten"


@pytest.mark.parametrize("mask", ["edges", "legal"])
def test_nothing_but_pixels_links_and_mask_reaches_the_values(mask: Mask, monkeypatch: pytest.MonkeyPatch) -> None:
    schema = schema_of("covering_hard", mask)
    records, net = observe(schema, states("covering_hard", 6)), acting(learning(schema, mask))
    values, allowed = net.values(records)
    windows = schema.unpack(records).windows(tight=True)
    rng, noisy = np.random.default_rng(0), records.copy()
    kept = ("count", "available", "touch", "glue", "glued", "points", "legal")
    for name in (name for name in records.dtype.names or () if name not in kept):
        noisy[name] = rng.integers(5, size=records[name].shape) if name == "role" else 10 * rng.normal(size=records[name].shape)

    def shown(batch: SceneBatch, tight: bool) -> object:
        return windows

    monkeypatch.setattr(SceneBatch, "windows", shown)
    others, still = net.values(noisy)
    assert (others == values).all()
    assert (still == allowed).all()
    monkeypatch.undo()
    assert (net.values(noisy)[0] != values).any(), "pictures do"


@pytest.mark.parametrize("task", TASKS)
def test_blank_pictures_have_the_values_of_the_form_that_learns(task: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With biases by which an empty picture has features; and nothing is drawn."""
    net, records = learning(schema_of(task), bias=3.0, blank=True), seen(task)
    expected, mask = net.values(records)
    assert net.cnn(net.schema.unpack(records)).max() > 1
    monkeypatch.setattr(SceneBatch, "windows", None)
    values, allowed = acting(net).values(records)
    assert (allowed == mask).all()
    assert np.abs(values - expected)[mask].max() < 1e-4 * np.abs(expected).max()


def test_the_shipped_agent_does_not_mind_the_order_of_segments_and_minds_their_colours() -> None:
    """Obstacles in another order lead to the same placement; shown in the colour of blocks, to another in some scenes."""
    agent, starts = load("pixels"), [start_in_set("covering_hard", "hardest", "valid", k) for k in range(12)]

    def changed(state: State, role: Ints, order: Ints) -> State:
        scene = state.scene
        columns = (each[order] for each in (scene.pose, scene.size, scene.velocity, role, scene.sticky))
        return replace(state, scene=Scene(*columns, scene.contact, scene.glue, scene.glue_frame))

    rngs = [np.random.default_rng(0)] * len(starts)
    plain = agent.act(starts, rngs)
    reverse = [np.r_[: FLOOR + 1, len(state.scene) - 1 : FLOOR : -1] for state in starts]
    shuffled = [changed(state, state.scene.role, order) for state, order in zip(starts, reverse, strict=True)]
    assert all((one.scene.pose != other.scene.pose).any() for one, other in zip(starts, shuffled, strict=True))
    for one, other in zip(plain, agent.act(shuffled, rngs), strict=True):
        assert one is not None
        assert other is not None
        assert (one.slot, one.sticky) == (other.slot, other.sticky)
        assert (one.x, one.y) == pytest.approx((other.x, other.y), abs=1e-6)
    blue = [np.where(state.scene.role == Role.OBSTACLE, Role.BLOCK, state.scene.role) for state in starts]
    swapped = [changed(state, role, np.arange(len(role))) for state, role in zip(starts, blue, strict=True)]
    assert agent.act(swapped, rngs) != plain
