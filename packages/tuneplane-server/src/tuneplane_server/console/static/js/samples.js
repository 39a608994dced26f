/** The samples of a job: says that new ones arrived instead of moving the page under the reader. */

import { subscribe } from "./job.js";

export function mount(element) {
  const button = element.querySelector("[data-new]");
  const show = () => element.dispatchEvent(new CustomEvent("tp:show-samples"));
  button.addEventListener("click", show);
  return subscribe({
    samples: (event) => {
      if (event.detail === null) return; // a poll wakes whether or not there is anything new
      if (element.querySelector(".empty")) show();
      else button.hidden = false;
    },
  });
}
