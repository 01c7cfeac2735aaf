// A CSV button on every table that names itself.
function cellText(cell) {
  const text = cell.innerText.replace(/\s+/g, " ").trim();
  // A spreadsheet would run such text as a formula; signed numbers stay numbers.
  const guarded = /^[=@\t]/.test(text) || /^[+-](?![\d.])/.test(text) ? `'${text}` : text;
  return `"${guarded.replaceAll('"', '""')}"`;
}

function download(table) {
  const lines = [...table.rows].map((row) => [...row.cells].map(cellText).join(","));
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([`${lines.join("\r\n")}\r\n`], { type: "text/csv" }));
  link.download = `${table.dataset.csv}.csv`;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}

for (const table of document.querySelectorAll("table[data-csv]")) {
  const button = document.createElement("button");
  button.type = "button";
  button.className = "csv";
  button.textContent = "CSV";
  button.setAttribute("aria-label", `download ${table.dataset.csv} as CSV`);
  button.addEventListener("click", () => download(table));
  table.parentElement.after(button);
}
