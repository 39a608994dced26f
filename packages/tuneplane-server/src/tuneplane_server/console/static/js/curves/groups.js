/**
 * Charts in groups by the beginning of their names, pinned ones in front. A run may have ten thousand names: cards are made
 * only for what is open, in portions, and go again when the filter hides them.
 */

import { t, tn } from "../i18n.js";
import { pins } from "./pins.js";

const KNOWN = ["train", "validation", "system", "raw"];
const MOST_GROUPS = 24;
const PORTION = 60; // charts of one group before "show more"
const MANY = 300; // names beyond which only the first group is open and hidden cards are not kept
// Whether training goes well is seen from these, whatever the method.
const FIRST = new Map(
  ["reward", "loss", "kl_penalty", "kl", "entropy", "reward_std", "grad_norm", "learning_rate"].map((name, place) => [`train/${name}`, place]),
);
const collator = new Intl.Collator("en", { numeric: true });

export const PINNED = "\u0000pinned";

export class Groups {
  /** `makeCard(name)` returns the card of a metric, `dropCard(name)` forgets it. */
  constructor(element, { primary, makeCard, dropCard }) {
    Object.assign(this, { element, primary, makeCard, dropCard });
    this.box = element.querySelector("[data-groups]");
    this.template = element.querySelector("[data-group-template]");
    this.groups = new Map(); // prefix -> {prefix, details, box, names, shown: how many, sorted}
    this.total = 0;
    this.carded = new Map(); // name -> group in which its card stands
  }

  add(name) {
    this.total += 1;
    const group = this.#group(this.#prefixOf(name));
    group.names.push(name);
    group.sorted = false;
  }

  /** Cards for the metrics that the filter lets through; how many pass. */
  layout(filter) {
    const passes = filterOf(filter);
    const pinned = pins();
    const many = this.total > MANY;
    const wanted = new Map([[PINNED, []]]);
    let passed = 0;
    for (const group of this.groups.values()) {
      if (group.prefix === PINNED) continue;
      if (!group.sorted) group.names.sort(byOrder(this.primary));
      group.sorted = true;
      const names = filter ? group.names.filter(passes) : group.names;
      passed += names.length;
      wanted.get(PINNED).push(...names.filter((name) => pinned.has(name)));
      wanted.set(group.prefix, names.filter((name) => !pinned.has(name)));
    }
    const keep = new Map();
    const order = [...wanted.keys()].sort((a, b) => rank(a) - rank(b) || a.localeCompare(b));
    const shown = [];
    let first = true;
    for (const prefix of order) {
      const names = wanted.get(prefix);
      if (prefix === PINNED && names.length === 0 && !this.groups.has(PINNED)) continue;
      const group = this.#group(prefix);
      group.details.hidden = names.length === 0;
      if (names.length === 0) continue;
      this.#openFirst(group, first || !many || filter !== "");
      first = first && prefix === PINNED; // what is pinned is open beside the first group
      for (const name of group.details.open ? names.slice(0, group.shown) : []) keep.set(name, group);
      this.#label(group, names);
      shown.push(group.details);
    }
    if (shown.some((details, index) => this.box.children[index] !== details)) this.box.prepend(...shown);
    this.#place(keep, many);
    return passed;
  }

  /** The state a group opens in is chosen once; then it is the reader's. */
  #openFirst(group, open) {
    if (group.settled) return;
    group.settled = true;
    group.details.open = open;
  }

  #label(group, names) {
    const left = names.length - group.shown;
    group.details.querySelector("summary span").textContent = tn("{count} metric", "{count} metrics", names.length);
    group.more.hidden = left <= 0;
    group.more.textContent = t("Show {count} more of {total}", { count: Math.min(left, PORTION), total: names.length.toLocaleString() });
  }

  #place(keep, many) {
    for (const [name, group] of this.carded) {
      if (keep.get(name) === group) continue;
      this.carded.delete(name);
      if (many && !keep.has(name)) this.dropCard(name);
      else if (!keep.has(name)) this.makeCard(name).hidden = true;
    }
    const last = new Map();
    for (const [name, group] of keep) {
      const card = this.makeCard(name);
      card.hidden = false;
      const before = last.get(group);
      if (before ? before.nextElementSibling !== card : group.box.firstElementChild !== card) {
        if (before) before.after(card);
        else group.box.prepend(card);
      }
      last.set(group, card);
      this.carded.set(name, group);
    }
  }

  /** A script with a name of its own for everything does not get a heading for each. */
  #prefixOf(name) {
    const prefix = name.includes("/") ? name.split("/")[0] : "raw";
    return this.groups.has(prefix) || KNOWN.includes(prefix) || this.groups.size < MOST_GROUPS ? prefix : "raw";
  }

  #group(prefix) {
    if (!this.groups.has(prefix)) {
      const details = this.template.content.firstElementChild.cloneNode(true);
      details.querySelector("h2").textContent = prefix === PINNED ? t("Pinned") : prefix;
      details.querySelector("h2").classList.toggle("mono", prefix !== PINNED);
      const group = { prefix, details, box: details.querySelector(".charts"), more: details.querySelector(".more"), names: [], shown: PORTION, sorted: true, settled: false };
      group.more.addEventListener("click", () => {
        group.shown += PORTION;
        this.onChange();
      });
      details.addEventListener("toggle", () => this.onChange());
      this.groups.set(prefix, group);
    }
    return this.groups.get(prefix);
  }
}

function rank(prefix) {
  if (prefix === PINNED) return -1;
  return KNOWN.includes(prefix) ? KNOWN.indexOf(prefix) : KNOWN.length - 1.5;
}

/** The method's main metric first, then what people look at first, then by name. */
function byOrder(primary) {
  const place = (name) => (name === primary ? -1 : (FIRST.get(name) ?? FIRST.size));
  return (a, b) => place(a) - place(b) || collator.compare(a, b);
}

/** A filter as a regular expression; as plain text while it is none. */
function filterOf(text) {
  if (!text) return () => true;
  try {
    const pattern = new RegExp(text, "i");
    return (name) => pattern.test(name);
  } catch {
    return (name) => name.toLowerCase().includes(text.toLowerCase());
  }
}
