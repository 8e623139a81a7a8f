"""Acts by the Q-values of the edges of a scene graph (paper §4.4 and §D): greedily, with exploration, or by search. Also decides which
counterfactual actions are simulated, and what the replay's record of a step keeps of them.

Networks in `networks.inference` act on the CPU without torch. In all other cases this module needs torch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from trilith.agents.base import WORLD, Agent, Decision, ObjectView, Weights
from trilith.agents.dqn.config import DQNConfig
from trilith.agents.dynamics.registry import make_world
from trilith.networks.inference.registry import ACTING
from trilith.networks.inputs.scene_batch import KIND_OF_SLOT, SLOTS_OF_KIND, Records, ReplaySchema
from trilith.networks.parameters import shapes_of
from trilith.networks.q.function import Listed, QFunction
from trilith.search.agent import SearchAgent
from trilith.search.config import ONLINE
from trilith.search.tree import Prior
from trilith.world.actions import make_discrete, reference_rows
from trilith.world.episode import State, Step, collides
from trilith.world.scene import INVALID_EDGE, SLOTS, Bools, Ints, Placement, Role, Scene
from trilith.world.tasks import Level, get_task

if TYPE_CHECKING:
    from trilith.agents.dynamics.world import ModelWorld
    from trilith.networks.q.base import QNet


def make_schema(config: DQNConfig, task: str, beyond: bool = True) -> ReplaySchema:
    """Returns the format in which states of a task are stored. With `beyond`, the format also fits the scenes of generalisation levels,
    which can be larger. Learners pass False.

    Raises ValueError if the action space of the config is unknown, or if the mask does not fit the action space.
    """
    rules = get_task(task)
    heights, widths = config.grid or rules.grid
    codec = make_discrete(config.actions, offsets=config.offsets, heights=heights, widths=widths)
    if config.mask == "legal" and not codec.relative:
        raise ValueError(f"the mask legal is for relative actions: choose mask none or edges for {config.actions} ones")
    return ReplaySchema.of(rules, codec, config.mask == "legal", beyond, pictures=config.net.pictures, clock=config.net.clock)


def make_net(config: DQNConfig, schema: ReplaySchema) -> QNet:
    """Returns the network that a config describes, as a torch module for learning. The initial weights are drawn from torch's global random
    generator."""
    from trilith.networks.q.registry import make_qnet

    net = make_qnet(config.net, schema, config.mask)
    net.stops = config.stop
    return net


def make_acting_net(config: DQNConfig, schema: ReplaySchema, device: str = "cpu") -> QFunction:
    """Returns the network that a config describes, for acting. It has placeholder weights, which its method `load` replaces. On the CPU the
    version without torch is used, if there is one."""
    if device == "cpu" and config.net.network in ACTING:
        return ACTING[config.net.network](schema, config.mask, config.net, config.stop)
    from trilith.networks.device import pick_device

    return make_net(config, schema).eval().to(pick_device(device))


def make_model(config: DQNConfig, zero_on_hit: bool) -> ModelWorld | None:
    """Returns the transition model in which actors search, with placeholder weights. `zero_on_hit` says whether an episode that touches an
    obstacle has the return 0. The result is None if the config does not ask for a model that is learned in the same run."""
    if config.search.world != ONLINE:
        return None
    from trilith.agents.dynamics.world import ModelWorld
    from trilith.networks.dynamics.registry import make_dynamics

    return ModelWorld(make_dynamics(config.model.net), zero_on_hit)


def weight_shapes(config: DQNConfig, task: str, *, beyond: bool = True) -> dict[str, tuple[int, ...]]:
    """Returns a dictionary from parameter names to shapes, for the network that a config describes. Allocates no memory for the
    parameters."""
    schema = make_schema(config, task, beyond)
    if config.net.network in ACTING:
        return ACTING[config.net.network].shapes(config.net, 2 * schema.offsets)
    import torch

    with torch.device("meta"):
        return shapes_of(make_net(config, schema))


def observe(schema: ReplaySchema, states: Sequence[State]) -> Records:
    """Packs states into records (B,), one for each state. A record includes the number of steps left if the schema stores it."""
    return schema.pack([state.scene for state in states], [state.max_steps - state.steps for state in states] if schema.clock else ())


class Exploration(NamedTuple):
    """The exploration settings of actors."""

    epsilon: float
    """ε. At step n (from 0) an action is random with probability ε / max(L - n, 1), where L is the entry of `lengths` for the level of the
    episode."""
    lengths: tuple[float, ...]
    """For each level of the curriculum, the typical number of steps of an episode."""
    warm_up: bool = False
    """Whether the first data is being collected. Actors then make random legal placements, instead of the network's actions.
    An action that is random because of `epsilon` is drawn from all actions that the mask allows."""
    search: bool = True
    """Whether to search, if the config has a search budget. False until the learned transition model is ready."""


HIGHEST = 16
"""Half of the counterfactual actions are drawn from this many actions with the highest values, because the agent will probably choose such
actions soon."""


def choose(listed: Listed, random: bool, rng: np.random.Generator, stops: bool = False) -> int | None:
    """Returns the index of the action with the highest value among the actions `listed`. If `random`, returns the index of a uniformly
    random action among them.

    Returns None if there is no action. Also returns None if `stops` is True, `random` is False, and the highest value is negative.
    """
    indices, values = listed
    if not len(indices) or (stops and not random and values.max() < 0):
        return None
    return int(indices[rng.integers(len(indices)) if random else values.argmax()])


class DQNPolicy:
    """A network, and the rule by which actors use the network. At first actors act at random. Later they act mostly greedily or, if the
    config has a search budget, mostly by search."""

    def __init__(
        self,
        config: DQNConfig,
        task: str,
        *,
        beyond: bool = True,
        zero_on_hit: bool = False,
        device: str = "cpu",
        net: QFunction | None = None,
        model: ModelWorld | None = None,
    ) -> None:
        self.config = config
        self.net = make_acting_net(config, make_schema(config, task, beyond), device) if net is None else net
        self.schema = self.net.schema
        self.zero_on_hit = zero_on_hit
        self._levels: dict[Level, int] = {level: k for k, level in enumerate(get_task(task).levels)}
        self.model = make_model(config, zero_on_hit) if model is None else model
        """The transition model in which actors search, if it is learned in the same run; else None. Its weights are sent to actors together
        with the weights of the network."""
        world = self.model or make_world(config.search.world, zero_on_hit)
        self._searcher = SearchAgent(DQNAgent(self.net, config.discount, stops=False), config.search, world)

    @property
    def dtype(self) -> np.dtype[Any]:
        """The dtype of the record of a decision. Its first fields are `state` and `action`, an edge action (slot, object, offset, sticky).

        If K counterfactual actions are simulated beside each action, the field `beside` (K, 4) holds these edge actions; unused rows are
        -1. Further fields (K,) hold their rewards (`beside_reward`), whether they ended the episode (`beside_ended`) and, for a network
        with state values, their next states (`after`).
        """
        columns: list[Any] = [("state", self.schema.dtype), ("action", "i4", (4,))]
        if k := self.config.counterfactual_actions:
            columns += [("beside", "i4", (k, 4)), ("beside_reward", "f4", (k,)), ("beside_ended", "?", (k,))]
            columns += [("after", self.schema.scenes.dtype, (k,))] if self.net.values_states else []
        return np.dtype(columns)

    @property
    def wants_states(self) -> bool:
        """Whether the learner needs all states of an episode (`Episode.trajectory`). True if a transition model is learned in the same
        run."""
        return self.model is not None

    @property
    def agent(self) -> DQNAgent:
        """The agent that takes the action with the highest value."""
        return DQNAgent(self.net, self.config.discount)

    @property
    def searching_agent(self) -> Agent:
        """The agent that takes the best action of a search. It equals `agent` if there is no search budget, or if actors search in a model
        that is learned in the same run."""
        searches = self.config.search.budget and self.model is None
        return SearchAgent(self.agent, self.config.search, self._searcher.world) if searches else self.agent

    def weights(self) -> Weights:
        """A copy of the parameters of the network and, if there is one, of the learned transition model."""
        model = {} if self.model is None else self.model.weights()
        return self.net.weights() | {WORLD + name: array for name, array in model.items()}

    def load(self, weights: Mapping[str, NDArray[Any]]) -> None:
        """Loads the parameters of the network and, if there is one, of the learned transition model. `weights` is as the method `weights`
        returns it."""
        if self.model is not None:
            self.model.load({name.removeprefix(WORLD): array for name, array in weights.items() if name.startswith(WORLD)})
            weights = {name: array for name, array in weights.items() if not name.startswith(WORLD)}
        self.net.load(weights)

    def act(self, states: Sequence[State], rngs: Sequence[np.random.Generator], exploration: Exploration) -> list[Decision]:
        """Returns a decision for each state, with exploration. `rngs` has one random generator per state."""
        records = observe(self.schema, states)
        left = [max(exploration.lengths[self._levels[state.level]] - state.steps, 1.0) for state in states]
        random = np.array([rng.random() < exploration.epsilon / each for rng, each in zip(rngs, left, strict=True)], dtype=bool)
        searches = bool(self.config.search.budget) and exploration.search and not exploration.warm_up
        counterfactual = bool(self.config.counterfactual_actions) and not searches
        listed = self.net.listed(records) if counterfactual or not (searches or exploration.warm_up) else []
        if searches:
            indices = self._by_search(states, random, rngs)
        elif exploration.warm_up:
            indices = self._by_chance(states, records, random, rngs)
        else:
            indices = [choose(*each) for each in zip(listed, random, rngs, strict=True)]
        decisions = [self._decision(*each) for each in zip(states, records, indices, strict=True)]
        if not counterfactual:
            return decisions
        return [self._with_counterfactuals(*each) for each in zip(decisions, states, listed, rngs, strict=True)]

    def encode(self, state: State, placement: Placement) -> Decision:
        """Converts a placement of another agent to a decision: the action of this policy that is nearest to the placement."""
        [record] = observe(self.schema, [state])
        return self._decision(state, record, int(self.schema.index(np.array(self.schema.encode(state.scene, placement)))))

    def _decision(self, state: State, record: np.void, index: int | None) -> Decision:
        if index is None:
            return Decision(None, None)
        [kept] = np.zeros(1, self.dtype)
        kept["state"], kept["action"] = record, self.schema.actions(index)
        if self.config.counterfactual_actions:
            kept["beside"] = -1
        return Decision(self.schema.decode(state.scene, self.schema.parts(index)), kept)

    def _with_counterfactuals(self, decision: Decision, state: State, listed: Listed, rng: np.random.Generator) -> Decision:
        """Adds counterfactual actions to a decision, highest value first. They are drawn from `listed`, the actions in `state` that the
        mask allows, with their values."""
        if decision.step is None:
            return decision
        indices, values = listed
        count, k = len(indices), self.config.counterfactual_actions
        highest = np.argpartition(values, -HIGHEST)[-HIGHEST:] if count > HIGHEST else np.arange(count)
        drawn = [*rng.permutation(highest)[: k // 2].tolist(), *rng.choice(count, size=min(k, count), replace=False).tolist()]
        some = sorted(list(dict.fromkeys(drawn))[:k], key=values.__getitem__, reverse=True)
        actions = [action for action in self.schema.actions(indices[some]) if (action != decision.step["action"]).any()]
        decision.step["beside"][: len(actions)] = actions
        return decision._replace(beside=tuple(self.schema.decode(state.scene, action.tolist()) for action in actions))

    def foresee(
        self,
        decisions: Sequence[Decision],
        outcomes: Sequence[Sequence[Step]],
        rngs: Sequence[np.random.Generator],
        exploration: Exploration,
    ) -> list[int]:
        """Chooses among the simulated actions of each decision. Returns for each decision the number of the action to make: 0 is the chosen
        action, and 1, 2, … are the counterfactual actions. `outcomes[i]` has the outcomes of the actions of decision i, in the order of
        these numbers.

        For a network with state values, the action with the highest r + γ V(s') is made with probability `lookahead`. Otherwise the chosen
        action is made. During the warm-up it is always the chosen action, unless this action would touch an obstacle: then the first action
        that does not end the episode is made, if there is one. The record of a decision stores the outcomes of the actions that are not
        made.
        """
        if not self.config.counterfactual_actions:
            return [0] * len(decisions)
        after = [(i, k) for i, each in enumerate(outcomes) for k, step in enumerate(each) if not step.state.ended]
        valued = after if self.net.values_states else []
        records = observe(self.schema.scenes, [outcomes[i][k].state for i, k in valued])
        looks = [self.net.values_states and not exploration.warm_up and rng.random() < self.config.lookahead for rng in rngs]
        worth = [np.array([step.reward for step in each]) for each in outcomes]
        asked = [number for number, (i, _) in enumerate(valued) if looks[i]]
        for number, value in zip(asked, self.net.state_values(records[asked]).tolist() if asked else [], strict=True):
            i, k = valued[number]
            worth[i][k] += self.config.discount * max(value, 0.0)
        made = [0] * len(decisions)
        for i, (decision, steps) in enumerate(zip(decisions, outcomes, strict=True)):
            if exploration.warm_up and steps[0].state.ended == "obstacle_hit":
                made[i] = next((k for k, step in enumerate(steps) if not step.state.ended), 0)
            elif looks[i]:
                made[i] = int(worth[i].argmax())
            self._keep(decision, steps, made[i])
        for (i, k), record in zip(valued, records, strict=True):
            kept = decisions[i].step
            if kept is not None and k != made[i]:
                kept["after"][(k or made[i]) - 1] = record
        return made

    @staticmethod
    def _keep(decision: Decision, outcomes: Sequence[Step], made: int) -> None:
        """Stores in the record of a decision which action is made, and the outcomes of the other actions. `outcomes` has the outcomes of
        the chosen action and then of the counterfactual actions. `made` is the number of the action to make: 0 is the chosen action. If a
        counterfactual action is made, it changes places with the chosen action in the record."""
        kept = decision.step
        assert kept is not None
        if made:
            kept["beside"][made - 1], kept["action"] = kept["action"].copy(), kept["beside"][made - 1].copy()
        others = [outcomes[0 if k == made else k] for k in range(1, len(outcomes))]
        kept["beside_reward"][: len(others)] = [step.reward for step in others]
        kept["beside_ended"][: len(others)] = [step.state.ended is not None for step in others]

    def _by_chance(self, states: Sequence[State], records: Records, random: Bools, rngs: Sequence[np.random.Generator]) -> list[int | None]:
        """Chooses an action in each state at random. Where `random` is True, the action is drawn from all actions that the mask allows.
        Elsewhere it is an action whose block overlaps nothing solid. `records` are the packed states. Returns the indices of the
        actions; None for a state without such an action."""
        listed = iter(self.net.listed(records[random]) if random.any() else ())
        some = zip(states, random, rngs, strict=True)
        return [choose(next(listed), True, rng) if explore else self._any(state.scene, rng) for state, explore, rng in some]

    def _any(self, scene: Scene, rng: np.random.Generator) -> int | None:
        """The index of a random action whose block overlaps nothing solid; None if there is no such action."""
        sticky, mask = int(rng.integers(2)), self.schema.codec.mask(scene)
        if mask is not None:
            refs = reference_rows(scene)
            free = np.argwhere(mask[:, refs].reshape(SLOTS, len(refs), -1))
            if not len(free):
                return None
            slot, ref, offset = free[rng.integers(len(free))].tolist()
            return int(self.schema.index(np.array([slot, SLOTS + ref, offset, sticky])))
        for flat in rng.permutation(SLOTS * self.schema.offsets).tolist():
            slot, offset = divmod(flat, self.schema.offsets)
            if scene.role[slot] == Role.AVAILABLE:
                there = self.schema.decode(scene, (slot, 0, offset, sticky))
                if there and not collides(scene, there, scene.solid):
                    return int(self.schema.index(np.array([slot, 0, offset, sticky])))
        return None

    def _by_search(self, states: Sequence[State], random: Bools, rngs: Sequence[np.random.Generator]) -> list[int | None]:
        """Chooses an action in each state. Where `random` is True, the action is drawn uniformly at random. Elsewhere it is chosen by
        search with the values of the network. Returns the indices of the actions; None for a state without actions."""
        searcher, indices = self._searcher, list[int | None]()
        for root, explore, rng in zip(searcher.search(states, rngs), random, rngs, strict=True):
            chosen = int(rng.integers(len(root.values))) if explore and len(root.values) else searcher.algorithm.decide(root, rng)
            searcher.keep(root, chosen, rng)
            indices.append(None if chosen is None else int(root.ids[chosen]))
        return indices


class DQNAgent:
    """An agent that takes the action with the highest value."""

    def __init__(self, net: QFunction, discount: float = DQNConfig.discount, stops: bool | None = None) -> None:
        self.net, self.schema, self.discount = net, net.schema, discount
        self.stops = net.stops if stops is None else stops
        """Whether the agent ends the episode if all values are below 0."""
        self._stop = net.schema.edges * net.outputs
        """The index of the stop action. It is higher than the indices of all other actions."""

    def act(self, states: Sequence[State], rngs: Sequence[np.random.Generator]) -> list[Placement | None]:
        """Returns the placement with the highest value in each state. The result is None, which means stop, in two cases: the mask allows
        no action, or the agent `stops` and all values are negative."""
        if not states:
            return []
        listed = self.net.listed(observe(self.schema, states))
        indices = [choose(each, False, rng, self.stops) for each, rng in zip(listed, rngs, strict=True)]
        return [None if index is None else self.decode(state, index) for state, index in zip(states, indices, strict=True)]

    def priors(self, states: Sequence[State]) -> list[Prior]:
        """Lists the actions of each state that the mask allows, with their values. With the mask `none`, every block is listed. With any
        other mask, available blocks of equal width are listed as one block, with the highest of their values.

        If the agent `stops`, stopping is an additional action of a state with actions. It has the value 0 and an edge of its own.
        """
        found = []
        for state, (index, values) in zip(states, self.net.listed(observe(self.schema, states)), strict=True):
            if self.net.mask_rule != "none" and not self.net.by_kind:
                actions = self.schema.actions(index)
                actions[:, 0] = _first_slots(state.scene)[actions[:, 0]]
                index, which = np.unique(self.schema.index(actions), return_inverse=True)
                every, values = values, np.full(len(index), -np.inf, values.dtype)
                np.maximum.at(values, which, every)
            if self.stops and len(index):
                index, values = np.append(index, self._stop), np.append(values, 0.0)
            found.append(Prior(values, index // self.net.outputs, index))
        return found

    def decode(self, state: State, action_id: int) -> Placement | None:
        """The placement of the action with this index; None for the stop action."""
        return None if action_id == self._stop else self.schema.decode(state.scene, self.schema.parts(action_id))

    def ideas(self, state: State, rng: np.random.Generator, k: int) -> list[tuple[Placement, float]]:
        """At most k placements of the actions with the highest values, best first, as (placement, value). Stopping and invalid edges are
        left out."""
        [prior] = self.priors([state])
        best = np.argsort(-prior.values, kind="stable")[:k]
        found = [(self.decode(state, int(prior.ids[a])), float(prior.values[a])) for a in best]
        return [(placement, value) for placement, value in found if placement not in (None, INVALID_EDGE)]

    def views(self, state: State) -> list[ObjectView]:
        """The agent's view of each object, available blocks first. Empty if the network does not read segmented images, or if actions are
        absolute."""
        if not self.schema.points or not self.schema.codec.relative:
            return []
        records = observe(self.schema, [state])
        boxes, first, pixels = self.schema.unpack(records).windows()
        [(index, values)] = self.net.listed(records)
        sender, receiver, _, _ = self.schema.parts(index)
        best = np.full((2, self.schema.rows + SLOTS), -np.inf)  # per node: highest value of placing it, and of placing a block by it
        np.maximum.at(best[0], sender, values)
        np.maximum.at(best[1], receiver, values)
        slots, refs = np.flatnonzero(state.scene.role[:SLOTS] == Role.AVAILABLE), reference_rows(state.scene)
        placed = best[0, _first_slots(state.scene)[slots] if self.net.by_kind else slots]
        highest = [*placed.tolist(), *best[1, SLOTS : SLOTS + len(refs)].tolist()]
        found = []
        for row, box, begin, value in zip([*slots.tolist(), *refs.tolist()], boxes.tolist(), first.tolist(), highest, strict=True):
            top, bottom, left, right = box
            shape = bottom - top, right - left
            window = pixels[begin : begin + shape[0] * shape[1]].reshape(*shape, -1)
            found.append(ObjectView(row, top, left, window, value if np.isfinite(value) else None))
        return found


def _first_slots(scene: Scene) -> Ints:
    """(7,): for each slot, the first available slot whose block has the same width. Such blocks are interchangeable."""
    return ((scene.role[:SLOTS] == Role.AVAILABLE) & SLOTS_OF_KIND).argmax(axis=1)[KIND_OF_SLOT]
