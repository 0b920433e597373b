// One layer of an audit, chosen by the reader: its numbers, its filters next to those of the moved network, and the
// orders of its matched channels. Returns a function that chooses a layer.
function layerPicker(root, layers, chosen = () => {}) {
  const symmetries = [...new Set(layers.map((layer) => layer.symmetry))];
  const moved = element("select", { name: "symmetry" }, ...symmetries.map((name) => element("option", {}, name)));
  const which = element("select", { name: "layer" });
  const shown = element("div", { className: "shown" });
  shown.setAttribute("aria-live", "polite");
  const form = element("form", { className: "controls" });
  form.addEventListener("submit", (event) => event.preventDefault());
  if (symmetries.length > 1) form.append(element("label", {}, "symmetry ", moved));
  form.append(element("label", {}, "layer ", which));

  const ofSymmetry = () => layers.filter((layer) => layer.symmetry === moved.value);
  const fill = (name) => {
    const options = ofSymmetry().map((layer) => {
      const about = layer.kind && layer.kind !== "channels" ? `${layer.layer} (${layer.kind})` : layer.layer;
      return element("option", { value: layer.layer }, about);
    });
    which.replaceChildren(...options);
    const first = ofSymmetry().find((layer) => layer.layer === name) ?? ofSymmetry().find((layer) => layer.filters) ?? ofSymmetry()[0];
    if (first) which.value = first.layer;
    show();
  };
  const show = () => {
    const layer = ofSymmetry().find((each) => each.layer === which.value);
    shown.replaceChildren(...(layer ? described(layer) : []));
    if (layer) chosen(layer);
  };
  moved.addEventListener("change", () => fill(which.value));
  which.addEventListener("change", show);
  root.append(form, shown);
  fill("");
  return (name, symmetry) => {
    moved.value = symmetry;
    fill(name);
  };
}

function described(layer) {
  const parts = [element("h3", {}, layer.layer, element("small", {}, [layer.kind, layer.output].filter(Boolean).join(", ")))];
  const facts = element("dl", { className: "facts" });
  for (const metric of layer.metrics) {
    const value = element("dd", {}, metric.text);
    if (metric.interval) value.title = `95 % interval ${metric.interval}`;
    facts.append(element("div", {}, element("dt", {}, metric.name), value));
  }
  parts.push(facts);
  if (layer.filters) parts.push(filterPairs(layer));
  if (layer.orders) {
    const title = `orders of the matched channels of ${layer.layer}`;
    const drawn = histogram(layer.orders, { label: title, unit: "order" });
    const caption = "Number of channels by order: the number of moves after which a channel returns to itself. In an exactly equivariant network all orders divide the order of the element.";
    parts.push(element("figure", { className: "orders" }, drawn, element("figcaption", {}, caption)));
  }
  if (!layer.filters && !layer.orders) {
    parts.push(element("p", { className: "quiet" }, "There are no pictures of this layer: an audit saves those of the first 24 layers with filters."));
  }
  return parts;
}

function filterPairs(layer) {
  const { rows, columns, largest, pairs } = layer.filters;
  const cell = Math.max(2, Math.min(10, Math.floor(56 / columns)));
  const row = element("div", { className: "pairs" });
  for (const pair of pairs) {
    const picture = (kind, what) =>
      heat(decoded(pair[kind]), rows, columns, { cell, label: `${what} of ${layer.layer}, ${pair.title}` });
    const both = [picture("own", "filter"), picture("moved", "moved and matched filter")];
    row.append(element("div", { className: "pair" }, element("small", {}, pair.title), ...both));
  }
  const caption =
    "Above: filters, output channel ← input channel. Below: the filters in the same place after moving all filters by the " +
    "symmetry and matching the channels. In a group-convolutional network both are the same.";
  return element("figure", { className: "filters" }, row, colorScale(largest, "weight"), element("figcaption", {}, caption));
}
