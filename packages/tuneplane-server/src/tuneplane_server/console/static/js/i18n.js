/** Sentences in the reader's language, from the JSON block of the page (console/script_messages.py). */

const block = document.getElementById("messages");
const messages = block ? JSON.parse(block.textContent) : {};

export const language = document.documentElement.lang || "en";

/** The sentence `text` with `{name}` filled in from `values`. */
export function t(text, values = {}) {
  return fill(messages[text] ?? text, values);
}

/** The sentence for `count` things; `{count}` is filled in. */
export function tn(one, many, count, values = {}) {
  const text = messages[one] ?? (count === 1 ? one : many);
  return fill(text, { count: count.toLocaleString(language), ...values });
}

function fill(text, values) {
  return text.replace(/\{(\w+)\}/g, (whole, name) => (name in values ? String(values[name]) : whole));
}
