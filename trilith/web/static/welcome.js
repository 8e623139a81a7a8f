// The first visit: one sentence, a network that builds in a hard scene, then the guide.

import { keep, recall } from "./memory.js";

const $ = (id) => document.getElementById(id);
const SCENE = { task: "connecting", level: 8, seed: 1 }, AGENT = "objects", GUIDED = "silhouette";

export class Welcome {
  constructor(app) {
    this.app = app;
    $("welcome-guide").addEventListener("click", () => app.attempt(() => app.guide.start(GUIDED)));
    $("welcome-end").addEventListener("click", () => {
      app.guide.remember();
      this.hide();
    });
  }

  /** Shows the scene, and lets the network build in it. If the network is not installed, starts the guide instead. */
  async start() {
    const { app } = this;
    if (!(AGENT in (app.tasks.get(SCENE.task)?.agents ?? {}))) return app.guide.start(GUIDED);
    await app.load(SCENE);
    $("agent").value = AGENT;
    this.greet();
    return undefined;
  }

  /** After a reload, greets again if the visitor had not left the first visit. */
  resume() {
    if (recall("welcome") !== null && this.here(this.app.episode)) this.greet();
  }

  greet() {
    const { episode, watch, compare } = this.app;
    $("welcome").hidden = false;
    keep("welcome", "yes");
    if (!episode.ended && !episode.byHand && !compare.active) watch.play();
  }

  here({ origin }) { return Boolean(origin) && Object.keys(SCENE).every((key) => origin[key] === SCENE[key]); }

  /** Ends the first visit when another scene is shown. */
  update(episode) {
    if (!$("welcome").hidden && !this.here(episode)) this.hide();
  }

  hide() {
    if ($("welcome").contains(document.activeElement)) $("canvas").focus({ preventScroll: true });
    $("welcome").hidden = true;
    keep("welcome", null);
  }
}
