// Where a block may be placed. The server has the rules (trilith.world.geometry, trilith.world.actions). These few lines repeat
// them, so that a ghost can turn red while it is dragged; a test compares both.

/** Whether an upright rectangle overlaps another at `pose` (x, y, angle), by separating axes. */
export function overlaps(x, y, w, h, pose, size) {
  const [ox, oy, angle] = pose;
  const ow = size[0] / 2, oh = size[1] / 2, hw = w / 2, hh = h / 2;
  const cos = Math.cos(angle), sin = Math.sin(angle), c = Math.abs(cos), s = Math.abs(sin);
  const dx = x - ox, dy = y - oy;
  if (!(Math.abs(dy) < hh + (ow * s + oh * c)) || !(Math.abs(dx) < hw + (ow * c + oh * s))) return false;
  if (angle === 0) return true;
  return Math.abs(dx * cos + dy * sin) < ow + hw * c + hh * s && Math.abs(dy * cos - dx * sin) < oh + hw * s + hh * c;
}

export const clamp = (value, [low, high]) => Math.min(Math.max(value, low), high);

/** Why a block of `slot` cannot be placed with its centre at (x, y), as a sentence; null if it can. */
export function objection(about, state, slot, x, y) {
  const { scene } = state, { roles } = about;
  if (state.ended) return "The episode has ended.";
  if (scene.role[slot] !== roles.available) return "This block is used up.";
  const [w, h] = scene.size[slot];
  const names = { [roles.floor]: "the floor", [roles.obstacle]: "an obstacle", [roles.block]: "a block" };
  let found = null;
  for (let row = 0; row < scene.role.length; row++) {
    const name = names[scene.role[row]];
    if (name && overlaps(x, y, w, h, scene.pose[row], scene.size[row])) {
      if (name === "an obstacle") return "It would overlap an obstacle.";
      found = `It would overlap ${name}.`;
    }
  }
  return found;
}

const EASE = 0.15, HAIR = 0.001; // metres: maximum shift of `eased`, and its distance to the object beside or below

/**
 * The nearest free place for a block that would overlap something at (x, y), at most `EASE` away along each axis. (x, y) itself if it
 * is free, or if there is no such place. Places above an obstacle are used only for a sticky block, which may hang.
 */
export function eased(about, state, slot, x, y, sticky) {
  if (objection(about, state, slot, x, y) === null) return [x, y];
  const { scene } = state, { roles } = about, [w, h] = scene.size[slot], xs = [x], ys = [y];
  scene.role.forEach((role, row) => {
    if (role !== roles.block && role !== roles.obstacle) return;
    const [ox, oy, angle] = scene.pose[row], [ow, oh] = scene.size[row], c = Math.abs(Math.cos(angle)), s = Math.abs(Math.sin(angle));
    const wide = (w + ow * c + oh * s) / 2 + HAIR, high = (h + ow * s + oh * c) / 2 + HAIR;
    xs.push(ox - wide, ox + wide);
    ys.push(oy - high, oy + high);
  });
  const near = (values, from, limits) => values.filter((value) => Math.abs(value - from) <= EASE && clamp(value, limits) === value);
  const places = near(xs, x, about.place_x).flatMap((px) => near(ys, y, about.place_y).map((py) => [px, py]));
  places.sort((a, b) => Math.hypot(a[0] - x, a[1] - y) - Math.hypot(b[0] - x, b[1] - y));
  const free = places.filter((place) => objection(about, state, slot, ...place) === null);
  return free.find((place) => !landing(about, state, slot, ...place).obstacle) ?? (sticky ? free[0] : undefined) ?? [x, y];
}

/** The distances along x from an object's centre at which agents with discrete relative actions place a block. */
export function offsets(about, reference, block) {
  const n = about.offsets, reach = (reference + block) / 2 * (1 + 1 / (n - 3));
  return Array.from({ length: n }, (_, i) => reach * (i * (2 / (n - 1)) - 1));
}

/** All positions (x, y) of a block of `slot` that relative actions offer in a scene, clipped to where blocks may be. */
export function snapPlaces(about, state, slot) {
  const { scene } = state, { roles } = about, places = [];
  scene.role.forEach((role, row) => {
    if (role === roles.available) return;
    const [x, y] = scene.pose[row], [w, h] = scene.size[row];
    const lift = role === roles.target ? 0 : (h + about.block_height) / 2;
    for (const offset of offsets(about, w, scene.size[slot][0])) {
      places.push([clamp(x + offset, about.place_x), clamp(y + lift + about.clearance, about.place_y)]);
    }
  });
  return places;
}

/**
 * Snaps a block released at (x, y) to the nearest target of its width within `near` metres or, without one, to the nearest legal
 * position of the relative actions within `reach` metres. Returns (x, y) itself if there is neither.
 */
export function snapped(about, state, slot, x, y, reach = 1.5, near = 0.6) {
  const { scene } = state, { roles } = about;
  let best = null, least = near * near;
  scene.role.forEach((role, row) => {
    if (role !== roles.target || Math.abs(scene.size[row][0] - scene.size[slot][0]) > 1e-3) return;
    const place = [clamp(scene.pose[row][0], about.place_x), clamp(scene.pose[row][1] + about.clearance, about.place_y)];
    const away = (place[0] - x) ** 2 + (place[1] - y) ** 2;
    if (away < least && objection(about, state, slot, ...place) === null) [best, least] = [place, away];
  });
  if (best) return best;
  best = [x, y];
  least = reach * reach;
  for (const place of snapPlaces(about, state, slot)) {
    const away = (place[0] - x) ** 2 + (place[1] - y) ** 2;
    // A block placed by hand is never moved above an obstacle, although agents may choose such a position.
    if (away < least && objection(about, state, slot, ...place) === null && !landing(about, state, slot, ...place).obstacle) [best, least] = [place, away];
  }
  return best;
}

/** Whether a point lies inside a rectangle. */
export function inside(px, py, [x, y, angle], [w, h]) {
  const c = Math.cos(angle), s = Math.sin(angle), dx = px - x, dy = py - y;
  return Math.abs(dx * c + dy * s) <= w / 2 && Math.abs(dy * c - dx * s) <= h / 2;
}

/** The height of the first solid object below an upright block, and whether this is an obstacle. The block's shadow is drawn there. */
export function landing(about, state, slot, x, y) {
  const { scene } = state, { roles } = about, half = scene.size[slot][0] / 2;
  let top = 0, obstacle = false;
  scene.role.forEach((role, row) => {
    if (role !== roles.block && role !== roles.obstacle) return;
    const [ox, oy, angle] = scene.pose[row], [w, h] = scene.size[row];
    const c = Math.abs(Math.cos(angle)), s = Math.abs(Math.sin(angle));
    const high = oy + (w * s + h * c) / 2;
    if (Math.abs(x - ox) < half + (w * c + h * s) / 2 && high < y && high > top) [top, obstacle] = [high, role === roles.obstacle];
  });
  return { top, obstacle };
}
