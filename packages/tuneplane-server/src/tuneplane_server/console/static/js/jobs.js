/** The list of jobs: small curves of each job's main metric, drawn when their row is seen. */

import { address, getJson, report } from "./api.js";
import { startChoice } from "./jobs_choice.js";

const SVG = "http://www.w3.org/2000/svg";
const WIDTH = 84;
const HEIGHT = 28;
const known = new Map(); // job -> {step, values}: a row that is drawn again keeps its curve until the new one is here

export function mount(element) {
  const waiting = new Set();
  const observer = new IntersectionObserver((entries) => {
    for (const entry of entries) {
      if (!entry.isIntersecting) continue;
      observer.unobserve(entry.target);
      waiting.add(entry.target);
    }
    if (waiting.size) queueMicrotask(() => load(waiting));
  });
  const watch = () => {
    for (const spark of element.querySelectorAll("[data-spark]")) {
      const last = known.get(spark.dataset.spark);
      if (last && !spark.firstChild) draw(spark, last.values);
      if (last?.step !== spark.dataset.step) observer.observe(spark);
    }
  };
  watch();
  const endChoice = startChoice(element);
  document.body.addEventListener("htmx:afterSwap", watch);
  return () => {
    observer.disconnect();
    endChoice();
    document.body.removeEventListener("htmx:afterSwap", watch);
  };
}

async function load(waiting) {
  const sparks = [...waiting];
  waiting.clear();
  if (sparks.length === 0) return;
  try {
    const answer = await getJson(address("/jobs/sparklines", { id: sparks.map((spark) => spark.dataset.spark) }));
    for (const spark of sparks) {
      const values = answer.values[spark.dataset.spark] ?? [];
      known.set(spark.dataset.spark, { step: spark.dataset.step, values });
      draw(spark, values);
    }
  } catch (error) {
    if (error.status !== 0) report(error); // the next tick asks again
  }
}

function draw(spark, values) {
  const finite = values.filter(Number.isFinite);
  if (finite.length < 2) return;
  const low = Math.min(...finite);
  const range = Math.max(...finite) - low || 1;
  const points = values
    .map((value, index) => [(index / (values.length - 1)) * WIDTH, HEIGHT - 3 - ((value - low) / range) * (HEIGHT - 6)])
    .filter(([, y]) => Number.isFinite(y));
  const line = points.map(([x, y], index) => `${index ? "L" : "M"}${x.toFixed(1)} ${y.toFixed(1)}`).join("");
  const [lastX, lastY] = points.at(-1);
  const svg = make("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, "aria-hidden": "true" });
  svg.append(
    make("path", { class: "fill", d: `${line}L${lastX.toFixed(1)} ${HEIGHT}L${points[0][0].toFixed(1)} ${HEIGHT}Z` }),
    make("path", { d: line }),
    make("circle", { cx: lastX.toFixed(1), cy: lastY.toFixed(1), r: "1.8" }),
  );
  spark.replaceChildren(svg);
}

function make(name, attributes) {
  const element = document.createElementNS(SVG, name);
  for (const [attribute, value] of Object.entries(attributes)) element.setAttribute(attribute, value);
  return element;
}
