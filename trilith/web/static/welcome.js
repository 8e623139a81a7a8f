// The first visit: one sentence, a network that builds in a hard scene, then the guide.

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
    $("welcome").hidden = false;
    app.watch.play();
    return undefined;
  }

  /** The welcome ends when the user chooses a scene. */
  update({ origin }) {
    if (!$("welcome").hidden && (!origin || Object.keys(SCENE).some((key) => origin[key] !== SCENE[key]))) this.hide();
  }

  hide() {
    if ($("welcome").contains(document.activeElement)) $("canvas").focus({ preventScroll: true });
    $("welcome").hidden = true;
  }
}
