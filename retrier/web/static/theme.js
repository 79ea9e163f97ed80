// In the head, before anything is shown: the theme that was chosen, or else the system's.
"use strict";
(() => {
  try {
    const chosen = localStorage.getItem("retrier-theme");
    if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
  } catch { /* storage may be forbidden: the system decides then */ }
  document.documentElement.classList.add("scripted");
})();
