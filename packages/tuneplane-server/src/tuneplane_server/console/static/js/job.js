/** The page of one job: its live stream, the state of that stream, and which tab is open. */

import { number } from "./format.js";
import { t } from "./i18n.js";
import { JobStream } from "./stream.js";

const TERMINAL = new Set(["succeeded", "failed", "cancelled", "lost"]);
const WORDS = {
  live: () => [t("Live"), t("Updates arrive as they happen.")],
  polling: () => [t("Polling"), t("The live stream does not get through; this page asks every few seconds instead.")],
  paused: () => [t("Paused"), ""],
  ended: () => ["", t("Nothing more will arrive: the job has ended.")],
};

/** The stream of the job on this page; null when the job has ended. Views subscribe to it. */
export let stream = null;

/** How many samples the job has, as the stream said last; 0 before it said so. */
export let sampleCount = 0;

export function mount(element) {
  if (element.dataset.live !== "yes") return markTab();
  stream = new JobStream(element.dataset.job);
  stream.addEventListener("job", (event) => onJob(event.detail));
  stream.addEventListener("metrics", (event) => onMetrics(event.detail));
  stream.addEventListener("samples", (event) => (sampleCount = event.detail?.count ?? sampleCount));
  stream.addEventListener("state", (event) => showState(event.detail));
  stream.start();
  document.dispatchEvent(new CustomEvent("tp:stream"));
  document.body.addEventListener("htmx:afterSwap", markTab);
  document.body.addEventListener("htmx:afterSwap", watchEnd);
  return () => {
    stream.stop();
    stream = null;
  };
}

/** Subscribe `handlers` ({metrics: fn, …}) to the stream, now or once it exists. Returns a function that ends it. */
export function subscribe(handlers) {
  const attach = (how) => {
    if (stream === null) return;
    for (const [kind, handler] of Object.entries(handlers)) stream[how](kind, handler);
  };
  const later = () => attach("addEventListener");
  if (stream) later();
  else document.addEventListener("tp:stream", later, { once: true });
  return () => {
    document.removeEventListener("tp:stream", later);
    attach("removeEventListener");
  };
}

let lastJob = "";

/** The head of the page is drawn by the server; it is asked again only when the job changed. */
function onJob(job) {
  const seen = job === null ? "" : JSON.stringify([job.phase, job.desired, job.paused, job.approval, job.not_before, job.conditions, job.reason, job.attempt, job.waiting]);
  if (job !== null && seen === lastJob) return;
  lastJob = seen;
  document.body.dispatchEvent(new CustomEvent("tp:job"));
}

/** The main metric in the head follows the stream; the head is asked again for the first value there is. */
function onMetrics(detail) {
  const shown = document.getElementById("main-metric");
  if (shown === null) {
    document.body.dispatchEvent(new CustomEvent("tp:job"));
    return;
  }
  const value = detail?.series?.[shown.dataset.metric]?.at(-1)?.value.at(-1);
  if (value !== undefined) shown.textContent = number(value);
}

function watchEnd() {
  const phase = document.getElementById("job-head")?.dataset.phase;
  if (TERMINAL.has(phase)) stream?.end();
}

function showState(state) {
  const badge = document.getElementById("live");
  const [text, title] = WORDS[state]();
  badge.hidden = text === "";
  badge.className = `live ${state}`;
  badge.title = title;
  badge.querySelector("[data-text]").textContent = text;
}

/** After a tab was swapped in without a new page, its link is the current one. */
function markTab() {
  for (const link of document.querySelectorAll("#tabs a")) {
    if (link.pathname === location.pathname) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
}
