// Paints one scene into one rectangle of the canvas. Colours come from the style sheet, so the code is the same for light and dark.

const BOTTOM = -2.75, WIDTH = 16.2; // metres that are always visible: the supply below the floor, and the full width of the scene
const COLOURS = ["sky", "shelf", "grid", "floor", "block", "block-line", "sticky", "sticky-line", "obstacle", "obstacle-line",
  "target", "target-line", "done", "good", "bad", "idea", "ink", "muted", "glue", "contact", "covered", "surface", "block-ink", "warn", "accent", "predicted"];

/** The colours of the style sheet, by name. */
export function readTheme() {
  const style = getComputedStyle(document.documentElement);
  return Object.fromEntries(COLOURS.map((name) => [name, style.getPropertyValue(`--${name}`).trim()]));
}

/** Maps metres to pixels in a rectangle of the canvas. The scene stands on the lower side of the rectangle. */
export class View {
  constructor(left, top, width, height, highest, widest = 0) {
    this.left = left;
    this.top = top;
    this.width = width;
    this.height = height;
    this.scale = Math.min(width / Math.max(WIDTH, 2 * widest), height / (highest - BOTTOM));
    this.originX = left + width / 2;
    this.originY = top + height + BOTTOM * this.scale;
  }

  x(metres) { return this.originX + metres * this.scale; }
  y(metres) { return this.originY - metres * this.scale; }
  world(px, py) { return [(px - this.originX) / this.scale, (this.originY - py) / this.scale]; }
}

/** Saves the context and moves it into the frame of a pose, in metres, until `restore`. */
function enter(ctx, view, [x, y, angle]) {
  ctx.save();
  ctx.translate(view.x(x), view.y(y));
  ctx.rotate(-angle);
  ctx.scale(view.scale, view.scale);
}

function rounded(ctx, w, h, inset = 0, radius = 0.06) {
  ctx.beginPath();
  ctx.roundRect(-w / 2 + inset, -h / 2 + inset, w - 2 * inset, h - 2 * inset, Math.max(radius - inset, 0));
}

function box(ctx, view, pose, [w, h], fill, line, { dash = null, alpha = 1, thick = 0.05 } = {}) {
  enter(ctx, view, pose);
  ctx.globalAlpha = alpha;
  rounded(ctx, w, h);
  if (fill) { ctx.fillStyle = fill; ctx.fill(); }
  if (line) {
    rounded(ctx, w, h, thick / 2);
    ctx.strokeStyle = line;
    ctx.lineWidth = thick;
    if (dash) ctx.setLineDash(dash);
    ctx.stroke();
  }
  ctx.restore();
}

/** Stripes across a rectangle, so that obstacles differ from blocks not only by colour. */
function stripes(ctx, view, pose, [w, h], colour) {
  enter(ctx, view, pose);
  rounded(ctx, w, h);
  ctx.clip();
  ctx.strokeStyle = colour;
  ctx.lineWidth = 0.05;
  ctx.beginPath();
  for (let x = -w / 2 - h; x < w / 2; x += 0.22) {
    ctx.moveTo(x, h / 2);
    ctx.lineTo(x + h, -h / 2);
  }
  ctx.stroke();
  ctx.restore();
}

/** Dots along a sticky block: glue. */
function dots(ctx, view, pose, [w, h], colour) {
  enter(ctx, view, pose);
  ctx.fillStyle = colour;
  const n = Math.max(2, Math.round(w / 0.35));
  for (const y of [-h / 2 + 0.14, h / 2 - 0.14]) {
    for (let i = 0; i < n; i++) {
      ctx.beginPath();
      ctx.arc(-w / 2 + (i + 0.5) * (w / n), y, 0.045, 0, 7);
      ctx.fill();
    }
  }
  ctx.restore();
}

function text(ctx, view, string, x, y, colour, size = 0.32, { weight = 600, align = "center", halo = null } = {}) {
  const pixels = Math.max(size * view.scale, 10);
  ctx.save();
  ctx.font = `${weight} ${pixels}px system-ui, sans-serif`;
  ctx.textAlign = align;
  ctx.textBaseline = "middle";
  if (halo) {
    ctx.strokeStyle = halo;
    ctx.lineWidth = pixels / 3.5;
    ctx.lineJoin = "round";
    ctx.strokeText(string, view.x(x), view.y(y));
  }
  ctx.fillStyle = colour;
  ctx.fillText(string, view.x(x), view.y(y));
  ctx.restore();
}

function dot(ctx, view, x, y, radius, fill, line) {
  ctx.beginPath();
  ctx.arc(view.x(x), view.y(y), radius, 0, 7);
  ctx.fillStyle = fill;
  ctx.fill();
  if (line) { ctx.strokeStyle = line; ctx.lineWidth = 1.5; ctx.stroke(); }
}

function backdrop(ctx, view, theme) {
  const { left, top, width, height } = view, ground = view.y(0);
  ctx.fillStyle = theme.sky;
  ctx.fillRect(left, top, width, height);
  ctx.strokeStyle = theme.grid;
  ctx.lineWidth = 1;
  ctx.beginPath();
  for (let y = 0.7; view.y(y) > top; y += 0.7) { ctx.moveTo(left, Math.round(view.y(y)) + 0.5); ctx.lineTo(left + width, Math.round(view.y(y)) + 0.5); }
  ctx.stroke();
  ctx.fillStyle = theme.shelf;
  ctx.fillRect(left, ground, width, top + height - ground);
}

/** The middle of the overlap of the upright boxes around two objects: approximately the point where they touch. */
function between(poses, sizes, a, b) {
  const sides = [a, b].map((row) => {
    const [x, y, angle] = poses[row], [w, h] = sizes[row], c = Math.abs(Math.cos(angle)), s = Math.abs(Math.sin(angle));
    const ex = (w * c + h * s) / 2, ey = (w * s + h * c) / 2;
    return [x - ex, x + ex, y - ey, y + ey];
  });
  return [(Math.max(sides[0][0], sides[1][0]) + Math.min(sides[0][1], sides[1][1])) / 2,
    (Math.max(sides[0][2], sides[1][2]) + Math.min(sides[0][3], sides[1][3])) / 2];
}

export const signed = (value, digits = 2) => {
  const rounded = Number(value.toFixed(digits));
  return rounded === 0 ? "0" : `${rounded > 0 ? "+" : "−"}${String(Math.abs(rounded))}`;
};

/**
 * Draws one scene. `content` has the `moment`, the `poses` to draw, whether they are `moving` in a fall, and the switches `show`. Optional
 * fields: `ideas`, `lit` (index of the idea under the pointer), `plan` (the ideas are steps), `ghost`, `sticky` (draw the supply sticky),
 * `predicted` and `hint` (poses with sizes), `hover` (a row), `values` with their maximum `most`, `keys` (number the supply).
 */
export function paint(ctx, view, theme, about, content) {
  const { moment, poses, show, moving } = content, { scene } = moment.state, { roles } = about;
  const { size, role, sticky } = scene;
  ctx.save();
  ctx.beginPath();
  ctx.rect(view.left, view.top, view.width, view.height);
  ctx.clip();
  backdrop(ctx, view, theme);

  let target = 0;
  role.forEach((each, row) => {
    if (each !== roles.target) return;
    const reached = show.done && !moving && moment.view.done[target];
    target += 1;
    box(ctx, view, poses[row], size[row], reached ? theme.done : theme.target, theme["target-line"], { dash: reached ? null : [0.16, 0.1] });
  });
  role.forEach((each, row) => {
    if (each === roles.floor) {
      box(ctx, view, poses[row], size[row], theme.floor, null);
    } else if (each === roles.obstacle) {
      box(ctx, view, poses[row], size[row], theme.obstacle, null);
      stripes(ctx, view, poses[row], size[row], theme["obstacle-line"]);
      box(ctx, view, poses[row], size[row], null, theme["obstacle-line"]);
    } else if (each === roles.block) {
      block(ctx, view, theme, poses[row], size[row], sticky[row], 1);
    } else if (each === roles.available) {
      const taken = content.ghost?.slot === row;
      block(ctx, view, theme, poses[row], size[row], content.sticky, taken ? 0.35 : 1);
      if (content.keys) text(ctx, view, String(row + 1), poses[row][0], poses[row][1], theme["block-ink"], 0.3);
    }
  });

  // Thin outlines of targets above the blocks, because the block in a filled target hides it.
  target = 0;
  role.forEach((each, row) => {
    if (each !== roles.target) return;
    const reached = show.done && !moving && moment.view.done[target];
    target += 1;
    box(ctx, view, poses[row], size[row], null, theme["target-line"], { dash: reached ? null : [0.16, 0.1], alpha: reached ? 0.9 : 0.5 });
    if (reached) tick(ctx, view, theme, poses[row]);
  });
  if (show.done && !moving) {
    ctx.strokeStyle = theme.covered;
    ctx.lineWidth = Math.max(0.11 * view.scale, 3);
    for (const [left, right, y] of moment.view.covered) {
      ctx.beginPath();
      ctx.moveTo(view.x(left), view.y(y));
      ctx.lineTo(view.x(right), view.y(y));
      ctx.stroke();
    }
  }
  if (show.contacts && !moving) {
    for (const [a, b] of scene.contact) dot(ctx, view, ...between(poses, size, a, b), Math.min(4, 0.12 * view.scale), theme.contact, theme.surface);
  }
  if (show.glue) {
    scene.glue.forEach(([a], i) => {
      const [x, y, angle] = poses[a], [lx, ly] = scene.glue_frame[i], c = Math.cos(angle), s = Math.sin(angle);
      if (!moving) dot(ctx, view, x + lx * c - ly * s, y + lx * s + ly * c, Math.min(5, 0.13 * view.scale), theme.glue, theme["sticky-line"]);
    });
  }
  if (moment.state.ended === "obstacle_hit" && !moving) { // marks the two objects that touched
    for (const [a, b] of scene.contact.filter((pair) => pair.some((row) => role[row] === roles.obstacle))) {
      for (const row of [a, b]) box(ctx, view, poses[row], size[row], null, theme.bad, { thick: 0.1 });
      ring(ctx, view, ...between(poses, size, a, b), Math.max(0.4 * view.scale, 12), theme.bad);
    }
  }
  for (const { pose, size } of content.hint ?? []) box(ctx, view, pose, size.map((side) => side + 0.24), null, theme.accent, { thick: 0.09 });
  const thick = Math.max(0.075, 2 / view.scale); // at least two pixels
  for (const { pose, size } of content.predicted ?? []) { // on a band of the background's colour, so that it is visible on blocks too
    box(ctx, view, pose, size, null, theme.surface, { thick });
    box(ctx, view, pose, size, null, theme.predicted, { thick, dash: [2.2 * thick, 1.2 * thick] });
  }
  if (content.values) paintValues(ctx, view, theme, content.values, content.most);
  if (content.hover != null && content.hover < role.length) {
    box(ctx, view, poses[content.hover], size[content.hover], null, theme.ink, { thick: 0.06 });
  }
  paintIdeas(ctx, view, theme, content);
  if (content.ghost) paintGhost(ctx, view, theme, size, content.ghost);
  ctx.restore();
}

function block(ctx, view, theme, pose, size, sticky, alpha) {
  ctx.save();
  ctx.globalAlpha = alpha;
  const line = sticky ? theme["sticky-line"] : theme["block-line"];
  box(ctx, view, pose, size, sticky ? theme.sticky : theme.block, line, { alpha });
  if (sticky) dots(ctx, view, pose, size, line);
  ctx.restore();
}

function ring(ctx, view, x, y, radius, colour) {
  ctx.beginPath();
  ctx.arc(view.x(x), view.y(y), radius, 0, 7);
  ctx.strokeStyle = colour;
  ctx.lineWidth = 3;
  ctx.stroke();
}

/** A colour from blue for 0 to yellow for 1. */
export const heat = (t) => `hsl(${250 - 200 * t} 85% ${38 + 22 * t}%)`;

/** Draws the value map of a block: a dot at each position. The best dot has a ring. */
function paintValues(ctx, view, theme, places, most) {
  const values = places.map(([, , value]) => value);
  const order = places.map((_, i) => i).sort((a, b) => values[a] - values[b]); // the best on top
  const radius = Math.max(0.09 * view.scale, 2.5);
  for (const i of order) dot(ctx, view, places[i][0], places[i][1], radius, heat(Math.min(Math.max(values[i] / most, 0), 1)));
  const best = places[order.at(-1)];
  if (best) {
    ring(ctx, view, best[0], best[1], 2 * radius, theme.ink);
    text(ctx, view, signed(best[2]), best[0], best[1] + 0.45, theme.ink, 0.3, { halo: theme.surface });
  }
}

function tick(ctx, view, theme, [x, y]) {
  const r = Math.max(0.13 * view.scale, 5);
  dot(ctx, view, x, y, r, theme.good);
  ctx.strokeStyle = theme.surface;
  ctx.lineWidth = Math.max(r / 3.5, 1.5);
  ctx.lineCap = "round";
  ctx.beginPath();
  ctx.moveTo(view.x(x) - r * 0.4, view.y(y) + r * 0.05);
  ctx.lineTo(view.x(x) - r * 0.08, view.y(y) + r * 0.38);
  ctx.lineTo(view.x(x) + r * 0.45, view.y(y) - r * 0.35);
  ctx.stroke();
}

function paintIdeas(ctx, view, theme, { ideas, lit, moment, plan }) {
  if (!ideas) return;
  const { size } = moment.state.scene;
  const order = ideas.map((_, i) => i).reverse(); // the best on top
  for (const i of order) {
    const { placement } = ideas[i], strong = lit === i;
    if (lit != null && !strong) continue;
    const pose = [placement[1], placement[2], 0], extent = size[placement[0]];
    box(ctx, view, pose, extent, placement[3] ? theme.sticky : theme.idea, null, { alpha: strong ? 0.6 : Math.max(0.36 - 0.05 * i, 0.14) });
    box(ctx, view, pose, extent, null, placement[3] ? theme["sticky-line"] : theme.idea, { dash: i ? [0.12, 0.08] : null, alpha: strong ? 1 : Math.max(0.95 - 0.12 * i, 0.4) });
  }
  if (lit != null) { // the principal variation of the search: its next blocks, numbered
    ideas[lit].line.forEach((next, n) => {
      if (!next) return;
      box(ctx, view, [next[1], next[2], 0], size[next[0]], null, theme.idea, { dash: [0.06, 0.08] });
      text(ctx, view, String(n + 2), next[1], next[2], theme.idea, 0.3, { halo: theme.sky });
    });
  }
  const taken = [];
  ideas.forEach(({ placement, value }, i) => {
    if (value == null || (lit != null && lit !== i)) return;
    const x = placement[1], y = placement[2]; // if two values would cover each other, only the better one is drawn
    const [wide, high] = plan ? [12, 10] : [44, 16]; // pixels: the number of a step is short
    if (taken.some(([tx, ty]) => Math.abs(tx - x) * view.scale < wide && Math.abs(ty - y) * view.scale < high)) return;
    taken.push([x, y]);
    text(ctx, view, plan ? String(i + 1) : signed(value), x, y, theme.ink, 0.3, { halo: theme.surface });
  });
}

function paintGhost(ctx, view, theme, size, ghost) {
  const words = ghost.objection ?? ghost.warning, colour = ghost.objection ? theme.bad : ghost.warning ? theme.warn : theme.good, extent = size[ghost.slot];
  if (!ghost.objection) { // where the block will land
    const half = extent[0] / 2;
    ctx.save();
    ctx.strokeStyle = colour;
    ctx.globalAlpha = 0.6;
    ctx.lineWidth = 1;
    ctx.setLineDash([2, 4]);
    ctx.beginPath();
    for (const side of [-half, half]) {
      ctx.moveTo(view.x(ghost.x + side), view.y(ghost.y - extent[1] / 2));
      ctx.lineTo(view.x(ghost.x + side), view.y(ghost.landing));
    }
    ctx.stroke();
    ctx.restore();
  }
  const pose = [ghost.x, ghost.y, 0];
  box(ctx, view, pose, extent, colour, null, { alpha: 0.28 });
  box(ctx, view, pose, extent, null, colour, { thick: 0.07 });
  if (ghost.sticky) dots(ctx, view, pose, extent, colour);
  if (words) {
    const width = words.length * Math.max(0.3 * view.scale, 10) * 0.27 / view.scale; // keep the words inside the picture
    const room = Math.max(view.width / view.scale / 2 - width, 0);
    const x = Math.min(Math.max(ghost.x, -room), room), above = view.y(ghost.y + 0.75) > view.top + 12;
    text(ctx, view, words, x, ghost.y + (above ? 0.75 : -0.75), colour, 0.3, { halo: theme.surface });
  }
}
