"""Worlds to test in, and rectangles done slowly and plainly, to compare with what the package does quickly."""

import hashlib
import math
import subprocess
import sys

import numpy as np
from hypothesis import strategies as st

from trilith.agents.random_agents import LegalAgent
from trilith.world.episode import State, start, step
from trilith.world.physics import settle
from trilith.world.scene import BLOCK_HEIGHT, SLOT_WIDTHS, Placement, Role, Scene, fresh_scene, place

SMALL_SLOT, MEDIUM_SLOT, LARGE_SLOT = 0, 3, 6
EMPTY = fresh_scene([], [])
FIRST = len(EMPTY)
"""Row of the first block placed in an empty scene."""


def build(*placements: Placement, scene: Scene = EMPTY) -> Scene:
    """The scene after these placements, each left to settle, where a used block stays available."""
    for placement in placements:
        scene = settle(place(scene, placement, keep=True)).scene
    return scene


def with_blocks(scene: Scene, blocks) -> Scene:
    """`scene` with blocks (slot, x, y, angle) in it just so, nothing simulated."""
    for slot, x, y, angle in blocks:
        scene = place(scene, Placement(slot, 0, 0), keep=True)
        pose = scene.pose.copy()
        pose[-1] = x, y, angle
        scene = Scene(pose, scene.size, scene.velocity, scene.role, scene.sticky, scene.contact, scene.glue, scene.glue_frame)
    return scene


def mirrored(scene: Scene) -> Scene:
    """`scene` with left and right swapped; available blocks stay in their slots."""
    flip = np.where((scene.role == Role.AVAILABLE)[:, None], 1.0, [-1.0, 1.0, -1.0])
    frames = scene.glue_frame * [-1.0, 1.0, -1.0, 1.0, -1.0]
    columns = (scene.size, scene.velocity * flip, scene.role, scene.sticky, scene.contact, scene.glue, frames)
    return Scene(scene.pose * flip, *columns)


def played(task: str, level, seed: int, careful: bool = False) -> list[State]:
    """All states of an episode of random legal actions; a careful one draws again where it would touch an obstacle."""
    rng = np.random.default_rng(seed)
    states = [start(task, level, rng)]
    while not states[-1].ended:
        for _ in range(30 if careful else 1):
            after = step(states[-1], LegalAgent().act(states[-1:], [rng])[0]).state
            if after.ended != "obstacle_hit":
                break
        states.append(after)
    return states


def digest(*parts: bytes) -> str:
    """A short name for bytes, to compare across processes."""
    return hashlib.sha256(b"".join(parts)).hexdigest()


def in_another_process(code: str, *arguments: str) -> list[str]:
    """Lines that a program prints in a fresh interpreter."""
    return subprocess.run([sys.executable, "-c", code, *arguments], check=True, capture_output=True, text=True, timeout=120).stdout.split()


def corners(pose, size) -> list[tuple[float, float]]:
    """The corners of a rectangle, anticlockwise."""
    x, y, angle = (float(v) for v in pose)
    w, h = (float(v) / 2 for v in size)
    c, s = math.cos(angle), math.sin(angle)
    return [(x + c * u - s * v, y + s * u + c * v) for u, v in ((-w, -h), (w, -h), (w, h), (-w, h))]


def shared_area(pose_a, size_a, pose_b, size_b) -> float:
    """Area that two rectangles share: one is cut by each side of the other in turn (Sutherland and Hodgman)."""
    polygon = corners(pose_a, size_a)
    knife = corners(pose_b, size_b)
    for (ax, ay), (bx, by) in zip(knife, knife[1:] + knife[:1], strict=True):

        def inside(p, ax=ax, ay=ay, bx=bx, by=by):
            return (bx - ax) * (p[1] - ay) - (by - ay) * (p[0] - ax)

        kept = []
        for p, q in zip(polygon, polygon[1:] + polygon[:1], strict=True):
            d, e = inside(p), inside(q)
            if d >= 0:
                kept.append(p)
            if (d >= 0) != (e >= 0):
                kept.append((p[0] + (q[0] - p[0]) * d / (d - e), p[1] + (q[1] - p[1]) * d / (d - e)))
        polygon = kept
    return abs(sum(p[0] * q[1] - q[0] * p[1] for p, q in zip(polygon, polygon[1:] + polygon[:1], strict=True))) / 2


def distance(pose_a, size_a, pose_b, size_b) -> float:
    """Distance between two rectangles that do not overlap: the least from any corner of one to any side of the other."""
    best = math.inf
    for points, sides in ((corners(pose_a, size_a), corners(pose_b, size_b)), (corners(pose_b, size_b), corners(pose_a, size_a))):
        for px, py in points:
            for (ax, ay), (bx, by) in zip(sides, sides[1:] + sides[:1], strict=True):
                t = ((px - ax) * (bx - ax) + (py - ay) * (by - ay)) / ((bx - ax) ** 2 + (by - ay) ** 2)
                t = min(max(t, 0.0), 1.0)
                best = min(best, math.hypot(px - ax - t * (bx - ax), py - ay - t * (by - ay)))
    return best


def number(low: float, high: float):
    """A float between two others, without the extremes of precision that no world has."""
    return st.integers(0, 10**6).map(lambda k: low + (high - low) * k / 10**6)


angles = st.one_of(st.sampled_from([0.0, 0.0, 0.02, -0.3, math.pi / 4, math.pi / 2]), number(-math.pi, math.pi))
slots = st.integers(0, len(SLOT_WIDTHS) - 1)
blocks = st.lists(st.tuples(slots, number(-7.5, 7.5), number(0.0, 8.0), angles), max_size=6)
"""Blocks anywhere at any angle, for `with_blocks`."""
obstacles = st.lists(st.tuples(number(-5, 5), number(0.2, 6), number(0.7, 3.5), st.just(0.35)), min_size=1, max_size=4)
"""Obstacles anywhere, for `fresh_scene`."""
silhouette_targets = st.lists(
    st.tuples(number(-6, 6), number(0.35, 6), st.sampled_from(sorted(set(SLOT_WIDTHS))), st.just(BLOCK_HEIGHT)), min_size=1, max_size=5
)
connecting_targets = st.lists(st.tuples(number(-6, 6), number(0.35, 6), st.just(0.35), st.just(0.35)), min_size=1, max_size=5)
