// Choosing a number shows what it counts: n, interval, noise floor, and the SQL for its rows.
const numbers = JSON.parse(document.getElementById("number-data").textContent);
const box = document.getElementById("number");
const sql = document.getElementById("number-sql");
const said = document.getElementById("number-said");
let opener = null;

function spelled(value) {
  return Number(value.toPrecision(4)).toString();
}

function describe({ n, n_planned, unit = "items", estimate, lo, hi, noise_floor, noise_floor_hi }) {
  const interval = lo === null ? "" : `, 95% interval ${spelled(lo)} to ${spelled(hi)}`;
  const limit = noise_floor_hi === null ? "" : `, on similar items at most ${spelled(noise_floor_hi)}`;
  // Only shares of items have a floor of their own; where it is missing, no cell was run twice.
  const floor = noise_floor === null ? "" : `; noise floor ${spelled(noise_floor)}${limit}`;
  return `${spelled(estimate)}${interval}; n = ${n} of ${n_planned} planned ${unit}${floor}.`;
}

function show(button) {
  const number = numbers[Number(button.dataset.number)];
  const name = number.statistic.replaceAll("_", " ");
  document.getElementById("number-name").textContent = `${name}: ${number.cells.join(" → ")}`;
  document.getElementById("number-facts").textContent = describe(number);
  document.getElementById("number-unit").textContent = (number.unit ?? "items").replace(/s$/, "");
  sql.textContent = number.sql;
  said.textContent = "";
  opener = button;
  box.showPopover();
  document.getElementById("number-copy").focus();
}

async function copy() {
  try {
    await navigator.clipboard.writeText(sql.textContent);
    said.textContent = "copied";
  } catch {
    getSelection().selectAllChildren(sql);
    said.textContent = document.execCommand("copy") ? "copied" : "selected: press Ctrl+C";
  }
}

document.addEventListener("click", (event) => {
  const button = event.target.closest("button.number");
  if (button) show(button);
});
document.getElementById("number-copy").addEventListener("click", copy);
box.addEventListener("toggle", (event) => {
  if (event.newState === "closed" && opener) opener.focus();
});
