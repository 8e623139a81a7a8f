// The scene in words, for users of screen readers.

import { fixed, kind } from "./words.js";

const at = ([x, y]) => `${fixed(x)}, ${fixed(y)}`;

/** Writes to the page's log, which screen readers read out. */
export function hear(line) {
  document.getElementById("heard").textContent = line;
}

/** Describes the scene: the positions of all objects by kind, as x and height in metres. */
export function sceneWords(about, task, { state, view }) {
  const { scene } = state, { roles } = about, rows = (role) => scene.role.map((_, row) => row).filter((row) => scene.role[row] === role);
  const list = (name, found, describe) => (found.length ? `${found.length} ${name}${found.length > 1 ? "s" : ""}: ${found.map(describe).join("; ")}.` : "");
  const tilted = (row) => (Math.abs(Math.sin(scene.pose[row][2])) > 0.05 ? ", tilted" : "");
  return [
    `${task.title}, level ${state.level}, step ${state.steps} of ${view.max_steps}. Positions are x and height in metres.`,
    list("target", rows(roles.target), (row, i) => {
      const size = task.name === "silhouette" ? `${kind(scene.size[row][0])} ` : "";
      return `${size}at ${at(scene.pose[row])}${view.done[i] ? ", done" : ""}`;
    }),
    list("obstacle", rows(roles.obstacle), (row) => `at ${at(scene.pose[row])}, ${scene.size[row][0].toFixed(2)} wide`),
    list("block", rows(roles.block), (row) => `${kind(scene.size[row][0])} at ${at(scene.pose[row])}${tilted(row)}${scene.sticky[row] ? ", sticky" : ""}`),
    list("available block", rows(roles.available), (row) => `${row + 1} ${kind(scene.size[row][0])}`),
  ].filter(Boolean).join(" ");
}

/** Describes where the newest block came to rest. */
export function landed(about, before, { state, placement }) {
  if (!placement) return "";
  const { scene } = state, row = scene.role.length > before.state.scene.role.length ? scene.role.length - 1 : placement[0];
  if (scene.role[row] !== about.roles.block) return "";
  const tilted = Math.abs(Math.sin(scene.pose[row][2])) > 0.05 ? ", tilted" : "";
  return `The ${kind(scene.size[row][0])} block came to rest at ${at(scene.pose[row])}${tilted}.`;
}
