// Draws timelines. The data's arrays are those of `Timeline.data`; positions below name their fields.
const [SEQ, NODE_TIME, REAL_TIME, SOURCE, TARGET, TONE, KIND, TEXT, DETAILS] = [0, 1, 2, 3, 4, 5, 6, 7, 8];
const LANE = 34, DOT = 23, TOP = 26, LEFT = 14, STEP = 15, TICK = 58, AGAIN = 300, PAPER = 480, LETTER = 6.2;
const CLOCKS = { node: { field: NODE_TIME, unit: 0.1, label: "node time" }, real: { field: REAL_TIME, unit: 0.01, label: "real time" } };
const charts = new Set();
let clock = "node";

const attributesOn = (node, attributes) => {
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  return node;
};
const html = (tag, attributes, ...children) => {
  const node = attributesOn(document.createElement(tag), attributes ?? {});
  node.append(...children);
  return node;
};
const svg = (tag, attributes, ...children) => {
  const node = attributesOn(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes ?? {});
  node.append(...children);
  return node;
};
const seconds = (value) => {
  if (value >= 120) return `${Math.floor(value / 60)}:${String(Math.floor(value % 60)).padStart(2, "0")} min`;
  return `${+value.toFixed(value < 10 ? 3 : 1)} s`;
};
const times = (moment) => moment[NODE_TIME] === moment[REAL_TIME] ? seconds(moment[NODE_TIME]) : `${seconds(moment[NODE_TIME])} node time, ${seconds(moment[REAL_TIME])} real time`;

class Chart {
  constructor(recording, story, isFailed) {
    const failed = recording.moments.findIndex((moment) => moment[KIND] === "expectation-failed");
    this.selected = failed >= 0 ? failed : isFailed ? recording.moments.length - 1 : 0;
    this.labels = html("div", { class: "labels", "aria-hidden": "true" });
    this.scroll = html("div", { class: "scroll" });
    this.detail = html("div", { class: "detail" });
    this.summary = html("summary", {});
    this.left = html("small", {});
    this.list = html("details", { class: "list" }, this.summary);
    this.list.addEventListener("toggle", () => this.fill());
    this.node = html("section", { class: "recording", "aria-label": `${story} on ${recording.name}` },
      html("h2", {}, `Timeline on ${recording.name}`, this.left),
      html("div", { class: "chart" }, this.labels, this.scroll), this.detail, this.list);
    this.take(recording);
  }

  take(recording) {
    this.recording = recording;
    this.labels.replaceChildren(...recording.lanes.map(([kind, label, title, differs, isFirst]) =>
      html("div", { class: `label ${kind}${differs ? " differs" : ""}${isFirst ? " first" : ""}`, title }, label)));
    this.summary.textContent = `All ${recording.moments.length} messages as text`;
    this.left.textContent = recording.leftOut ? `; the first ${recording.leftOut} messages are left out` : "";
  }

  lane(index) { return this.recording.lanes[index][2]; }

  way(moment) {
    const from = this.lane(moment[SOURCE]), to = this.lane(moment[TARGET]);
    return from === to ? from : `${from} → ${to}`;
  }

  // Moments are placed in order; the distance between two grows with the logarithm of the time between them.
  positions(width) {
    const { field, unit } = CLOCKS[clock];
    let x = LEFT, before = null;
    const places = this.recording.moments.map((moment) => {
      if (before) x += STEP + 7 * Math.log2(1 + Math.max(0, moment[field] - before[field]) / unit);
      before = moment;
      return x;
    });
    const stretch = (width - 2 * LEFT) / Math.max(1, x - LEFT);
    const isWider = stretch > 1 && places.length > 1;
    const isPrinted = this.printed && places.length > 1;
    return isPrinted || isWider ? places.map((place) => LEFT + (place - LEFT) * stretch) : places;
  }

  draw(width = this.scroll.clientWidth || 640) {
    const { lanes, moments, lasting } = this.recording;
    const places = this.positions(width), height = TOP + lanes.length * LANE;
    const end = Math.max(width, (places.at(-1) ?? 0) + LEFT);
    const top = (lane) => TOP + lane * LANE;
    const picture = svg("svg", { width: end, height, role: "listbox", "aria-orientation": "horizontal",
      "aria-label": `Messages on ${this.recording.name}; the arrow keys move between them` });
    lanes.forEach(([kind, , , differs, isFirst], lane) => picture.append(
      svg("rect", { class: `lane ${kind}${differs ? " differs" : ""}`, x: 0, y: top(lane), width: end, height: LANE }),
      ...(isFirst ? [svg("line", { class: "group", x1: 0, x2: end, y1: top(lane), y2: top(lane) })] : [])));
    for (const [lane, row, start, stop, style, text] of lasting) {
      const from = places[start], to = stop === null ? end : places[stop];
      picture.append(this.bar(top(lane), from, to, row, style, text));
    }
    this.axis(picture, places, height);
    this.options = moments.map((moment, index) => this.option(moment, index, places[index], top, height));
    picture.append(...this.options);
    picture.addEventListener("keydown", (event) => this.key(event));
    this.scroll.replaceChildren(picture);
    this.select(this.selected, false);
  }

  bar(y, from, to, row, style, text) {
    const [inset, height] = { state: [3, 28], use: [3, 14], fault: [28, 3] }[row];
    const group = svg("g", { class: `bar ${row} ${style}`, "aria-hidden": "true" }, svg("title", {}, text || style),
      svg("rect", { x: from, y: y + inset, width: Math.max(2, to - from), height, rx: 3 }));
    const letters = Math.floor((to - from - 12) / LETTER);
    if (row !== "fault" && style !== "healthy" && text && letters > 2) {
      const short = text.length <= letters ? text : `${text.slice(0, letters - 1)}…`;
      group.append(svg("text", { x: from + 7, y: y + 14 }, short));
    }
    return group;
  }

  axis(picture, places, height) {
    const { field } = CLOCKS[clock];
    let last = -TICK, shown = null;
    this.recording.moments.forEach((moment, index) => {
      const x = places[index];
      if (moment[KIND] === "step-started") picture.append(svg("line", { class: "step", x1: x, x2: x, y1: TOP, y2: height }));
      if (x - last < (moment[field] === shown ? AGAIN : TICK)) return;
      [last, shown] = [x, moment[field]];
      picture.append(svg("text", { class: "tick", x, y: 14, "aria-hidden": "true" }, seconds(moment[field])),
        svg("line", { class: "tick", x1: x, x2: x, y1: 18, y2: TOP }));
    });
  }

  option(moment, index, x, top, height) {
    const [from, to] = [top(moment[SOURCE]) + DOT, top(moment[TARGET]) + DOT];
    const group = svg("g", { class: `moment ${moment[TONE]}`, id: `${this.id}-${index}`, role: "option", tabindex: -1,
      "aria-selected": "false", "aria-label": `${moment[TEXT]}. ${this.way(moment)}. ${times(moment)}.` },
      svg("title", {}, moment[TEXT]),
      svg("rect", { class: "target", x: x - STEP / 2, y: TOP, width: STEP, height: height - TOP }));
    if (from !== to) {
      group.append(svg("line", { x1: x, x2: x, y1: from, y2: to }), svg("circle", { cx: x, cy: from, r: 2.5 }));
    }
    group.append(moment[TONE] === "bad"
      ? svg("path", { d: `M${x} ${to - 7}l7 7l-7 7l-7-7z` })
      : svg("circle", { class: "end", cx: x, cy: to, r: 5 }));
    group.addEventListener("click", () => this.choose(index));
    return group;
  }

  key(event) {
    const last = this.options.length - 1;
    const to = { ArrowRight: this.selected + 1, ArrowLeft: this.selected - 1, Home: 0, End: last }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    this.choose(Math.min(last, Math.max(0, to)));
  }

  // What the reader does, not what a page does by itself.
  choose(index) {
    this.chosen?.(index);
    this.select(index, true);
  }

  select(index, isFocused) {
    const before = this.options[this.selected], now = this.options[index];
    if (!now) return;
    attributesOn(before, { tabindex: -1, "aria-selected": "false" });
    attributesOn(now, { tabindex: 0, "aria-selected": "true" });
    this.selected = index;
    this.describe(this.recording.moments[index]);
    const x = this.xOf(index), room = this.scroll.clientWidth;
    if (x < this.scroll.scrollLeft + 40 || x > this.scroll.scrollLeft + room - 60) this.scroll.scrollLeft = x - room / 2;
    if (isFocused) now.focus({ preventScroll: true });
  }

  xOf(index) { return +(this.options[index]?.querySelector(".target").getAttribute("x") ?? 0); }

  describe(moment) {
    const fields = html("dl", {});
    for (const [name, value] of moment[DETAILS]) fields.append(html("dt", {}, name), html("dd", {}, value));
    this.detail.replaceChildren(
      html("p", { class: `what ${moment[TONE]}` }, html("strong", {}, moment[TEXT])),
      html("p", { class: "where" }, `${this.way(moment)} · ${times(moment)} · `, html("code", {}, moment[KIND]), ` · no. ${moment[SEQ]}`),
      fields);
  }

  refill() {
    this.list.querySelector(".wide")?.remove();
    if (this.list.open) this.fill();
  }

  fill() {
    if (this.list.querySelector("table")) return;
    const rows = this.recording.moments.map((moment, index) => {
      const show = html("button", { type: "button" }, String(moment[SEQ]));
      show.addEventListener("click", () => this.choose(index));
      return html("tr", { class: moment[TONE] }, html("td", {}, show), html("td", { class: "time" }, seconds(moment[NODE_TIME])),
        html("td", { class: "time" }, seconds(moment[REAL_TIME])), html("td", {}, this.way(moment)), html("td", {}, moment[TEXT]));
    });
    const head = ["no.", "node time", "real time", "between", "what"].map((name) => html("th", { scope: "col" }, name));
    this.list.append(html("div", { class: "wide" }, html("table", {}, html("thead", {}, html("tr", {}, ...head)), html("tbody", {}, ...rows))));
  }
}

const clocks = (number) => {
  const choice = html("fieldset", { class: "clocks" }, html("legend", {}, "Time"));
  for (const [name, { label }] of Object.entries(CLOCKS)) {
    const input = html("input", { type: "radio", name: `clock-${number}`, value: name });
    input.checked = name === clock;
    input.addEventListener("change", () => use(name));
    choice.append(html("label", {}, input, ` ${label}`));
  }
  return html("div", { class: "bar-of-tools" }, choice,
    html("p", { class: "hint" }, "Click a message, or move with the arrow keys. The large end of a message is its receiver; a diamond is bad news. Long waits are drawn shorter."));
};

const use = (name) => {
  clock = name;
  for (const input of document.querySelectorAll(`.clocks input[value=${name}]`)) input.checked = true;
  for (const chart of charts) chart.draw();
};

addEventListener("resize", () => { for (const chart of charts) chart.draw(); });
addEventListener("beforeprint", () => {
  for (const chart of charts) { chart.printed = true; chart.fill(); chart.list.open = true; chart.draw(PAPER); }
});
addEventListener("afterprint", () => {
  for (const chart of charts) { chart.printed = false; chart.list.open = false; chart.draw(); }
});
