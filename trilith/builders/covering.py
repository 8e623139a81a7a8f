from trilith.episode import State, step
from trilith.scene import Placement, Scene


def script(scene: Scene) -> Placement | None:
    return None


def plan(state: State) -> list[Placement]:
    return []
