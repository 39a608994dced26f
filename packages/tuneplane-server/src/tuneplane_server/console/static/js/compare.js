/** Several runs in the same charts: their curves, which of them are shown, and new points while any of them runs. */

import { CurvesView } from "./curves/view.js";

export function mount(element) {
  const keys = [...element.querySelectorAll("[data-run]")];
  const hidden = new Set(new URLSearchParams(location.search).getAll("hide"));
  const runs = keys.map(({ dataset }) => ({
    id: dataset.run, label: dataset.label, colour: dataset.colour, start: Date.parse(dataset.start) / 1000 || 0, hidden: hidden.has(dataset.run),
  }));
  const view = new CurvesView(element, runs);
  keys.forEach((key, index) => wire(key, runs[index], view));
  view.start();
  const tick = () => view.readNames();
  const live = keys.some(({ dataset }) => dataset.live === "yes");
  if (live) document.body.addEventListener("tp:slow-tick", tick);
  return () => {
    document.body.removeEventListener("tp:slow-tick", tick);
    view.stop();
  };
}

function wire(key, run, view) {
  const toggle = key.querySelector(".run-toggle");
  toggle.setAttribute("aria-pressed", String(!run.hidden));
  toggle.addEventListener("click", () => {
    run.hidden = !run.hidden;
    toggle.setAttribute("aria-pressed", String(!run.hidden));
    keep("hide", run.id, run.hidden);
    view.redraw(true);
  });
  key.querySelector("[data-remove]")?.addEventListener("click", () => {
    keep("run", run.id, false);
    keep("hide", run.id, false);
    location.reload();
  });
}

/** The address says which runs are compared and which of them are hidden. */
function keep(name, id, wanted) {
  const query = new URLSearchParams(location.search);
  const others = query.getAll(name).filter((known) => known !== id);
  query.delete(name);
  for (const other of wanted ? [...others, id] : others) query.append(name, other);
  history.replaceState(history.state, "", `${location.pathname}?${query}`);
}
