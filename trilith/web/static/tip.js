// The tooltip beside the pointer: the features that a network sees of an object, or a value of the value map.

import { fixed } from "./words.js";

export const NAMES = ["available block", "block", "target", "obstacle", "floor"];

/** The name of an object: its kind and a number. An available block has the number written on it; others are counted by kind. */
function called({ roles }, { role }, row) {
  if (role[row] === roles.floor) return "floor";
  const number = role[row] === roles.available ? row + 1 : role.slice(0, row + 1).filter((each) => each === role[row]).length;
  return `${NAMES[role[row]]} ${number}`;
}

/** Shows text beside the pointer or, without a pointer, at (x, y) of the scene. */
export function tell(words, event, place = null) {
  const tip = document.getElementById("tip"), board = tip.parentElement.getBoundingClientRect();
  tip.textContent = words;
  tip.hidden = false;
  const [left, top] = event ? [event.clientX - board.left, event.clientY - board.top] : place;
  // Right of and below the pointer, unless the text would leave the picture.
  tip.style.left = `${Math.max(Math.min(left + 16, board.width - tip.offsetWidth - 6), 6)}px`;
  tip.style.top = `${top + 18 + tip.offsetHeight > board.height ? Math.max(top - tip.offsetHeight - 12, 6) : top + 18}px`;
}

/** Shows the features of a row of the scene; hides them for null. */
export function describe(app, row, event) {
  if (row === null) {
    document.getElementById("tip").hidden = true;
    return;
  }
  const { scene } = app.episode.state, [x, y, angle] = scene.pose[row], [w, h] = scene.size[row], [vx, vy, spin] = scene.velocity[row];
  const others = (pairs) => pairs.filter((pair) => pair.includes(row)).map(([a, b]) => called(app.about, scene, a === row ? b : a));
  const touching = others(scene.contact), glued = others(scene.glue), view = app.stage.layout()[0];
  const lines = [
    `${called(app.about, scene, row)}${scene.sticky[row] ? ", sticky" : ""}`,
    `x ${fixed(x)}   y ${fixed(y)}`,
    `w ${fixed(w)}   h ${fixed(h)}`,
    `cos θ ${fixed(Math.cos(angle))}   sin θ ${fixed(Math.sin(angle))}`,
    `v ${fixed(vx)}, ${fixed(vy)}   spin ${fixed(spin)}`,
  ];
  if (touching.length) lines.push(`touches ${touching.join(", ")}`);
  if (glued.length) lines.push(`glued to ${glued.join(", ")}`);
  tell(lines.join("\n"), event, [view.x(x), view.y(y)]);
}
