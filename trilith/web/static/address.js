// Keeps the address up to date with the page, and shows the scene of an address.

import * as link from "./link.js";

const $ = (id) => document.getElementById(id);
const FIRST = { task: "silhouette", level: 3, seed: 1 };
const SHOWN = ["ideas", "values", "contacts"], HIDDEN = ["glue", "done"]; // switches that the address remembers: if on, if off

export class Address {
  constructor(app) {
    this.app = app;
    this.written = undefined; // the scene and steps that the address holds
    for (const id of [...SHOWN, ...HIDDEN, "values-slot", "speed"]) $(id).addEventListener("change", () => this.write());
    $("link").addEventListener("click", () => this.copy());
    addEventListener("hashchange", () => {
      if (app.panel && location.hash.slice(1) !== this.text()) this.changed();
    });
  }

  /** The part after the # for the current page; empty for an episode from a file. */
  text() {
    const { app } = this, scene = link.encode(app.episode), rival = app.compare.active && $("rival").value;
    const show = SHOWN.filter((id) => $(id).checked).join(","), speed = app.speed === 1 ? null : $("speed").value;
    const hide = HIDDEN.filter((id) => !$(id).checked).join(","), block = $("values").checked && $("values-slot").selectedIndex > 0 && $("values-slot").selectedOptions[0].text;
    return scene && scene + link.encodeView({ agent: app.agent, rival, speed, show, hide, block, guide: app.guide.active && "yes" });
  }

  /** Writes the address. Back leads to the previous step, not to other views of the same step; one run of an agent counts as one step. */
  write() {
    const hash = this.text(), scene = link.sceneOf(hash), { run } = this.app.watch, here = location.hash.slice(1) === hash;
    if (!here || !history.state) {
      const same = here || this.written === undefined || this.written === scene || run?.told;
      history[same ? "replaceState" : "pushState"]("ours", "", hash ? `#${hash}` : location.pathname);
      if (run && !here && this.written !== scene) run.told = true;
    }
    this.written = scene;
  }

  /** After Back or Forward, shows that moment if the episode has it. Otherwise shows everything that the address says. */
  changed() {
    const { app } = this, { episode } = app, scene = link.sceneOf(location.hash.slice(1));
    const index = history.state ? episode.moments.findIndex((_, i) => link.encode(episode, i) === scene) : -1;
    if (index < 0 || !episode.origin) return app.attempt(() => this.follow());
    if (app.compare.active) app.compare.close();
    return app.jump(index);
  }

  /** Shows the scene of the address, or the scene `FIRST` if it names none. Reports an error in the address. */
  async follow() {
    const { app } = this;
    let wanted = { task: null, level: null, seed: null, placements: [], by: [], view: {} }, problem = null;
    try {
      wanted = link.decode(location.hash);
    } catch (error) {
      problem = error.message;
    }
    const task = app.tasks.has(wanted.task) ? wanted.task : FIRST.task;
    if (wanted.task !== null && wanted.task !== task) problem = `The link names a task that is not here: ${wanted.task.slice(0, 40)}`;
    const known = app.tasks.get(task).levels.includes(wanted.level);
    if (problem === null && wanted.level !== null && !known) problem = `The link names a level that ${task} does not have: ${String(wanted.level).slice(0, 40)}`;
    problem ??= this.view(wanted.view);
    const origin = { task, level: known ? wanted.level : wanted.task === task ? 0 : FIRST.level, seed: wanted.seed ?? FIRST.seed };
    const again = () => app.attempt(() => this.follow()), { placements, by } = wanted, guide = Boolean(wanted.view.guide);
    try {
      await app.load(origin, problem === null ? { placements, by, guide, again } : { again });
    } catch (error) {
      if (problem !== null || !placements.length || error.again !== false) throw error;
      problem = `The link cannot be followed: ${error.message}`;
      await app.load(origin);
    }
    app.think.toggle($("ideas").checked);
    if (problem !== null) app.say(`${problem}${problem.endsWith(".") ? "" : "."} This is another scene.`, "bad");
    else if (wanted.view.rival) app.restartCompare();
  }

  /** Sets the agents, the speed and the switches. Returns a sentence about an agent or speed that the page lacks, or null. */
  view({ agent, rival, speed, show, hide, block }) {
    const wanted = Object.entries({ agent, rival, speed }).filter(([, value]) => value);
    const missing = wanted.find(([id, value]) => ![...$(id).options].some((option) => option.value === value));
    if (missing) return `The link names ${missing[0] === "speed" ? "a speed" : "an agent"} that is not here: ${missing[1].slice(0, 40)}`;
    for (const [id, value] of wanted) $(id).value = value;
    for (const id of SHOWN) $(id).checked = Boolean(show?.split(",").includes(id));
    for (const id of HIDDEN) $(id).checked = !hide?.split(",").includes(id);
    this.app.values.wanted = block ?? null;
    return null;
  }

  async copy() {
    const { app } = this, { origin, cursor } = app.episode;
    if (!origin) return app.say("This episode came from a file, so no address holds it: save it instead.", "bad");
    try {
      await navigator.clipboard.writeText(location.href);
    } catch {
      return app.say("The address of this page is the link: copy it from above.");
    }
    const steps = cursor ? `its ${cursor === 1 ? "step" : `${cursor} steps`}, ` : "";
    const agents = app.compare.active ? "the two agents that are compared" : "the chosen agent";
    return app.say(`Copied the address of this scene, ${steps}${agents} and what is switched on.`);
  }
}
