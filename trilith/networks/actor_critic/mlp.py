"""MLP networks: the paper's MLP over a list of objects (§C.1), and the core of every actor and critic except the graph network's."""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn import functional as F

from trilith.networks.inputs.object_rows import ROW_FEATURES, rows
from trilith.networks.inputs.scene_batch import SceneBatch


class MLPEncoder(nn.Module):
    """The list of objects, padded, as one vector: a linear layer to 100 features and a layer norm.

    The paper says that the list is "normalized with a LayerNorm layer into a fixed set of 100 features". We assume that a linear
    layer first maps the list to 100 features.
    """

    def __init__(self, length: int, features: int = 100) -> None:
        super().__init__()
        self.length = length
        self.linear = nn.Linear(length * ROW_FEATURES, features)
        self.norm = nn.LayerNorm(features)

    def forward(self, batch: SceneBatch) -> Tensor:
        """(B, features)"""
        return self.norm(self.linear(rows(batch, self.length).flatten(1)))


class MLPCore(nn.Module):
    """Rectified hidden layers and a linear output. The input is the features and, for a critic, an action."""

    def __init__(self, features: int, actions: int, width: int, layers: int, outputs: int) -> None:
        super().__init__()
        self.features = features
        self.first = nn.Linear(features + actions, width)
        self.hidden = nn.ModuleList(nn.Linear(width, width) for _ in range(layers - 1))
        self.out = nn.Linear(width, outputs)

    def forward(self, seen: Tensor, actions: Tensor | None = None) -> Tensor:
        """(B, outputs) from features (B, features), or (B, K, outputs) for K actions (B, K, A). The features' part is computed once."""
        of_seen, of_action = self.first.weight.split([self.features, self.first.in_features - self.features], dim=1)
        x = F.linear(seen, of_seen, self.first.bias)
        if actions is not None:
            x = x[:, None] + F.linear(actions, of_action)
        x = F.relu(x)
        for layer in self.hidden:
            x = F.relu(layer(x))
        return self.out(x)
