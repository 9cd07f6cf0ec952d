// Buttons that copy a text. Without JavaScript they are hidden, and the text can be selected.
"use strict";
(() => {
  const unhide = () => {
    for (const one of document.querySelectorAll("button.copy[hidden]")) one.hidden = false;
  };
  const put = async (text) => {
    if (navigator.clipboard) return navigator.clipboard.writeText(text);
    // Without TLS a browser has no clipboard: by a field that is selected.
    const field = document.createElement("textarea");
    field.value = text;
    field.className = "visually-hidden";
    document.body.append(field);
    field.select();
    document.execCommand("copy");
    field.remove();
  };
  document.addEventListener("click", async (event) => {
    const button = event.target.closest("button.copy");
    if (!button) return;
    const label = button.dataset.label || (button.dataset.label = button.textContent);
    try {
      await put(button.dataset.copy);
      button.textContent = "Copied";
    } catch {
      button.textContent = "Select the text to copy it";
    }
    setTimeout(() => { button.textContent = label; }, 2000);
  });
  unhide();
  document.addEventListener("tallymark:shown", unhide);
})();
