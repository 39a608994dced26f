/** The options above the charts: kept in the address, so that a link shows what its sender saw, and for the next page. */

const REMEMBERED = "tuneplane-curves";
const AXES = ["step", "time", "relative", "tokens", "epoch"];

/** Options from the address, else from the last visit: {axis, smoothing, log, filter}. */
export function readOptions() {
  const query = new URLSearchParams(location.search);
  const last = remembered();
  const axis = query.get("x") ?? last.axis;
  const smoothing = Number(query.get("smooth") ?? last.smoothing ?? 0);
  return {
    axis: AXES.includes(axis) ? axis : "step",
    smoothing: smoothing >= 0 && smoothing < 1 ? smoothing : 0,
    log: (query.get("log") ?? (last.log ? "1" : "0")) === "1",
    filter: query.get("metric") ?? "",
  };
}

/** Wire the controls of `element`; `onChange(what)` is called after `options` was updated. */
export function startToolbar(element, options, onChange) {
  const axes = element.querySelectorAll("[data-x]");
  const slider = element.querySelector("[data-smoothing]");
  const output = element.querySelector("[data-smoothing-value]");
  const log = element.querySelector("[data-log]");
  const filter = element.querySelector("[data-filter]");
  const show = () => {
    for (const button of axes) button.setAttribute("aria-pressed", String(button.dataset.x === options.axis));
    slider.value = options.smoothing;
    output.textContent = options.smoothing.toFixed(2).replace(/\.?0+$/, "") || "0";
    log.checked = options.log;
  };
  const changed = (what) => {
    show();
    keep(options);
    onChange(what);
  };
  filter.value = options.filter;
  show();
  for (const button of axes) {
    button.addEventListener("click", () => {
      options.axis = button.dataset.x;
      options.zoom = null;
      changed("axis");
    });
  }
  slider.addEventListener("input", () => {
    options.smoothing = Number(slider.value);
    changed("scales");
  });
  log.addEventListener("change", () => {
    options.log = log.checked;
    changed("scales");
  });
  filter.addEventListener("input", () => {
    options.filter = filter.value;
    changed("filter");
  });
}

function keep(options) {
  const query = new URLSearchParams(location.search);
  const set = (name, value, usual) => (value === usual ? query.delete(name) : query.set(name, value));
  set("x", options.axis, "step");
  set("smooth", String(options.smoothing), "0");
  set("log", options.log ? "1" : "0", "0");
  set("metric", options.filter, "");
  const text = query.toString();
  history.replaceState(history.state, "", text ? `?${text}` : location.pathname);
  try {
    localStorage.setItem(REMEMBERED, JSON.stringify({ axis: options.axis, smoothing: options.smoothing, log: options.log }));
  } catch {
    return; // storage is full or forbidden: the address still has it
  }
}

function remembered() {
  try {
    return JSON.parse(localStorage.getItem(REMEMBERED)) ?? {};
  } catch {
    return {};
  }
}
