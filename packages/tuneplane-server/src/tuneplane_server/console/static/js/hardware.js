/** What a run's cards and machines do: tiles of now, and curves, asked for again as often as they are measured. */

import { address, getJson, report } from "./api.js";
import { Chart } from "./curves/chart.js";
import { Series } from "./curves/series.js";
import { number, size } from "./format.js";
import { t } from "./i18n.js";

const MAX_POINTS = 300;
const COLOURS = 10;
const FORMATS = {
  percent: (value) => `${number(round(value))} %`,
  bytes: (value) => size(Math.max(0, Math.round(value))),
  "bytes/s": (value) => `${size(Math.max(0, Math.round(value)))}/s`,
  celsius: (value) => `${number(round(value))} °C`,
  watt: (value) => `${number(round(value))} W`,
  cores: (value) => t("{n} cores", { n: number(round(value)) }),
  count: number,
};
// Charts in their order: [part, key, title, figures with the word that tells them apart in one chart].
const CHARTS = [
  ["gpu", "use", () => t("use of the card"), { use: null }],
  ["gpu", "memory", () => t("memory of the card"), { memory_used: null }],
  ["gpu", "temperature", () => t("temperature"), { temperature: null }],
  ["gpu", "power", () => t("power"), { power: null }],
  ["gpu", "ecc", () => t("memory errors"), { ecc_errors: () => t("not corrected"), ecc_corrected: () => t("corrected") }],
  ["gpu", "slowed", () => t("slowed down by heat or power"), { slowed: null }],
  ["machine", "cpu", () => t("processor"), { cpu: null }],
  ["machine", "memory", () => t("memory"), { memory_used: null }],
  ["machine", "disk", () => t("disk in use"), { disk_used: null }],
  ["machine", "io", () => t("disk traffic"), { disk_read: () => t("read"), disk_write: () => t("written") }],
  ["machine", "net", () => t("network traffic"), { net_in: () => t("received"), net_out: () => t("sent") }],
  ["job", "cpu", () => t("processor"), { cpu: null }],
  ["job", "memory", () => t("memory"), { memory_used: null }],
];
const SECTIONS = { gpu: () => t("Cards"), machine: () => t("Machines"), job: () => t("This run alone") };

export function mount(element) {
  const view = new HardwareView(element);
  view.start();
  return () => view.stop();
}

class HardwareView {
  constructor(element) {
    this.element = element;
    this.find = (name) => element.querySelector(`[data-${name}]`);
    this.url = `/api/v1/jobs/${encodeURIComponent(element.dataset.job)}/hardware`;
    this.start0 = Date.parse(element.dataset.start) / 1000 || 0;
    this.options = {
      axis: "time", smoothing: 0, log: false, zoom: null, many: true, syncKey: `hardware-${element.dataset.job}`, onZoom: (range) => this.#onZoom(range),
    };
    this.charts = new Map(); // part/key -> Chart
    this.series = new Map(); // name -> Series
    this.abort = new AbortController();
  }

  start() {
    for (const button of this.element.querySelectorAll("[data-x]")) button.addEventListener("click", () => this.#axis(button.dataset.x));
    this.find("reset").addEventListener("click", () => this.#onZoom(null));
    this.recolour = () => this.#draw(true);
    document.addEventListener("tp:colours", this.recolour);
    this.#read();
  }

  stop() {
    this.abort.abort();
    clearTimeout(this.timer);
    document.removeEventListener("tp:colours", this.recolour);
    for (const chart of this.charts.values()) chart.remove();
  }

  async #read() {
    let interval = 10;
    try {
      if (document.visibilityState === "visible") {
        const answer = await getJson(address(this.url, { max_points: MAX_POINTS }), { signal: this.abort.signal });
        interval = answer.interval;
        this.#show(answer);
      }
    } catch (error) {
      report(error);
    }
    if (this.element.dataset.live === "yes" && !this.abort.signal.aborted) {
      this.timer = setTimeout(() => this.#read(), Math.max(2, interval) * 1000);
    }
  }

  #show(answer) {
    const names = Object.keys(answer.series);
    this.find("empty").hidden = names.length > 0;
    this.find("simulated").hidden = !answer.simulated;
    this.nodes = [...new Set(Object.values(answer.about).map(({ node }) => node))].sort();
    for (const name of names) {
      if (!this.series.has(name)) this.series.set(name, new Series(name));
      this.series.get(name).replace(answer.series[name]);
    }
    this.#makeCharts(answer.about);
    this.#draw(false);
    this.#tiles(answer.latest);
  }

  /** A chart for each kind of figure that was measured, with a line for each card or machine. */
  #makeCharts(about) {
    for (const [part, key, title, figures] of CHARTS) {
      const mine = Object.entries(about).filter(([, one]) => one.part === part && one.figure in figures);
      if (mine.length === 0) continue;
      mine.sort(([, a], [, b]) => a.node.localeCompare(b.node) || (a.gpu ?? 0) - (b.gpu ?? 0));
      const lines = mine.map(([name, one], index) => ({
        series: this.series.get(name), label: this.#label(one, figures[one.figure]?.()), start: this.start0, colour: `--run-${(index % COLOURS) + 1}`,
      }));
      const known = this.charts.get(`${part}/${key}`);
      if (known) known.lines = lines;
      else this.charts.set(`${part}/${key}`, this.#chart(part, title(), lines, mine[0][1].unit));
    }
  }

  #label({ node, part, gpu }, word) {
    const where = part === "gpu" ? t("GPU {n}", { n: gpu }) : null;
    return [this.nodes.length > 1 || (!where && !word) ? node : null, where, word].filter(Boolean).join(" · ");
  }

  #chart(part, title, lines, unit) {
    const card = this.element.querySelector("[data-chart-template]").content.firstElementChild.cloneNode(true);
    card.querySelector("[data-pin]").remove();
    card.querySelector("h3").classList.remove("mono");
    this.#section(part).append(card);
    const range = (_min, max) => (unit === "percent" ? [0, Math.max(100, max ?? 0)] : [0, (max || 1) * 1.08]);
    return new Chart(card, title, lines, this.options, { format: FORMATS[unit] ?? number, range });
  }

  #section(part) {
    const known = this.element.querySelector(`[data-part="${part}"]`);
    if (known) return known.querySelector(".charts");
    const section = this.element.querySelector("[data-section-template]").content.firstElementChild.cloneNode(true);
    section.dataset.part = part;
    section.querySelector("h2").textContent = SECTIONS[part]();
    this.find("sections").append(section);
    return section.querySelector(".charts");
  }

  #draw(rebuild) {
    for (const chart of this.charts.values()) chart.draw({ rebuild });
  }

  /** The cards as they are now. */
  #tiles(latest) {
    const cards = latest.filter(({ part }) => part === "gpu");
    const tiles = cards.map((one, index) => {
      const tile = this.element.querySelector("[data-tile-template]").content.firstElementChild.cloneNode(true);
      const { use, memory_used: memory, temperature, power } = one.figures;
      const has = (value) => value !== undefined && value !== null;
      tile.querySelector(".dot").style.background = `var(--run-${(index % COLOURS) + 1})`;
      tile.querySelector("[data-name]").textContent = this.#label(one);
      tile.querySelector("[data-use]").textContent = has(use) ? FORMATS.percent(use) : "–";
      tile.querySelector("[data-meter]").value = use ?? 0;
      tile.querySelector("[data-meter]").setAttribute("aria-label", t("use of the card"));
      const rest = [[memory, "bytes"], [temperature, "celsius"], [power, "watt"]];
      tile.querySelector("[data-rest]").textContent = rest.filter(([value]) => has(value)).map(([value, unit]) => FORMATS[unit](value)).join(" · ");
      return tile;
    });
    this.find("tiles").replaceChildren(...tiles);
  }

  #axis(axis) {
    this.options.axis = axis;
    for (const button of this.element.querySelectorAll("[data-x]")) button.setAttribute("aria-pressed", String(button.dataset.x === axis));
    this.#onZoom(null);
    this.#draw(true);
  }

  #onZoom(range) {
    this.options.zoom = range;
    this.find("reset").hidden = range === null;
    this.#draw(false);
  }
}

function round(value) {
  return Math.round(value * 10) / 10;
}
