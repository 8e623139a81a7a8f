// Comparing: two agents build in the same scene, side by side.

import { signed } from "./paint.js";
import { Panel } from "./stage.js";
import { reason } from "./words.js";

const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

export class Comparison {
  constructor(app) {
    this.app = app;
    this.panels = null;
    this.run = null;
    this.stop = null;
  }

  get active() { return this.panels !== null; }
  get playing() { return this.run !== null; }
  get ended() { return this.panels.every((panel) => panel.episode.ended); }

  /** Starts both agents in the current scene, from its first state. */
  open(agents) {
    const { app } = this;
    app.watch.run = null;
    app.watch.taken = false;
    app.panel.settle();
    this.panels = agents.map((agent) => {
      const panel = new Panel(app.episode.fresh());
      panel.agent = agent;
      panel.title = () => this.title(panel);
      return panel;
    });
    app.stage.panels = this.panels;
    this.play();
  }

  close() {
    if (!this.active) return;
    this.pause();
    this.panels.forEach((panel) => panel.settle());
    this.panels = null;
    this.app.stage.panels = [this.app.panel];
    this.app.update();
  }

  /** Lets both agents build to the end or, with `once`, place one block each. */
  async play(once = false) {
    if (this.playing) return;
    if (this.ended) this.panels.forEach((panel) => { panel.episode = panel.episode.fresh(); });
    const run = this.run = {};
    this.stop = new AbortController();
    this.app.update();
    const results = await Promise.allSettled(this.panels.map((panel) => this.build(panel, run, once)));
    if (this.run !== run) return;
    const failed = results.find((result) => result.status === "rejected");
    this.run = null;
    this.app.update();
    if (failed) this.app.fail(failed.reason, () => this.play(once));
    else if (!once) this.app.say(this.verdict());
  }

  pause() {
    this.run = null;
    this.stop?.abort();
    this.app.update();
  }

  step() { return this.playing ? this.pause() : this.play(true); }

  async build(panel, run, once) {
    const { app } = this, { episode } = panel;
    while (this.run === run && !episode.ended) {
      const asked = app.api.act(episode.now.text, panel.agent, episode.seed, episode.zero_on_hit, this.stop.signal);
      const moment = await app.waitForAgent(asked, () => this.run === run, () => { this.pause(); return this.play(once); });
      if (this.run !== run) return;
      episode.push(moment);
      app.update();
      await app.stage.show(panel, moment.frames, app.speed);
      if (once) return;
      await sleep(250 / app.speed);
    }
  }

  title({ agent, episode }) {
    const { state, now } = episode, won = state.ended === "complete";
    const end = state.ended ? ` · ${reason(state.ended).short}` : "";
    return { name: this.app.agentName(agent), line: `reward ${signed(state.total)} · step ${state.steps} of ${now.view.max_steps}${end}`, won };
  }

  verdict() {
    const [a, b] = this.panels, [x, y] = this.panels.map((panel) => panel.episode.state.total);
    if (Math.abs(x - y) < 0.005) return `Both earned ${signed(x)}.`;
    const [more, less] = x > y ? [a, b] : [b, a];
    return [more, less].map(({ agent, episode }) => `${this.app.agentName(agent)}: ${signed(episode.state.total)}`).join(". ") + ".";
  }
}
