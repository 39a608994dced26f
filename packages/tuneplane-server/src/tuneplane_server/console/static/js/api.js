/** The console's JSON API, read with the session of the page. */

import { t } from "./i18n.js";
import { toast } from "./parts.js";

export class ApiError extends Error {
  constructor(status, detail, code = "") {
    super(detail);
    this.status = status;
    this.code = code;
  }
}

/** The JSON answer of a GET. Rejects with ApiError, or AbortError when `signal` says stop. */
export async function getJson(url, { signal } = {}) {
  let response;
  try {
    response = await fetch(url, { signal, headers: { Accept: "application/json" }, credentials: "same-origin" });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ApiError(0, t("The console did not answer. Trying again."));
  }
  const body = await response.json().catch(() => null);
  if (response.ok && body !== null) return body;
  const detail = body?.detail ?? response.statusText;
  throw new ApiError(response.status, detail, body?.code ?? "");
}

/** Tell the reader what went wrong, once per kind; a cancelled request is nothing wrong. */
export function report(error) {
  if (error.name === "AbortError") return;
  if (!(error instanceof ApiError)) throw error;
  if (error.status === 0) toast(error.message, "bad");
  else if (error.status === 401) toast(t("You are signed out. Sign in again to go on."), "bad");
  else toast(t("The console refused this: {detail}", { detail: error.message }), "bad");
}

export function address(path, parameters = {}) {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(parameters)) {
    for (const item of Array.isArray(value) ? value : [value]) {
      if (item !== null && item !== undefined && item !== "") query.append(name, item);
    }
  }
  const text = query.toString();
  return text ? `${path}?${text}` : path;
}
