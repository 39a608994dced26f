/**
 * Lines of a log in the page: an unbroken part of it, in blocks that the browser skips while they are out of sight. Each
 * block knows the places in front of and behind it, so that the part can grow and shrink at both ends.
 */

import { timeOfDay } from "../format.js";
import { t } from "../i18n.js";

const BLOCK = 500;
export const MAX_LINES = 20000;
// CSI sequences, OSC up to its end, and single-character escapes (ECMA-48).
const ANSI = /\u001b\[[0-?]*[ -/]*[@-~]|\u001b\][^\u0007\u001b]*(?:\u0007|\u001b\\)|\u001b[@-Z\\-_]/g;
const CONTROL = /[\u0000-\u0008\u000b-\u001f\u007f]/g;

export class Lines {
  #blocks = []; // {element, count, prev, next}: cursors of the server; prev is null at the start of the log

  constructor(box) {
    this.box = box;
    this.count = 0;
    this.pattern = null;
    this.addressOf = null; // line -> address of the place where it stands
  }

  clear(pattern = null) {
    this.box.replaceChildren();
    this.#blocks = [];
    this.count = 0;
    this.pattern = pattern;
  }

  /** The place in front of the first line; null at the start of the log, undefined when nothing was read. */
  get prev() {
    return this.#blocks[0]?.prev;
  }

  /** The place behind the last line; undefined when nothing was read. */
  get next() {
    return this.#blocks.at(-1)?.next;
  }

  /** The line of that id, if it is in the page. */
  find(id) {
    return this.box.querySelector(`.line[data-id="${CSS.escape(id)}"]`);
  }

  get first() {
    return this.box.querySelector(".line");
  }

  /** Add lines ({attempt, rank, fd, time, text}) behind the last one. Lines at the other end go when there are too many. */
  append(items, manyRanks, { prev, next }) {
    const last = this.#blocks.at(-1);
    if (last && last.count + items.length <= BLOCK) {
      this.#fillBlock(last, items, manyRanks);
      last.next = next;
    } else {
      this.#blocks.push(this.#block(items, manyRanks, { prev: last ? last.next : prev, next }));
      this.box.append(this.#blocks.at(-1).element);
    }
    while (this.count > MAX_LINES && this.#blocks.length > 1) this.#remove(this.#blocks.shift());
  }

  /** Add lines in front of the first one. Returns whether lines at the end had to go. */
  prepend(items, manyRanks, prev) {
    const [first] = this.#blocks;
    if (items.length === 0) {
      first.prev = prev;
      return false;
    }
    this.#blocks.unshift(this.#block(items, manyRanks, { prev, next: first.prev }));
    this.box.prepend(this.#blocks[0].element);
    let cut = false;
    while (this.count > MAX_LINES && this.#blocks.length > 1) {
      this.#remove(this.#blocks.pop());
      cut = true;
    }
    return cut;
  }

  #block(items, manyRanks, places) {
    const element = document.createElement("div");
    element.className = "block";
    const block = { element, count: 0, ...places };
    this.#fillBlock(block, items, manyRanks);
    return block;
  }

  #fillBlock(block, items, manyRanks) {
    block.element.append(...items.map((item) => this.#line(item, manyRanks)));
    block.count += items.length;
    block.element.style.setProperty("--rows", block.count);
    this.count += items.length;
  }

  #remove(block) {
    block.element.remove();
    this.count -= block.count;
  }

  #line(item, manyRanks) {
    const line = document.createElement("div");
    line.className = `line fd-${item.fd}${item.level ? ` level-${item.level}` : ""}${item.match ? "" : " around"}`;
    line.dataset.id = item.id;
    line.dataset.time = item.time;
    const time = document.createElement("a");
    time.className = "at";
    time.href = this.addressOf(item);
    time.dataset.line = item.id;
    time.title = t("Show the lines around this one");
    time.textContent = timeOfDay(new Date(item.time * 1000));
    line.append(time);
    if (manyRanks) {
      const rank = document.createElement("span");
      rank.className = "rank";
      rank.textContent = item.rank;
      rank.title = t("rank {n}", { n: item.rank });
      line.append(rank);
    }
    const text = document.createElement("span");
    text.className = "text";
    this.#fill(text, clean(item.text), item.match);
    line.append(text);
    return line;
  }

  /** The text, with what was searched for marked. */
  #fill(element, text, match) {
    if (this.pattern === null || !match) {
      element.textContent = text;
      return;
    }
    let from = 0;
    for (const match of text.matchAll(this.pattern)) {
      if (match[0] === "") continue;
      element.append(text.slice(from, match.index));
      const mark = document.createElement("mark");
      mark.textContent = match[0];
      element.append(mark);
      from = match.index + match[0].length;
    }
    element.append(text.slice(from));
  }
}

export function clean(text) {
  return text.replace(ANSI, "").replace(CONTROL, "").replace(/\n$/, "");
}
