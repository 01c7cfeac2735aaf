// Dark or light: the system's wish, unless the reader chose otherwise.
const root = document.documentElement;
const button = document.getElementById("theme");
const system = window.matchMedia("(prefers-color-scheme: dark)");

function isDark() {
  return root.dataset.theme ? root.dataset.theme === "dark" : system.matches;
}

function announce() {
  button.textContent = isDark() ? "light" : "dark";
  document.dispatchEvent(new CustomEvent("themechange"));
}

button.hidden = false;
button.addEventListener("click", () => {
  root.dataset.theme = isDark() ? "light" : "dark";
  announce();
});
system.addEventListener("change", announce);
button.textContent = isDark() ? "light" : "dark";

// Paper cannot be unfolded. An item fills itself when it opens, with further details inside; the
// browser would tell it of that only after it has printed.
window.addEventListener("beforeprint", () => {
  for (let closed; (closed = document.querySelectorAll("details:not([open])")).length;) {
    for (const details of closed) {
      details.open = true;
      details.dispatchEvent(new Event("toggle"));
    }
  }
});
