/**
 * The log of a job: an unbroken part of it that grows where the reader scrolls, upwards and downwards. It opens at the end,
 * following what comes, at the start (`?from=start`), at a moment (`?since=…`) or at a line (`?line=…`). A search is done by the
 * server over the whole log; the time of a line leads to the lines around it.
 */

import { address, getJson, report } from "../api.js";
import { size } from "../format.js";
import { t, tn } from "../i18n.js";
import { subscribe } from "../job.js";
import { Lines, MAX_LINES } from "./lines.js";
import { remember, remembered } from "./memory.js";

const PAGE = 500;
const NEAR = 40; // pixels from the end that still count as the end
const EARLY = 600; // pixels from the start at which earlier lines are asked for
const LINE_PAGES = 20;
const FILTERS = ["rank", "attempt", "level", "fd", "context"];
const MAX_RANKS = 512; // that can be chosen from
const TYPING_MS = 250;

export function mount(element) {
  const view = new LogView(element);
  view.start();
  return () => view.stop();
}

class LogView {
  constructor(element) {
    this.element = element;
    this.find = (name) => element.querySelector(`[data-${name}]`);
    this.url = `/api/v1/jobs/${encodeURIComponent(element.dataset.job)}/logs`;
    this.lines = new Lines(this.find("lines"));
    this.lines.addressOf = (item) => this.#address({ line: item.id });
    this.scroller = this.find("scroller");
    this.following = true;
    this.unread = 0;
    const query = new URLSearchParams(location.search);
    // What the reader chose while this module was on its way counts as well.
    this.filter = Object.fromEntries(["grep", ...FILTERS].map((name) => [name, query.get(name) ?? this.find(name)?.value ?? ""]));
    this.chosen = Object.entries(this.filter).some(([name, value]) => value !== (query.get(name) ?? ""));
    this.from = query.get("from") === "start" ? "start" : "end";
    this.since = query.get("since") ?? "";
    this.line = query.get("line") ?? "";
  }

  start() {
    this.#wireFilters();
    this.#wirePlaces();
    this.unsubscribe = subscribe({ logs: () => this.#onNews() });
    if (this.chosen) this.#go(this.from, { since: this.since });
    else this.#open();
  }

  stop() {
    this.unsubscribe();
    this.abort?.abort();
    clearTimeout(this.typing);
    removeEventListener("resize", this.fit);
  }

  #wireFilters() {
    const grep = this.find("grep");
    grep.value = this.filter.grep;
    grep.addEventListener("input", () => {
      clearTimeout(this.typing);
      this.typing = setTimeout(() => this.#filterBy("grep", grep.value), TYPING_MS);
    });
    for (const name of FILTERS) {
      const select = this.find(name);
      if (!select) continue;
      select.value = this.filter[name];
      select.addEventListener("change", () => this.#filterBy(name, select.value));
    }
    const last = remembered();
    for (const name of ["wrap", "times"]) {
      const box = this.find(name);
      box.checked = Boolean(last[name]);
      this.element.classList.toggle(name, box.checked);
      box.addEventListener("change", () => {
        this.element.classList.toggle(name, box.checked);
        remember({ ...remembered(), [name]: box.checked });
      });
    }
  }

  #wirePlaces() {
    this.find("follow").addEventListener("click", () => this.#follow(!this.following));
    this.find("start").addEventListener("click", () => this.#go("start"));
    this.find("lines").addEventListener("click", (event) => {
      const time = event.target.closest("a.at");
      if (!time || event.ctrlKey || event.metaKey || event.shiftKey) return;
      event.preventDefault();
      this.#clearFilters();
      this.#go("end", { line: time.dataset.line });
    });
    this.scroller.addEventListener("scroll", () => this.#onScroll(), { passive: true });
    this.scroller.addEventListener("keydown", (event) => {
      if (event.ctrlKey || event.metaKey || event.altKey || (event.key !== "Home" && event.key !== "End")) return;
      event.preventDefault();
      if (event.key === "Home") this.#go("start");
      else this.#follow(true);
    });
    this.fit = () => this.#fit();
    addEventListener("resize", this.fit);
    this.#fit();
  }

  /** The panel ends where the window ends, whatever stands above it. */
  #fit() {
    const above = this.element.getBoundingClientRect().top + scrollY;
    this.element.style.setProperty("--above", `${Math.round(above)}px`);
    if (this.following) this.#toEnd();
  }

  #filterBy(name, value) {
    if (this.filter[name] === value) return;
    this.filter[name] = value;
    this.#go(this.from, { since: this.since });
  }

  /** Around a line there are the lines that the filters hid. */
  #clearFilters() {
    for (const name of ["grep", ...FILTERS]) {
      this.filter[name] = "";
      const field = this.find(name);
      if (field) field.value = "";
    }
  }

  /** Show another place of the log; the address says which. */
  #go(from, { since = "", line = "" } = {}) {
    Object.assign(this, { from, since, line });
    history.replaceState(history.state, "", this.#address({ ...this.filter, from: from === "start" ? from : "", since, line }));
    const { attempt, rank, fd } = this.filter;
    this.find("raw").href = address(`${this.url}/raw`, { attempt, rank, fd });
    return this.#open();
  }

  #address(values) {
    return address(location.pathname, values);
  }

  /** Forget what is shown and read anew from the place that is wanted. */
  async #open() {
    this.abort?.abort();
    this.abort = new AbortController();
    this.element.classList.toggle("searching", this.#searching());
    this.find("context-label").hidden = !this.#searching();
    this.lines.clear(this.filter.grep ? patternOf(this.filter.grep) : null);
    this.atEnd = false;
    this.reading = this.readingEarlier = null;
    this.again = false;
    this.unread = 0;
    this.#setFollowing(this.from === "end" && !this.since && !this.line);
    this.find("note").hidden = true;
    this.find("earlier").hidden = true;
    await this.#readMore();
    if (this.from === "start" && !this.since && !this.line) this.scroller.scrollTop = 0;
    if (this.since || this.line) await this.#showPlace(this.abort.signal);
    this.#readEarlierIfNear();
  }

  /** Read what is behind the last line. Calls while one is under way make it look once more. */
  #readMore() {
    if (this.reading) {
      this.again = true;
      return this.reading;
    }
    const signal = this.abort.signal;
    this.reading = this.#readPages(signal)
      .catch((error) => report(error))
      .finally(() => {
        if (signal.aborted) return;
        this.reading = null;
        if (this.again) {
          this.again = false;
          this.#readMore();
        }
      });
    return this.reading;
  }

  async #readPages(signal) {
    for (;;) {
      const answer = await getJson(address(this.url, { ...this.#behind(), ...this.filter, fold: "true" }), { signal });
      if (signal.aborted) return;
      const first = this.lines.next === undefined;
      this.#meetRanks(answer.items);
      this.lines.append(answer.items, this.#manyRanks(), { prev: answer.prev_cursor, next: answer.next_cursor });
      this.atEnd = !answer.more;
      this.dropped = answer.dropped_bytes ?? 0;
      if (this.following) this.#toEnd();
      else if (!first && this.atEnd) this.unread += answer.items.length;
      this.#showState();
      // Away from the end one page at a time: the next when the reader comes near its end.
      if (!answer.more || !(this.following || this.#nearEnd())) return;
    }
  }

  /** Which page comes next: behind what is shown, or the first of the place that is wanted. */
  #behind() {
    if (this.lines.next !== undefined) return { cursor: this.lines.next, limit: PAGE };
    if (this.line) return { at: this.line, limit: PAGE };
    if (this.since) return { since: this.since, limit: PAGE };
    return this.from === "start" ? { limit: PAGE } : { tail: PAGE };
  }

  #readEarlierIfNear() {
    if (this.scroller.scrollTop > EARLY || !this.lines.prev || this.readingEarlier) return;
    const signal = this.abort.signal;
    this.readingEarlier = this.#readEarlier(signal)
      .catch((error) => report(error))
      .finally(() => {
        if (signal.aborted) return;
        this.readingEarlier = null;
        this.#showState();
      });
  }

  /** Pages in front of the first line, until the reader is far enough from it. A search may find nothing in one. */
  async #readEarlier(signal) {
    while (this.lines.prev && this.scroller.scrollTop <= EARLY) {
      this.#showState();
      const position = { before: this.lines.prev, limit: PAGE };
      const answer = await getJson(address(this.url, { ...position, ...this.filter, fold: "true" }), { signal });
      if (signal.aborted) return;
      const anchor = this.lines.first;
      const top = anchor?.getBoundingClientRect().top ?? 0;
      this.#meetRanks(answer.items);
      const cut = this.lines.prepend(answer.items, this.#manyRanks(), answer.prev_cursor);
      if (cut) this.atEnd = false;
      if (anchor && !this.following) this.scroller.scrollTop += anchor.getBoundingClientRect().top - top;
      if (this.following) this.#toEnd();
    }
  }

  /** The stream says that there is more output. Who reads elsewhere keeps their lines. */
  #onNews() {
    if (this.following || (this.atEnd && this.lines.count < MAX_LINES - PAGE)) this.#readMore();
    else this.atEnd = false;
  }

  #showState() {
    const { count } = this.lines;
    const text = count > 0 ? this.#droppedText() : this.#emptyText();
    const note = this.find("note");
    note.hidden = text === "" || !this.atEnd;
    note.textContent = text;
    const earlier = this.find("earlier");
    earlier.hidden = count === 0 && !this.lines.prev;
    earlier.textContent = this.lines.prev ? t("Reading earlier lines…") : t("The log begins here.");
    this.find("count").textContent = count ? (this.#searching() && !this.filter.context ? tn("{count} match", "{count} matches", count) : tn("{count} line", "{count} lines", count)) : "";
    const label = this.unread ? tn("{count} new line", "{count} new lines", this.unread) : t("Follow");
    this.find("follow").lastChild.textContent = label;
  }

  #emptyText() {
    if (this.lines.prev) return "";
    if (this.#searching()) return t("No line matches.");
    if (this.filter.rank || this.filter.attempt) return t("This part has no lines.");
    return this.element.dataset.live === "yes" ? t("Waiting for the first line") : t("This part has no lines.");
  }

  #droppedText() {
    return this.dropped ? t("{size} of output beyond the quota of this job were not kept.", { size: size(this.dropped) }) : "";
  }

  #searching() {
    return Boolean(this.filter.grep || this.filter.level || this.filter.fd);
  }

  /** One machine may log for several ranks, as torchrun's --redirects does: nobody knows before its lines come. */
  #meetRanks(items) {
    const select = this.find("rank");
    const highest = Math.min(Math.max(0, ...items.map((item) => item.rank)), MAX_RANKS - 1);
    if (highest > 0) select.closest("label").hidden = false;
    for (let rank = select.options.length - 1; rank <= highest; rank += 1) select.add(new Option(rank, rank));
  }

  #manyRanks() {
    return !this.find("rank").closest("label").hidden && this.filter.rank === "";
  }

  #onScroll() {
    const near = this.#nearEnd();
    if (near && !this.atEnd) this.#readMore();
    const following = near && (this.atEnd || this.following); // what is still being read is no reason to let go
    if (following !== this.following) {
      this.#setFollowing(following);
      this.#showState();
    }
    this.#readEarlierIfNear();
  }

  #follow(wanted) {
    if (wanted && !this.atEnd) {
      this.#go("end");
      return;
    }
    this.#setFollowing(wanted);
    if (wanted) this.#toEnd();
    this.#showState();
  }

  #setFollowing(following) {
    this.following = following;
    if (following) this.unread = 0;
    this.find("follow").setAttribute("aria-pressed", String(following));
  }

  /** The line that the address names, or the first of its moment, marked. */
  async #showPlace(signal) {
    for (let page = 0; this.line && page < LINE_PAGES && !this.atEnd && !this.lines.find(this.line); page += 1) {
      await this.#readMore();
      if (signal.aborted) return;
    }
    const line = (this.line && this.lines.find(this.line)) || this.lines.first;
    if (!line) return;
    line.classList.add("here");
    line.scrollIntoView({ block: line === this.lines.first ? "start" : "center" });
  }

  #nearEnd() {
    const { scrollTop, scrollHeight, clientHeight } = this.scroller;
    return scrollHeight - scrollTop - clientHeight < NEAR;
  }

  #toEnd() {
    this.scroller.scrollTop = this.scroller.scrollHeight;
  }
}

function patternOf(text) {
  return new RegExp(text.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"), "gi");
}
