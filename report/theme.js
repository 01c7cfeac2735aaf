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

window.addEventListener("beforeprint", () => {
  document.querySelectorAll("details").forEach((details) => { details.open = true; });
});
