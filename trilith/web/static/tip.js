// What an object is: the features that a network sees of it, beside the pointer.

export const NAMES = ["available block", "block", "target", "obstacle", "floor"];
const number = (value, digits = 2) => { const fixed = value.toFixed(digits); return Number(fixed) === 0 ? (0).toFixed(digits) : fixed; };

/** Shows the features of a row of the scene; hides them for null. */
export function describe(app, row, event) {
  const tip = document.getElementById("tip");
  tip.hidden = row === null;
  if (row === null) return;
  const { scene } = app.episode.state, [x, y, angle] = scene.pose[row], [w, h] = scene.size[row], [vx, vy, spin] = scene.velocity[row];
  const others = (pairs) => pairs.filter((pair) => pair.includes(row)).map(([a, b]) => (a === row ? b : a))
    .map((other) => (other === app.about.slots ? "floor" : `${NAMES[scene.role[other]]} ${other}`));
  const touching = others(scene.contact), glued = others(scene.glue);
  const lines = [
    `${NAMES[scene.role[row]]} ${row}${scene.sticky[row] ? ", sticky" : ""}`,
    `x ${number(x)}   y ${number(y)}`,
    `w ${number(w)}   h ${number(h)}`,
    `cos θ ${number(Math.cos(angle))}   sin θ ${number(Math.sin(angle))}`,
    `v ${number(vx)}, ${number(vy)}   spin ${number(spin)}`,
  ];
  if (touching.length) lines.push(`touches ${touching.join(", ")}`);
  if (glued.length) lines.push(`glued to ${glued.join(", ")}`);
  tip.textContent = lines.join("\n");
  const board = tip.parentElement.getBoundingClientRect(), view = app.stage.layout()[0];
  const left = event ? event.clientX - board.left : view.x(x), top = event ? event.clientY - board.top : view.y(y);
  // To the right of and below the pointer, unless that would leave the picture.
  tip.style.left = `${Math.max(Math.min(left + 16, board.width - tip.offsetWidth - 6), 6)}px`;
  tip.style.top = `${top + 18 + tip.offsetHeight > board.height ? Math.max(top - tip.offsetHeight - 12, 6) : top + 18}px`;
}
