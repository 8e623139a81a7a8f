"""Agents with Q-values on the edges of a scene (paper §4.4 and §D): choosing by a network, and a network from a config or from weights."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.torch import load_file

from trilith.agents.dqn.config import DQNConfig
from trilith.agents.registry import weights_file
from trilith.nets.attention import AttentionNet
from trilith.nets.batch import KIND_OF_SLOT, Layout, Records
from trilith.nets.graph import GraphNet
from trilith.nets.qnet import QNet
from trilith.search.tree import Prior
from trilith.support.config import from_json, to_json
from trilith.support.files import read_json, write_json
from trilith.support.tensors import save_tensors
from trilith.world.actions import DiscreteAbsolute, DiscreteRelative, DiscreteRelativeXY, first_of_width, legal
from trilith.world.episode import State, physics_from_json
from trilith.world.physics import PHYSICS
from trilith.world.scene import SLOTS, Bools, Ints, Placement, Role, Scene
from trilith.world.tasks import get_task


def make_layout(config: DQNConfig, task: str, beyond: bool = True) -> Layout:
    """How states of a task are stored under a config; without `beyond` there is room for the curriculum only, as a replay wants it.

    Raises ValueError if mask and actions do not go together.
    """
    rules = get_task(task)
    if config.actions == "absolute":
        if config.mask == "legal":
            raise ValueError("the mask legal is for relative actions: choose mask none or edges for absolute ones")
        return Layout.of(rules, DiscreteAbsolute(*(config.grid or rules.grid)), False, beyond)
    codec = DiscreteRelative(config.offsets) if config.actions == "relative" else DiscreteRelativeXY(config.offsets)
    return Layout.of(rules, codec, config.mask == "legal", beyond)


def make_net(config: DQNConfig, layout: Layout) -> QNet:
    """The network of a config, with fresh weights from torch's generator."""
    net = _make_net(config, layout)
    net.stops = config.stop
    return net


def _make_net(config: DQNConfig, layout: Layout) -> QNet:
    net = config.net
    if net.network == "graph":
        return GraphNet(layout, config.mask, net.width, net.recurrent, net.connectivity, relative=config.actions != "absolute")
    if config.actions == "absolute":
        raise ValueError("the attention network has no absolute actions: choose network graph")
    return AttentionNet(layout, config.mask, net.width, net.layers, net.heads, net.pair, net.decoder)


def observe(layout: Layout, scenes: Sequence[Scene]) -> Records:
    """(B,): records of scenes, the mask of legal actions included if the layout wants it."""
    if not layout.stores_legal:
        return layout.pack(scenes)
    assert isinstance(layout.codec, DiscreteRelative)
    return layout.pack(scenes, [legal(scene, layout.codec) for scene in scenes])


class Choice(NamedTuple):
    """What to do in a state."""

    action: Ints
    """(4,): sender, receiver, offset, sticky."""
    tried: NDArray[np.int32] = np.zeros((0, 4), np.int32)
    """(K, 4): actions that a search tried."""
    found: NDArray[np.float32] = np.zeros(0, np.float32)
    """(K,): the values it found."""


def choose(net: QNet, records: Records, random: Bools, rng: np.random.Generator, stops: bool = False) -> list[Choice | None]:
    """(B,): the best action in each state, or any that the mask allows where `random` (B,) is True.

    None where it allows none, and, for one who `stops` then, where the best is expected to lose.
    """
    with torch.no_grad():
        batch = net.layout.unpack(records, device=net.device)
        values = net.q(batch).masked_fill(~net.mask(batch), -torch.inf).flatten(1)
        best, flat = (each.cpu() for each in values.max(dim=1))
        some = torch.isfinite(best).numpy()
        worth = some & ((best >= 0).numpy() | random) if stops else some
        for i in np.flatnonzero(random & some).tolist():
            allowed = torch.isfinite(values[i].cpu()).nonzero()[:, 0]
            flat[i] = allowed[int(rng.integers(len(allowed)))]
        actions = net.actions(batch.host, flat).numpy()
        return [Choice(action) if go else None for go, action in zip(worth, actions, strict=True)]


class DQNAgent:
    """Builds by taking the action of the highest value."""

    def __init__(self, net: QNet, discount: float = DQNConfig.discount, stops: bool | None = None) -> None:
        self.net, self.layout, self.discount = net, net.layout, discount
        self.stops = net.stops if stops is None else stops
        """Whether it ends an episode where all values are below 0."""
        self._receivers = net.layout.rows + SLOTS
        """More than there can be: what edges are counted with in the names of actions."""
        self._stop = self._receivers * self._receivers * net.outputs
        """The name of stopping, after all others."""

    def act(self, states: Sequence[State], rngs: Sequence[np.random.Generator]) -> list[Placement | None]:
        """The best placement in each state; None where the mask allows none, all would lose, or the best is an invalid edge."""
        if not states:
            return []
        scenes = [state.scene for state in states]
        greedy = np.zeros(len(scenes), dtype=bool)
        choices = choose(self.net, observe(self.layout, scenes), greedy, np.random.default_rng(0), self.stops)
        return [self.layout.decode(scene, c.action.tolist()) if c else None for scene, c in zip(scenes, choices, strict=True)]

    def priors(self, states: Sequence[State]) -> list[Prior]:
        """The values of all actions that the mask allows; of blocks of one width only the first, with the highest value of all.

        To stop, if the agent does that, is an action of value 0 with an edge of its own.
        """
        with torch.no_grad():
            batch = self.layout.unpack(observe(self.layout, [state.scene for state in states]), device=self.net.device)
            values, masks = self.net.q(batch).cpu().numpy(), self.net.mask(batch).cpu().numpy()
        found = []
        for state, value, mask in zip(states, values, masks, strict=True):
            if self.net.mask_rule != "none" and mask.shape[0] == SLOTS:  # else senders are kinds, or any node
                first = first_of_width(state.scene)
                best = np.where(mask, value, -np.inf)
                value = np.stack([best[kind == KIND_OF_SLOT].max(axis=0) for kind in KIND_OF_SLOT])
                mask = mask & first[:, None, None]
            sender, receiver, output = mask.nonzero()
            edges = sender * self._receivers + receiver
            expected, names = value[sender, receiver, output], edges * self.net.outputs + output
            if self.stops and len(names):
                edges = np.append(edges, self._stop // self.net.outputs)
                expected, names = np.append(expected, 0.0), np.append(names, self._stop)
            found.append(Prior(expected, edges, names))
        return found

    def action(self, state: State, name: int) -> tuple[int, int, int, int]:
        """An action of `priors` as sender, receiver, offset and sticky."""
        edge, output = divmod(name, self.net.outputs)
        return self.net.action(state.scene.role[:SLOTS] == Role.AVAILABLE, *divmod(edge, self._receivers), output)

    def placement(self, state: State, name: int) -> Placement | None:
        """The placement of an action of `priors`; None for stopping."""
        return None if name == self._stop else self.layout.decode(state.scene, self.action(state, name))

    def ideas(self, state: State, rng: np.random.Generator, k: int) -> list[tuple[Placement, float]]:
        """The k placements of the highest values, each with what the network expects of it."""
        [prior] = self.priors([state])
        best = np.argsort(-prior.values, kind="stable")[:k]
        found = [(self.placement(state, int(prior.names[a])), float(prior.values[a])) for a in best]
        return [(placement, value) for placement, value in found if placement is not None]


NEEDED = ("net", "actions", "offsets", "grid", "mask", "stop", "discount")
"""Fields of a config that an agent is made of; the others say how it has learnt, and may change from version to version."""


def save_weights(path: Path, config: DQNConfig, task: str, net: QNet, card: dict[str, Any]) -> None:
    """Writes a network's weights to `path` and, beside it as JSON, what is needed to use them and a `card` about them."""
    save_tensors(path, {name: value.cpu().numpy() for name, value in net.state_dict().items()})
    everything = to_json(config)
    agent = {name: everything.pop(name) for name in NEEDED}
    write_json(path.with_suffix(".json"), {"task": task, "physics": PHYSICS, "agent": agent, "learning": everything, **card})


@cache
def warn_of_physics(version: int) -> None:
    """Tells, once a process, that weights were trained in another world than this one."""
    if version != PHYSICS:
        print(f"weights trained with version {version} of the physics (now {PHYSICS}): they act, but were not made for it", file=sys.stderr)


def load_weights(path: str | Path) -> DQNAgent:
    """The agent of a weights file or, given the folder of a run, of its best weights (its last ones if there are no best yet).

    Raises ValueError in one line if there are none, or the files are damaged or do not belong together.
    """
    path = weights_file(Path(path))
    data = read_json(path.with_suffix(".json"))
    try:
        warn_of_physics(physics_from_json(data))
        given = {"stop": False} | data["agent"]  # the first agents could not
        config = from_json(DQNConfig, {name: given[name] for name in NEEDED})
        net = make_net(config, make_layout(config, data["task"]))
    except (KeyError, TypeError) as error:
        raise ValueError(f"{path.with_suffix('.json')} does not describe an agent: {error}") from None
    try:
        weights = load_file(path)
        weights.pop("bias.bias", None)  # the first agents added it to all scores of a head alike, which changes nothing
        net.load_state_dict(weights)
    except (OSError, SafetensorError, RuntimeError) as error:
        raise ValueError(f"cannot use the weights {path}: {' '.join(str(error).split())}") from None
    return DQNAgent(net.eval(), config.discount)
