// Draws the charts from the data embedded in the page, and shows or hides contenders in all of them at once.
"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const shown = data.labels.map(() => true);
  const redraws = []; // one function per chart

  const SPLITS = ["test", "validation", "train", "running"];
  const AXES = { epoch: "epochs", step: "steps", seconds: "seconds" };
  const GREY = "#8a8a8a";
  const END = 0.4; // the part of a run before what is called its end
  const MARGIN = { l: 48, r: 12, t: 12, b: 44 };
  const FONT = getComputedStyle(document.body).fontFamily;
  const SYMBOLS = ["circle", "square", "diamond", "triangle-up", "triangle-down", "star", "hexagon"];

  function element(name, attributes = {}, ...children) {
    const made = document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    made.append(...children);
    return made;
  }

  // Plotly interprets some HTML in texts; names must be shown literally.
  const literal = (text) => String(text).replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");
  const short = (value, digits) => Number(value.toPrecision(digits)).toString();
  const translucent = (colour) => colour + "2e";

  function axis(title, more = {}) {
    return {
      title: { text: literal(title), font: { size: 12 }, standoff: 8 },
      tickfont: { size: 11 }, exponentformat: "power", automargin: true, zeroline: false, ...more,
    };
  }

  // A logarithmic axis has labels at 1, 2 and 5, or only at powers of ten if it spans many.
  function scaled(title, scale, [low, high]) {
    const log = { type: "log", dtick: high > 2000 * low ? 1 : "D2", tickformat: "~g" };
    return axis(title, scale === "log" ? log : {});
  }

  // The horizontal axis: hovering shows the values of all curves at the point nearest to the pointer.
  function along(unit, title) {
    const spike = { spikecolor: GREY, spikethickness: 1, spikedash: "solid" };
    return axis(title, { ...spike, unifiedhovertitle: { text: `%{x:.4~g} ${unit}` } });
  }

  function layout(x, y, height, more = {}) {
    const narrow = window.innerWidth < 640;
    return {
      height, autosize: true, margin: MARGIN, showlegend: false,
      paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
      font: { family: FONT, size: 12 },
      hovermode: narrow ? "closest" : "x unified", hoverdistance: narrow ? 20 : -1,
      hoverlabel: { namelength: -1, font: { family: FONT, size: 12 } },
      dragmode: window.matchMedia("(pointer: coarse)").matches ? false : "zoom", // on a touch screen, dragging scrolls the page
      xaxis: x, yaxis: y, ...more,
    };
  }

  function chart(parent, make) {
    const box = element("div", { class: "chart" });
    parent.append(box);
    const draw = () => {
      const { traces, frame } = make();
      Plotly.react(box, traces, frame, { displayModeBar: false, responsive: true });
    };
    redraws.push(draw); // first called when all boxes exist and have their widths
    return draw;
  }

  function legend() {
    const bar = document.getElementById("legend");
    const swatches = document.querySelectorAll("#names .swatch");
    const buttons = data.labels.map((label, i) => {
      const swatch = swatches[i].cloneNode(true);
      const button = element("button", { type: "button", "aria-pressed": "true", "data-label": i }, swatch, label.name);
      button.addEventListener("click", () => show((j) => (j === i ? !shown[j] : shown[j])));
      return button;
    });
    const [all, none] = ["all", "none"].map((name) => element("button", { type: "button", class: "all" }, name));
    all.addEventListener("click", () => show(() => true));
    none.addEventListener("click", () => show(() => false));
    function show(decide) {
      data.labels.forEach((_, i) => (shown[i] = decide(i)));
      buttons.forEach((button, i) => button.setAttribute("aria-pressed", String(shown[i])));
      redraws.forEach((draw) => draw());
    }
    bar.append(...buttons, ...(buttons.length > 2 ? [all, none] : []));
  }

  // A line and its band. Optimizers with one point have no column at ŵ: they train at w.
  function line(task, i, column, x, fallback) {
    const curve = task.curves[i];
    const values = curve.columns[column] || curve.columns[fallback];
    if (!values) return [];
    const { name, colour, dash } = data.labels[i];
    const at = curve[x];
    const known = values.mean.map((_, k) => k).filter((k) => values.mean[k] !== null && at[k] !== null);
    const spread = known.filter((k) => values.error[k] !== null);
    const pick = (list, where) => where.map((k) => list[k]);
    const traces = [];
    if (spread.length > 1) {
      const edge = (sign, where) => where.map((k) => values.mean[k] + sign * values.error[k]);
      const back = [...spread].reverse();
      traces.push({
        type: "scatter", mode: "lines", x: [...pick(at, spread), ...pick(at, back)], uid: `band${i}`,
        y: [...edge(1, spread), ...edge(-1, back)], fill: "toself", fillcolor: translucent(colour),
        line: { width: 0 }, hoverinfo: "skip", visible: shown[i], name: literal(name),
      });
    }
    traces.push({
      type: "scatter", mode: known.length === 1 ? "markers" : "lines", x: pick(at, known), y: pick(values.mean, known),
      uid: `line${i}`, name: literal(name), visible: shown[i], line: { color: colour, dash, width: 2 },
      marker: { color: colour, symbol: SYMBOLS[i % SYMBOLS.length], size: 8 },
      customdata: known.map((k) => [values.error[k] === null ? "" : ` ± ${short(values.error[k], 2)}`, values.n[k]]),
      hovertemplate: "%{y:.4~g}%{customdata[0]} (n = %{customdata[1]})",
    });
    return traces;
  }

  function extent(task, columns) {
    const values = task.curves.flatMap((curve) => columns.flatMap((name) => curve.columns[name]?.mean ?? []));
    const known = values.filter((value) => value !== null);
    return [Math.min(...known), Math.max(...known)];
  }
  // Values that fall by a large factor are logarithmic, or their end would lie on the axis; rising values are linear.
  const chosenScale = ([low, high], rises) => (!rises && low > 0 && high > 8 * low ? "log" : "linear");
  const power = (scale, value) => (scale === "log" ? Math.log10(value) : value);

  // The range of a vertical axis, in its own units: of the whole lines, or of their ends alone.
  function reach(traces, scale, whole) {
    const lines = traces.filter((trace) => trace.visible && trace.x.length);
    const bounds = (few) => {
      const longest = Math.max(...lines.filter((one) => one.uid.startsWith("line")).map((one) => one.x.at(-1)));
      const values = lines.flatMap((one) => one.y.filter((_, k) => !few || one.x[k] >= END * longest));
      const known = values.filter((value) => scale === "linear" || value > 0).map((value) => power(scale, value));
      return known.length ? [Math.min(...known), Math.max(...known)] : null;
    };
    const all = bounds(false), end = bounds(true);
    if (all === null) return {};
    const long = lines.some((one) => one.uid.startsWith("line") && one.x.length >= 5);
    const [low, high] = !whole && long && end !== null ? end : all;
    const pad = 0.06 * (high - low) || 0.05 * Math.abs(high) || 1;
    return { range: [low - pad, high + pad] };
  }

  // Names at the ends of lines, moved apart where they would overlap.
  function names(traces, scale, y, height) {
    const narrow = window.innerWidth < 640;
    const most = narrow ? 12 : 24;
    const lines = traces.filter((one) => one.uid.startsWith("line") && one.visible && one.x.length);
    const plot = height - MARGIN.t - MARGIN.b;
    const ends = lines.map((one) => {
      const value = power(scale, one.y.at(-1));
      const pixel = plot * (y.range[1] - value) / (y.range[1] - y.range[0]);
      return { one, value, pixel, place: pixel };
    }).filter(({ pixel }) => pixel >= 0 && pixel <= plot).sort((p, q) => p.pixel - q.pixel);
    const gap = 13;
    ends.forEach((end, k) => { if (k) end.place = Math.max(end.place, ends[k - 1].place + gap); });
    ends.toReversed().forEach((end, k, all) => {
      end.place = Math.min(end.place, k ? all[k - 1].place - gap : plot);
    });
    const cut = (name) => (name.length > most ? name.slice(0, most / 2) + "…" + name.slice(1 - most / 2) : name);
    return ends.map(({ one, value, pixel, place }) => ({
      x: one.x.at(-1), y: value, ax: 16, ay: place - pixel, xanchor: "left", showarrow: true, arrowhead: 0, standoff: 2,
      arrowcolor: one.line.color, arrowwidth: 1, text: literal(cut(data.labels[Number(one.uid.slice(4))].name)), font: { size: narrow ? 10 : 11 },
    }));
  }

  // A chart of lines that are named at their ends.
  function lineChart(traces, x, y, scale, height, { annotations = [], ...more } = {}) {
    const labels = y.range ? names(traces, scale, y, height) : [];
    const letters = Math.max(0, ...labels.map((one) => one.text.length));
    const lines = traces.filter((one) => one.uid.startsWith("line") && one.visible && one.x.length);
    const [first, last] = [Math.min(...lines.map((one) => one.x[0])), Math.max(...lines.map((one) => one.x.at(-1)))];
    if (last > first) x.range = [first - 0.01 * (last - first), last];
    const margin = { ...MARGIN, r: 24 + 6.9 * letters };
    return layout(x, y, height, { margin, ...more, annotations: [...annotations, ...labels] });
  }

  function choice(title, options, chosen, change) {
    const name = `choice${choice.count = (choice.count ?? 0) + 1}`;
    const labels = options.map(([value, text]) => {
      const input = element("input", { type: "radio", name, value });
      input.checked = value === chosen;
      input.addEventListener("change", () => change(value));
      return element("label", {}, input, text);
    });
    return element("fieldset", { class: "choice" }, element("legend", {}, title), ...labels);
  }

  // A line at the target. On a logarithmic axis, Plotly places shapes by value and texts by exponent.
  function goal(value, level) {
    const line = { color: GREY, width: 1, dash: "dot" };
    const text = { text: "target", showarrow: false, xanchor: "left", yanchor: "bottom", font: { size: 11 } };
    return {
      shapes: [{ type: "line", xref: "paper", x0: 0, x1: 1, y0: value, y1: value, line }],
      annotations: [{ xref: "paper", x: 0, y: level, ...text }],
    };
  }

  const PATTERN = /^(running|train|validation|test)_(.+?)(_hat)?$/;
  // The columns of a task: [name, split, quantity, "_hat" if it is at ŵ]. A column ends in _hat for ŵ only if there is
  // the same column for w: a metric may be called y_hat.
  function columnsOf(task) {
    const columns = new Set(task.curves.flatMap((curve) => Object.keys(curve.columns)));
    const paired = ([name, split, quantity, hat = ""]) =>
      (columns.has(`${split}_${quantity}`) ? [name, split, quantity, hat] : [name, split, quantity + hat, ""]);
    return [...columns].map((name) => PATTERN.exec(name)).filter(Boolean).map(paired);
  }

  // Controls of the learning curves of all tasks, and their state.
  function curveControls(known) {
    const every = known.flat();
    const splits = SPLITS.filter((split) => every.some((name) => name[1] === split));
    const now = { split: splits[0], point: "w", x: "epoch", scale: "auto", range: "end" };
    if (!every.length) return now;
    const draws = [];
    const set = (key) => (value) => {
      now[key] = value;
      for (const input of controls.querySelectorAll("input")) {
        if (["w", "ŵ"].includes(input.value)) input.disabled = now.split === "running";
      }
      draws.forEach((draw) => draw());
    };
    const controls = element("div", { class: "controls" });
    if (every.some((name) => name[3])) {
      controls.append(choice("at", [["w", "w"], ["ŵ", "ŵ"]], now.point, set("point")));
    }
    const title = (split) => (split === "running" ? "running mean" : split);
    controls.append(choice("on", splits.map((split) => [split, title(split)]), now.split, set("split")));
    controls.append(choice("against", Object.entries(AXES), now.x, set("x")));
    controls.append(choice("scale", ["auto", "linear", "log"].map((scale) => [scale, scale]), now.scale, set("scale")));
    controls.append(choice("range", [["end", "end of training"], ["all", "all"]], now.range, set("range")));
    document.getElementById("curves").append(controls);
    return Object.assign(now, { draws });
  }

  function learningCurves(task, known, now) {
    if (!known.length) return null;
    const quantities = [...new Set([task.metric, "loss", ...known.map((name) => name[2]).sort()])]
      .filter((quantity) => known.some((name) => name[2] === quantity));
    const twoPoints = known.some((name) => name[3]);
    let quantity = quantities[0];
    const section = element("div", { class: "task" }, element("h3", {}, task.title));
    const controls = element("div", { class: "controls" });
    section.append(controls);
    document.getElementById("curves").append(section);

    const make = () => {
      const has = (split) => known.some((name) => name[1] === split && name[2] === quantity);
      const split = has(now.split) ? now.split : SPLITS.find(has);
      const plain = `${split}_${quantity}`;
      const running = split === "running";
      const column = now.point === "ŵ" && !running ? `${plain}_hat` : plain;
      const rises = task.higher && quantity === task.metric;
      const scale = now.scale === "auto" ? chosenScale(extent(task, [column, plain]), rises) : now.scale;
      const whole = now.x === "epoch" && task.curves.every((curve) => curve.epoch.length < 10) ? { dtick: 1 } : {};
      const where = running ? ", as trained" : twoPoints ? ` at ${now.point}` : "";
      const target = quantity === task.metric && split === "test" && task.target !== null;
      const level = power(scale, task.target);
      const traces = data.labels.flatMap((_, i) => line(task, i, column, now.x, plain));
      const y = scaled(`${split} ${quantity}${where}`, scale, extent(task, [column, plain]));
      const frame = lineChart(
        traces,
        { ...along(AXES[now.x], now.x === "seconds" ? "seconds of training" : AXES[now.x]), ...whole },
        { ...y, ...reach(traces, scale, now.range === "all") },
        scale,
        window.innerWidth < 640 ? 320 : 380,
        target && Number.isFinite(level) ? goal(task.target, level) : {},
      );
      return { traces, frame };
    };
    let draw = () => {};
    if (quantities.length > 1) {
      const set = (value) => { quantity = value; draw(); };
      controls.append(choice("Show", quantities.map((name) => [name, name]), quantity, set));
    }
    draw = chart(section, make);
    now.draws.push(draw);
    return section;
  }

  function ownCurves(task) {
    const has = (name) => task.curves.some((curve) => curve.columns[name]?.mean.some((value) => value !== null));
    const errors = [["z_error", "‖z − ∇F(w)‖"], ["g_error", "‖g − ∇F(ŵ)‖"], ["gradient", "‖∇F(w)‖"]];
    const wanted = [["norm_sum", "Σ‖z‖"], ["eta", "η"], ...errors].filter(([name]) => has(name));
    if (!wanted.length) return null;
    const pair = element("div", { class: "pair" });
    const section = element("div", {}, element("h3", {}, task.title), pair);
    document.getElementById("own").append(section);
    for (const [name, title] of wanted) {
      const range = extent(task, [name]);
      chart(pair, () => {
        const traces = data.labels.flatMap((_, i) => line(task, i, name, "step"));
        const scale = chosenScale(range);
        const y = { ...scaled(title, scale, range), ...reach(traces, scale, true) };
        return { traces, frame: lineChart(traces, along("steps", "steps"), y, scale, 280) };
      });
    }
    return section;
  }

  function learningRates(task, pair) {
    const finite = task.trials.flat().map((point) => point[1]).filter((value) => value !== null);
    if (!finite.length) return null;
    const section = element("div", {}, element("h3", {}, task.title));
    pair.append(section);
    const range = [Math.min(...finite), Math.max(...finite)];
    const losers = data.labels.map((_, i) => i).filter((i) => task.trials[i].some((point) => point[1] === null));
    chart(section, () => {
      const traces = data.labels.flatMap(({ name, colour, dash }, i) => {
        const points = task.trials[i];
        const lost = points.filter((point) => point[1] === null);
        const common = { type: "scatter", name: literal(name), visible: shown[i] };
        const kept = points.filter((point) => point[1] !== null);
        return [
          {
            ...common, mode: "lines+markers", uid: `line${i}`,
            x: kept.map((point) => point[0]), y: kept.map((point) => point[1]),
            line: { color: colour, dash, width: 1.6 },
            marker: { color: colour, size: 6, symbol: SYMBOLS[i % SYMBOLS.length] },
            hovertemplate: "lr %{x:.3~g}: %{y:.4~g}",
          },
          ...(lost.length ? [{
            ...common, mode: "markers", uid: `lost${i}`, yaxis: "y2",
            x: lost.map((point) => point[0]), y: lost.map(() => losers.indexOf(i)),
            marker: { color: colour, symbol: "x-thin", size: 8, line: { color: colour, width: 2 } },
            hovertemplate: "lr %{x:.3~g}: diverged or failed",
          }] : []),
        ];
      });
      const x = axis("learning rate", { type: "log", dtick: 1, tickformat: "~g" });
      const y = scaled(`validation ${task.metric}`, chosenScale(range, task.higher), range);
      const more = { hovermode: "closest", hoverdistance: 20 };
      if (losers.length) { // one row of crosses per contender, above the lines
        y.domain = [0, 1 - 0.05 * losers.length];
        more.yaxis2 = { domain: [y.domain[1], 1], range: [-0.5, losers.length - 0.5], visible: false, fixedrange: true };
      }
      return { traces, frame: layout(x, y, 320, more) };
    });
    return section;
  }

  // Bars of a value for each contender, with whiskers if it has an error.
  function bars(parent, values, title) {
    chart(parent, () => {
      const rows = data.labels.map((_, i) => i).filter((i) => shown[i] && values[i][0] !== null);
      const traces = rows.map((i, row) => ({
        type: "bar", orientation: "h", x: [values[i][0]], y: [row], width: 0.56, uid: `bar${i}`,
        name: literal(data.labels[i].name), marker: { color: data.labels[i].colour }, hovertemplate: "%{x:.4~g}",
        error_x: { type: "data", array: [values[i][1] ?? 0], visible: Boolean(values[i][1]), color: GREY, width: 4 },
      }));
      const most = window.innerWidth < 640 ? 17 : 24;
      const cut = (name) => (name.length > most ? name.slice(0, most - 1) + "…" : name);
      const y = {
        tickvals: rows.map((_, row) => row), ticktext: rows.map((i) => literal(cut(data.labels[i].name))),
        autorange: "reversed", automargin: true, showgrid: false, zeroline: false, ticklabelstandoff: 6,
      };
      const ends = rows.map((i) => values[i][0] + (values[i][1] ?? 0));
      const x = axis(title, { range: [0, Math.max(...ends, 0) * 1.2 || 1] });
      const annotations = rows.map((i, row) => ({
        x: ends[row], y: row, text: short(values[i][0], 3), showarrow: false, xanchor: "left", xshift: 4,
        font: { size: 11 },
      }));
      const height = 80 + 27 * Math.max(rows.length, 1);
      return { traces, frame: layout(x, y, height, { hovermode: "closest", hoverdistance: 20, bargap: 0, annotations }) };
    });
  }

  function costs() {
    const parent = document.getElementById("costs");
    const pair = element("div", { class: "pair" });
    const drawn = data.tasks.filter((task) => task.speed.some(([mean]) => mean !== null)).map((task) => {
      const section = element("div", {}, element("h3", {}, task.title));
      pair.append(section);
      bars(section, task.speed, "steps per second");
      return section;
    });
    if (data.state.some((value) => value !== null)) {
      const section = element("div", {}, element("h3", {}, "Memory"));
      pair.append(section);
      bars(section, data.state.map((value) => [value, null]), "state bytes per parameter");
      drawn.push(section);
    }
    parent.append(pair);
    return drawn;
  }

  document.getElementById("charts").hidden = false;
  legend();
  // A section without charts is hidden; the others are in the table of contents.
  const some = (id, drawn) => {
    document.getElementById(id).hidden = !drawn.some(Boolean);
    document.querySelector(`.contents [data-section="${id}"]`).hidden = !drawn.some(Boolean);
  };
  const known = data.tasks.map(columnsOf);
  const now = curveControls(known);
  some("curves", data.tasks.map((task, i) => learningCurves(task, known[i], now)));
  some("own", data.tasks.map(ownCurves));
  const pair = element("div", { class: "pair" });
  document.getElementById("rates").append(pair);
  some("rates", data.tasks.map((task) => learningRates(task, pair)));
  some("costs", costs());
  redraws.forEach((draw) => draw());

  // Paper is narrower than most windows, and charts do not shrink automatically.
  const every = (change) => document.querySelectorAll(".chart").forEach((box) => Plotly.relayout(box, change(box)));
  const onPaper = (box) => ({ width: box.closest(".pair") ? 320 : 660, autosize: false });
  window.addEventListener("beforeprint", () => every(onPaper));
  window.addEventListener("afterprint", () => every(() => ({ width: null, autosize: true })));
})();
