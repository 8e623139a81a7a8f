"""Deep Q-learning with values on the edges of a scene (paper §4.4 and §D): recipes, the learning rule, and an agent from weights."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor
from torch.nn import functional as F

from trilith.actions import DiscreteAbsolute, DiscreteRelative, DiscreteRelativeXY, legal
from trilith.agent import first_of_width, weights_file
from trilith.agents.config import DQNConfig, from_json, to_json
from trilith.agents.replay import Replay, Sample, joined, mirrored
from trilith.episode import State
from trilith.files import read_json, whole, write_json
from trilith.nets.attention import AttentionNet
from trilith.nets.batch import KIND_OF_SLOT, Layout, Records
from trilith.nets.graph import GraphNet
from trilith.nets.qnet import QNet
from trilith.scene import SLOTS, Bools, Ints, Placement, Role, Scene
from trilith.search import Prior
from trilith.tasks import get_task


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
    taken: float
    """The value of that action."""
    best: float
    """The value of the best one."""
    tried: NDArray[np.int32] = np.zeros((0, 4), np.int32)
    """(K, 4): actions that a search tried."""
    found: NDArray[np.float32] = np.zeros(0, np.float32)
    """(K,): the values it found."""


def choose(net: QNet, records: Records, random: Bools, rng: np.random.Generator) -> list[Choice | None]:
    """(B,): the best action in each state, or any that the mask allows where `random` (B,) is True; None where it allows none."""
    with torch.no_grad():
        batch = net.layout.unpack(records)
        values = net.q(batch).masked_fill(~net.mask(batch), -torch.inf).flatten(1)
        best, flat = values.max(dim=1)
        some = torch.isfinite(best).numpy()
        for i in np.flatnonzero(random & some).tolist():
            allowed = torch.isfinite(values[i]).nonzero()[:, 0]
            flat[i] = allowed[int(rng.integers(len(allowed)))]
        actions = net.actions(batch, flat).numpy()
        taken = values.gather(1, flat[:, None])[:, 0]
        return [Choice(*each) if any_ else None for any_, *each in zip(some, actions, taken.tolist(), best.tolist(), strict=True)]


class DQNLearner:
    """The learning network, its target and its optimiser, and one step of learning."""

    def __init__(self, config: DQNConfig, layout: Layout, seed: int) -> None:
        self.config, self.layout = config, layout
        torch.manual_seed(seed)
        self.net, self.target = make_net(config, layout), make_net(config, layout)
        self.target.load_state_dict(self.net.state_dict())
        self.target.requires_grad_(False)
        self.optimiser = torch.optim.Adam(self.net.parameters(), lr=config.learning_rate, fused=True)
        self.steps = 0

    @property
    def acting(self) -> QNet:
        """The network to evaluate and to keep."""
        return self.target if self.config.act_with_target and self.config.target_rate else self.net

    def learn(self, replay: Replay, rng: np.random.Generator, shown: Replay | None = None) -> dict[str, float]:
        """One learner step on transitions of the replay and of demonstrations `shown`, if any; returns figures for the log."""
        config = self.config
        demos = round(config.demonstration_share * config.batch) if shown else 0
        own = sample = replay.sample(rng, config.batch - demos, config.n_step, config.priority_correction)
        if shown and demos:
            added = shown.sample(rng, demos, config.n_step)
            sample = joined(added, own)
        rate = config.learning_rate * min(1.0, (self.steps + 1) / max(config.warmup, 1))
        if config.decay_steps:
            rate *= 0.55 + 0.45 * float(np.cos(np.pi * min(self.steps / config.decay_steps, 1.0)))
        self.optimiser.param_groups[0]["lr"] = rate

        mirror, actions = None, sample.actions
        if config.mirror:
            mirror, actions = mirrored(self.layout, sample.records, actions, rng)
        wanted = self._targets(sample)
        # Of most transitions one value is all that is needed; of demonstrated and searched ones it is those of all actions.
        whole = config.batch if config.amortise else demos
        parts = []
        if whole:
            batch = self.layout.unpack(sample.records[:whole], None if mirror is None else mirror[:whole])
            every = self.net.q(batch).masked_fill(~self.net.mask(batch), -torch.inf).flatten(1)
            taken = self.net.flat(batch, torch.from_numpy(actions[:whole]))
            parts.append(every.gather(1, taken[:, None])[:, 0])
        if whole < config.batch:
            batch = self.layout.unpack(sample.records[whole:], None if mirror is None else mirror[whole:])
            parts.append(self.net.q_at(batch, torch.from_numpy(actions[whole:])))
        values = torch.cat(parts)
        loss = (F.huber_loss(values, wanted, reduction="none") * torch.from_numpy(sample.weights).float()).mean()
        if demos:
            loss = loss + config.margin_weight * shortfall(every[:demos], taken[:demos], config.margin).sum() / config.batch
        if config.amortise:
            tried = sample.tried
            if mirror is not None:
                b, k = tried.shape[:2]
                tried = self.layout.mirror_actions(tried.reshape(-1, 4), np.repeat(mirror, k)).reshape(b, k, 4)
            places = torch.stack([self.net.flat(batch, torch.from_numpy(tried[:, k])) for k in range(tried.shape[1])], dim=1)
            places = places.masked_fill(torch.from_numpy(tried[:, :, 0] < 0), -1)
            loss = loss + config.amortise * surprise(every, places, torch.from_numpy(sample.found), config.temperature).sum() / config.batch
        self.optimiser.zero_grad()
        loss.backward()
        if config.clip:
            torch.nn.utils.clip_grad_norm_(self.net.parameters(), config.clip)
        self.optimiser.step()
        self.steps += 1
        if config.priority:
            replay.prioritise(own.places, (values.detach() - wanted).numpy()[demos:])
        self._move_target()
        return {"loss": float(loss.detach()), "value": float(values.detach().mean())}

    def _targets(self, sample: Sample) -> Tensor:
        """(B,): rewards and, where the episode went on, the discounted value of what followed."""
        wanted = torch.from_numpy(sample.returns).float()
        goes_on = np.flatnonzero(sample.discounts)
        if not len(goes_on):
            return wanted
        with torch.no_grad():
            batch = self.layout.unpack(sample.following[goes_on])
            best, value = (self.net if self.config.double else self.target).best(batch)
            some = torch.isfinite(value)  # no action left is worth nothing, as is the end that choosing one would bring
            if self.config.double:
                value = self.target.q_at(batch, best.clamp(min=0))
            wanted[goes_on] += torch.from_numpy(sample.discounts[goes_on]).float() * torch.where(some, value, 0.0)
        return wanted

    def _move_target(self) -> None:
        config = self.config
        with torch.no_grad():
            if config.target_rate:
                # Early on the average covers only the steps there have been, so that the target does not lag behind.
                rate = max(config.target_rate, 1 / (self.steps + 1))
                torch._foreach_lerp_(list(self.target.parameters()), list(self.net.parameters()), rate)
            elif self.steps % config.target_period == 0:
                self.target.load_state_dict(self.net.state_dict())


def shortfall(values: Tensor, shown: Tensor, margin: float) -> Tensor:
    """(B,): by how much the values of demonstrated actions fail to exceed all others by a margin (Hester et al. 2018).

    `values` (B, A) are -inf where there is no action, `shown` (B,) says which was demonstrated.
    """
    own = values.gather(1, shown[:, None])
    return (values + margin).scatter(1, shown[:, None], own).max(dim=1).values - own[:, 0]


def surprise(values: Tensor, tried: Tensor, found: Tensor, temperature: float) -> Tensor:
    """(B,): cross-entropy between what searches found and what the network says, both as a softmax; 0 where nothing was searched.

    `values` (B, A) are -inf where there is no action, `tried` (B, K) says which actions were tried, -1 for none, and `found` (B, K)
    what they turned out to be worth. Of what was not tried the network's own value stands, as it does in a search.
    """
    wanted = values.detach().clone()
    which, k = (tried >= 0).nonzero().unbind(1)
    wanted[which, tried[which, k]] = found[which, k]
    said = (values / temperature).log_softmax(dim=1).masked_fill(torch.isinf(values), 0.0)
    return -((wanted / temperature).softmax(dim=1) * said).sum(dim=1) * (tried >= 0).any(dim=1)


class DQNAgent:
    """Builds by taking the action of the highest value."""

    def __init__(self, net: QNet, discount: float = DQNConfig.discount) -> None:
        self.net, self.layout, self.discount = net, net.layout, discount
        self._receivers = net.layout.rows + SLOTS
        """More than there can be: what edges are counted with in the names of actions."""

    def act(self, states: Sequence[State], rngs: Sequence[np.random.Generator]) -> list[Placement | None]:
        """The best placement in each state; None where the mask allows none, or the network prefers an invalid edge."""
        if not states:
            return []
        scenes = [state.scene for state in states]
        greedy = np.zeros(len(scenes), dtype=bool)
        choices = choose(self.net, observe(self.layout, scenes), greedy, np.random.default_rng(0))
        return [self.layout.decode(scene, c.action.tolist()) if c else None for scene, c in zip(scenes, choices, strict=True)]

    def priors(self, states: Sequence[State]) -> list[Prior]:
        """The values of all actions that the mask allows; of blocks of one width only the first, with the highest value of all."""
        with torch.no_grad():
            batch = self.layout.unpack(observe(self.layout, [state.scene for state in states]))
            values, masks = self.net.q(batch).numpy(), self.net.mask(batch).numpy()
        found = []
        for state, value, mask in zip(states, values, masks, strict=True):
            if self.net.mask_rule != "none" and mask.shape[0] == SLOTS:  # else senders are kinds, or any node
                first = first_of_width(state)
                best = np.where(mask, value, -np.inf)
                value = np.stack([best[kind == KIND_OF_SLOT].max(axis=0) for kind in KIND_OF_SLOT])
                mask = mask & first[:, None, None]
            sender, receiver, output = mask.nonzero()
            edges = sender * self._receivers + receiver
            found.append(Prior(value[sender, receiver, output], edges, edges * self.net.outputs + output))
        return found

    def action(self, state: State, name: int) -> tuple[int, int, int, int]:
        """An action of `priors` as sender, receiver, offset and sticky."""
        edge, output = divmod(name, self.net.outputs)
        return self.net.action(state.scene.role[:SLOTS] == Role.AVAILABLE, *divmod(edge, self._receivers), output)

    def placement(self, state: State, name: int) -> Placement | None:
        """The placement of an action of `priors`."""
        return self.layout.decode(state.scene, self.action(state, name))

    def ideas(self, state: State, rng: np.random.Generator, k: int) -> list[tuple[Placement, float]]:
        """The k placements of the highest values, each with what the network expects of it."""
        [prior] = self.priors([state])
        best = np.argsort(-prior.values, kind="stable")[:k]
        found = [(self.placement(state, int(prior.names[a])), float(prior.values[a])) for a in best]
        return [(placement, value) for placement, value in found if placement is not None]


def save_weights(path: Path, config: DQNConfig, task: str, net: QNet, card: dict[str, Any]) -> None:
    """Writes a network's weights to `path` and, beside it as JSON, what is needed to use them and a `card` about them."""
    with whole(path) as aside:
        save_file({name: value.contiguous() for name, value in net.state_dict().items()}, aside)
    write_json(path.with_suffix(".json"), {"task": task, "agent": to_json(config), **card})


def load(path: str | Path) -> DQNAgent:
    """The agent of a weights file or, given the folder of a run, of its best weights (its last ones if there are no best yet).

    Raises ValueError in one line if there are none, or the files are damaged or do not belong together.
    """
    path = weights_file(Path(path))
    data = read_json(path.with_suffix(".json"))
    try:
        config = from_json(DQNConfig, data["agent"])
        net = make_net(config, make_layout(config, data["task"]))
    except (KeyError, TypeError) as error:
        raise ValueError(f"{path.with_suffix('.json')} does not describe an agent: {error}") from None
    try:
        net.load_state_dict(load_file(path))
    except (OSError, SafetensorError, RuntimeError) as error:
        raise ValueError(f"cannot use the weights {path}: {str(error).splitlines()[0]}") from None
    return DQNAgent(net.eval(), config.discount)
