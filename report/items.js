// Browse the changed items. All text of models goes through text nodes, never through markup.
const { reference, target, items, prompts } = JSON.parse(
  document.getElementById("changed-data").textContent,
);
const PAGE = 20;
const form = document.getElementById("filters");
const list = document.getElementById("item-list");
const more = document.getElementById("more");
const fields = ["cell", "task", "kind", "level", "class"];
const NAMES = { lost: "lost: right to wrong", won: "won: wrong to right", "both wrong": "both wrong, but different", "both right": "both right, but different" };
let matching = [];
let shown = 0;

function el(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.append(...children.map((child) => (child instanceof Node ? child : String(child))));
  return node;
}

// Space that a reader could not see is spelled out; hidden text directions are kept apart.
function visible(text) {
  return text === "" ? "∎ end" : text.replaceAll("\n", "⏎\n").replace(/^ /, "␣");
}

function answer([same, token, rest], whole) {
  const box = el("pre", { dir: "auto" });
  box.append(el("span", { class: "same" }, same));
  box.append(whole ? el("span", {}, token) : el("mark", {}, visible(token)));
  box.append(rest);
  return box;
}

function side(item, key, name) {
  const right = item[`value_${key}`] === 1 ? "right" : item[`value_${key}`] === 0 ? "wrong" : "";
  const score = right || `scored ${item[`value_${key}`]}`;
  return el("div", {},
    el("h4", {}, name),
    answer(item[key], item.index === null),
    el("p", { class: "small" }, "scored as ", el("bdi", {}, item[`extracted_${key}`] || "nothing"), `: ${score}`));
}

function table(head, rows) {
  return el("table", { class: "narrow" },
    el("thead", {}, el("tr", {}, ...head.map((text) => el("th", {}, text)))),
    el("tbody", {}, ...rows.map((row) => el("tr", {}, ...row.map((cell, n) =>
      // On a narrow screen the value stands below the name of its column.
      el("td", n ? { "data-head": head[n] } : {}, cell))))));
}

function percent(probability) {
  return `${(100 * probability).toFixed(probability > 0.995 || probability < 0.005 ? 2 : 1)}%`;
}

function candidates(item) {
  const text = ([token, probability]) => [el("code", {}, visible(token)), ` ${percent(probability)}`];
  const rows = [["likeliest", 0], ["second", 1]].map(([name, rank]) => [
    name, ...["a", "b"].map((key) => {
      const found = item[`top_${key}`][rank];
      return found ? el("span", {}, ...text(found)) : "–";
    }),
  ]);
  return table([`at token ${item.index}`, reference, item.cell], rows);
}

function choices(item) {
  const rows = item.choices.map(([text, a, b], n) => [
    el("bdi", {}, `${String(n) === item.target ? "✓ " : ""}${text}`),
    ...[["a", a], ["b", b]].map(([key, value]) =>
      `${value === null ? "–" : value.toFixed(3)}${String(n) === item[`extracted_${key}`] ? " ● chosen" : ""}`),
  ]);
  return table(["choice (✓ right), log-likelihood in nats", reference, item.cell], rows);
}

function fill(item, body) {
  const prompt = el("details", {}, el("summary", {}, "prompt"));
  prompt.addEventListener("toggle", () => {
    if (prompt.children.length === 1) {
      prompt.append(el("pre", { dir: "auto" }, prompts[`${item.task}/${item.doc_id}`] ?? ""));
    }
  });
  const quoted = item.task.replaceAll("'", "''");
  const query = `SELECT * FROM items WHERE task = '${quoted}' AND doc_id = ${item.doc_id}`;
  const rows = el("details", {}, el("summary", {}, "all rows of this item"), el("pre", {}, query));
  const tables = el("div", { class: "scroll" });
  if (item.choices) tables.append(choices(item));
  else if (item.index !== null && (item.top_a.length || item.top_b.length)) tables.append(candidates(item));
  body.append(
    el("div", { class: "answers" }, side(item, "a", reference), side(item, "b", item.cell)),
    tables,
    el("p", { class: "small" }, "right answer: ", el("bdi", {}, item.target),
      ` · differs in ${item.level === "tokens only" ? "its tokens only" : `its ${item.level}`}`,
      item.class ? ` · from reference to target changed by: ${item.class}` : "",
      el("span", { class: "link" }, " · ",
        el("a", { href: `#${new URLSearchParams({ ...state(), item: key(item) })}` }, "link to this item"))),
    prompt, rows);
}

function key(item) {
  return `${item.task}/${item.doc_id}/${item.cell}`;
}

function card(item, open) {
  const facts = [`${item.task} #${item.doc_id}`, item.cell];
  if (item.index !== null) facts.push(`token ${item.index}`);
  if (item.margin === 0) facts.push("exact tie");
  else if (item.margin !== null) facts.push(`margin ${item.margin.toPrecision(3)} nats`);
  const details = el("details", { class: `item ${item.kind.replaceAll(" ", "-")}` },
    el("summary", {}, el("span", { class: "badge" }, item.kind), facts.join(" · ")));
  details.addEventListener("toggle", () => {
    if (details.open && details.children.length === 1) fill(item, details);
  });
  details.open = open;
  return details;
}

function state() {
  return Object.fromEntries(fields.map((name) => [name, form.elements[name].value]).filter(([, v]) => v));
}

function showMore() {
  const next = matching.slice(shown, shown + PAGE);
  list.append(...next.map((item, n) => card(item, shown + n < 2)));
  shown += next.length;
  more.hidden = shown >= matching.length;
  more.textContent = `show ${Math.min(PAGE, matching.length - shown)} more of ${matching.length - shown}`;
}

function render(only) {
  const wanted = state();
  matching = items.filter((item) => fields.every((name) => !wanted[name] || item[name] === wanted[name]));
  if (only) matching = [...matching.filter((item) => key(item) === only), ...matching.filter((item) => key(item) !== only)];
  const counts = matching.reduce((sum, { kind }) => ({ ...sum, [kind]: (sum[kind] ?? 0) + 1 }), {});
  const parts = Object.entries(counts).map(([kind, count]) => `${count} ${kind}`);
  document.getElementById("count").textContent = `${matching.length} ${matching.length === 1 ? "item" : "items"}${parts.length ? `: ${parts.join(", ")}` : ""}`;
  list.replaceChildren();
  shown = 0;
  showMore();
  if (!matching.length) list.append(el("p", {}, items.length ? "No changed item fits these filters." : "No answer changed."));
}

function choose(values) {
  for (const name of fields) {
    const select = form.elements[name];
    const wanted = values.get(name) ?? "";
    select.value = [...select.options].some((option) => option.value === wanted) ? wanted : "";
  }
  render(values.get("item"));
}

// The hash holds either a section's id or a view of the items.
function readHash() {
  const values = new URLSearchParams(location.hash.slice(1));
  if (![...fields, "item"].some((name) => values.has(name))) return false;
  choose(values);
  const section = document.getElementById("items");
  section.scrollIntoView();
  // The keyboard goes where the eye goes: the next Tab reaches the filters, or the item of a link.
  const start = values.has("item") ? list.querySelector("summary") : section.querySelector("h2");
  start?.focus({ preventScroll: true });
  return true;
}

function setUp() {
  for (const name of fields) {
    const values = [...new Set(items.map((item) => item[name]))].filter((value) => value !== null).sort();
    form.elements[name].parentElement.hidden = values.length === 0;
    form.elements[name].append(el("option", { value: "" }, "all"), ...values.map((v) => el("option", { value: v }, NAMES[v] ?? v)));
    form.elements[name].addEventListener("change", () => {
      history.replaceState(null, "", `#${new URLSearchParams(state())}`);
      render();
    });
  }
  document.getElementById("clear").addEventListener("click", () => {
    history.replaceState(null, "", "#cell=");
    choose(new URLSearchParams());
  });
  form.hidden = false;
  form.addEventListener("submit", (event) => event.preventDefault());
  more.addEventListener("click", () => {
    const before = list.children.length;
    showMore();
    // The button may be gone: go on at the first item that it brought.
    list.children[before].querySelector("summary").focus();
  });
  window.addEventListener("hashchange", readHash);
  for (const button of document.querySelectorAll("button.open-cell")) {
    button.addEventListener("click", () => { location.hash = `${new URLSearchParams({ cell: button.dataset.cell })}`; });
  }
  const first = items.some((item) => item.cell === target) ? { cell: target } : {};
  if (!readHash()) choose(new URLSearchParams(first));
}

setUp();
