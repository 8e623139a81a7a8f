// Thinking: what the chosen agent makes of the state that is shown, as ghosts in the scene and as a list beside it.

import { signed } from "./paint.js";
import { NAMES } from "./tip.js";
import { RECORDED } from "./watch.js";
import { kind } from "./words.js";

const COUNT = 5;
const LARGER = 3; // a pixel of a window is shown so many times as large, the same for all objects

/** The window that an agent sees of an object, and the value below it. Under the pointer it shows which object that is. */
function view(app, { row, width, pixels, value }) {
  const item = document.createElement("li"), canvas = document.createElement("canvas"), text = document.createElement("span");
  const image = new ImageData(Uint8ClampedArray.from(atob(pixels), (each) => each.charCodeAt(0)), width);
  canvas.width = image.width;
  canvas.height = image.height;
  canvas.style.width = `${LARGER * width}px`;
  canvas.getContext("2d").putImageData(image, 0, 0);
  text.textContent = value == null ? "–" : signed(value);
  item.title = NAMES[app.episode.state.scene.role[row]];
  item.addEventListener("pointerenter", () => app.build.look(row));
  item.addEventListener("pointerleave", () => app.build.look(null));
  item.append(canvas, text);
  return item;
}

export class Thinker {
  constructor(app) {
    this.app = app;
    this.on = false;
    this.about = null; // the state that the ideas are about
    this.ideas = [];
    this.seen = []; // what it sees of each object, if it sees pictures
    this.plan = false; // whether the ideas are one plan, to be followed in its order
    this.lit = null;
    this.stop = null;
    this.list = document.getElementById("ideas-list");
    this.note = document.getElementById("ideas-note");
    this.views = document.getElementById("seen");
  }

  /** The ideas to draw now: none while they are of another state. */
  get shown() {
    return this.on && this.about === this.key() ? this.ideas : null;
  }

  key() {
    const { app } = this;
    return `${app.agent}|${app.episode.now.text}`;
  }

  toggle(on) {
    this.on = on;
    if (on) this.refresh();
    else this.clear();
  }

  clear() {
    this.stop?.abort();
    this.about = null;
    this.ideas = [];
    this.seen = [];
    this.show();
  }

  /** Asks for ideas about what is shown, if there are none yet. */
  async refresh() {
    const { app } = this, key = this.key();
    if (!this.on || app.compare.active || this.about === key) return;
    this.stop?.abort();
    this.about = key;
    this.ideas = [];
    this.seen = [];
    this.say("");
    this.show();
    if (app.episode.ended || app.agent === RECORDED) return;
    const stop = this.stop = new AbortController();
    this.say(`${app.agent} is thinking …`);
    try {
      const { source, ideas, seen } = await app.api.ideas(app.episode.now.text, app.agent, app.episode.seed, COUNT, stop.signal);
      if (this.about !== key) return;
      this.ideas = ideas;
      this.seen = seen;
      this.plan = source === "plan";
      const earns = ideas.reduce((sum, { value }) => sum + value, 0);
      if (source === "agent") this.say(`Values of ${app.agent}: what it expects from here to the end.`);
      else if (this.plan) this.say(ideas.length ? `The plan of ${app.agent} from here, which earns ${signed(earns)}.` : `${app.agent} would stop here: it sees nothing more to gain.`);
      else this.say(`${app.agent} keeps no values: these are rewards of one placement ahead, by physics.`);
    } catch (error) {
      if (error.name !== "AbortError") this.say(error.message);
    }
    this.show();
  }

  say(line) {
    this.note.textContent = line;
    this.note.hidden = !line;
  }

  show() {
    if (!this.on) this.say("");
    this.lit = null;
    const { size } = this.app.episode.state.scene, held = this.list.contains(document.activeElement);
    this.list.replaceChildren(...this.ideas.map((idea, i) => {
      const item = document.createElement("li"), button = document.createElement("button");
      const [slot, x, y, sticky] = idea.placement;
      button.type = "button";
      button.title = "Place it";
      const what = document.createElement("span"), value = document.createElement("b");
      what.textContent = `${this.plan ? `${i + 1}. ` : ""}${kind(size[slot][0])}${sticky ? ", sticky" : ""} at ${x.toFixed(2)}, ${y.toFixed(2)}`;
      value.textContent = `${idea.chosen ? "its choice " : ""}${idea.value == null ? "" : signed(idea.value)}`;
      if (idea.visits != null) value.textContent += ` · ${idea.visits} visits`;
      button.append(what, value);
      const light = (on) => { this.lit = on ? i : null; this.app.stage.invalidate(); };
      button.addEventListener("pointerenter", () => light(true));
      button.addEventListener("pointerleave", () => light(false));
      button.addEventListener("focus", () => light(true));
      button.addEventListener("blur", () => light(false));
      button.addEventListener("click", () => { this.app.showBoard(); this.app.place(idea.placement); });
      item.append(button);
      return item;
    }));
    this.views.replaceChildren(...this.seen.map((each) => view(this.app, each)));
    document.getElementById("seen-note").hidden = !this.seen.length;
    if (held) (this.list.querySelector("button") ?? document.getElementById("canvas")).focus({ preventScroll: true });
    this.app.stage.invalidate();
  }
}
