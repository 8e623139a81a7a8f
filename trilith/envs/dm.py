"""The tasks as `dm_env` environments (extra `dm`). Actions and observations have the same keys as in the authors' `dm_construction`.

    from trilith.envs.dm import DmConstruction

    env = DmConstruction("covering", seed=0)
    step = env.reset()
    step = env.step({"Index": 6, "x_action": 7, "sticky": 0})  # edge 6: from block 0 to the floor

Three things differ from the authors' package. The physics engine is another one, so rewards differ. Graphs are padded, so that every array
has the shape of its spec. Nodes have the 15 features of `trilith.world.observations.objects`, and edges have the two features of
`trilith.world.observations.graph`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from trilith.envs.gymnasium import ConstructionEnv, one_of, padded
from trilith.utils.checks import require, shortened
from trilith.world.actions import OFFSETS
from trilith.world.observations.graph import EDGE_FEATURES, graph
from trilith.world.observations.image import PIXELS
from trilith.world.observations.objects import FEATURES
from trilith.world.scene import Role
from trilith.world.tasks import Level

try:
    import dm_env
    from dm_env import specs
except ModuleNotFoundError:
    raise ModuleNotFoundError('trilith.envs.dm needs dm_env: pip install "trilith[dm]"') from None

Wrapper = Literal["discrete_relative", "continuous_absolute"]


class DmConstruction(dm_env.Environment):  # type: ignore[misc]
    """A construction task as a `dm_env` environment. `wrapper_type` selects one of two kinds of observation and action. `task` and `level`
    are as in `ConstructionEnv`.

    `discrete_relative`: the observation is a graph of all objects. An action has three numbers: `Index` (the index of an edge),
    `x_action` (of an offset) and `sticky`. The edge must join an available block and an object of another role, in either direction. Any
    other edge ends the episode.
    `continuous_absolute`: the observation is an image. An action has `Selector`, `Horizontal`, `Vertical` and `Sticky`, each from -1 to 1.
    """

    def __init__(self, task: str, wrapper_type: Wrapper = "discrete_relative", level: Level = "all", seed: int | None = None) -> None:
        self.wrapper_type = one_of("wrapper_type", wrapper_type, get_args(Wrapper))
        self.env = ConstructionEnv(task, action_space=wrapper_type, observation="image_uint8", level=level)
        self._seed = seed
        self._over = True
        n = self.env.max_objects
        self._nodes, self._edges = n, n * (n - 1)

    def reset(self) -> dm_env.TimeStep:
        """Starts an episode and returns its first step. The first call seeds the random generator with the constructor's
        `seed`; later episodes continue it."""
        observation, _ = self.env.reset(seed=self._seed)
        self._seed, self._over = None, False
        return dm_env.restart(self._observation(observation))

    def step(self, action: dict[str, Any]) -> dm_env.TimeStep:
        """Places a block. After the end of an episode, starts the next episode and returns its first step."""
        if self._over:
            return self.reset()
        observation, reward, self._over, _, _ = self.env.step(self._action(action))
        seen = self._observation(observation)
        return dm_env.termination(reward, seen) if self._over else dm_env.transition(reward, seen)

    def action_spec(self) -> dict[str, specs.Array]:
        """The spec of each part of an action, by name. Each part is a scalar."""
        if self.wrapper_type == "continuous_absolute":
            return {name: specs.BoundedArray((), np.float32, -1, 1, name) for name in ("Selector", "Horizontal", "Vertical", "Sticky")}
        most = {"Index": self._edges - 1, "x_action": OFFSETS - 1, "sticky": 1}
        return {name: specs.BoundedArray((), np.int32, 0, last, name) for name, last in most.items()}

    def observation_spec(self) -> Any:
        """The spec of the image, or a dictionary with the spec of each array of the graph, by name. In a graph only the first `n_node`
        nodes and the first `n_edge` edges are real; the rest is padding."""
        if self.wrapper_type == "continuous_absolute":
            return specs.BoundedArray((PIXELS, PIXELS, 3), np.uint8, 0, 255, "RGB")
        shapes = {"nodes": (self._nodes, FEATURES), "edges": (self._edges, EDGE_FEATURES), "globals": (1, 1)}
        counts = {"n_node": (1,), "n_edge": (1,), "senders": (self._edges,), "receivers": (self._edges,)}
        floats = {name: specs.Array(shape, np.float32, name) for name, shape in shapes.items()}
        return floats | {name: specs.Array(shape, np.int32, name) for name, shape in counts.items()}

    def _observation(self, image: NDArray[np.uint8]) -> Any:
        if self.wrapper_type == "continuous_absolute":
            return np.ascontiguousarray(image[..., :3])
        nodes, edges, senders, receivers = graph(self.env.state.scene, "full")
        arrays: dict[str, NDArray[Any]] = {
            "nodes": nodes,
            "edges": edges,
            "globals": np.zeros((1, 1)),
            "n_node": np.array([len(nodes)]),
            "n_edge": np.array([len(edges)]),
            "senders": senders,
            "receivers": receivers,
        }
        return {name: padded(arrays[name].astype(spec.dtype), spec.shape) for name, spec in self.observation_spec().items()}

    def _action(self, action: dict[str, Any]) -> NDArray[Any]:
        """Converts an action to the format of `ConstructionEnv`, an array of numbers. Raises ValueError if a part is outside its spec."""
        spec = self.action_spec()
        require(isinstance(action, Mapping) and action.keys() == spec.keys(), f"action {shortened(action)}: must have {', '.join(spec)}")
        for name, each in spec.items():
            fits = np.can_cast(np.asarray(action[name]).dtype, each.dtype, "same_kind")
            require(fits, f"{name} {shortened(action[name])}: must be of the type {each.dtype}")
        given = {name: each.validate(np.asarray(action[name], each.dtype)) for name, each in spec.items()}
        if self.wrapper_type == "continuous_absolute":
            return np.array(list(given.values()))
        scene = self.env.state.scene
        _, _, senders, receivers = graph(scene, "full")
        edges = np.stack([senders, receivers], axis=1)
        # An index beyond the scene's edges becomes an edge from a block to itself, which is invalid.
        block, reference = edges[given["Index"]] if given["Index"] < len(edges) else (0, 0)
        if scene.role[reference] == Role.AVAILABLE and scene.role[block] != Role.AVAILABLE:
            block, reference = reference, block
        return np.array([block, reference, given["x_action"], given["sticky"]])
