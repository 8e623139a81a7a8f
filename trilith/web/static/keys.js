// Everything that can be done with a mouse can be done with keys.

import { hear } from "./speak.js";

const MAY_REPEAT = /^(Arrow.*|[zyo])$/i; // keys that repeat while they are held down
const $ = (id) => document.getElementById(id);

export function wireKeys(app) {
  const press = (id) => () => { if (!$(id).disabled) $(id).click(); };
  const undo = () => app.jump(app.episode.cursor - 1), redo = () => app.jump(app.episode.cursor + 1);
  const look = ({ shiftKey }) => {
    if (app.compare.active) return;
    const n = app.episode.state.scene.role.length, { hover } = app.build, by = shiftKey ? -1 : 1;
    app.build.look(hover == null ? (by > 0 ? 0 : n - 1) : (hover + by + n) % n);
    hear(document.getElementById("tip").textContent.replaceAll("\n", ", "));
  };
  const actions = {
    s: press("sticky"), g: press("snap"), i: press("ideas"), v: press("values"), k: () => app.stage.skip(), c: press("contacts"), p: press("play"), ".": press("step"), t: press("take"),
    n: press("next"), r: press("random"), z: undo, y: redo, o: look, "?": press("help"),
    Escape: () => { app.build.look(null); $("rules-box").open = false; },
  };
  document.addEventListener("keydown", (event) => {
    if (!app.panel || event.altKey || $("keys").open) return;
    const { target, key } = event, typing = target.matches("input[type=number], textarea");
    if (event.ctrlKey || event.metaKey) {
      const wanted = key.toLowerCase() === "z" ? (event.shiftKey ? redo : undo) : key.toLowerCase() === "y" ? redo : null;
      if (!wanted || typing) return;
      event.preventDefault();
      wanted();
      return;
    }
    if (typing || (key === "Enter" && !event.repeat && target.matches("button, summary"))) return;
    if (target.matches("select") && (key.length > 1 || key === " ")) return; // a list has the arrows, not the letters
    const action = actions[key] ?? actions[key.toLowerCase()]; // also with Caps Lock
    if (event.repeat && !MAY_REPEAT.test(key)) {
      if (action || key === "Enter") event.preventDefault(); // held too long, not pressed again
    } else if (app.build.key(event)) event.preventDefault();
    else if (action) {
      event.preventDefault();
      action(event);
    }
  });
}
