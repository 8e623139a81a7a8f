"""The networks that act without torch, by name."""

from trilith.networks.inference.attention import ActingBlockTypes
from trilith.networks.inference.objects import ActingObjects
from trilith.networks.inference.pixels import ActingPixels

ACTING: dict[str, type[ActingBlockTypes]] = {"objects": ActingObjects, "pixel-attention": ActingPixels}
