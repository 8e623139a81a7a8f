"""Actor-critic networks for continuous actions: an actor and a critic over one shared encoder (paper §C and §E)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils._pytree import tree_map

from trilith.networks.actor_critic.cnn import CNNEncoder, RelationEncoder
from trilith.networks.actor_critic.graph import GraphCore, GraphEncoder
from trilith.networks.actor_critic.mlp_rnn import MLPEncoder, RNNEncoder, longest
from trilith.networks.actor_critic.pointing import PointedCritic, PointingActor, TokenEncoder
from trilith.networks.config import EncoderConfig
from trilith.networks.inputs.scene_batch import POINTS, SceneSchema
from trilith.world.tasks import Task


class ActorCritic(nn.Module):
    """An actor and a critic, each with its own core, over one shared encoder.

    `encoder(batch)` returns the features of B states. Actor and critic read these features. `actor(features)` returns (B, outputs); its
    last layer is linear. `critic(features, actions)` also reads K actions per state and returns (B, K, 1).
    """

    def __init__(self, schema: SceneSchema, encoder: nn.Module, actor: nn.Module, critic: nn.Module) -> None:
        super().__init__()
        self.schema = schema
        """The format in which states are stored."""
        self.encoder, self.actor, self.critic = encoder, actor, critic

    def value(self, seen: Any, actions: Tensor) -> Tensor:
        """The critic's values (B, K) of K actions in each of B states. `actions` (B, K, A) has the A numbers of each action. `seen` is the
        output of the encoder."""
        return self.critic(seen, actions)[..., 0]

    def slope(self, seen: Any, actions: Tensor) -> tuple[Tensor, Tensor]:
        """Returns the critic's values (B, K) of K actions in each of B states, and the gradient (B, K, A) of each value with respect to its
        action. Both are detached. `actions` (B, K, A) has the A numbers of each action. `seen` is the output of the encoder."""
        weights = [each for each in self.critic.parameters() if each.requires_grad]
        given, leaf = tree_map(lambda each: each.detach(), seen), actions.detach().requires_grad_()
        try:
            for weight in weights:  # only the gradient of the actions is needed
                weight.requires_grad_(False)
            with torch.enable_grad():
                values = self.value(given, leaf)
                [slopes] = torch.autograd.grad(values.sum(), leaf)
        finally:
            for weight in weights:
                weight.requires_grad_(True)
        return values.detach(), slopes


class MLPCore(nn.Module):
    """The core of the actor or the critic for the encoders mlp, rnn, cnn and cnn-rn: hidden layers with ReLU, and a linear output. The
    input is the features of a state and, for a critic, an action."""

    def __init__(self, features: int, actions: int, width: int, layers: int, outputs: int) -> None:
        super().__init__()
        self.features = features
        self.first = nn.Linear(features + actions, width)
        self.hidden = nn.ModuleList(nn.Linear(width, width) for _ in range(layers - 1))
        self.out = nn.Linear(width, outputs)

    def forward(self, seen: Tensor, actions: Tensor | None = None) -> Tensor:
        """Returns the outputs (B, outputs) for the features `seen` (B, features) of B states. If `actions` (B, K, A) are given, K actions
        of A numbers in each state, returns the outputs (B, K, outputs). The part of the first layer that reads the features is computed
        once for all K actions."""
        of_seen, of_action = self.first.weight.split([self.features, self.first.in_features - self.features], dim=1)
        x = F.linear(seen, of_seen, self.first.bias)
        if actions is not None:
            x = x[:, None] + F.linear(actions, of_action)
        x = F.relu(x)
        for layer in self.hidden:
            x = F.relu(layer(x))
        return self.out(x)


def make_actor_critic(config: EncoderConfig, task: Task, actions: int, outputs: int, beyond: bool = True) -> ActorCritic:
    """Makes the network that a config describes. `actions` is the length of an action, and `outputs` is the number of outputs of the actor;
    encoders in `POINTING` ignore it. The initial weights are drawn from torch's global random generator.

    With `beyond`, states are stored in a format that also fits the larger scenes of generalisation levels. Without it, a replay buffer
    needs less memory. Raises ValueError, with the known names, if there is no such encoder.
    """
    if config.encoder not in ENCODERS:
        raise ValueError(f"there is no encoder {config.encoder!r}: choose {', '.join(ENCODERS)}")
    rows = SceneSchema.rows_of(task, beyond)
    schema = SceneSchema(rows, points=POINTS * rows if config.encoder in IMAGES else 0)
    encoder = ENCODERS[config.encoder](config, task)
    if config.encoder in POINTING:
        return ActorCritic(schema, encoder, PointingActor(actions), PointedCritic(actions))
    return ActorCritic(schema, encoder, make_core(config, 0, outputs), make_core(config, actions, 1))


def make_core(config: EncoderConfig, actions: int, outputs: int) -> nn.Module:
    """Makes the core of an actor or a critic: all layers after the encoder. `actions` is the length of the actions that a critic reads; 0
    for an actor. `outputs` is the number of outputs."""
    if config.encoder == "gn":
        return GraphCore(actions, config.graph, outputs, config.recurrent)
    layers = config.layers or (3 if config.encoder in IMAGES else 4)
    return MLPCore(config.features if config.encoder == "mlp" else config.embedding, actions, config.width, layers, outputs)


ENCODERS: dict[str, Callable[[EncoderConfig, Task], nn.Module]] = {
    "mlp": lambda config, task: MLPEncoder(longest(task), config.features),
    "rnn": lambda config, task: RNNEncoder(longest(task), config.embedding, config.clip),
    "cnn": lambda config, task: CNNEncoder(config.embedding),
    "cnn-rn": lambda config, task: RelationEncoder(config.embedding),
    "gn": lambda config, task: GraphEncoder(config.graph),
    "attention": lambda config, task: TokenEncoder(),
}
"""Encoders by name. To add one, write a file in this package and a line here."""
POINTING = ("attention",)
"""Encoders with a policy that points at objects. Such a policy is a mixture with components for every pair (kind of block, object)."""
IMAGES = ("cnn", "cnn-rn")
"""Encoders that see an image."""
