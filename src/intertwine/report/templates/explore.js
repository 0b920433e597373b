// The explorer. Each tab asks the server and draws the answer; after several quick changes it asks only for the last.
const ROOMS = ["turn", "kernels", "relax", "capsules", "audit"];

async function ask(path, query = {}, options = {}) {
  let answer;
  try {
    answer = await fetch(`/api/${path}?${new URLSearchParams(query)}`, options);
  } catch {
    throw new Error("The program that serves this page does not answer. Start it again: intertwine explore.");
  }
  const content = await answer.json();
  if (!answer.ok) throw new Error(content.error);
  return content;
}

function room(name) {
  const root = document.getElementById(name);
  return {
    root,
    form: root.querySelector("form"),
    found: root.querySelector(".found"),
    forget() {},
    fail(message) {
      const place = root.querySelector(".error");
      place.textContent = message;
      place.hidden = !message;
    },
  };
}

// Runs one call at a time; requests during a call lead to one more call. `data-state` tells tests when all is done.
function latest(here, work) {
  let running = false;
  let again = false;
  return async () => {
    again = true;
    if (running) return;
    running = true;
    here.root.dataset.state = "busy";
    here.found.classList.add("busy");
    while (again) {
      again = false;
      try {
        await work();
        here.fail("");
      } catch (error) {
        here.found.replaceChildren();
        here.forget();
        here.fail(error.message);
      }
    }
    running = false;
    here.found.classList.remove("busy");
    here.root.dataset.state = "done";
  };
}

function facts(items, large = true) {
  const list = element("dl", { className: large ? "facts large" : "facts" });
  for (const [name, value, title] of items) {
    list.append(element("div", { title: title ?? "" }, element("dt", {}, name), element("dd", {}, String(value))));
  }
  return list;
}

function quiet(text) {
  return element("p", { className: "quiet" }, text);
}

function post(path, content) {
  return ask(path, {}, { method: "POST", body: JSON.stringify(content) });
}

// Small pictures in a row, each with a title below.
function strip(pictures, className = "strip") {
  const items = pictures.map(([picture, title]) => element("div", {}, picture, ...(title ? [element("small", {}, title)] : [])));
  return element("div", { className }, ...items);
}

// A room whose networks are trained by the server: shows the progress, and calls `ready` when they are there.
function trained(here, path, words, ready) {
  const training = here.root.querySelector(".training");
  const bar = training.querySelector("progress");
  const button = training.querySelector("button");
  const look = async () => {
    const state = await ask(path);
    training.hidden = state.state === "ready";
    here.root.querySelector(".room").hidden = state.state !== "ready";
    bar.hidden = state.state !== "training";
    button.hidden = state.state === "training";
    bar.value = state.done / state.total;
    training.querySelector("p").textContent = {
      none: words.none(state),
      training: `${words.training} Step ${state.done} of ${state.total}.`,
      failed: `Training failed: ${state.note}`,
      ready: "",
    }[state.state];
    return state.state;
  };
  const watch = async () => {
    const state = await look();
    if (state === "training") setTimeout(() => watch().catch((error) => here.fail(error.message)), 500);
    if (state === "ready") await ready();
  };
  const start = async () => {
    try {
      await ask(path, {}, { method: "POST" });
      await watch();
    } catch (error) {
      here.fail(error.message);
    }
  };
  button.addEventListener("click", start);
  return { watch, start };
}

// -- turn ---------------------------------------------------------------------------------------------------------

// A picture file as rows of numbers from 0 to 1: fitted into the middle, gray, light on dark, full contrast.
async function readPicture(file, side, margin) {
  let bitmap;
  try {
    bitmap = await createImageBitmap(file);
  } catch {
    throw new Error(`${file.name} is no picture that this browser can read. Use a PNG or a JPEG file.`);
  }
  const inside = side - 2 * margin;
  const scale = inside / Math.max(bitmap.width, bitmap.height);
  const [width, height] = [bitmap.width, bitmap.height].map((length) => Math.max(1, Math.round(length * scale)));
  const canvas = element("canvas", { width, height });
  const pen = canvas.getContext("2d", { willReadFrequently: true });
  pen.imageSmoothingQuality = "high";
  pen.fillStyle = "#ffffff";  // behind transparent parts
  pen.fillRect(0, 0, width, height);
  pen.drawImage(bitmap, 0, 0, width, height);
  const { data } = pen.getImageData(0, 0, width, height);
  const grays = Array.from({ length: width * height }, (_, k) => (0.299 * data[4 * k] + 0.587 * data[4 * k + 1] + 0.114 * data[4 * k + 2]) / 255);
  const border = grays.filter((_, k) => k < width || k >= width * (height - 1) || k % width === 0 || k % width === width - 1);
  const inverted = border.reduce((sum, value) => sum + value, 0) > border.length / 2;
  const [low, high] = [Math.min(...grays), Math.max(...grays)];
  const shade = (value) => {
    const share = (value - low) / (high - low || 1);
    return Math.min(Math.max(inverted ? 1 - share : share, 0), 1);
  };
  const [top, left] = [Math.floor((side - height) / 2), Math.floor((side - width) / 2)];
  const at = (y, x) => (y >= 0 && y < height && x >= 0 && x < width ? shade(grays[y * width + x]) : 0);
  return Array.from({ length: side }, (_, y) => Array.from({ length: side }, (_, x) => at(y - top, x - left)));
}

// As a percentage with two digits or more; tiny ones show how tiny they are.
function percent(value) {
  const text = value > 0 && value < 1e-4 ? shortNumber(100 * value) : (100 * value).toFixed(value < 0.1 ? 1 : 0);
  return `${text} %`;
}

function bars(network, label) {
  const best = network.probabilities.indexOf(Math.max(...network.probabilities));
  const rows = network.probabilities.map((value, digit) => {
    const bar = element("span", { className: "bar" });
    bar.style.width = `${100 * value}%`;
    const row = element("li", { className: digit === best ? "best" : "" },
      element("span", { className: "which" }, String(digit)), element("span", { className: "track" }, bar), element("span", { className: "share" }, `${(100 * value).toFixed(0)} %`));
    row.dataset.probability = value;
    return row;
  });
  const verdict = label === null ? "" : best === label ? " ✓" : " ✗";
  const answer = element("p", { className: "answer" }, `says ${best}${verdict}`);
  answer.classList.toggle("bad", label !== null && best !== label);
  answer.classList.toggle("good", label !== null && best === label);
  return [answer, element("ul", { className: "bars" }, ...rows)];
}

// The probability of a class against the angle, one line per network, with a mark at the angle now.
function turnCurve(curve, angle) {
  const [width, height, left, base] = [420, 170, 34, 140];
  const x = (degrees) => left + ((width - left - 8) * degrees) / 360;
  const y = (value) => base - 124 * value;
  const label = Object.entries(curve.curves).map(([name, each]) => `${name}: probability of ${each.class}`).join("; ");
  const svg = shape("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": `Against the angle, ${label}`, class: "curve" });
  for (const value of [0, 0.5, 1]) {
    svg.append(shape("line", { x1: left, x2: width - 8, y1: y(value), y2: y(value), class: "grid" }));
    svg.append(shape("text", { x: left - 6, y: y(value) + 4, "text-anchor": "end" }, String(value)));
  }
  for (const degrees of [0, 90, 180, 270, 360]) {
    svg.append(shape("line", { x1: x(degrees), x2: x(degrees), y1: y(0), y2: y(1), class: "grid" }));
    svg.append(shape("text", { x: x(degrees), y: base + 18, "text-anchor": degrees === 360 ? "end" : "middle" }, `${degrees}°`));
  }
  Object.entries(curve.curves).forEach(([name, each]) => {
    const points = each.probabilities.map((value, k) => `${x(curve.angles[k]).toFixed(1)},${y(value).toFixed(1)}`).join(" ");
    svg.append(shape("polyline", { points, class: name }));
  });
  svg.append(shape("line", { x1: x(angle), x2: x(angle), y1: y(0), y2: y(1), class: "now" }));
  const key = Object.entries(curve.curves).map(([name, each]) => element("span", { className: name }, `${name}: probability of ${each.class}`));
  return element("figure", { className: "curves" }, svg, element("div", { className: "key" }, ...key),
    element("figcaption", {}, "The same picture at every angle. The vertical line is the angle above."));
}

function turnRoom() {
  const here = room("turn");
  const { form, found } = here;
  const field = form.elements;
  let own = null;
  let curve = null;
  let curveOf = "";
  const [side, margin] = [Number(found.dataset.side), Number(found.dataset.margin)];

  const mapsOf = (name, network) => {
    const row = (title, texts, what) => [
      element("h4", {}, title),
      strip(texts.map((text, k) => [heat(decoded(text), network.side, network.side, { cell: 6, label: `${name} network, map ${k + 1}, ${what}` }), ""]), "maps"),
    ];
    return [...row("feature maps", network.maps, "as it comes"), ...row("turned back", network.back, "turned back"), ...row("of the upright picture", network.upright, "of the upright picture")];
  };
  const column = (name, network, label) => {
    const numbers = facts([
      ["answer changed by", percent(network.change), "total variation distance between the probabilities now and at 0°"],
      ["turned-back maps differ by", percent(network.difference), "|turned back − upright| / |upright|, over all maps of the layer"],
      ["right on upright test digits", percent(network.accuracy.upright)],
      ["turned by 90°", percent(network.accuracy.quarter)],
      ["turned by 45°", percent(network.accuracy.eighth)],
      ["weights", network.weights],
    ], false);
    return element("div", { className: `network ${name}` }, element("h3", {}, name), ...bars(network, label), ...mapsOf(name, network), numbers);
  };
  const turn = latest(here, async () => {
    if (here.root.querySelector(".room").hidden) return;
    const angle = Number(field.angle.value);
    field["angle-shown"].value = `${angle}°`;
    field.number.disabled = own !== null;
    const picture = own ? { pixels: own.pixels } : { digit: Number(field.digit.value), number: Number(field.number.value) };
    const answer = await post("turn/look", { picture, angle, layer: Number(field.layer.value) });
    if (JSON.stringify(picture) !== curveOf) {
      curve = await post("turn/curve", { picture });
      curveOf = JSON.stringify(picture);
    }
    const draw = (cell) => heat(decoded(answer.picture), answer.side, answer.side, { gray: true, cell, label: `the picture, turned by ${angle}°` });
    const step = 360 / answer.order;
    const where =
      angle % 90 === 0
        ? "At quarter turns pixels move to pixels, and the answer of the equivariant network stays the same up to rounding."
        : angle % step === 0
          ? `A turn by ${step}° is a symmetry of the equivariant network, but pixels fall between pixels: it holds up to interpolation.`
          : `Between the multiples of ${step}°, the equivariant network is equivariant only roughly.`;
    const networks = Object.entries(answer.networks).map(([name, network]) => column(name, network, answer.label));
    const first = element("div", { className: "first" },
      element("figure", { className: "big" }, draw(9), element("figcaption", {}, own ? own.name : `digit ${answer.label}, not in the training data`)), turnCurve(curve, angle));
    const rest = [
      quiet(where),
      element("div", { className: "networks" }, ...networks),
      quiet("Feature maps: the four strongest of the chosen layer, red where they are active. A map of the equivariant network is the largest of the " +
        `${answer.order} channels of a regular field; a turn permutes these channels, and their maximum only turns.`),
      quiet("A 6 and a 9 differ by half a turn: no network that is invariant to turns can tell them apart by more than how people write them."),
    ];
    if (own) rest.push(quiet("Your picture was made small, gray and light on dark, and stays on this machine. The networks know digits only, so expect a digit for an answer whatever it shows."));
    here.root.querySelector(".thumbnail").replaceChildren(draw(3));
    found.replaceChildren(first, ...rest);
  });
  here.root.addEventListener("input", (event) => {
    if (event.target.name === "file") return;
    if (["digit", "number"].includes(event.target.name)) {
      own = null;
      field.file.value = "";
    }
    turn();
  });
  field.file.addEventListener("change", async () => {
    const file = field.file.files[0];
    try {
      own = file ? { pixels: await readPicture(file, side, margin), name: file.name } : null;
      await turn();
    } catch (error) {
      field.file.value = "";
      here.fail(error.message);
    }
  });
  here.root.querySelector(".quarters").addEventListener("click", (event) => {
    if (!event.target.dataset.angle) return;
    field.angle.value = event.target.dataset.angle;
    turn();
  });
  form.addEventListener("submit", (event) => event.preventDefault());
  const words = {
    none: () => "The networks are not trained yet.",
    training: "Training both networks on 1437 upright digits, once, about half a minute.",
  };
  const { watch, start } = trained(here, "turn", words, turn);
  return async () => ((await ask("turn")).state === "none" ? start() : watch());
}

// -- kernels ------------------------------------------------------------------------------------------------------

function kernelsRoom() {
  const here = room("kernels");
  const { form, found } = here;
  const names = async () => {
    const list = await ask("representations", { group: form.group.value });
    document.getElementById("representations").replaceChildren(...list.map((name) => element("option", { value: name })));
    document.getElementById("names").textContent = list.join(", ");
  };
  const basis = () => {
    const { group, out, size } = form.elements;
    return { group: group.value, in: form.elements.in.value, out: out.value, size: size.value };
  };
  let solved = "";
  here.forget = () => { solved = ""; };
  const solve = latest(here, async () => {
    if (JSON.stringify(basis()) !== solved) await solveBasis();
    await apply();
  });
  const apply = async () => {
    const place = found.querySelector(".applied");
    if (!place) return;
    const kernel = found.querySelector("[name=kernel]:checked").value;
    let answer;
    try {
      answer = await ask("kernels/apply", { ...basis(), kernel, digit: form.elements.digit.value });
    } catch (error) {  // the basis stays: only the picture is missing
      place.replaceChildren(quiet(error.message));
      return;
    }
    const gray = (text, label) => heat(decoded(text), answer.side, answer.side, { gray: true, cell: 4, label });
    const maps = (texts, what) => texts.map((text, k) => [heat(decoded(text), answer.out_side, answer.out_side, { cell: 4, label: `channel ${k + 1} of ${what}` }), ""]);
    const cell = Math.max(2, Math.min(18, Math.floor(90 / answer.columns), Math.floor(200 / answer.rows)));
    const block = answer.rows > Number(basis().size) || answer.columns > Number(basis().size) ? [Number(basis().size), Number(basis().size)] : null;
    const drawn = heat(decoded(answer.kernel), answer.rows, answer.columns, { cell, block, label: "the kernel that is applied" });
    const row = (title, first, texts) =>
      element("div", { className: "flow" }, element("h4", {}, title), element("div", { className: "steps" }, first, element("span", { className: "arrow" }, first.localName === "canvas" ? "→" : ""), strip(maps(texts, title), "maps")));
    const field = answer.scalars ? "" : " A fixed equivariant filter first turns the picture into the input field.";
    const cut = answer.output.length < answer.channels ? ` ${answer.output.length} of ${answer.channels} output channels are drawn.` : "";
    place.replaceChildren(
      element("h3", {}, "On a picture", element("small", {}, kernel === "mix" ? "a random mix of the kernels below" : `kernel ${Number(kernel) + 1}`)),
      element("div", { className: "side" }, element("figure", { className: "applied-kernel" }, drawn, element("figcaption", {}, "the kernel")),
        element("div", {},
          row("the picture, and the output", gray(answer.picture, "the picture"), answer.output),
          row(`the picture ${answer.how}, and its output`, gray(answer.moved_picture, `the picture, ${answer.how}`), answer.output_of_moved),
          row(`the first output, ${answer.how}, with its channels moved as the output field says`, element("span", { className: "blank" }), answer.moved_output))),
      facts([["the last two rows differ by", shortNumber(answer.error), "the largest difference, relative to the largest output"]], false),
      quiet((answer.exact ? "The last two rows agree: moving the picture moves the output." : "The last two rows agree up to interpolation, because this move does not map pixels to pixels.") + field + cut),
    );
  };
  const pickable = (value, checked, ...content) =>
    element("label", { className: "kernel" }, element("input", { type: "radio", name: "kernel", value, checked }), ...content);
  const solveBasis = async () => {
    solved = "";
    await names();
    const answer = await ask("kernels", basis());
    let number = 0;
    const [height, width] = [answer.rows / answer.size, answer.columns / answer.size];
    const cell = Math.max(2, Math.min(18, Math.floor(220 / answer.columns), Math.floor(360 / answer.rows)));
    const orbits = answer.orbits.map((orbit) => {
      const pictures = orbit.kernels.map((kernel, k) => {
        const label = `kernel ${k + 1} of ${orbit.dimension}, ${orbit.title}`;
        const block = height * width > 1 ? [answer.size, answer.size] : null;
        return pickable(number++, false, heat(decoded(kernel), answer.rows, answer.columns, { cell, label, block }));
      });
      const title = element("h3", {}, orbit.title, element("small", {}, `${orbit.detail}: ${orbit.dimension} ${orbit.dimension === 1 ? "kernel" : "kernels"}`));
      return element("div", { className: "orbit" }, title, element("div", { className: "kernels" }, ...pictures));
    });
    const free = answer.channels[0] * answer.channels[1] * answer.size ** 2;
    const head = facts([
      ["kernels in the basis", answer.dimension],
      ["Mackey’s formula predicts", answer.mackey],
      ["weights in a free filter", free],
      ["residual of the constraint", shortNumber(answer.residual)],
    ]);
    const rest = [quiet(answer.reading)];
    if (!answer.exact) {
      rest.push(quiet("The group does not map the square lattice to itself: these are smooth kernels, sampled at the taps."));
    }
    if (answer.drawn < answer.dimension) rest.push(quiet(`${answer.drawn} of ${answer.dimension} kernels are drawn.`));
    const choice = element("div", { className: "choice" }, quiet("Choose a kernel to apply it to the picture above, or "), pickable("mix", true, "a mix of all"));
    const orbitsDrawn = element("div", { className: "orbits" }, ...orbits);
    found.replaceChildren(
      element("h2", {}, answer.title), head, ...rest,
      ...(number ? [element("div", { className: "applied" }), element("h3", {}, "The basis"), choice] : []),
      colorScale(answer.largest, "value of the kernel"), orbitsDrawn,
    );
    solved = JSON.stringify(basis());
  };
  form.addEventListener("input", solve);
  found.addEventListener("change", solve);
  form.addEventListener("submit", (event) => event.preventDefault());
  return solve;
}

// -- relax --------------------------------------------------------------------------------------------------------

function relaxRoom() {
  const here = room("relax");
  const { form, found } = here;
  const field = form.elements;
  const turn = latest(here, async () => {
    const kind = field.layer.value;
    for (const label of form.querySelectorAll("[data-for]")) label.hidden = label.dataset.for !== kind;
    for (const name of ["softness", "rank", "strength"]) field[`${name}-shown`].value = field[name].value;
    const seed = field.seed.value;
    const query =
      kind === "soft"
        ? { softness: field.softness.value, seed, digit: field.digit.value }
        : { rank: field.rank.value, strength: field.strength.value, seed, digit: field.digit.value };
    const answer = await ask(kind, query);
    const picture = (text, k) => {
      const label = `filter at row ${Math.floor(k / answer.grid) + 1}, column ${(k % answer.grid) + 1} of the image`;
      return heat(decoded(text), answer.kernel, answer.kernel, { label });
    };
    const bank = element("div", { className: "bank" }, ...answer.filters.map(picture));
    const shown = element("figure", {}, bank, colorScale(answer.largest, "weight"));
    shown.append(element("figcaption", {}, "The filter at each of 5 × 5 places, from the layer itself."));
    const relaxation = Object.values(answer.relaxation)[0] ?? 0;
    const strict = answer.error < 1e-5;
    const numbers = facts([
      ["filters differ from their mean by", `${(100 * answer.spread).toFixed(1)} %`, "‖k(u) − mean‖ / ‖k‖ over these positions"],
      ["error under a shift of the image", shortNumber(answer.error), "|Φ(g x) − g Φ(x)| / |g Φ(x)|, away from the border"],
      ["the layer’s own relaxation", shortNumber(relaxation), "0 at the equivariant point"],
    ]);
    const verdict = quiet(strict ? "One filter everywhere: this is a convolution." : "Another filter at each place: no convolution.");
    const beside = element("div", {}, numbers, verdict);
    if (answer.maps) {
      const side = answer.image;
      const maps = answer.maps.map((text, k) =>
        element("div", {},
          heat(decoded(answer.banks[k]), answer.kernel, answer.kernel, { label: `filter bank ${k + 1}` }),
          heat(decoded(text), side, side, { gray: true, cell: 3, label: `weight of bank ${k + 1} over the image` }),
          element("small", {}, `bank ${k + 1}`)));
      beside.append(element("figure", {}, element("div", { className: "strip" }, ...maps),
        element("figcaption", {}, "The banks, and below each its weight over the image: black 0, white 1.")));
    }
    const side = answer.image;
    const output = (name) => heat(decoded(answer.outputs[name]), side, side, { cell: 4, label: `${name} output` });
    const onPicture = strip([
      [heat(decoded(answer.picture), side, side, { gray: true, cell: 4, label: "the picture" }), "the picture"],
      [output("relaxed"), "output of this layer"],
      [output("strict"), "output of the strict layer"],
      [output("difference"), "their difference"],
    ], "outputs");
    found.replaceChildren(
      element("div", { className: "side" }, shown, beside),
      element("h3", {}, "On a picture"), onPicture,
      facts([["the outputs differ by", `${(100 * answer.apart).toFixed(1)} %`, "|relaxed − strict| / |strict|"]], false),
      colorScale(answer.largest_output, "output"),
      quiet("The strict layer is this layer at its equivariant point: one filter everywhere."),
    );
  });
  form.addEventListener("input", turn);
  form.addEventListener("submit", (event) => event.preventDefault());
  return turn;
}

// -- capsules -----------------------------------------------------------------------------------------------------

function capsulesRoom() {
  const here = room("capsules");
  const { root, form, found } = here;
  const field = form.elements;
  let answer = null;
  let asked = "";

  const roll = latest(here, async () => {
    if (root.querySelector(".room").hidden) return;
    const query = { digit: field.digit.value, number: field.number.value, capsule: field.capsule.value };
    if (JSON.stringify(query) !== asked) {
      answer = await ask("capsules/roll", query);
      asked = JSON.stringify(query);
    }
    if (field.capsule.options.length === 1) {
      for (let k = 0; k < answer.capsules; k++) field.capsule.append(element("option", { value: k }, `capsule ${k + 1} only`));
      field.shift.max = answer.length;
    }
    const shift = Number(field.shift.value);
    field["shift-shown"].value = `${shift} of ${answer.length} places`;
    const [height, width] = answer.size;
    const picture = (text, label) => heat(decoded(text), height, width, { gray: true, cell: 9, label });
    const big = (text, title) =>
      element("figure", { className: "big" }, picture(text, title), element("figcaption", {}, title));
    const now = shift % answer.length;
    const frames = (title, texts) => {
      const items = texts.map((text, k) =>
        element("div", { className: k === shift || (texts.length === answer.length && k === now) ? "now" : "" },
          picture(text, `${title}, ${k}`), element("small", {}, String(k))));
      return [element("h3", {}, title), element("div", { className: "strip" }, ...items)];
    };
    found.replaceChildren(
      element("div", { className: "pictures" },
        big(answer.rolled[shift], `decoded, rolled by ${shift}`),
        big(answer.frames[now], `true frame ${now}`)),
      ...frames("First frame, capsules rolled by 0, 1, … and decoded", answer.rolled),
      ...frames("The true frames", answer.frames),
      ...frames("The frames, encoded and decoded", answer.reconstructed),
      quiet(`The rolled variables are those of the first frame, encoded together with the other frames. The network: ${answer.note}.`),
    );
  });
  form.addEventListener("input", roll);
  form.addEventListener("submit", (event) => event.preventDefault());
  const words = {
    none: (state) => `There is no trained network yet. Training takes ${state.total} steps, about half a minute. Or run intertwine demo first, and start the explorer with --demo DIR.`,
    training: "Training.",
  };
  return trained(here, "capsules", words, roll).watch;
}

// -- audit --------------------------------------------------------------------------------------------------------

function sortedTable(caption, columns, rows) {
  const head = element("tr", {}, ...columns.map(([name, right]) => element("th", { scope: "col", className: right ? "right" : "" }, name)));
  const body = element("tbody", {}, ...rows.map((cells) => element("tr", {}, ...cells)));
  const table = element("table", {}, element("caption", {}, caption), element("thead", {}, head), body);
  makeSortable(table);
  const scroll = element("div", { className: "scroll", tabIndex: 0 }, table);
  scroll.setAttribute("role", "region");
  scroll.setAttribute("aria-label", caption);
  return scroll;
}

function numberCell(metric) {
  const cell = element("td", { className: "right", title: metric?.interval ? `95 % interval ${metric.interval}` : "" }, metric?.text ?? "");
  cell.dataset.value = metric ? (metric.value ?? "") : "";
  return cell;
}

function auditRoom() {
  const here = room("audit");
  const { form, found } = here;
  const name = form.elements.name;
  const open = latest(here, async () => {
    const list = await ask("audits");
    const before = name.value;
    name.replaceChildren(...list.map((each) => element("option", {}, each)));
    if (list.includes(before)) name.value = before;
    form.hidden = !list.length;
    if (!list.length) {
      found.replaceChildren(quiet("There is no audit here. Write one with: intertwine audit MODEL --data DATA --out audit, then start with --audit audit. After intertwine demo, --demo demo shows its own."));
      return;
    }
    const audit = await ask("audit", { name: name.value });
    const whole = sortedTable(
      "The whole network",
      [["measure"], ["of"], ["value", true], ["95 % interval", true], ["better"]],
      audit.whole.map((metric) => [
        element("th", { scope: "row", title: metric.meaning }, metric.name),
        element("td", {}, metric.symmetry),
        numberCell(metric),
        element("td", { className: "right" }, metric.interval),
        element("td", { className: "quiet" }, metric.better),
      ]),
    );
    const headlines = audit.whole
      .filter((metric) => ["invariance error", "equivariance error", "accuracy"].includes(metric.name))
      .map((metric) => [[metric.name, metric.symmetry].filter(Boolean).join(", "), metric.text, metric.meaning]);
    const metrics = [...new Set(audit.layers.flatMap((layer) => layer.metrics.map((metric) => metric.name)))];
    const detail = element("div", { className: "picker" });
    const rows = new Map();
    let pick = () => {};
    const table = sortedTable(
      "Every layer",
      [["layer"], ["kind"], ["output"], ["symmetry"], ...metrics.map((metric) => [metric, true])],
      audit.layers.map((layer, k) => {
        const button = element("button", { type: "button", className: "pick" }, layer.layer);
        button.addEventListener("click", () => {
          pick(layer.layer, layer.symmetry);
          detail.scrollIntoView({ block: "nearest", behavior: "smooth" });
        });
        const head = element("th", { scope: "row" }, button);
        head.dataset.value = String(k);
        const texts = [layer.kind, layer.output, layer.symmetry].map((text) => element("td", {}, text));
        const cells = [head, ...texts, ...metrics.map((metric) => numberCell(layer.metrics.find((m) => m.name === metric)))];
        rows.set(`${layer.symmetry}/${layer.layer}`, head);
        return cells;
      }),
    );
    const notes = audit.notes.map((note) =>
      element("p", { className: note.level === "warning" ? "note warning" : "note" }, element("strong", {}, note.about), ` ${note.text}`));
    const verdicts = audit.verdicts.map((verdict) =>
      element("p", { className: verdict.warning ? "note warning" : "note" }, element("strong", {}, verdict.finding), ` ${verdict.reasons}`));
    found.replaceChildren(
      element("h2", {}, audit.network), quiet(`${audit.images} images of ${audit.data}; ${audit.symmetries.join(", ")}`),
      ...verdicts, facts(headlines), element("h2", {}, "One layer"), detail, element("h2", {}, "Every layer"), table,
      element("h2", {}, "The whole network"), whole, ...notes,
    );
    if (audit.layers.length) {
      pick = layerPicker(detail, audit.layers, (layer) => {
        rows.forEach((head, key) => head.parentElement?.classList.toggle("chosen", key === `${layer.symmetry}/${layer.layer}`));
      });
    }
  });
  form.addEventListener("input", open);
  form.addEventListener("submit", (event) => event.preventDefault());
  return open;
}

// -- tabs ---------------------------------------------------------------------------------------------------------

const enter = { turn: turnRoom(), kernels: kernelsRoom(), relax: relaxRoom(), capsules: capsulesRoom(), audit: auditRoom() };
const entered = new Set();

function show(name) {
  for (const each of ROOMS) {
    const tab = document.getElementById(`tab-${each}`);
    tab.setAttribute("aria-selected", String(each === name));
    tab.tabIndex = each === name ? 0 : -1;
    document.getElementById(each).hidden = each !== name;
  }
  if (!entered.has(name) || name === "audit") {
    entered.add(name);
    Promise.resolve(enter[name]()).catch((error) => room(name).fail(error.message));
  }
}

document.querySelector(".tabs").addEventListener("click", (event) => {
  const tab = event.target.closest("[role=tab]");
  if (tab) location.hash = tab.getAttribute("aria-controls");
});
document.querySelector(".tabs").addEventListener("keydown", (event) => {
  const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
  if (!step) return;
  const now = ROOMS.indexOf(location.hash.slice(1) || ROOMS[0]);
  const next = ROOMS[(now + step + ROOMS.length) % ROOMS.length];
  location.hash = next;
  document.getElementById(`tab-${next}`).focus();
});
function follow() {
  const name = location.hash.slice(1);
  show(ROOMS.includes(name) ? name : ROOMS[0]);
}
window.addEventListener("hashchange", follow);
follow();
