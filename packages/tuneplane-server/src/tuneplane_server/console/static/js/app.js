/** Starts every page: the small parts, the keys, and the view of each element with data-view. */

import { startDialogs } from "./dialogs.js";
import { startKeys } from "./keys.js";
import { ApiError, report } from "./api.js";
import { t } from "./i18n.js";
import { startParts } from "./parts.js";
import { startTheme } from "./theme.js";

const VIEWS = {
  jobs: () => import("./jobs.js"),
  job: () => import("./job.js"),
  compare: () => import("./compare.js"),
  curves: () => import("./curves/view.js"),
  hardware: () => import("./hardware.js"),
  logs: () => import("./logs/view.js"),
  samples: () => import("./samples.js"),
  sweep: () => import("./sweep.js"),
};
const TICK_MS = 4000;
const SLOW_TICK_MS = 20000;
const mounted = new Map();

keepWhatTheReaderDid();
startDialogs();
startParts();
startTheme();
startKeys();
mountViews();
document.body.addEventListener("htmx:afterSwap", mountViews);
document.body.addEventListener("htmx:configRequest", (event) => {
  const { parameters } = event.detail; // an address says only which filters are set
  for (const name of Object.keys(parameters)) if (parameters[name] === "") delete parameters[name];
  event.detail.headers["X-CSRF-Token"] = document.querySelector("meta[name=csrf-token]").content;
});
document.body.addEventListener("htmx:responseError", (event) => {
  report(new ApiError(event.detail.xhr.status, event.detail.xhr.statusText));
});
document.body.addEventListener("htmx:sendError", () => report(new ApiError(0, t("The console did not answer. Trying again."))));
// Pages that refresh themselves do so while someone looks, and at once when someone looks again.
setInterval(() => tick("tp:tick"), TICK_MS);
setInterval(() => tick("tp:slow-tick"), SLOW_TICK_MS);
document.addEventListener("visibilitychange", () => tick("tp:tick"));

function tick(name) {
  if (document.visibilityState === "visible") document.body.dispatchEvent(new CustomEvent(name));
}

/** Each view module exports mount(element), which returns a function that ends it (or nothing). */
async function mountViews() {
  for (const [element, unmount] of mounted) {
    if (!element.isConnected) {
      mounted.delete(element);
      unmount?.();
    }
  }
  for (const element of document.querySelectorAll("[data-view]")) {
    if (mounted.has(element)) continue;
    mounted.set(element, null);
    const { mount } = await VIEWS[element.dataset.view]();
    if (element.isConnected) mounted.set(element, mount(element) ?? null);
    else mounted.delete(element);
  }
}

/** A page that is drawn again by the server keeps the chosen row, opened folders, local times and drawn curves. */
function keepWhatTheReaderDid() {
  const kept = { "aria-selected": "[data-row]", open: "details", checked: "[data-tick]", title: "time", "data-titled": "time" };
  window.Idiomorph.defaults.callbacks.beforeAttributeUpdated = (attribute, element) =>
    attribute in kept && element.matches(kept[attribute]) ? false : undefined;
  window.Idiomorph.defaults.callbacks.beforeNodeMorphed = (before, after) => {
    if (!before.matches?.("[data-spark]") || before.dataset.spark !== after.dataset?.spark) return undefined;
    before.dataset.step = after.dataset.step;
    return false;
  };
}
