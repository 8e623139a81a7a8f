"""The device of networks and batches, by name."""

from __future__ import annotations

import torch


def pick_device(name: str = "auto") -> torch.device:
    """Returns the torch device that a name selects. The name is cpu, cuda (or one of several, such as cuda:1), or auto. The name auto
    selects cuda if it is available, else cpu. Raises ValueError if the name is unknown, or if the machine does not have the device."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
    except RuntimeError:
        raise ValueError(f"no device {name!r}: choose cpu, cuda or auto") from None
    found = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if device.type == "cuda" and (device.index or 0) >= found:
        raise ValueError(f"device {name}: torch finds {found} such devices here, choose cpu or auto")
    return device
