/** Confirmation before anything that cannot be taken back: forms with data-confirm ask first. */

/** Takes the answer to the question that is open; null when none is. */
let answer = null;

export function startDialogs() {
  document.addEventListener("submit", async (event) => {
    const form = event.target;
    if (form.id === "confirm-form") return answer?.(event.submitter?.value === "yes");
    if (!form.dataset.confirm || form.dataset.confirmed) return;
    event.preventDefault();
    event.stopImmediatePropagation();
    if (await confirm(form.dataset.confirm, form.dataset.confirmText ?? "", form.dataset.confirmYes ?? "OK")) {
      form.dataset.confirmed = "yes";
      form.requestSubmit(event.submitter ?? undefined);
    }
  }, { capture: true });
  // Escape and a click outside close the dialog without its form. The browser tells of a closing only with its next
  // frame, by when the next question may be open: that one is not answered by it.
  const dialog = document.getElementById("confirm");
  dialog?.addEventListener("close", () => {
    if (!dialog.open) answer?.(false);
  });
  document.addEventListener("click", (event) => {
    if (event.target.closest("[data-action=help]")) showHelp();
    if (event.target instanceof HTMLDialogElement && event.target.open) closeWhenOutside(event);
  });
}

export function showHelp() {
  document.getElementById("help").showModal();
}

function confirm(title, text, yes) {
  answer?.(false);
  const dialog = document.getElementById("confirm");
  document.getElementById("confirm-title").textContent = title;
  document.getElementById("confirm-text").textContent = text;
  document.getElementById("confirm-yes").textContent = yes;
  dialog.showModal();
  return new Promise((resolve) => {
    answer = (said) => {
      answer = null;
      resolve(said);
    };
  });
}

/** The backdrop belongs to the dialog element: a click outside its box closes it. */
function closeWhenOutside(event) {
  const box = event.target.getBoundingClientRect();
  const inside = event.clientX >= box.left && event.clientX <= box.right && event.clientY >= box.top && event.clientY <= box.bottom;
  if (!inside) event.target.close("no");
}
