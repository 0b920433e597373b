// The explorer. Each tab asks the server and draws the answer; after several quick changes it asks only for the last.
const ROOMS = ["kernels", "relax", "capsules", "audit"];

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

// -- kernels ------------------------------------------------------------------------------------------------------

function kernelsRoom() {
  const here = room("kernels");
  const { form, found } = here;
  const names = async () => {
    const list = await ask("representations", { group: form.group.value });
    document.getElementById("representations").replaceChildren(...list.map((name) => element("option", { value: name })));
    document.getElementById("names").textContent = list.join(", ");
  };
  const solve = latest(here, async () => {
    await names();
    const { group, out, size } = form.elements;
    const query = { group: group.value, in: form.elements.in.value, out: out.value, size: size.value };
    const answer = await ask("kernels", query);
    const [height, width] = [answer.rows / answer.size, answer.columns / answer.size];
    const cell = Math.max(2, Math.min(18, Math.floor(220 / answer.columns), Math.floor(360 / answer.rows)));
    const orbits = answer.orbits.map((orbit) => {
      const pictures = orbit.kernels.map((kernel, k) => {
        const label = `kernel ${k + 1} of ${orbit.dimension}, ${orbit.title}`;
        const block = height * width > 1 ? [answer.size, answer.size] : null;
        return heat(decoded(kernel), answer.rows, answer.columns, { cell, label, block });
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
    found.replaceChildren(
      element("h2", {}, answer.title), head, ...rest, colorScale(answer.largest, "value of the kernel"),
      element("div", { className: "orbits" }, ...orbits),
    );
  });
  form.addEventListener("input", solve);
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
        ? { softness: field.softness.value, seed }
        : { rank: field.rank.value, strength: field.strength.value, seed };
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
    found.replaceChildren(element("div", { className: "side" }, shown, beside));
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
  const training = root.querySelector(".training");
  const bar = training.querySelector("progress");
  const button = training.querySelector("button");
  let answer = null;
  let asked = "";

  const look = async () => {
    const state = await ask("capsules");
    training.hidden = state.state === "ready";
    root.querySelector(".room").hidden = state.state !== "ready";
    bar.hidden = state.state !== "training";
    button.disabled = state.state === "training";
    bar.value = state.done / state.total;
    const words = {
      none: `There is no trained network yet. Training takes ${state.total} steps, about half a minute. Or run intertwine demo first, and start the explorer with --demo DIR.`,
      training: `Training: step ${state.done} of ${state.total}.`,
      failed: `Training failed: ${state.note}`,
      ready: "",
    };
    training.querySelector("p").textContent = words[state.state];
    if (state.state === "ready" && field.capsule.options.length === 1) {
      for (let k = 0; k < state.capsules; k++) field.capsule.append(element("option", { value: k }, `capsule ${k + 1} only`));
      field.shift.max = state.length;
    }
    return state.state;
  };
  const watch = async () => {
    const state = await look();
    if (state === "training") setTimeout(() => watch().catch((error) => here.fail(error.message)), 500);
    if (state === "ready") await roll();
  };
  button.addEventListener("click", async () => {
    try {
      await ask("capsules", {}, { method: "POST" });
      await watch();
    } catch (error) {
      here.fail(error.message);
    }
  });

  const roll = latest(here, async () => {
    if (root.querySelector(".room").hidden) return;
    const query = { digit: field.digit.value, number: field.number.value, capsule: field.capsule.value };
    if (JSON.stringify(query) !== asked) {
      answer = await ask("capsules/roll", query);
      asked = JSON.stringify(query);
    }
    const shift = Number(field.shift.value);
    field["shift-shown"].value = `${shift} of ${answer.length} places`;
    const [height, width] = answer.size;
    const picture = (text, label) => heat(decoded(text), height, width, { gray: true, cell: 9, label });
    const big = (text, title) =>
      element("figure", { className: "big" }, picture(text, title), element("figcaption", {}, title));
    const now = shift % answer.length;
    const strip = (title, texts) => {
      const items = texts.map((text, k) =>
        element("div", { className: k === shift || (texts.length === answer.length && k === now) ? "now" : "" },
          picture(text, `${title}, ${k}`), element("small", {}, String(k))));
      return [element("h3", {}, title), element("div", { className: "strip" }, ...items)];
    };
    found.replaceChildren(
      element("div", { className: "pictures" },
        big(answer.rolled[shift], `decoded, rolled by ${shift}`),
        big(answer.frames[now], `true frame ${now}`)),
      ...strip("First frame, capsules rolled by 0, 1, … and decoded", answer.rolled),
      ...strip("The true frames", answer.frames),
      ...strip("The frames, encoded and decoded", answer.reconstructed),
      quiet(`The rolled variables are those of the first frame, encoded together with the other frames. The network: ${answer.note}.`),
    );
  });
  form.addEventListener("input", roll);
  form.addEventListener("submit", (event) => event.preventDefault());
  return watch;
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

const enter = { kernels: kernelsRoom(), relax: relaxRoom(), capsules: capsulesRoom(), audit: auditRoom() };
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
