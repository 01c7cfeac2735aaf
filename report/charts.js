// Draw the charts with the page's colours; the same data stands in the tables beside them.
const { specs, datasets } = JSON.parse(document.getElementById("chart-data").textContent);

function themeConfig() {
  const style = getComputedStyle(document.documentElement);
  const colour = (name) => style.getPropertyValue(name).trim();
  const [ink, soft, line] = ["--ink", "--soft", "--line"].map(colour);
  const font = getComputedStyle(document.body).fontFamily;
  return {
    background: "transparent",
    font,
    axis: {
      labelColor: ink, titleColor: soft, domainColor: line, tickColor: line, gridColor: line,
      labelFontSize: 12, titleFontSize: 12, titleFontWeight: "normal",
    },
    legend: { labelColor: ink, titleColor: soft, labelFontSize: 12, titleFontWeight: "normal" },
    rule: { color: ink },
    tick: { color: soft },
    text: { color: ink, fontSize: 12 },
    rect: { color: soft },
    view: { stroke: null },
  };
}

function drawAll() {
  const config = themeConfig();
  for (const [name, spec] of Object.entries(specs)) {
    const place = document.getElementById(`chart-${name}`);
    if (!place) continue;
    // ast: the page's policy forbids code from strings, so expressions are interpreted.
    vegaEmbed(place, { ...spec, datasets: { ...spec.datasets, ...datasets }, config }, {
      actions: false, ast: true, renderer: "svg",
    }).catch((error) => { place.textContent = `Chart not drawn: ${error.message}`; });
  }
}

drawAll();
document.addEventListener("themechange", drawAll);
